"""Leases for folders that several machines see, whose locks may not reach from one to the other.

A lease is a file that its holder touches while it lives.
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
from rlexp.store.processes import Process, this_process

MOST = 4096
"""Bytes of a lease that are read; ours have a tenth of that."""
GONE = frozenset({ELOOP, ESTALE})
"""Error numbers of a file that was removed, or replaced by something else."""


@dataclass(frozen=True, slots=True)
class Found:
    """A lease that is there.

    Attributes:
        entry: What its holder says of itself; nothing where that cannot be read.
        touched: When it was touched, in nanoseconds by the clock of the file system.
        blank: Whether the file is empty, as a lock of the kernel leaves it: it is nobody's.
        silent: Seconds since it was touched; below 0 where that clock was set back.
    """

    entry: Mapping[str, Any]
    touched: int
    blank: bool = False
    silent: float = 0.0

    @property
    def token(self) -> str | None:
        """What no other lease has."""
        return self.entry.get("token")

    def is_nobodys(self) -> bool:
        """Whether it is known that nobody holds it, however short its silence is."""
        return self.blank or Process.from_plain(self.entry).is_gone()

    def is_free(self, longest: float) -> bool:
        """Whether its holder is dead, or silent for so many seconds that it counts as dead."""
        return self.silent > longest or self.is_nobodys()


def look(path: Path) -> Found | None:
    """The lease at `path`, and how long it has been silent.

    Raises:
        OSError: It cannot be read.
    """
    found = read(path)
    if found is None or found.is_nobodys():
        return found
    return replace(found, silent=(_clock(path) - found.touched) / 1e9)


def read(path: Path) -> Found | None:
    """The lease at `path`; opened, for that asks the server anew what is there.

    Raises:
        OSError: It cannot be read.
    """
    try:
        with open_file(path) as file:
            touched = os.fstat(file.fileno()).st_mtime_ns
            content = file.read(MOST)
    except FileNotFoundError:
        return None
    except OSError as error:
        if error.errno in GONE:
            return None
        raise
    try:
        entry = parse_json(content)
    except (ValueError, RecursionError):
        entry = {}
    return Found(entry if isinstance(entry, dict) else {}, touched, blank=not content)


def write(path: Path, entry: Mapping[str, Any]) -> None:
    """Write a new file durably.

    Raises:
        OSError: The folder takes none.
    """
    with path.open("x") as file:
        json.dump(entry, file)
        file.flush()
        os.fsync(file.fileno())


def link(fresh: Path, path: Path) -> bool:
    """Give a file a second name unless there is one of that name.

    Raises:
        OSError: The file system makes no links, or none now.
    """
    try:
        os.link(fresh, path, follow_symlinks=False)
    except FileExistsError:
        # A server that has made it may be asked again when its answer was lost.
        return fresh.stat().st_nlink > 1
    return True


def open_own(path: Path, token: str) -> int | None:
    """The descriptor of the lease with this token; nothing where it is not there."""
    try:
        # Not for writing: a server may leave the times of a file to the clock of its writer.
        descriptor = os.open(path, os.O_RDONLY | os.O_NOFOLLOW)
    except FileNotFoundError:
        return None
    if token.encode() in os.pread(descriptor, MOST, 0):
        return descriptor
    os.close(descriptor)
    return None


def remove(path: Path, token: str | None, touched: int | None = None) -> bool:
    """Remove a lease if it still is the one that was seen; whether this process did it.

    It is first renamed, so that of several processes only one has it, and put back where it
    turns out to be another.

    Raises:
        OSError: The folder cannot be changed.
    """
    seen = read(path)
    if seen is None or not _is_same(seen, token, touched):
        return False
    aside = beside(path)
    try:
        path.rename(aside)
    except FileNotFoundError:
        return False
    seen = read(aside)
    same = seen is not None and _is_same(seen, token, touched)
    if not same:
        with suppress(FileExistsError):
            os.link(aside, path, follow_symlinks=False)
    aside.unlink(missing_ok=True)
    return same


def beside(path: Path) -> Path:
    """A name that no other file has."""
    return path.with_name(f".{uuid4().hex[:8]}.{path.name}")


def _is_same(found: Found, token: str | None, touched: int | None) -> bool:
    return found.token == token and touched in {None, found.touched}


def _clock(path: Path) -> int:
    """The time by the file system's clock, in nanoseconds since 1970."""
    probe = beside(path)
    try:
        # A folder: times of a new file may be left to the clock of its writer.
        probe.mkdir(0o700)
    except OSError:
        # Who may make nothing there takes nothing over, and only wants to know.
        return time.time_ns()
    try:
        return probe.stat().st_mtime_ns
    finally:
        with suppress(OSError):
            probe.rmdir()


NO_LINKS = frozenset({EPERM, ENOTSUP, EOPNOTSUPP, EMLINK})
"""Error numbers of a file system that makes no links."""
TRIES = 3
"""How often what came between a look and a step is looked at again."""


@dataclass(frozen=True, slots=True)
class Rhythm:
    """How a lease is kept and lost, in seconds.

    Attributes:
        beat: Between two touches.
        lease: After so long a silence, another process may take it over.
        second_look: Between two looks at a lease that seems lost: a takeover that came too late
            puts it back.
        settling: For which one that has taken a lease over looks whether another did so, too.
    """

    beat: float = 5.0
    lease: float = 60.0
    second_look: float = 1.0
    settling: float = 0.2


