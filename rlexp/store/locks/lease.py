"""Exclusive leases: one command writes to an experiment, one process writes to a run.

On a local disk a lease is a kernel lock (`flock`). In a folder that several machines share it is
a file that its holder touches while it lives (`shared_leases`), because kernel locks may not reach
from one machine to another.
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
from rlexp.store.file_systems import is_shared
from rlexp.store.files import parse_json, read_file
from rlexp.store.locks import shared_leases

UNWRITABLE = frozenset({ENOSPC, EDQUOT, EROFS, EACCES, EPERM})
"""Error numbers of a folder that cannot be written; they do not mean that locks are missing."""


@dataclass(frozen=True, slots=True)
class Lock:
    """A kernel lock that this process holds; a file beside it names the holder."""

    holder_file: Path
    _unlock: Callable[[], None]

    @property
    def lost(self) -> bool:
        """Always False: the kernel keeps the lock until this process releases it or dies."""
        return False

    def release(self) -> None:
        """Release the lock."""
        # The holder file goes first: after the unlock it could be the next holder's.
        with suppress(OSError):
            self.holder_file.unlink()
        self._unlock()


def take_lock(path: Path, what: str, *, now: float) -> Lock | None:
    """Take the lock at `path`; None where another process has it.

    Args:
        path: The lock file.
        what: What the lock guards, for the message.
        now: The current time in seconds since 1970; recorded as the start of the lease.

    Raises:
        OSError: The folder cannot be written.
        RecordError: The file system of the folder does not support file locks.
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
    holder_file = _holder_file(path)
    try:
        entry = {"pid": os.getpid(), "host": socket.gethostname(), "since": now}
        # A symbolic link that another user left here must not be written through.
        holder_file.unlink(missing_ok=True)
        with holder_file.open("x") as file:
            json.dump(entry, file)
    except BaseException:
        lock.release()
        raise
    return Lock(holder_file, lock.release)


def is_taken(path: Path) -> bool:
    """Whether a process has the lock at `path` now; read permission is enough."""
    try:
        # O_NONBLOCK: opening a pipe that stands in place of the lock must not wait for ever.
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
    """The process id, host and start time that the lock's holder wrote; {} if unreadable."""
    try:
        entry = parse_json(read_file(_holder_file(path)))
    except (OSError, ValueError, RecursionError):
        return {}
    return entry if isinstance(entry, dict) else {}


def _holder_file(path: Path) -> Path:
    return path.with_name(path.name + ".holder")


RETRY_EVERY = 0.02
"""Seconds between two tries to take a lock that another process holds."""
RETRY_EVERY_SHARED = 0.2
"""The same in a shared folder, where every try is several requests to a file server."""


class Lease(Protocol):
    """A lease that this process holds."""

    @property
    def lost(self) -> bool:
        """Whether another process has taken the lease over, or the lease was removed."""
        ...

    def release(self) -> None:
        """Release the lease; a lease that another process has taken over stays."""
        ...


def take(
    path: Path,
    what: str,
    *,
    now: float,
    on_loss: Callable[[], None] | None = None,
    over: bool = False,
) -> Lease | None:
    """Take the lease at `path`; None where another process holds it.

    Args:
        path: The lease's file.
        what: What the lease guards, for the message.
        now: The current time in seconds since 1970; recorded as the start of the lease.
        on_loss: Called once, in a separate thread, when another process has taken the lease
            over; never called for a kernel lock.
        over: Whether to take the lease from its present holder; ignored for a kernel lock.

    Raises:
        OSError: The folder cannot be written.
        RecordError: The path is a symbolic link, or files cannot be locked there.
    """
    path.parent.mkdir(parents=True, exist_ok=True)
    if path.is_symlink():
        raise RecordError(f"{path} is a link, and a lock must be a regular file; remove it")
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
) -> Iterator[Lease]:
    """Hold the lease at `path`; it becomes free when the process dies, even by kill -9.

    In a shared folder, other machines take the lease over after a minute without a heartbeat.

    Args:
        path: The lease's file.
        what: What the lease guards, for the message.
        now: The current time in seconds since 1970; recorded as the start of the lease.
        patience: Seconds to wait for another holder to release it.
        on_loss: See `take`.
        over: See `take`.

    Raises:
        HeldError: Another process holds the lease; the message names that process.
        OSError: The folder cannot be written.
        RecordError: The path is a symbolic link, or files cannot be locked there.
    """
    until = time.monotonic() + patience
    while (held := take(path, what, now=now, on_loss=on_loss, over=over)) is None:
        if time.monotonic() >= until:
            raise HeldError(
                f"{what} is in use by {holder(path)}{_silence(path)}; wait for it or stop it"
            )
        time.sleep(RETRY_EVERY_SHARED if is_shared(path) else RETRY_EVERY)
    try:
        yield held
    finally:
        held.release()


def abandon(path: Path) -> None:
    """Remove what names this process at `path`, in a folder that was renamed while it was held.

    Releasing the lease looks for it under the folder's old name.
    """
    with suppress(OSError):
        if is_shared(path):
            # The lease is the file itself.
            path.unlink()
        else:
            path.with_name(path.name + ".holder").unlink()


def is_held(path: Path) -> bool:
    """Whether a process holds the lease at `path` now; read permission is enough."""
    return shared_leases.is_taken(path) if is_shared(path) else is_taken(path)


def holder(path: Path) -> str:
    """The process that holds the lease at `path`, as text for a message."""
    entry = holding(path)
    if not entry:
        return "another process"
    if (entry.get("pid"), entry.get("host")) == (os.getpid(), socket.gethostname()):
        # A notebook would otherwise be told to stop itself.
        return "another call in this process"
    return f"process {entry.get('pid')} on {entry.get('host')}"


def holding(path: Path) -> dict[str, Any]:
    """The process id, host and start time that the lease's holder wrote; {} if unreadable."""
    return shared_leases.entry_at(path) if is_shared(path) else entry_at(path)


def _silence(path: Path) -> str:
    """The age of the holder's last heartbeat, as text; empty for a kernel lock."""
    silent = shared_leases.silence(path) if is_shared(path) else None
    if silent is None:
        return ""
    limit = shared_leases.DEFAULT_TIMING.lease
    return f", silent for {silent:.0f} s (taken over after {limit:.0f} s)"
