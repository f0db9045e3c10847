"""A sweep mirrored as an Optuna study, which Optuna and optuna-dashboard can read.

`OptunaStudyMirror` writes the study to a `JournalFile` or a `Database`. `redirect_library_logs`
redirects the log messages of Optuna and the libraries below it.
"""

import json
import logging
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager, suppress
from itertools import count
from os import SEEK_END, stat_result
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal
from uuid import uuid4

from rlexp.errors import ProtocolError
from rlexp.exchange.database import Database
from rlexp.exchange.locks import file_lock
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
    from optuna.storages.journal import JournalFileSymlinkLock
    from optuna.trial import FrozenTrial

LIBRARIES = ("optuna", "sqlalchemy", "alembic", "psycopg")
GRACE = 3
"""Seconds after which Optuna's own lock, left behind by a killed process, is broken."""
__all__ = ["JOURNAL", "Direction", "MirroredTrial"]
JOURNAL = "optuna.journal"
"""Name of the journal file in a sweep's folder."""
DEFINITION = "rlexp"
"""User attribute of a study with the definition of the sweep that it mirrors."""
WRITER = "rlexp:writer"
"""User attribute of a study with the id of its last writer. Another one forces a new read."""
METRIC_NAMES = "study:metric_names"
"""System attribute in which `optuna.Study.set_metric_names` stores the names."""
Direction = Literal["maximize", "minimize"]
LONGEST_PIECE = 2045
"""Most characters of one piece of a note: databases limit the length of an attribute."""


class _Forward(logging.Handler):
    """Passes each log message to a function, or drops it."""

    def __init__(self, log: Callable[[str], None] | None) -> None:
        super().__init__()
        self.log = log

    def emit(self, record: logging.LogRecord) -> None:
        """Pass the message on."""
        if self.log is not None:
            self.log(f"{record.name}: {record.getMessage()}")


def redirect_library_logs(log: Callable[[str], None] | None = None) -> None:
    """Redirect the libraries' log messages to a function, or drop them, in this whole process.

    Args:
        log: Receives each message, of one line or several; None drops all messages.
    """
    import optuna

    optuna.logging.disable_default_handler()
    for name in LIBRARIES:
        logger = logging.getLogger(name)
        # A second handler would pass each message on twice.
        for handler in [h for h in logger.handlers if isinstance(h, _Forward)]:
            logger.removeHandler(handler)
        logger.addHandler(_Forward(log))
        logger.propagate = False


class JournalFile:
    """The journal file of a study. Not thread-safe.

    Optuna would append the next record to a torn last line, after which the journal can never be
    read again. So every file is checked before anything is appended to it.
    """

    def __init__(self, path: Path) -> None:
        # Optuna's lock is a symbolic link with this path as its target. A relative path would
        # not resolve, and waiting for a dead holder would never end.
        self.path = path.absolute()
        self._seen: stat_result | None = None
        self._aside: Path | None = None

    @property
    def shown(self) -> str:
        """The path, for messages."""
        return str(self.path)

    @property
    def secrets(self) -> tuple[str, ...]:
        """No secrets: a path has none."""
        return ()

    def lock(self) -> AbstractContextManager[None]:
        """Lock out other rlexp processes."""
        return file_lock(self.path.with_name(f"{self.path.name}.turn"))

    def open(self) -> "BaseStorage":
        """Open the storage; a damaged file is renamed first, and a new one is begun."""
        from optuna.storages import JournalStorage
        from optuna.storages.journal import JournalFileBackend

        self.path.parent.mkdir(parents=True, exist_ok=True)
        if self.path.is_symlink():
            # Optuna would write to wherever the link leads.
            self.path.replace(_free_name(self.path))
        if self.path.exists() and _is_damaged(self.path):
            self.set_aside()
        backend = JournalFileBackend(str(self.path), lock_obj=self._optuna_lock())
        storage = JournalStorage(backend)
        self.settle()
        return storage

    def settle(self) -> None:
        """Remember the file's identity and size after this process wrote or read it."""
        self._seen = self.path.stat()

    def is_intact(self) -> bool:
        """Whether the file is the same as before, with at most whole lines added."""
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
        """Rename a damaged file, unless another process has just completed the torn line."""
        with self._optuna_locked():
            if _is_damaged(self.path):
                self._aside = self._aside or _free_name(self.path)
                self.path.replace(self._aside)

    def close(self) -> None:
        """Forget the identity of the file."""
        self._seen = None

    @contextmanager
    def _optuna_locked(self) -> Iterator[None]:
        lock = self._optuna_lock()
        lock.acquire()
        try:
            yield
        finally:
            # After the grace period another process may have broken the lock and taken it.
            with suppress(RuntimeError):
                lock.release()

    def _optuna_lock(self) -> "JournalFileSymlinkLock":
        from optuna.storages.journal import JournalFileSymlinkLock

        return JournalFileSymlinkLock(str(self.path), grace_period=GRACE)


