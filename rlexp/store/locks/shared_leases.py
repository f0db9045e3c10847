"""Leases for folders that several machines share, where kernel locks may not reach other machines.

A lease is a file with a random token. Its holder touches the file every few seconds (a heartbeat)
while it lives. Another process may take the lease over when the holder is known to be dead, or
after a minute without a heartbeat; the former holder then finds another token in the file.
"""

import json
import os
import threading
import time
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass, replace
from errno import ELOOP, EMLINK, ENOTSUP, EOPNOTSUPP, EPERM, ESTALE
from pathlib import Path
from typing import Any
from uuid import uuid4

from rlexp.errors import RecordError
from rlexp.store.files import open_file, parse_json
from rlexp.store.locks.processes import Process, this_process

LARGEST_LEASE = 4096
"""Bytes of a lease that are read; a lease written by rlexp has a tenth of that."""
REMOVED = frozenset({ELOOP, ESTALE})
"""Error numbers of a file that was removed, or replaced by something else."""


@dataclass(frozen=True, slots=True)
class LeaseState:
    """The state of a lease file on disk.

    Attributes:
        entry: What the holder wrote about itself; empty where the file cannot be parsed.
        touched: Time of the last heartbeat, in nanoseconds by the clock of the file system.
        blank: Whether the file is empty, as a kernel lock leaves it: then it has no holder.
        silent: Seconds since the last heartbeat; below 0 where that clock was set back.
    """

    entry: Mapping[str, Any]
    touched: int
    blank: bool = False
    silent: float = 0.0

    @property
    def token(self) -> str | None:
        """The random token of this lease; no other lease has the same one."""
        return self.entry.get("token")

    def has_no_holder(self) -> bool:
        """Whether the holder is known to be dead, regardless of the heartbeat's age."""
        return self.blank or Process.from_plain(self.entry).is_gone()

    def is_free(self, longest: float) -> bool:
        """Whether the holder is dead, or its last heartbeat is over `longest` seconds old."""
        return self.silent > longest or self.has_no_holder()


def inspect(path: Path) -> LeaseState | None:
    """The lease at `path` with the age of its heartbeat; None where there is no lease.

    Raises:
        OSError: The lease cannot be read.
    """
    state = read(path)
    # The clock costs two more requests to the file server: not for a lease without a holder.
    if state is None or state.has_no_holder():
        return state
    return replace(state, silent=(_clock(path) - state.touched) / 1e9)


def read(path: Path) -> LeaseState | None:
    """The lease at `path` without the age of its heartbeat; None where there is no lease.

    Raises:
        OSError: The lease cannot be read.
    """
    try:
        # Opened, not only stat'ed: NFS revalidates its cached attributes when a file is opened.
        with open_file(path) as file:
            touched = os.fstat(file.fileno()).st_mtime_ns
            content = file.read(LARGEST_LEASE)
    except FileNotFoundError:
        return None
    except OSError as error:
        if error.errno in REMOVED:
            return None
        raise
    try:
        entry = parse_json(content)
    except (ValueError, RecursionError):
        entry = {}
    return LeaseState(entry if isinstance(entry, dict) else {}, touched, blank=not content)


def write(path: Path, entry: Mapping[str, Any]) -> None:
    """Write a new file durably.

    Raises:
        OSError: The folder cannot be written.
    """
    with path.open("x") as file:
        json.dump(entry, file)
        file.flush()
        # On the server before the link: another machine must never see an empty lease.
        os.fsync(file.fileno())


def link_if_absent(fresh: Path, path: Path) -> bool:
    """Give a file a second name; returns False where a file of that name exists.

    Raises:
        OSError: The file system supports no hard links, or fails.
    """
    try:
        os.link(fresh, path, follow_symlinks=False)
    except FileExistsError:
        # A client repeats a request whose reply was lost, so that "exists" may mean our own
        # link: the link count of the file tells.
        return fresh.stat().st_nlink > 1
    return True


def open_lease(path: Path, token: str) -> int | None:
    """The descriptor of the lease with this token; None where another lease, or none, exists."""
    try:
        # Read-only: for a file open for writing, an NFS client may set times by its own clock.
        descriptor = os.open(path, os.O_RDONLY | os.O_NOFOLLOW)
    except FileNotFoundError:
        return None
    if token.encode() in os.pread(descriptor, LARGEST_LEASE, 0):
        return descriptor
    os.close(descriptor)
    return None


