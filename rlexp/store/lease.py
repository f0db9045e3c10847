"""Who may write: one command to an experiment, one process to a run."""

import fcntl
import json
import os
import socket
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from errno import EACCES, EDQUOT, ENOSPC, EPERM, EROFS
from pathlib import Path
from typing import Any

from filelock import FileLock, Timeout

from rlexp.errors import HeldError, RecordError
from rlexp.store.files import parse_json, read_file

UNWRITABLE = frozenset({ENOSPC, EDQUOT, EROFS, EACCES, EPERM})
"""Error numbers of a folder that takes no file, which says nothing of locks."""


@contextmanager
def hold(path: Path, what: str, *, now: float, patience: float = 0.5) -> Iterator[None]:
    """Hold the lock at `path`; the kernel frees it when the process dies, even of kill -9.

    Args:
        path: The lock file; who holds it is written beside it.
        what: What the lock guards, for the message.
        now: The time, in seconds since 1970, that the holder is said to hold it since.
        patience: Seconds to wait for another holder to let go.

    Raises:
        HeldError: Another process holds it; names that process.
        RecordError: Files cannot be locked there.
    """
    path.parent.mkdir(parents=True, exist_ok=True)
    if path.is_symlink():
        raise RecordError(f"{path} is a link, which no lock of ours is; remove it")
    lock = FileLock(path)
    try:
        lock.acquire(timeout=patience, poll_interval=0.02)
    except Timeout as error:
        raise HeldError(f"{what} is in use by {holder(path)}; wait for it or stop it") from error
    except (OSError, NotImplementedError) as error:
        if isinstance(error, OSError) and error.errno in UNWRITABLE:
            raise
        raise RecordError(
            f"{what} cannot be locked at {path.parent}: {error}; "
            "set RLEXP_RUNS to a folder on a local disk"
        ) from error
    name = path.with_name(path.name + ".holder")
    try:
        entry = {"pid": os.getpid(), "host": socket.gethostname(), "since": now}
        # A link that somebody left here must not be written through.
        name.unlink(missing_ok=True)
        with name.open("x") as file:
            json.dump(entry, file)
        yield
    finally:
        with suppress(OSError):
            name.unlink()
        lock.release()


def is_held(path: Path) -> bool:
    """Whether a process holds the lock at `path` now; asking needs no right to write."""
    try:
        descriptor = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_NOFOLLOW)
    except OSError:
        return False
    try:
        # Shared, so that two processes that ask at once do not take each other for holders.
        fcntl.flock(descriptor, fcntl.LOCK_SH | fcntl.LOCK_NB)
    except (BlockingIOError, PermissionError):
        return True
    except OSError:
        return False
    finally:
        os.close(descriptor)
    return False


def holder(path: Path) -> str:
    """The process that holds the lock at `path`, in words."""
    entry = holding(path)
    if not entry:
        return "another process"
    return f"process {entry.get('pid')} on {entry.get('host')}"


def holding(path: Path) -> dict[str, Any]:
    """What the holder of the lock at `path` wrote of itself, or nothing."""
    try:
        entry = parse_json(read_file(path.with_name(path.name + ".holder")))
    except (OSError, ValueError, RecursionError):
        return {}
    return entry if isinstance(entry, dict) else {}
