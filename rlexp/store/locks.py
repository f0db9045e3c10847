"""Locks of the kernel, for folders that one machine sees; each ends when its process dies."""

import fcntl
import json
import os
import socket
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from errno import EACCES, EDQUOT, ENOSPC, EPERM, EROFS
from pathlib import Path
from typing import Any

from filelock import FileLock, Timeout

from rlexp.errors import RecordError
from rlexp.store.files import parse_json, read_file

UNWRITABLE = frozenset({ENOSPC, EDQUOT, EROFS, EACCES, EPERM})
"""Error numbers of a folder that takes no file, which says nothing of locks."""


@dataclass(frozen=True, slots=True)
class Lock:
    """A lock that this process holds, and who holds it written beside it."""

    name: Path
    _let_go: Callable[[], None]

    @property
    def lost(self) -> bool:
        """Never: the kernel gives it to nobody else."""
        return False

    def release(self) -> None:
        """Let go of it."""
        with suppress(OSError):
            self.name.unlink()
        self._let_go()


def take(path: Path, what: str, *, now: float) -> Lock | None:
    """Take the lock at `path` unless another process has it.

    Args:
        path: The lock file.
        what: What the lock guards, for the message.
        now: The time, in seconds since 1970, that the holder is said to hold it since.

    Raises:
        OSError: The folder takes no file.
        RecordError: Files cannot be locked there.
    """
    lock = FileLock(path)
    try:
        lock.acquire(timeout=0)
    except Timeout:
        return None
    except (OSError, NotImplementedError) as error:
        if isinstance(error, OSError) and error.errno in UNWRITABLE:
            raise
        raise RecordError(
            f"{what} cannot be locked at {path.parent}: {error}; "
            "set RLEXP_RUNS to a folder on a local disk"
        ) from error
    name = _name(path)
    try:
        entry = {"pid": os.getpid(), "host": socket.gethostname(), "since": now}
        # A link that somebody left here must not be written through.
        name.unlink(missing_ok=True)
        with name.open("x") as file:
            json.dump(entry, file)
    except BaseException:
        lock.release()
        raise
    return Lock(name, lock.release)


def is_taken(path: Path) -> bool:
    """Whether a process has the lock at `path` now; asking needs no right to write."""
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


def entry_at(path: Path) -> dict[str, Any]:
    """What the holder of the lock at `path` wrote of itself, or nothing."""
    try:
        entry = parse_json(read_file(_name(path)))
    except (OSError, ValueError, RecursionError):
        return {}
    return entry if isinstance(entry, dict) else {}


def _name(path: Path) -> Path:
    return path.with_name(path.name + ".holder")
