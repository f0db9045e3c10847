"""Importer of MLflow's stores, whose runs become imported runs with one curve each.

A SQLite file is opened read-only and without the mlflow package. A server, or any other store, is read by MLflow itself.
"""

import os
import sqlite3
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import closing, contextmanager
from dataclasses import dataclass, field
from math import nan
from typing import Any, TypeVar
from urllib.parse import quote

from rlexp.errors import ConfigError, TrackerUnreachable, did_you_mean
from rlexp.exchange.importers.imported_study import (
    EarlyEnd,
    EvaluationPoint,
    ImportedRun,
    ImportedStudy,
    ImportOptions,
    StepUnit,
    malformed_error,
    until_not_finite,
)
from rlexp.exchange.importers.naming import RunFacts, RunIdentity, RunNaming
from rlexp.exchange.importers.optuna_store import MAGIC, is_optuna_database
from rlexp.exchange.importers.parse_values import (
    details_as_text,
    parse_name,
    parse_whole_number,
    shortened_repr,
)
from rlexp.exchange.importers.series import Series, Value, choose_series, group_by_step
from rlexp.exchange.importers.sources import SourceFile, unused_files
from rlexp.records.events import Ending, Failure

LABELS = ("algo", "algorithm", "algorithm.name", "label", "exp_name", "agent", "method")
"""Parameters and tags that name the algorithm; the first one present is used."""
TASKS = ("env_id", "env", "environment", "environment.id", "env_name", "task")
"""Parameters and tags that name the task."""
SEEDS = ("seed", "random_seed", "train.seed")
"""Parameters and tags that name the seed."""
MILLISECOND = 1e-3
ENDINGS: Mapping[str, tuple[Ending, Failure | None]] = {
    "FAILED": (Ending.FAILED, Failure.CRASHED),
    "KILLED": (Ending.INTERRUPTED, None),
    "RUNNING": (Ending.INTERRUPTED, None),
    "SCHEDULED": (Ending.INTERRUPTED, None),
}
"""The meaning of each status other than FINISHED."""
Identity = TypeVar("Identity", int, str)
TABLES = ("experiments", "runs", "metrics", "params", "tags")
"""The tables that are read."""
LARGEST_STORE = 1 << 30
PATIENCE = 120.0
"""Seconds that reading a store may take: a file can be built so that a query never ends."""
EVERY = 100_000
"""SQLite instructions between two checks of the time."""
SERVER_LIMITS = {"MLFLOW_HTTP_REQUEST_MAX_RETRIES": "1", "MLFLOW_HTTP_REQUEST_TIMEOUT": "20"}
"""Limits for a server that does not answer, unless the user has set these variables."""
PAGE = 1000


@dataclass(frozen=True, slots=True, kw_only=True)
class SourceRun:
    """A run as MLflow stores it.

    Attributes:
        id: MLflow's id of the run.
        name: Its name.
        status: `FINISHED` or another status.
        started: Milliseconds since 1970.
        settings: Parameters and tags, by name.
        metrics: Names of its metrics.
    """

    id: str
    name: str
    status: str
    started: int | None
    settings: Mapping[str, str] = field(default_factory=dict)
    metrics: Sequence[str] = ()


ReadMetric = Callable[[str, str], Iterable[Value]]
"""Returns the values of a metric of a run, by their ids, with steps as logged."""


def imported_runs(
    runs_read: Sequence[SourceRun],
    read_metric: ReadMetric,
    source: tuple[str, str],
    options: ImportOptions,
) -> ImportedStudy:
    """Convert the runs that have the metric; the others are listed as left out.

    Args:
        runs_read: All runs.
        read_metric: Reads the values of a metric.
        source: Name and sha256 of the source.
        options: The user's options.

    Raises:
        MalformedError: No run has the metric, or a run's label or task is unknown.
        ConfigError: The user does not give the unit of steps, or the conditions leave no run.
    """
    every = sorted({metric for run in runs_read for metric in run.metrics})
    series = choose_series(source[0], every, options)
    with_metric = [run for run in runs_read if series.name in run.metrics]
    naming = RunNaming(options)
    named = [(run, naming.identify(_facts(run, source[0]))) for run in with_metric]
    naming.check()
    unit = options.required_unit("mlflow")
    runs = tuple(
        _imported_run(run, identity, series, read_metric, source, unit)
        for run, identity in named
        if identity is not None
    )
    without = [
        f"run {run.name}, without {series.name}"
        for run in runs_read
        if series.name not in run.metrics
    ]
    return ImportedStudy(kind="mlflow", runs=runs, left_out=(*naming.left_out(), *without))


