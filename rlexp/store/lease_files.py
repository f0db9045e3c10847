"""The files that leases are where several machines see a folder: made, looked at, removed.

All it takes of a file system is that making a link and renaming are atomic, and a time of
modification; and only times that the file system's own clock has set are compared, so that those
of the machines need not agree.
"""

import json
import os
import time
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass, replace
from errno import ELOOP, ESTALE
from pathlib import Path
from typing import Any
from uuid import uuid4

from rlexp.store.files import open_file, parse_json
from rlexp.store.processes import Process

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