def remove(path: Path, token: str | None, touched: int | None = None) -> bool:
    """Remove a lease if it is still the one that was read; returns whether this process did.

    Raises:
        OSError: The folder cannot be changed.
    """
    state = read(path)
    if state is None or not _is_same(state, token, touched):
        return False
    aside = hidden_name(path)
    try:
        # The rename succeeds for one process only. Unlinking at once could remove the lease of
        # another process that took it between the read above and the unlink.
        path.rename(aside)
    except FileNotFoundError:
        return False
    state = read(aside)
    same = state is not None and _is_same(state, token, touched)
    if not same:
        # The lease of another process was renamed: put it back. Its holder looks twice before
        # it counts its lease as lost.
        with suppress(FileExistsError):
            os.link(aside, path, follow_symlinks=False)
    aside.unlink(missing_ok=True)
    return same


def hidden_name(path: Path) -> Path:
    """A unique hidden file name in the folder of `path`."""
    return path.with_name(f".{uuid4().hex[:8]}.{path.name}")


def _is_same(state: LeaseState, token: str | None, touched: int | None) -> bool:
    return state.token == token and touched in {None, state.touched}


def _clock(path: Path) -> int:
    """The time by the file system's clock, in nanoseconds since 1970."""
    # Heartbeats carry the server's time: the clock of this machine may differ from it.
    probe = hidden_name(path)
    try:
        # A folder, because an NFS client may set the times of a new file by its own clock.
        probe.mkdir(0o700)
    except OSError:
        # A process without write permission takes no lease over: an estimate is enough for it.
        return time.time_ns()
    try:
        return probe.stat().st_mtime_ns
    finally:
        with suppress(OSError):
            probe.rmdir()


NO_LINKS = frozenset({EPERM, ENOTSUP, EOPNOTSUPP, EMLINK})
"""Error numbers of a file system without hard links."""
TRIES = 3
"""Tries to take a lease while other processes change it between the look and the step."""


@dataclass(frozen=True, slots=True)
class LeaseTiming:
    """Times of heartbeats and takeovers, in seconds.

    Attributes:
        beat: Between two heartbeats.
        lease: Age of the last heartbeat after which another process may take the lease over.
        second_look: Between two looks at a lease that seems lost: a takeover that came too late
            puts it back.
        settling: Wait after a takeover, in which a competing takeover would show.
    """

    beat: float = 5.0
    lease: float = 60.0
    second_look: float = 1.0
    settling: float = 0.2


DEFAULT_TIMING = LeaseTiming()


class SharedLease:
    """A lease that this process holds in a shared folder, and the thread that touches it."""

    def __init__(
        self,
        path: Path,
        token: str,
        descriptor: int,
        on_loss: Callable[[], None] | None,
        timing: LeaseTiming,
    ) -> None:
        """Start the heartbeats of the lease at `path`, which is open as `descriptor`."""
        self._path, self._token, self._descriptor = path, token, descriptor
        self._on_loss, self._timing = on_loss, timing
        self._pid, self._lost = os.getpid(), False
        # `_turn` keeps the thread from touching a descriptor that `release` has closed, whose
        # number may already be another file's.
        self._ended, self._turn = threading.Event(), threading.Lock()
        threading.Thread(target=self._keep, name=f"lease {path}", daemon=True).start()

    @property
    def lost(self) -> bool:
        """Whether another process holds the lease by now, or no process; reads the file."""
        # A forked child has no heartbeat thread: the lease stays with its parent.
        if self._pid != os.getpid() or self._lost or self._ended.is_set():
            return True
        return not (self._is_held_here() or self._is_held_at_second_look())

    def release(self) -> None:
        """Remove the lease if this process still holds it; a forked child changes nothing."""
        if self._pid != os.getpid() or self._ended.is_set():
            return
        with self._turn:
            self._ended.set()
            os.close(self._descriptor)
        with suppress(OSError):
            remove(self._path, self._token)

    def _keep(self) -> None:
        while not self._ended.wait(self._timing.beat):
            # Read before the touch: a heartbeat must not keep the lease of another holder alive.
            if not self._is_held_here() and not self._is_held_at_second_look():
                self._lose()
                return
            with self._turn, suppress(OSError):
                if not self._ended.is_set():
                    # Without a time, so that the clock of the file system sets it.
                    os.utime(self._descriptor)

    def _lose(self) -> None:
        if not self._ended.is_set():
            self._lost = True
            if self._on_loss is not None:
                self._on_loss()

    def _is_held_here(self) -> bool:
        """Whether the file has this process's token; an unreadable file does not mean a loss."""
        try:
            state = read(self._path)
        except OSError:
            return True
        # Compared by token: the inode number of a removed file may be given to the next file.
        return state is not None and state.token == self._token

    def _is_held_at_second_look(self) -> bool:
        # A takeover that came too late has renamed the file for a moment and puts it back.
        self._ended.wait(self._timing.second_look)
        return self._is_held_here()