def _imported_run(
    run: SourceRun,
    identity: RunIdentity,
    series: Series,
    read_metric: ReadMetric,
    source: tuple[str, str],
    unit: StepUnit,
) -> ImportedRun:
    name = _name(run, source[0])
    where = f"run {name}"
    values = [
        (unit.convert(parse_whole_number(step, source[0], where, "a step")), value, time)
        for step, value, time in read_metric(run.id, series.name)
    ]
    _check_steps(source[0], where, series.name, values)
    points, failure = until_not_finite(group_by_step(values))
    return ImportedRun(
        name=name,
        label=identity.label,
        task=identity.task,
        seed=identity.seed,
        points=points,
        returns=series.returns,
        files=(source,),
        settings=identity.settings,
        details={
            "run_id": run.id,
            "metric": series.name,
            "told": details_as_text(run.settings),
        },
        started=None if run.started is None else run.started * MILLISECOND,
        trouble=failure or _trouble(run, points),
        parameters=_training_parameters(run),
        metric=series.metric,
    )


def _facts(run: SourceRun, source: str) -> RunFacts:
    name = _name(run, source)
    where = f"run {name}"
    seed = _named_by(run, SEEDS)
    return RunFacts(
        name=where,
        source=source,
        parameters={"status": run.status, "name": name, **run.settings},
        label=_named_by(run, LABELS),
        task=_named_by(run, TASKS),
        seed=None if seed is None else parse_whole_number(seed, source, where, "seed"),
        where=where,
    )


def _name(run: SourceRun, source: str) -> str:
    return parse_name(run.name or run.id, source, f"run {run.id}", "its name")


def _training_parameters(run: SourceRun) -> dict[str, str]:
    """The parameters and tags without those of MLflow itself and those that name the run."""
    return {
        key: value
        for key, value in run.settings.items()
        if not key.startswith("mlflow.") and key not in {*LABELS, *TASKS, *SEEDS}
    }


def _named_by(run: SourceRun, keys: Sequence[str]) -> str | None:
    return next((run.settings[key] for key in keys if key in run.settings), None)


def _check_steps(name: str, where: str, metric: str, values: Sequence[Value]) -> None:
    if len(values) > 1 and len({step for step, _, _ in values}) == 1:
        what = f"all {len(values)} values of {shortened_repr(metric)} are at step {values[0][0]}"
        raise malformed_error(name, where, f"{what}: it was logged without steps")


def _trouble(run: SourceRun, points: Sequence[EvaluationPoint]) -> EarlyEnd | None:
    if run.status not in ENDINGS:
        return None
    ending, failure = ENDINGS[run.status]
    step = points[-1].step if points else 0
    # Part of the digest of an imported run (see `until_not_finite`): the text must not change.
    reason = f"MLflow says {run.status}"
    return EarlyEnd(step=step, ending=ending, reason=reason, failure=failure)


@dataclass(frozen=True, slots=True)
class Store:
    """An open store."""

    name: str
    connection: sqlite3.Connection

    def rows(self, query: str, *values: str | int) -> list[sqlite3.Row]:
        """All rows of a query.

        Raises:
            MalformedError: The file is damaged, locked, or not a store of MLflow.
        """
        try:
            return self.connection.execute(query, values).fetchall()
        except (sqlite3.Error, UnicodeDecodeError, OverflowError) as error:
            raise malformed_error(self.name, "", f"it cannot be read: {error}") from error


def fits(files: Sequence[SourceFile]) -> bool:
    """Whether there is a SQLite database."""
    return any(_is_store(file) for file in files)