USUAL = Rhythm()


class Beating:
    """A lease that this process holds, and a thread that touches it."""

    def __init__(
        self,
        path: Path,
        token: str,
        descriptor: int,
        on_loss: Callable[[], None] | None,
        rhythm: Rhythm,
    ) -> None:
        """Begin to touch the lease at `path`, which is open."""
        self._path, self._token, self._descriptor = path, token, descriptor
        self._on_loss, self._rhythm = on_loss, rhythm
        self._pid, self._lost = os.getpid(), False
        self._ended, self._turn = threading.Event(), threading.Lock()
        threading.Thread(target=self._keep, name=f"lease {path}", daemon=True).start()

    @property
    def lost(self) -> bool:
        """Whether it is another's by now, or nobody's; looks at once."""
        if self._pid != os.getpid() or self._lost or self._ended.is_set():
            return True
        return not (self._is_own() or self._is_own_after_all())

    def release(self) -> None:
        """Remove the lease where it still is this process's; a forked child changes nothing."""
        if self._pid != os.getpid() or self._ended.is_set():
            return
        with self._turn:
            self._ended.set()
            os.close(self._descriptor)
        with suppress(OSError):
            remove(self._path, self._token)

    def _keep(self) -> None:
        while not self._ended.wait(self._rhythm.beat):
            if not self._is_own() and not self._is_own_after_all():
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

    def _is_own(self) -> bool:
        """Whether the lease is there and this process's; what cannot be read is not lost yet."""
        try:
            found = read(self._path)
        except OSError:
            return True
        # The number of a removed file may be given to the next: the token is not.
        return found is not None and found.token == self._token

    def _is_own_after_all(self) -> bool:
        self._ended.wait(self._rhythm.second_look)
        return self._is_own()


def take(
    path: Path,
    what: str,
    *,
    now: float,
    on_loss: Callable[[], None] | None = None,
    over: bool = False,
    rhythm: Rhythm = USUAL,
) -> Beating | None:
    """Take the lease at `path` unless another process has it.

    Args:
        path: The lease's file.
        what: What it guards, for the message.
        now: The time, in seconds since 1970, that the holder is said to hold it since.
        on_loss: Called once, by the thread that touches it, when it is another's by now.
        over: Whether to take it from whoever has it.
        rhythm: How it is kept and lost.

    Raises:
        OSError: The folder takes no file.
        RecordError: The file system makes no links.
    """
    if not over and _is_refused(path, rhythm):
        return None
    token, fresh = uuid4().hex, beside(path)
    try:
        write(fresh, {**this_process().plain(), "token": token, "since": now})
        if over:
            fresh.replace(path)
        elif not _put(fresh, path, rhythm):
            return None
        descriptor = open_own(path, token)
        if descriptor is None:
            # Whoever took it for another puts it back at once.
            time.sleep(rhythm.settling)
            descriptor = open_own(path, token)
    except OSError as error:
        if error.errno not in NO_LINKS or not fresh.exists():
            raise
        raise RecordError(
            f"{what} cannot be held at {path.parent}: it makes no links ({error.strerror}); "
            "set RLEXP_RUNS to another folder"
        ) from error
    finally:
        fresh.unlink(missing_ok=True)
    return None if descriptor is None else Beating(path, token, descriptor, on_loss, rhythm)


def is_taken(path: Path) -> bool:
    """Whether a process has the lease at `path` now, as far as anyone can tell."""
    try:
        found = look(path)
    except OSError:
        return False
    return found is not None and not found.is_free(USUAL.lease)


def entry_at(path: Path) -> dict[str, Any]:
    """What the holder of the lease at `path` says of itself, or nothing."""
    try:
        found = read(path)
    except OSError:
        return {}
    known = ("pid", "host", "since")
    return {key: found.entry[key] for key in known if key in found.entry} if found else {}


def silence(path: Path) -> float | None:
    """Seconds since the lease at `path` was touched; nothing where there is none."""
    with suppress(OSError):
        found = look(path)
        return max(found.silent, 0.0) if found else None
    return None


def _is_refused(path: Path, rhythm: Rhythm) -> bool:
    """Whether a living process has the lease."""
    found = look(path)
    if found is None or found.is_free(rhythm.lease):
        return False
    if found.silent < -rhythm.lease:
        # A time to come says nothing of the holder: from now on its silence counts.
        with suppress(OSError):
            os.utime(path, follow_symlinks=False)
    return True


def _put(fresh: Path, path: Path, rhythm: Rhythm) -> bool:
    """Give a lease its name; whether nobody else has it, or whoever had it is dead."""
    taken_over = False
    for _ in range(TRIES):
        if link(fresh, path):
            # Another that found the same lease silent may have taken this one for it: it puts
            # it back.
            time.sleep(rhythm.settling if taken_over else 0.0)
            return True
        found = look(path)
        if found is None:
            continue
        if not found.is_free(rhythm.lease) or not remove(path, found.token, found.touched):
            return False
        taken_over = True
    return False
