"""Importer of an MLflow server, or of any store that MLflow itself can open by its address."""

import os
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from rlexp.errors import ConfigError, TrackerUnreachable
from rlexp.exchange.importers.imported_study import ImportedStudy, ImportOptions
from rlexp.exchange.importers.mlflow_runs import MILLISECOND, SourceRun, imported_runs
from rlexp.exchange.importers.mlflow_store import choose_experiment
from rlexp.exchange.importers.series import Value

PATIENCE = {"MLFLOW_HTTP_REQUEST_MAX_RETRIES": "1", "MLFLOW_HTTP_REQUEST_TIMEOUT": "20"}
"""Limits for a server that does not answer, unless the user has set these variables."""
PAGE = 1000


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
            runs = list(_runs(client, name, options))
            return imported_runs(
                runs, lambda run, key: _metric_values(client, run, key), (name, ""), options
            )
        except MlflowException as error:
            text = " ".join(str(error).split())[:300]
            raise TrackerUnreachable(f"{name} cannot be read: {text}") from error


@contextmanager
def _short_timeouts() -> Iterator[None]:
    """Make the client give up after seconds instead of minutes."""
    added = {key: value for key, value in PATIENCE.items() if key not in os.environ}
    os.environ.update(added)
    try:
        yield
    finally:
        for key in added:
            os.environ.pop(key, None)


def _runs(client: Any, name: str, options: ImportOptions) -> Iterator[SourceRun]:
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


def _metric_values(client: Any, run: str, metric: str) -> Iterator[Value]:
    for value in client.get_metric_history(run, metric):
        yield value.step, value.value, value.timestamp * MILLISECOND
