"""The memory of this machine and control group, and how often the kernel killed for it."""

import os
from pathlib import Path

GROUPS = Path("/sys/fs/cgroup")
MEMBERSHIP = Path("/proc/self/cgroup")


def out_of_memory_kills(groups: Path = GROUPS, membership: Path = MEMBERSHIP) -> int:
    """The number of processes killed for memory in this control group and those below it.

    Control groups of version 1 and version 2 count them; without control groups the count is 0.

    Args:
        groups: Where control groups are mounted.
        membership: The file that names the control groups of this process.
    """
    counters = _counters(groups, membership)
    return next((n for path in counters if (n := _read(path)) is not None), 0)


def _counters(groups: Path, membership: Path) -> list[Path]:
    """The files that may hold the count, the most likely file first."""
    paths = []
    try:
        lines = [line.split(":", 2) for line in membership.read_text().splitlines()]
    except OSError:
        lines = []
    # Version 1 names its controllers; version 2 has a line with an empty list of controllers.
    for _, controllers, path in (line for line in lines if len(line) == 3):
        if "memory" in controllers.split(","):
            paths.append(groups / "memory" / path.lstrip("/") / "memory.oom_control")
        elif not controllers:
            paths.append(groups / path.lstrip("/") / "memory.events")
    # In a container, the named path may be the host's, while the files stand at the top.
    return [*paths, groups / "memory.events", groups / "memory" / "memory.oom_control"]


def _read(path: Path) -> int | None:
    try:
        counts = dict(line.split() for line in path.read_text().splitlines())
        return int(counts["oom_kill"])
    except (OSError, ValueError, KeyError):
        return None


def memory_limit(groups: Path = GROUPS, membership: Path = MEMBERSHIP) -> int:
    """Bytes of memory that the processes of this control group may use together.

    That is the memory of the machine, or the least limit of this control group and those above it.

    Args:
        groups: Where control groups are mounted.
        membership: The file that names the control groups of this process.
    """
    physical = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    limits = [_read_limit(path) for path in _limit_files(groups, membership)]
    return min([physical, *(limit for limit in limits if limit is not None)])


def _limit_files(groups: Path, membership: Path) -> list[Path]:
    """The files that may limit the memory, of this control group and of all above it."""
    files = []
    for counter in _counters(groups, membership):
        name = "memory.max" if counter.name == "memory.events" else "memory.limit_in_bytes"
        for folder in counter.parents:
            files.append(folder / name)
            if folder == groups:
                break
    return files


def _read_limit(path: Path) -> int | None:
    """The limit in a file; None without a file, and for `max`."""
    try:
        return int(path.read_text())
    except (OSError, ValueError):
        return None
