"""Temporary folders that are removed even where nobody lived to do it: by who comes next."""

import fcntl
import os
import shutil
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

LOCK = ".lock"


@contextmanager
def scratch(prefix: str, parent: Path | None = None) -> Iterator[tuple[Path, int]]:
    """A new folder, and the descriptor of its lock, which processes may inherit.

    Folders with this prefix whose last holder died are removed first: a lock is held as long as
    any process has its descriptor.
    """
    parent = parent or Path(tempfile.gettempdir())
    for left in parent.glob(f"{prefix}*"):
        with suppress(OSError):
            _remove_if_left(left)
    folder = Path(tempfile.mkdtemp(prefix=prefix, dir=parent))
    descriptor = os.open(folder / LOCK, os.O_RDWR | os.O_CREAT | os.O_EXCL, 0o600)
    fcntl.flock(descriptor, fcntl.LOCK_EX)
    try:
        yield folder, descriptor
    finally:
        shutil.rmtree(folder, ignore_errors=True)
        os.close(descriptor)


def _remove_if_left(folder: Path) -> None:
    if folder.is_symlink() or folder.stat().st_uid != os.getuid():
        return
    # One that has no lock yet is being made.
    descriptor = os.open(folder / LOCK, os.O_RDWR | os.O_NOFOLLOW)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        shutil.rmtree(folder, ignore_errors=True)
    finally:
        os.close(descriptor)