def _is_damaged(path: Path) -> bool:
    """Whether Optuna cannot read the file, or could not read it after the next append."""
    # The text after the last line break must be empty, the last line a record, and all records must
    # replay.
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
    except Exception:  # noqa: BLE001 Optuna raises any type for a damaged record
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


class OptunaStudyMirror:
    """Keeps an Optuna study equal to a sweep. The study may be lost: the records hold everything.

    Not thread-safe; several processes may use one study, one at a time. The study belongs to this
    sweep if it carries the sweep's definition and every trial carries rlexp's mark; any other
    study is left unchanged.

    The mirror remembers what it wrote, so that the cost of an update depends on the changes and
    not on the size of the study. If another process was the last writer, the study is read again.
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
        metric_names: Sequence[str] = (),
        log: Callable[[str], None] | None = None,
    ) -> None:
        """Describe the study, without a connection.

        Args:
            url: URL of a database; None: the journal file.
            journal: Path of the journal file.
            name: Name of the study.
            space: The search space.
            directions: One for each objective.
            owner: Distinguishes this sweep from others of the same name, space and directions in
                the same database, such as a hash of its definition.
            metric_names: The name of each objective's value; empty for no names.
            log: Receives the log messages of Optuna and its libraries; None drops them.

        Raises:
            ConfigError: The URL is invalid or of an unknown kind, or its driver is not installed.
        """
        self.name = name
        self.space = space
        self.directions = tuple(directions)
        self._metric_names = list(metric_names)
        self.place = JournalFile(journal) if url is None else Database(url)
        definition = {
            "schema": 1,
            "owner": owner,
            "directions": directions,
            "space": space.plain(),
        }
        # A study returns JSON, in which tuples have become lists: both sides must compare equal.
        self._definition = json.loads(json.dumps(definition))
        self._log = log
        self._writer = uuid4().hex
        self._storage: BaseStorage | None = None
        self._study = 0
        self._written: list[TrialContent] = []
        self._target = TranslatedTrials(space)
        self._attributes: Mapping[str, Any] = {}
        self._notes: Mapping[int | None, str] = {}

    def open(self) -> None:
        """Check that the storage answers, and that an existing study belongs to this sweep.

        Raises:
            ProtocolError: There is another study of that name.
            Exception: Any error of the database's driver or the file system.
        """
        self._while_locked(lambda _: None)

    def sync(
        self,
        trials: Sequence[MirroredTrial],
        attributes: Mapping[str, Any] | None = None,
        notes: Mapping[int | None, str] | None = None,
    ) -> None:
        """Make the study equal to a sweep; only differences are written.

        If the process is killed meanwhile, the next call completes the study. An attribute of the
        study that the sweep does not name is left unchanged.

        Args:
            trials: All trials in any order, numbered from 0 without a gap.
            attributes: JSON values to show beside the trials, by name. They may change at any time.
            notes: Markdown to show beside trials, by number, and beside the study, by None.

        Raises:
            ProtocolError: A number is missing or repeated, or the study belongs to another sweep.
            Exception: Any error of the database's driver or the file system. The next call
                reads the study again.
        """
        self._target.take(trials)
        # As the storage returns them: in JSON, tuples are lists.
        self._attributes = json.loads(json.dumps(dict(attributes or {})))
        self._notes = dict(notes or {})
        self._while_locked(self._write_differences)

    def close(self) -> None:
        """Close the storage; `sync` opens it again."""
        self._storage = None
        self.place.close()

    def _while_locked(self, act: Callable[["BaseStorage"], None]) -> None:
        redirect_library_logs(self._log)
        try:
            with self.place.lock():
                self._act_on_study(act)
        except BaseException:
            self.close()
            raise

    def _act_on_study(self, act: Callable[["BaseStorage"], None]) -> None:
        """Act on the remembered content; if that fails, read the study and act again."""
        with suppress(Exception):
            if self._storage is not None and self._is_unchanged(self._storage):
                act(self._storage)
                # Checked again: another program may have written in between.
                if self._is_unchanged(self._storage):
                    return self.place.settle()
        self.close()
        storage = self._read()
        act(storage)
        if not self._is_unchanged(storage):
            raise RuntimeError("another program is writing to the study")
        return self.place.settle()

    def _is_unchanged(self, storage: "BaseStorage") -> bool:
        """Whether the study is as this process left it: no other writer, and no additional trial.

        A server that fails after storing a trial and before acknowledging it makes Optuna add the
        trial a second time; the check of the next number finds such a trial.
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
            raise self._foreign(f"trial {marks.index(None)} was added by another program")
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
            # Either an rlexp process was killed between creating and marking the study, or the
            # user created it; an empty study can be used in both cases.
            attributes = self._mark(storage, study)
        theirs = attributes.get(DEFINITION)
        if theirs != self._definition:
            raise self._foreign(_difference(theirs, self._definition))
        return study

    def _foreign(self, reason: str) -> ProtocolError:
        return ProtocolError(
            f"the study {self.name} in {self.place.shown} does not mirror this sweep: {reason}; "
            "the study was not changed: choose another sweep.storage, or delete that study"
        )

    def _create(self, storage: "BaseStorage") -> int:
        from optuna.study import StudyDirection

        directions = [StudyDirection[direction.upper()] for direction in self.directions]
        study = storage.create_new_study(directions, self.name)
        self._mark(storage, study)
        return study

    def _mark(self, storage: "BaseStorage", study: int) -> Mapping[str, Any]:
        """Mark an empty study as ours if it has our directions; returns its attributes."""
        theirs = [direction.name.lower() for direction in storage.get_study_directions(study)]
        if theirs != list(self.directions):
            return {}
        storage.set_study_user_attr(study, DEFINITION, self._definition)
        storage.set_study_user_attr(study, WRITER, self._writer)
        return {DEFINITION: self._definition}

    def _start_over(self, storage: "BaseStorage") -> None:
        """Delete the study and create an empty one, because it cannot be turned into the target."""
        storage.delete_study(self._study)
        self._study = self._create(storage)
        self._written = []

    def _write_differences(self, storage: "BaseStorage") -> None:
        """Change the study until it equals the target."""
        target = self._target.made
        pairs = zip(self._written, target, strict=False)
        if len(self._written) > len(target) or not all(
            was.leads_to(now) for was, (_, now) in pairs
        ):
            # Optuna cannot remove a trial or change a finished one.
            self._start_over(storage)
        for number, (made, now) in enumerate(target):
            if number == len(self._written):
                storage.create_new_trial(self._study, made)
                self._written.append(now)
            elif self._written[number] != now:
                self._advance(storage, number, made, now)
                self._written[number] = now
        self._write_attributes(storage)
        self._write_notes(storage)

    def _write_attributes(self, storage: "BaseStorage") -> None:
        """Set the attributes of the study that differ; those of rlexp itself are kept."""
        present = storage.get_study_user_attrs(self._study)
        for key, value in self._attributes.items():
            if key not in present or present[key] != value:
                storage.set_study_user_attr(self._study, key, value)

    def _write_notes(self, storage: "BaseStorage") -> None:
        """Write the notes, and the names of the values, that differ."""
        present = storage.get_study_system_attrs(self._study)
        if self._metric_names and present.get(METRIC_NAMES) != self._metric_names:
            storage.set_study_system_attr(self._study, METRIC_NAMES, self._metric_names)
        for number, text in self._notes.items():
            trial = None
            if number is not None:
                trial = storage.get_trial_id_from_study_id_trial_number(self._study, number)
            write_note(storage, self._study, trial, text)

    def _advance(
        self, storage: "BaseStorage", number: int, made: "FrozenTrial", now: TrialContent
    ) -> None:
        """Add what a running trial lacks, its end last: a finished trial cannot change."""
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
    other = [name for key, name in names.items() if theirs.get(key) != ours[key]]
    return f"it has {' and '.join(other)}" if other else "it belongs to another sweep of that name"


def write_note(storage: "BaseStorage", study: int, trial: int | None, text: str) -> None:
    """Replace the note of a study or of one of its trials, unless it is the same.

    The form is that of `save_note` (optuna-dashboard 0.21), which need not be installed.

    Args:
        storage: The storage.
        study: Optuna's id of the study.
        trial: Optuna's id of the trial; None for the note of the study.
        text: Markdown.
    """
    prefix = "dashboard:" if trial is None else f"dashboard:{trial}:"
    present = storage.get_study_system_attrs(study)
    starts = range(0, len(text), LONGEST_PIECE)
    pieces = {f"{prefix}note_str:{k}": text[s : s + LONGEST_PIECE] for k, s in enumerate(starts)}
    written = {k: v for k, v in present.items() if k.startswith(f"{prefix}note_str:") and v}
    if written == pieces:
        return
    # A piece cannot be removed: an empty one adds nothing.
    for key, piece in {**dict.fromkeys(written, ""), **pieces}.items():
        storage.set_study_system_attr(study, key, piece)
    version = f"{prefix}note_ver"
    storage.set_study_system_attr(study, version, int(present.get(version, 0)) + 1)
