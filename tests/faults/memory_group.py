"""A control group whose processes may use so much memory, where this machine lets us make one."""

import os
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

GROUPS = Path("/sys/fs/cgroup")


def _places() -> Iterator[tuple[Path, str]]:
    """Where a group could be made, and the file that takes its limit: of either version."""
    for line in Path("/proc/self/cgroup").read_text().splitlines():
        _, controllers, path = line.split(":", 2)
        if controllers == "memory":
            yield GROUPS / "memory" / path.lstrip("/"), "memory.limit_in_bytes"
        elif not controllers:
            yield GROUPS / path.lstrip("/"), "memory.max"


@contextmanager
def memory_group(limit: int) -> Iterator[Path | None]:
    """The file that takes processes into a group of so many bytes; nothing where none is made."""
    for location, name in _places():
        group = location / f"rlexp-{os.getpid()}"
        with suppress(OSError):
            group.mkdir()
        try:
            (group / name).write_text(str(limit))
        except OSError:
            with suppress(OSError):
                group.rmdir()
            continue
        try:
            yield group / "cgroup.procs"
        finally:
            group.rmdir()
        return
    yield None
