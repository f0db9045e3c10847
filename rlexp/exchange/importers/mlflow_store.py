"""Importer of MLflow's stores.

A SQLite file is opened read-only and without the mlflow package. A server, or any other store, is read by MLflow itself.
"""

import os
import sqlite3
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import closing, contextmanager
from dataclasses import dataclass
from math import nan
from typing import Any, TypeVar
from urllib.parse import quote

from rlexp.errors import ConfigError, TrackerUnreachable, did_you_mean
from rlexp.exchange.importers.imported_study import ImportedStudy, ImportOptions, malformed_error
from rlexp.exchange.importers.mlflow_runs import MILLISECOND, SourceRun, imported_runs
from rlexp.exchange.importers.optuna_store import MAGIC, is_optuna_database
from rlexp.exchange.importers.series import Value
from rlexp.exchange.importers.sources import SourceFile, unused_files

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
