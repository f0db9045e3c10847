"""How often the kernel has killed a process of ours for memory."""

from pathlib import Path

GROUPS = Path("/sys/fs/cgroup")
OWN = Path("/proc/self/cgroup")


def out_of_memory_kills(groups: Path = GROUPS, own: Path = OWN) -> int:
    """How many processes of this control group, or of one below it, were killed for memory.

    Control groups of both versions count them; where there are none, the count stays 0.

    Args:
        groups: Where control groups are mounted.
        own: The file that names those of this process.
    """
    return next((n for path in _counters(groups, own) if (n := _read(path)) is not None), 0)


def _counters(groups: Path, own: Path) -> list[Path]:
    """Files that may hold the count, the likeliest first."""
    found = []
    try:
        lines = [line.split(":", 2) for line in own.read_text().splitlines()]
    except OSError:
        lines = []
    for _, controllers, path in (line for line in lines if len(line) == 3):
        if "memory" in controllers.split(","):
            found.append(groups / "memory" / path.lstrip("/") / "memory.oom_control")
        elif not controllers:
            found.append(groups / path.lstrip("/") / "memory.events")
    # In a container, the path may be that of the host, and the files those at the top.
    return [*found, groups / "memory.events", groups / "memory" / "memory.oom_control"]


def _read(path: Path) -> int | None:
    try:
        counts = dict(line.split() for line in path.read_text().splitlines())
        return int(counts["oom_kill"])
    except (OSError, ValueError, KeyError):
        return None