def read_mlflow_store(files: Sequence[SourceFile], options: ImportOptions) -> ImportedStudy:
    """Read the runs of one experiment.

    Raises:
        MalformedError: The experiment or metric does not exist, or the file is not a store.
        ConfigError: The user does not give the unit of steps.
    """
    stores = [file for file in files if _is_store(file)]
    if len(stores) != 1:
        names = ", ".join(file.name for file in stores) or "none"
        raise malformed_error(
            "mlflow", "", f"give the one SQLite file of a store (there are: {names})"
        )
    loaded = stores[0].load(LARGEST_STORE)
    # Quoted, because ? and % in a path have a meaning in a URI.
    address = f"file:{quote(str(stores[0].path.absolute()))}?mode=ro"
    try:
        connection = sqlite3.connect(address, uri=True, timeout=5)
    except sqlite3.Error as error:
        raise malformed_error(loaded.name, "", f"it cannot be opened: {error}") from error
    with closing(connection):
        store = _guarded(loaded.name, connection)
        runs = list(_runs(store, _experiment(store, options)))
        study = imported_runs(
            runs, lambda run, key: _metric_values(store, run, key), loaded.sum, options
        )
    left_out = (*study.left_out, *unused_files(files, stores))
    return ImportedStudy(kind=study.kind, runs=study.runs, left_out=left_out)


def _is_store(file: SourceFile) -> bool:
    return file.begins(len(MAGIC)) == MAGIC and not is_optuna_database(file)


def _guarded(name: str, connection: sqlite3.Connection) -> Store:
    """The store, protected against code that its file defines (views, triggers, virtual tables)."""
    until = time.monotonic() + PATIENCE
    connection.row_factory = sqlite3.Row
    # SQLite interrupts the query when the handler returns True.
    connection.set_progress_handler(lambda: time.monotonic() > until, EVERY)
    store = Store(name, connection)
    store.rows("PRAGMA trusted_schema = OFF")
    store.rows("PRAGMA query_only = ON")
    problems = store.rows("PRAGMA quick_check(1)")
    if [tuple(row) for row in problems] != [("ok",)]:
        raise malformed_error(name, "", "the database is damaged (PRAGMA quick_check failed)")
    markers = ",".join("?" * len(TABLES))
    query = f"SELECT name, type, sql FROM sqlite_master WHERE name IN ({markers})"  # noqa: S608
    tables = {
        row["name"]
        for row in store.rows(query, *TABLES)
        if row["type"] == "table" and "VIRTUAL" not in str(row["sql"]).upper()[:20]
    }
    if missing := [table for table in TABLES if table not in tables]:
        what = f"it is not a store of MLflow: it lacks the tables {', '.join(missing)}"
        raise malformed_error(name, "", what)
    return store


def _experiment(store: Store, options: ImportOptions) -> int:
    query = (
        "SELECT e.experiment_id AS id, e.name AS name, count(r.run_uuid) AS runs "
        "FROM experiments e LEFT JOIN runs r "
        "ON r.experiment_id = e.experiment_id AND r.lifecycle_stage = 'active' "
        "WHERE e.lifecycle_stage = 'active' GROUP BY e.experiment_id ORDER BY e.experiment_id"
    )
    rows = store.rows(query)
    names = {str(row["name"]): int(row["id"]) for row in rows if row["runs"]}
    return choose_experiment(store.name, names, options)


def choose_experiment(
    name: str, names: Mapping[str, Identity], options: ImportOptions
) -> Identity:
    """The identity of the requested experiment, or of the only one.

    Raises:
        MalformedError: The experiment does not exist, or none is named and there are several.
    """
    available = ", ".join(sorted(names)[:20]) or "none"
    if options.collection is None and len(names) == 1:
        return next(iter(names.values()))
    if options.collection is None or options.collection not in names:
        requested = options.collection
        hint = did_you_mean(requested, names) if requested else ""
        what = "it contains several experiments"
        if requested:
            what = f"there is no experiment {requested!r} with runs{hint}"
        raise malformed_error(
            name, "", f"{what}: name one with --mlflow-experiment (there are: {available})"
        )
    return names[options.collection]