def take(
    path: Path,
    what: str,
    *,
    now: float,
    on_loss: Callable[[], None] | None = None,
    over: bool = False,
    timing: LeaseTiming = DEFAULT_TIMING,
) -> SharedLease | None:
    """Take the lease at `path`; None where another living process has it.

    Args:
        path: The lease's file.
        what: What the lease guards, for the message.
        now: The current time in seconds since 1970; recorded as the start of the lease.
        on_loss: Called once, by the heartbeat thread, when another process holds the lease.
        over: Whether to take the lease from its present holder.
        timing: Times of heartbeats and takeovers.

    Raises:
        OSError: The folder cannot be written.
        RecordError: The file system supports no hard links.
    """
    if not over and _is_refused(path, timing):
        return None
    token, fresh = uuid4().hex, hidden_name(path)
    try:
        # Written under another name, so that the lease is never seen without its content.
        write(fresh, {**this_process().plain(), "token": token, "since": now})
        if over:
            fresh.replace(path)
        elif not _publish(fresh, path, timing):
            return None
        # Read again by token: two processes may have taken over the same silent lease.
        descriptor = open_lease(path, token)
        if descriptor is None:
            # Another process may have renamed this lease by mistake; it puts it back at once.
            time.sleep(timing.settling)
            descriptor = open_lease(path, token)
    except OSError as error:
        if error.errno not in NO_LINKS or not fresh.exists():
            raise
        raise RecordError(
            f"{what} cannot be held at {path.parent}: its file system supports no hard links "
            f"({error.strerror}); set RLEXP_RUNS to another folder"
        ) from error
    finally:
        fresh.unlink(missing_ok=True)
    return None if descriptor is None else SharedLease(path, token, descriptor, on_loss, timing)


def is_taken(path: Path) -> bool:
    """Whether a process has the lease at `path` now; False where the lease cannot be read."""
    try:
        state = inspect(path)
    except OSError:
        return False
    return state is not None and not state.is_free(DEFAULT_TIMING.lease)


def entry_at(path: Path) -> dict[str, Any]:
    """The process id, host and start time that the lease's holder wrote; {} if unreadable."""
    try:
        state = read(path)
    except OSError:
        return {}
    keys = ("pid", "host", "since")
    return {key: state.entry[key] for key in keys if key in state.entry} if state else {}


def silence(path: Path) -> float | None:
    """Seconds since the last heartbeat of the lease at `path`; None where there is no lease."""
    with suppress(OSError):
        state = inspect(path)
        return max(state.silent, 0.0) if state else None
    return None


def _is_refused(path: Path, timing: LeaseTiming) -> bool:
    """Whether a living process has the lease."""
    state = inspect(path)
    if state is None or state.is_free(timing.lease):
        return False
    if state.silent < -timing.lease:
        # The server's clock was set back, so that the heartbeat lies in the future and would
        # never grow old: touch the file once, and count the silence from now on.
        with suppress(OSError):
            os.utime(path, follow_symlinks=False)
    return True


def _publish(fresh: Path, path: Path, timing: LeaseTiming) -> bool:
    """Give a lease its name; returns False where another living process has the lease."""
    taken_over = False
    for _ in range(TRIES):
        # A hard link fails where the name exists, on every machine: rename would replace it.
        if link_if_absent(fresh, path):
            # A process that saw the same silent lease may rename this one by mistake and put it
            # back: wait for that.
            time.sleep(timing.settling if taken_over else 0.0)
            return True
        state = inspect(path)
        if state is None:
            continue
        # By token and time of the heartbeat: a holder that woke up meanwhile keeps its lease.
        if not state.is_free(timing.lease) or not remove(path, state.token, state.touched):
            return False
        taken_over = True
    return False
