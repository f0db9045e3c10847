"""Importer of Optuna's studies: a journal file, a SQLite file, or the URL of a database.

Nothing is written into a store: files are copied first, and a database that lacks Optuna's tables
is refused before Optuna could create them.
"""

import json
import sqlite3
from collections.abc import Iterator, Sequence
from contextlib import closing, contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Any
from urllib.parse import quote

from rlexp.errors import ConfigError, TrackerUnreachable, did_you_mean
from rlexp.exchange.database import Database
from rlexp.exchange.importers.imported_study import ImportOptions, StepUnit, malformed_error
from rlexp.exchange.importers.imported_sweep import VALUE, ImportedSweep, SearchedTrial
from rlexp.exchange.importers.sources import SourceFile, unused_files
from rlexp.exchange.optuna_study import redirect_library_logs
from rlexp.protocol.identity import canonical
from rlexp.protocol.space import Choice, Domain, Integer, Parameter, Real, Space

if TYPE_CHECKING:
    from optuna import Study
    from optuna.distributions import BaseDistribution
    from optuna.storages import BaseStorage
    from optuna.trial import FrozenTrial

MAGIC = b"SQLite format 3\0"
TABLES = {"studies", "trials", "trial_params"}
"""Tables by which a store of Optuna is recognised."""
LARGEST_STORE = 1 << 30
OPERATION = "op_code"
"""A key of every line of a journal."""
STATES = {"COMPLETE": "complete", "PRUNED": "pruned", "FAIL": "failed"}
"""States of trials that have ended."""


def fits(files: Sequence[SourceFile]) -> bool:
    """Whether there is a store of Optuna."""
    return any(_is_journal(file) or is_optuna_database(file) for file in files)


def is_optuna_database(file: SourceFile) -> bool:
    """Whether a file is a SQLite database with Optuna's tables."""
    if file.begins(len(MAGIC)) != MAGIC:
        return False
    try:
        with closing(_connected(file.path)) as connection:
            query = "SELECT name FROM sqlite_master WHERE type = 'table'"
            return {str(name) for (name,) in connection.execute(query)} >= TABLES
    except sqlite3.Error:
        return False


def read_optuna(files: Sequence[SourceFile], options: ImportOptions) -> ImportedSweep:
    """Read the trials of a study in a file.

    Raises:
        MalformedError: The file is damaged, or of another version of Optuna.
        ConfigError: The study does not exist, or the user does not name the task.
    """
    stores = [file for file in files if _is_journal(file) or is_optuna_database(file)]
    if len(stores) != 1:
        names = ", ".join(file.name for file in stores) or "none"
        raise malformed_error("optuna", "", f"give one store of Optuna (there are: {names})")
    loaded = stores[0].load(LARGEST_STORE)
    with TemporaryDirectory(prefix="rlexp-import-") as temporary:
        copy = Path(temporary) / "store"
        if loaded.content.startswith(MAGIC):
            _copy_database(stores[0], copy)
        else:
            copy.write_bytes(loaded.content)
        with _opened_copy(copy, loaded.name) as storage:
            left_out = unused_files(files, stores)
            return _sweep(storage, loaded.name, (loaded.sum,), left_out, options)


def read_optuna_server(url: str, options: ImportOptions) -> ImportedSweep:
    """Read the trials of a study in a database server.

    Raises:
        ConfigError: The URL is wrong, its driver is missing, or the study does not exist.
        MalformedError: The database holds no studies of Optuna.
        TrackerUnreachable: The server does not answer.
    """
    try:
        database = Database(url)
    except ConfigError as error:
        text = str(error).replace("sweep.storage", "the address")
        raise error.rephrased(text.partition(", or null")[0]) from error
    redirect_library_logs()
    from sqlalchemy import create_engine, inspect
    from sqlalchemy.exc import SQLAlchemyError
    from sqlalchemy.pool import NullPool

    try:
        engine = create_engine(database.url, poolclass=NullPool)
        with engine.connect() as connection:
            tables = set(inspect(connection).get_table_names())
        if not tables >= {*TABLES, "version_info"}:
            raise malformed_error(database.shown, "", "the database has no studies of Optuna")
        with closing(database):
            return _sweep(database.open(), database.shown, ((database.shown, ""),), [], options)
    except SQLAlchemyError as error:
        # A message of the driver may repeat the URL with its password.
        text = _without(" ".join(str(error).split())[:300], database.secrets)
        raise TrackerUnreachable(f"{database.shown} cannot be read: {text}") from error


