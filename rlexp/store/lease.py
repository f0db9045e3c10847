"""Who may write: one command to an experiment, one process to a run.

On a disk of this machine a lease is a lock of the kernel; where several machines see the folder it
is a file that its holder touches while it lives, for locks do not reach from one to the other.
"""

import fcntl
import json
import os
import socket
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from errno import EACCES, EDQUOT, ENOSPC, EPERM, EROFS
from pathlib import Path
from typing import Any, Protocol

from filelock import FileLock, Timeout

from rlexp.errors import HeldError, RecordError
from rlexp.store import shared_leases
from rlexp.store.file_systems import is_shared
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


def take_lock(path: Path, what: str, *, now: float) -> Lock | None:
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


LOOK_AGAIN = 0.02
"""Seconds between looks whether another holder of a lock has let go."""
LOOK_AGAIN_SHARED = 0.2
"""The same where every look is several requests to a server."""


class Held(Protocol):
    """A lease that this process holds."""

    @property
    def lost(self) -> bool:
        """Whether another process has taken it over, or it was removed."""
        ...

    def release(self) -> None:
        """Let go of it; what another process holds by now stays."""
        ...


def take(
    path: Path,
    what: str,
    *,
    now: float,
    on_loss: Callable[[], None] | None = None,
    over: bool = False,
) -> Held | None:
    """Take the lease at `path`; nothing where another process holds it.

    Args:
        path: The lease's file.
        what: What it guards, for the message.
        now: The time, in seconds since 1970, that the holder is said to hold it since.
        on_loss: Called once, in a thread of its own, when another process has taken the lease
            over; never where the kernel locks.
        over: Whether to take it from whoever holds it; changes nothing where the kernel locks.

    Raises:
        OSError: The folder takes no file.
        RecordError: There is a link, or files cannot be locked there.
    """
    path.parent.mkdir(parents=True, exist_ok=True)
    if path.is_symlink():
        raise RecordError(f"{path} is a link, which no lock of ours is; remove it")
    if is_shared(path):
        return shared_leases.take(path, what, now=now, on_loss=on_loss, over=over)
    return take_lock(path, what, now=now)


@contextmanager
def hold(
    path: Path,
    what: str,
    *,
    now: float,
    patience: float = 0.5,
    on_loss: Callable[[], None] | None = None,
    over: bool = False,
) -> Iterator[Held]:
    """Hold the lease at `path`; it is free when the process dies, even of kill -9.

    Where several machines see the folder, those other than this one wait until it has been silent
    for a minute.

    Args:
        path: The lease's file.
        what: What it guards, for the message.
        now: The time, in seconds since 1970, that the holder is said to hold it since.
        patience: Seconds to wait for another holder to let go.
        on_loss: See `take`.
        over: See `take`.

    Raises:
        HeldError: Another process holds it; names that process.
        OSError: The folder takes no file.
        RecordError: There is a link, or files cannot be locked there.
    """
    until = time.monotonic() + patience
    while (held := take(path, what, now=now, on_loss=on_loss, over=over)) is None:
        if time.monotonic() >= until:
            raise HeldError(
                f"{what} is in use by {holder(path)}{_silence(path)}; wait for it or stop it"
            )
        time.sleep(LOOK_AGAIN_SHARED if is_shared(path) else LOOK_AGAIN)
    try:
        yield held
    finally:
        held.release()


def is_held(path: Path) -> bool:
    """Whether a process holds the lease at `path` now; asking needs no right to write."""
    return shared_leases.is_taken(path) if is_shared(path) else is_taken(path)


def holder(path: Path) -> str:
    """The process that holds the lease at `path`, in words."""
    entry = holding(path)
    if not entry:
        return "another process"
    return f"process {entry.get('pid')} on {entry.get('host')}"


def holding(path: Path) -> dict[str, Any]:
    """What the holder of the lease at `path` says of itself, or nothing."""
    return shared_leases.entry_at(path) if is_shared(path) else entry_at(path)


def _silence(path: Path) -> str:
    """How long the holder has been silent, where that says whether it lives."""
    silent = shared_leases.silence(path) if is_shared(path) else None
    if silent is None:
        return ""
    return f", silent for {silent:.0f} s (taken over after {shared_leases.USUAL.lease:.0f} s)"
