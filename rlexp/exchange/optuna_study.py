"""A sweep mirrored as a study of Optuna, which optuna-dashboard and Optuna itself can read."""

import json
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal
from uuid import uuid4

from rlexp.errors import ProtocolError
from rlexp.exchange.database import Database
from rlexp.exchange.optuna_trials import (
    NUMBER,
    MirroredTrial,
    TranslatedTrials,
    TrialContent,
    content,
)
from rlexp.protocol.space import Space

if TYPE_CHECKING:
    from optuna.storages import BaseStorage
    from optuna.trial import FrozenTrial
from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager
from itertools import count
from os import SEEK_END, stat_result
from typing import TYPE_CHECKING

from rlexp.exchange.locks import file_lock

if TYPE_CHECKING:
    from optuna.storages import BaseStorage
    from optuna.storages.journal import JournalFileSymlinkLock
import logging

LIBRARIES = ("optuna", "sqlalchemy", "alembic", "psycopg")


class _Forward(logging.Handler):
    """Hands each message to a function, or drops it."""

    def __init__(self, log: Callable[[str], None] | None) -> None:
        super().__init__()
        self.log = log

    def emit(self, record: logging.LogRecord) -> None:
        """Hand it over."""
        if self.log is not None:
            self.log(f"{record.name}: {record.getMessage()}")


def silence(log: Callable[[str], None] | None = None) -> None:
    """Let the libraries' messages go nowhere, or to a function, in this whole process.

    Args:
        log: Gets each message, one line or several.
    """
    import optuna

    optuna.logging.disable_default_handler()
    for name in LIBRARIES:
        logger = logging.getLogger(name)
        for handler in [h for h in logger.handlers if isinstance(h, _Forward)]:
            logger.removeHandler(handler)
        logger.addHandler(_Forward(log))
        logger.propagate = False


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
        return file_lock(self.path.with_name(f"{self.path.name}.turn"))

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


__all__ = ["JOURNAL", "Direction", "Mirror", "MirroredTrial"]

JOURNAL = "optuna.journal"
"""Name of the journal file in a sweep's folder."""
DEFINITION = "rlexp"
"""User attribute of a study: what it mirrors."""
WRITER = "rlexp:writer"
"""User attribute of a study: who wrote to it last. Another name than one's own says: read anew."""

Direction = Literal["maximize", "minimize"]