def _without(text: str, secrets: Sequence[str]) -> str:
    for secret in secrets:
        text = text.replace(secret, "********").replace(quote(secret, safe=""), "********")
    return text


def _is_journal(file: SourceFile) -> bool:
    head = file.begins(4096).partition(b"\n")[0]
    try:
        first = json.loads(head)
    except (ValueError, RecursionError):
        return False
    return isinstance(first, dict) and OPERATION in first


def _connected(path: Path) -> sqlite3.Connection:
    # Quoted, because ? and % in a path have a meaning in a URI.
    return sqlite3.connect(f"file:{quote(str(path.absolute()))}?mode=ro", uri=True, timeout=5)


def _copy_database(file: SourceFile, target: Path) -> None:
    """Copy a database as SQLite sees it, with what its write-ahead log holds."""
    try:
        with (
            closing(_connected(file.path)) as source,
            closing(sqlite3.connect(target)) as copy,
        ):
            source.execute("PRAGMA trusted_schema = OFF")
            source.backup(copy)
            # The rows alone are read: triggers and views of the file are not.
            names = copy.execute(
                "SELECT type, name FROM sqlite_master WHERE type IN ('trigger', 'view')"
            ).fetchall()
        if names:
            raise malformed_error(file.name, "", "it has triggers or views, which Optuna has not")
    except sqlite3.Error as error:
        raise malformed_error(file.name, "", f"it cannot be read: {error}") from error


@contextmanager
def _opened_copy(path: Path, name: str) -> Iterator["BaseStorage"]:
    from optuna.storages import JournalStorage, RDBStorage
    from optuna.storages.journal import JournalFileBackend

    redirect_library_logs()
    is_database = path.read_bytes()[: len(MAGIC)] == MAGIC
    try:
        storage: BaseStorage = (
            RDBStorage(f"sqlite:///{path}")
            if is_database
            else JournalStorage(JournalFileBackend(str(path)))
        )
    except Exception as error:
        # Optuna raises errors of any type for a damaged store or one of another version.
        text = " ".join(str(error).split())[:200].replace(str(path), name)
        hint = "; 'optuna storage upgrade' mends an old version" if is_database else ""
        raise malformed_error(name, "", f"Optuna cannot read it: {text}{hint}") from error
    try:
        yield storage
    finally:
        if isinstance(storage, RDBStorage):
            storage.remove_session()
            storage.engine.dispose()


def _sweep(
    storage: "BaseStorage",
    name: str,
    files: tuple[tuple[str, str], ...],
    left_out: Sequence[str],
    options: ImportOptions,
) -> ImportedSweep:
    study = _study(storage, name, options)
    if options.task is None:
        raise ConfigError(f"the study {study.study_name} names no task: give --task NAME")
    names, position = _objective_names(study), _objective(study, name, options)
    trials = study.get_trials(deepcopy=False)
    ended = [trial for trial in trials if trial.state.name in STATES]
    if not ended:
        raise malformed_error(name, f"study {study.study_name}", "no trial has ended")
    unit = _unit(ended, options)
    return ImportedSweep(
        kind="optuna",
        name=study.study_name,
        task=options.task,
        label=options.label or study.study_name,
        metric=_metric(study, position),
        minimised=study.directions[position].name == "MINIMIZE",
        space=_space(ended, name),
        trials=tuple(_trial(trial, position, unit) for trial in ended),
        files=files,
        other_objectives=tuple(n for k, n in enumerate(names) if k != position),
        left_out=(
            *left_out,
            *(f"trial {t.number}, {t.state.name}" for t in trials if t.state.name not in STATES),
        ),
    )


