"""Counts how often the kernel has killed a process of this control group for memory."""

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