def _runs(store: Store, experiment: int) -> Iterator[SourceRun]:
    query = (
        "SELECT run_uuid, name, status, start_time FROM runs "
        "WHERE experiment_id = ? AND lifecycle_stage = 'active' ORDER BY start_time, run_uuid"
    )
    for row in store.rows(query, experiment):
        run = str(row["run_uuid"])
        settings = {}
        for table in ("tags", "params"):
            pairs = store.rows(
                # The table's name comes from the loop above and never from the file.
                f"SELECT key, value FROM {table} WHERE run_uuid = ?",  # noqa: S608
                run,
            )
            settings.update({str(key): str(value) for key, value in pairs})
        metrics = store.rows("SELECT DISTINCT key FROM metrics WHERE run_uuid = ?", run)
        yield SourceRun(
            id=run,
            name=str(row["name"] or settings.get("mlflow.runName") or run),
            status=str(row["status"]),
            started=row["start_time"] if isinstance(row["start_time"], int) else None,
            settings=settings,
            metrics=[str(key) for (key,) in metrics],
        )


def _metric_values(store: Store, run: str, metric: str) -> Iterator[Value]:
    query = (
        "SELECT step, value, timestamp, is_nan FROM metrics "
        "WHERE run_uuid = ? AND key = ? ORDER BY step, timestamp"
    )
    for step, value, stamp, is_nan in store.rows(query, run, metric):
        numbers = all(isinstance(n, int | float) for n in (step, value, stamp))
        if not numbers:
            raise malformed_error(
                store.name, f"run {run}", f"{metric} has a value that is not a number"
            )
        yield step, nan if is_nan else float(value), stamp * MILLISECOND


def read_mlflow_server(address: str, options: ImportOptions) -> ImportedStudy:
    """Read the runs of one experiment.

    Raises:
        MalformedError: The experiment or the metric does not exist.
        ConfigError: The user does not give the unit of steps, or MLflow is not installed.
        TrackerUnreachable: The server does not answer.
    """
    # The address names the kind, so the unit is asked for before anything is sent.
    options.required_unit("mlflow")
    try:
        from mlflow.exceptions import MlflowException
        from mlflow.tracking import MlflowClient
    except ImportError as error:
        raise ConfigError(
            "reading an MLflow server needs MLflow: pip install mlflow-skinny; the SQLite file "
            "of a store is read without it",
            code="missing_package",
            command="pip install mlflow-skinny",
        ) from error
    # The part before the @ may contain a password.
    name = address.rpartition("@")[2]
    with _short_timeouts():
        try:
            client = MlflowClient(address)
            runs = list(_served_runs(client, name, options))
            return imported_runs(
                runs, lambda run, key: _served_values(client, run, key), (name, ""), options
            )
        except MlflowException as error:
            text = " ".join(str(error).split())[:300]
            raise TrackerUnreachable(f"{name} cannot be read: {text}") from error


@contextmanager
def _short_timeouts() -> Iterator[None]:
    """Make the client give up after seconds instead of minutes."""
    added = {key: value for key, value in SERVER_LIMITS.items() if key not in os.environ}
    os.environ.update(added)
    try:
        yield
    finally:
        for key in added:
            os.environ.pop(key, None)


def _served_runs(client: Any, name: str, options: ImportOptions) -> Iterator[SourceRun]:
    experiments = {e.name: e.experiment_id for e in client.search_experiments()}
    having = {
        key: value
        for key, value in experiments.items()
        if client.search_runs([value], max_results=1)
    }
    chosen = choose_experiment(name, having, options)
    token = None
    while True:
        page = client.search_runs([chosen], max_results=PAGE, page_token=token)
        for run in page:
            yield SourceRun(
                id=run.info.run_id,
                name=run.info.run_name or run.info.run_id,
                status=run.info.status,
                started=run.info.start_time,
                settings={**run.data.tags, **run.data.params},
                metrics=list(run.data.metrics),
            )
        token = page.token
        if not token:
            return


def _served_values(client: Any, run: str, metric: str) -> Iterator[Value]:
    for value in client.get_metric_history(run, metric):
        yield value.step, value.value, value.timestamp * MILLISECOND
