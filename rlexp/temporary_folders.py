"""Temporary folders that a later process removes if their owner was killed."""

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
    """A new folder, and the descriptor of its lock, which child processes may inherit.

    Folders with this prefix whose owners have died are removed first.
    """
    parent = parent or Path(tempfile.gettempdir())
    for folder in parent.glob(f"{prefix}*"):
        with suppress(OSError):
            _remove_if_abandoned(folder)
    folder = Path(tempfile.mkdtemp(prefix=prefix, dir=parent))
    unlocked = folder / f"{LOCK}.new"
    descriptor = os.open(unlocked, os.O_RDWR | os.O_CREAT | os.O_EXCL, 0o600)
    # A `flock` lasts as long as any process has the descriptor open: a worker that outlives this
    # process for a moment keeps its folder.
    fcntl.flock(descriptor, fcntl.LOCK_EX)
    # Another process must never see the lock file without the lock.
    unlocked.rename(folder / LOCK)
    try:
        yield folder, descriptor
    finally:
        shutil.rmtree(folder, ignore_errors=True)
        os.close(descriptor)


def _remove_if_abandoned(folder: Path) -> None:
    # Any user can create such names in /tmp: only folders of this user are removed.
    if folder.is_symlink() or folder.stat().st_uid != os.getuid():
        return
    # A folder without a lock file is just being created: `os.open` raises an error for it.
    descriptor = os.open(folder / LOCK, os.O_RDWR | os.O_NOFOLLOW)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        shutil.rmtree(folder, ignore_errors=True)
    finally:
        os.close(descriptor)
