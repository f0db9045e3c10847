"""A control group with a memory limit, where this machine lets us make one."""

import os
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

GROUPS = Path("/sys/fs/cgroup")


def _places() -> Iterator[tuple[Path, str]]:
    """Folders for a group, each with the name of its limit's file, for both versions."""
    for line in Path("/proc/self/cgroup").read_text().splitlines():
        _, controllers, path = line.split(":", 2)
        if controllers == "memory":
            yield GROUPS / "memory" / path.lstrip("/"), "memory.limit_in_bytes"
        elif not controllers:
            yield GROUPS / path.lstrip("/"), "memory.max"


@contextmanager
def memory_group(limit: int) -> Iterator[Path | None]:
    """The file that adds processes to a group of `limit` bytes, or None where none can be made."""
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