class Mirror:
    """The study that shows a sweep. The records are the truth, and it can be lost at any time.

    Not for several threads; several processes take turns. A study is ours if it says so, with
    this sweep's definition, and every trial in it is marked as ours; any other is left alone.

    What was written is remembered, so that a step costs what changed and not what is there. The
    study names its last writer: when that is another process, all of it is read again.
    """

    def __init__(
        self,
        url: str | None,
        *,
        journal: Path,
        name: str,
        space: Space,
        directions: Sequence[Direction],
        owner: str = "",
        log: Callable[[str], None] | None = None,
    ) -> None:
        """Say where and what; nothing is opened or connected yet.

        Args:
            url: Of a database; null: the journal file.
            journal: Path of the journal file.
            name: Of the study.
            space: What is searched.
            directions: One for each objective.
            owner: Tells this sweep from others of the same name, space and directions in the
                same database: a hash of its definition, say.
            log: Gets the messages of Optuna and its libraries, which else go nowhere.

        Raises:
            ConfigError: The URL is none, of an unknown kind, or its driver is not installed.
        """
        self.name = name
        self.space = space
        self.directions = tuple(directions)
        self.place = JournalFile(journal) if url is None else Database(url)
        whose = {"schema": 1, "owner": owner, "directions": directions, "space": space.plain()}
        self._definition = json.loads(json.dumps(whose))
        self._log = log
        self._writer = uuid4().hex
        self._storage: BaseStorage | None = None
        self._study = 0
        self._written: list[TrialContent] = []
        self._wanted = TranslatedTrials(space)

    def open(self) -> None:
        """Make sure that the place answers and that the study, if there is one, is ours.

        Raises:
            ProtocolError: There is another study of that name.
            Exception: Whatever the database's driver or the file system says.
        """
        self._in_turn(lambda _: None)

    def sync(self, trials: Sequence[MirroredTrial]) -> None:
        """Make the study equal to these trials, in any order; nothing is written twice.

        A process that is killed meanwhile leaves a study that the next call completes.

        Args:
            trials: All that there are, numbers from 0 without a gap.

        Raises:
            ProtocolError: A number is missing or twice there; or the study is another's.
            Exception: Whatever the database's driver or the file system says. The next call
                reads the study anew.
        """
        self._wanted.take(trials)
        self._in_turn(self._bring)

    def close(self) -> None:
        """Give back what is open; `sync` opens it again."""
        self._storage = None
        self.place.close()

    def _in_turn(self, act: Callable[["BaseStorage"], None]) -> None:
        silence(self._log)
        try:
            with self.place.turn():
                self._on_the_study(act)
        except BaseException:
            self.close()
            raise

    def _on_the_study(self, act: Callable[["BaseStorage"], None]) -> None:
        """Act on what is remembered of the study; where that fails, on what it really is."""
        with suppress(Exception):
            if self._storage is not None and self._is_known(self._storage):
                act(self._storage)
                if self._is_known(self._storage):
                    return self.place.settle()
        self.close()
        storage = self._read()
        act(storage)
        if not self._is_known(storage):
            raise RuntimeError("something else writes to it")
        return self.place.settle()

    def _is_known(self, storage: "BaseStorage") -> bool:
        """Whether the study is as it was left: nobody wrote, and no trial is there too much.

        A server that is gone before it acknowledges a trial has it all the same, and Optuna then
        adds it once more.
        """
        if not self.place.is_intact():
            return False
        if storage.get_study_user_attrs(self._study).get(WRITER) != self._writer:
            return False
        try:
            storage.get_trial_id_from_study_id_trial_number(self._study, len(self._written))
        except KeyError:
            return True
        return False

    def _read(self) -> "BaseStorage":
        storage = self._storage = self.place.open()
        self._study = self._find(storage)
        trials = storage.get_all_trials(self._study, deepcopy=False)
        marks = [trial.system_attrs.get(NUMBER) for trial in trials]
        if None in marks:
            raise self._foreign(f"trial {marks.index(None)} was added by someone else")
        storage.set_study_user_attr(self._study, WRITER, self._writer)
        self._written = [content(trial) for trial in trials]
        return storage

    def _find(self, storage: "BaseStorage") -> int:
        try:
            study = storage.get_study_id_from_name(self.name)
        except KeyError:
            return self._create(storage)
        attributes: Mapping[str, Any] = storage.get_study_user_attrs(study)
        if not attributes and not storage.get_all_trials(study, deepcopy=False):
            # Killed between creating and marking it; somebody's empty study is as good.
            attributes = self._mark(storage, study)
        theirs = attributes.get(DEFINITION)
        if theirs != self._definition:
            raise self._foreign(_difference(theirs, self._definition))
        return study

    def _foreign(self, reason: str) -> ProtocolError:
        return ProtocolError(
            f"the study {self.name} in {self.place.shown} does not mirror this sweep: {reason}; "
            "it is left as it is: choose another sweep.storage, or delete that study"
        )

    def _create(self, storage: "BaseStorage") -> int:
        from optuna.study import StudyDirection

        directions = [StudyDirection[direction.upper()] for direction in self.directions]
        study = storage.create_new_study(directions, self.name)
        self._mark(storage, study)
        return study

    def _mark(self, storage: "BaseStorage", study: int) -> Mapping[str, Any]:
        """Say whose an empty study is, if it has our directions; what it says of itself then."""
        theirs = [direction.name.lower() for direction in storage.get_study_directions(study)]
        if theirs != list(self.directions):
            return {}
        storage.set_study_user_attr(study, DEFINITION, self._definition)
        storage.set_study_user_attr(study, WRITER, self._writer)
        return {DEFINITION: self._definition}

    def _start_over(self, storage: "BaseStorage") -> None:
        """An empty study in place of one that cannot become what it should be."""
        storage.delete_study(self._study)
        self._study = self._create(storage)
        self._written = []

    def _bring(self, storage: "BaseStorage") -> None:
        """Make the study what is wanted."""
        wanted = self._wanted.made
        pairs = zip(self._written, wanted, strict=False)
        if len(self._written) > len(wanted) or not all(
            was.leads_to(now) for was, (_, now) in pairs
        ):
            self._start_over(storage)
        for number, (made, now) in enumerate(wanted):
            if number == len(self._written):
                storage.create_new_trial(self._study, made)
                self._written.append(now)
            elif self._written[number] != now:
                self._advance(storage, number, made, now)
                self._written[number] = now

    def _advance(
        self, storage: "BaseStorage", number: int, made: "FrozenTrial", now: TrialContent
    ) -> None:
        """Add what a running trial lacks; its end comes last, for nothing can follow it."""
        was = self._written[number]
        trial = storage.get_trial_id_from_study_id_trial_number(self._study, number)
        for key, text in now.attributes.items():
            if was.attributes.get(key) != text:
                storage.set_trial_user_attr(trial, key, made.user_attrs[key])
        for step, text in now.intermediate.items():
            if was.intermediate.get(step) != text:
                storage.set_trial_intermediate_value(trial, step, made.intermediate_values[step])
        if made.state.is_finished():
            storage.set_trial_state_values(trial, made.state, made.values)


def _difference(theirs: Any, ours: Mapping[str, Any]) -> str:
    if not isinstance(theirs, Mapping):
        return "it was not made by rlexp"
    names = {"directions": "other directions", "space": "another search space"}
    other = [word for key, word in names.items() if theirs.get(key) != ours[key]]
    return f"it has {' and '.join(other)}" if other else "it belongs to another sweep of that name"