def _study(storage: "BaseStorage", name: str, options: ImportOptions) -> "Study":
    from optuna import load_study

    names = [study.study_name for study in storage.get_all_studies()]
    chosen = options.collection
    if chosen is None and len(names) == 1:
        chosen = names[0]
    if chosen is None or chosen not in names:
        what = "it holds no study"
        if names:
            hint = did_you_mean(chosen, names) if chosen else ""
            problem = (
                f"there is no study {chosen!r}{hint}" if chosen else "it holds several studies"
            )
            what = f"{problem}: name one with --study (there are: {', '.join(sorted(names)[:20])})"
        raise malformed_error(name, "", what)
    return load_study(study_name=chosen, storage=storage)


def _objective_names(study: "Study") -> list[str]:
    """The names by which `--metric` chooses an objective; their numbers where they have none."""
    return study.metric_names or [str(number) for number in range(len(study.directions))]


def _objective(study: "Study", name: str, options: ImportOptions) -> int:
    """The position of the objective that is imported."""
    names = _objective_names(study)
    if options.metric is None and len(names) == 1:
        return 0
    if options.metric not in names:
        problem = (
            f"there is no objective {options.metric!r}{did_you_mean(options.metric, names)}"
            if options.metric
            else f"it has {len(names)} objectives"
        )
        what = f"{problem}: name one with --metric (there are: {', '.join(names)})"
        raise malformed_error(name, f"study {study.study_name}", what)
    return names.index(options.metric)


def _metric(study: "Study", position: int) -> str:
    if study.metric_names:
        return study.metric_names[position]
    return VALUE if len(study.directions) == 1 else f"{VALUE} {position}"


def _unit(trials: Sequence["FrozenTrial"], options: ImportOptions) -> StepUnit:
    if any(trial.intermediate_values for trial in trials):
        return options.required_unit("optuna")
    return options.unit or StepUnit(name="environment")


def _trial(trial: "FrozenTrial", position: int, unit: StepUnit) -> SearchedTrial:
    values = trial.values or []
    complete = trial.state.name == "COMPLETE"
    reported = sorted(trial.intermediate_values.items())
    return SearchedTrial(
        number=trial.number,
        state=STATES[trial.state.name],
        parameters={key: _plain(value) for key, value in trial.params.items()},
        value=float(values[position]) if complete else None,
        intermediate=tuple((unit.convert(step), value) for step, value in reported if step >= 0),
        started=None if trial.datetime_start is None else trial.datetime_start.timestamp(),
        ended=None if trial.datetime_complete is None else trial.datetime_complete.timestamp(),
    )


def _plain(value: Any) -> Any:
    """A parameter as a JSON value."""
    return value if isinstance(value, str | int | float | bool) or value is None else str(value)


def _space(trials: Sequence["FrozenTrial"], name: str) -> Space:
    """The parameters of all trials; ranges that differ between trials are joined."""
    distributions: dict[str, list[BaseDistribution]] = {}
    for trial in trials:
        for key, distribution in trial.distributions.items():
            distributions.setdefault(key, []).append(distribution)
    domains = {key: _domain(members) for key, members in distributions.items()}
    searched = [
        Parameter(key=key, domain=domain) for key, domain in domains.items() if domain is not None
    ]
    if not searched:
        raise malformed_error(name, "", "its trials have no parameter with two values or more")
    return Space(parameters=tuple(searched))


def _domain(members: Sequence["BaseDistribution"]) -> Domain | None:
    """The domain that holds all values of some distributions; None for a single value."""
    from optuna.distributions import (
        CategoricalDistribution,
        FloatDistribution,
        IntDistribution,
    )

    numbers = [m for m in members if isinstance(m, FloatDistribution | IntDistribution)]
    if numbers:
        low, high = min(m.low for m in numbers), max(m.high for m in numbers)
        log = all(m.log for m in numbers)
        if low == high:
            return None
        if all(isinstance(m, IntDistribution) for m in numbers):
            return Integer(int(low), int(high), log=log)
        return Real(float(low), float(high), "log" if log else "linear")
    choices = [
        _plain(value)
        for m in members
        if isinstance(m, CategoricalDistribution)
        for value in m.choices
    ]
    distinct = {canonical(value): value for value in choices}
    return Choice(tuple(distinct.values())) if len(distinct) > 1 else None
