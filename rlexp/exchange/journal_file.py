"""The journal file of an Optuna study: opened whole, set aside where it is damaged."""

import json
from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager, suppress
from itertools import count
from os import SEEK_END, stat_result
from pathlib import Path
from typing import TYPE_CHECKING

from rlexp.exchange.turns import file_turn

if TYPE_CHECKING:
    from optuna.storages import BaseStorage
    from optuna.storages.journal import JournalFileSymlinkLock

GRACE = 3
"""Seconds after which Optuna's own lock, left by a killed process, is broken."""


class JournalFile:
    """A study's journal file. Not for several threads.

    Optuna itself opens a journal whose last line is torn, glues the next line to it, and can
    never be read again: so nothing is appended to a file that was not found whole.
    """

    def __init__(self, path: Path) -> None:
        # Optuna's lock is a link with this path as its target: a relative one leads nowhere, and
        # then the wait for a dead holder never ends.
        self.path = path.absolute()
        self._seen: stat_result | None = None
        self._aside: Path | None = None

    @property
    def shown(self) -> str:
        """How messages name it."""
        return str(self.path)

    @property
    def secrets(self) -> tuple[str, ...]:
        """A path has none."""
        return ()

    def turn(self) -> AbstractContextManager[None]:
        """Keep other processes of ours away."""
        return file_turn(self.path.with_name(f"{self.path.name}.turn"))

    def open(self) -> "BaseStorage":
        """The storage, from a file that is whole: a damaged one is set aside first."""
        from optuna.storages import JournalStorage
        from optuna.storages.journal import JournalFileBackend

        self.path.parent.mkdir(parents=True, exist_ok=True)
        if self.path.is_symlink():
            # It would be written through, wherever it leads.
            self.path.replace(_free_name(self.path))
        if self.path.exists() and _is_damaged(self.path):
            self.set_aside()
        backend = JournalFileBackend(str(self.path), lock_obj=self._lock())
        storage = JournalStorage(backend)
        self.settle()
        return storage

    def settle(self) -> None:
        """Remember the file as it is now, as far as this process wrote or read it."""
        self._seen = self.path.stat()

    def is_intact(self) -> bool:
        """Whether the file is the one last seen, whole lines have been added at most."""
        try:
            now = self.path.stat()
        except OSError:
            return False
        return (
            self._seen is not None
            and (now.st_dev, now.st_ino) == (self._seen.st_dev, self._seen.st_ino)
            and now.st_size >= self._seen.st_size
            and _ends_with_a_line(self.path)
        )

    def set_aside(self) -> None:
        """Rename a damaged file, unless another process just ended the line it was writing."""
        with self._locked():
            if _is_damaged(self.path):
                self._aside = self._aside or _free_name(self.path)
                self.path.replace(self._aside)

    def close(self) -> None:
        """Forget the file."""
        self._seen = None

    @contextmanager
    def _locked(self) -> Iterator[None]:
        lock = self._lock()
        lock.acquire()
        try:
            yield
        finally:
            # Broken by another process after the grace period, it is not ours to release.
            with suppress(RuntimeError):
                lock.release()

    def _lock(self) -> "JournalFileSymlinkLock":
        from optuna.storages.journal import JournalFileSymlinkLock

        return JournalFileSymlinkLock(str(self.path), grace_period=GRACE)


def _is_damaged(path: Path) -> bool:
    """Whether Optuna cannot read the file, or will not be able to after the next line."""
    last = path.read_bytes().rpartition(b"\n")
    if last == (b"", b"", b""):
        return False
    return last[2] != b"" or not _is_record(last[0].rpartition(b"\n")[2]) or not _replays(path)


def _is_record(line: bytes) -> bool:
    try:
        return isinstance(json.loads(line), dict)
    except ValueError:
        return False


def _replays(path: Path) -> bool:
    from optuna.storages import JournalStorage
    from optuna.storages.journal import JournalFileBackend

    try:
        JournalStorage(JournalFileBackend(str(path)))
    except OSError:
        raise
    except Exception:  # noqa: BLE001 whatever Optuna makes of a damaged record
        return False
    return True


def _ends_with_a_line(path: Path) -> bool:
    with path.open("rb") as file:
        size = file.seek(0, SEEK_END)
        file.seek(max(size - 1, 0))
        return size == 0 or file.read() == b"\n"


def _free_name(path: Path) -> Path:
    names = (path.with_name(f"{path.name}.damaged-{n}") for n in count(1))
    return next(name for name in names if not (name.exists() or name.is_symlink()))
