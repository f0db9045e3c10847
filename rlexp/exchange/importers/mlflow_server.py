"""Runs of an MLflow server, or of any store that MLflow itself can open, by its address."""

import os
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from rlexp.errors import ConfigError, TrackerUnreachable
from rlexp.exchange.importers.mlflow_runs import MILLISECOND, SourceRun, imported_runs
from rlexp.exchange.importers.mlflow_store import choose_experiment
from rlexp.exchange.importers.series import Value
from rlexp.exchange.importers.study import ImportedStudy, Wanted

PATIENCE = {"MLFLOW_HTTP_REQUEST_MAX_RETRIES": "1", "MLFLOW_HTTP_REQUEST_TIMEOUT": "20"}
"""How long a server is waited for, unless the user's variables say otherwise."""
PAGE = 1000


def read_mlflow_server(address: str, wanted: Wanted) -> ImportedStudy:
    """Read the runs of one experiment.

    Raises:
        MalformedError: There is no such experiment or metric.
        ConfigError: Nothing says what a step is, or MLflow is not installed.
        TrackerUnreachable: The server does not answer.
    """
    unit = wanted.required_unit("mlflow")
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
    name = address.rpartition("@")[2]
    with _impatient():
        try:
            client = MlflowClient(address)
            found = list(_runs(client, name, wanted))
            return imported_runs(
                found, lambda run, key: _history(client, run, key), (name, ""), wanted, unit
            )
        except MlflowException as error:
            text = " ".join(str(error).split())[:300]
            raise TrackerUnreachable(f"{name} cannot be read: {text}") from error


@contextmanager
def _impatient() -> Iterator[None]:
    """Let the client give up in seconds, and not in minutes."""
    own = {key: value for key, value in PATIENCE.items() if key not in os.environ}
    os.environ.update(own)
    try:
        yield
    finally:
        for key in own:
            os.environ.pop(key, None)


def _runs(client: Any, name: str, wanted: Wanted) -> Iterator[SourceRun]:
    experiments = {e.name: e.experiment_id for e in client.search_experiments()}
    having = {
        key: value
        for key, value in experiments.items()
        if client.search_runs([value], max_results=1)
    }
    chosen = choose_experiment(name, having, wanted)
    token = None
    while True:
        page = client.search_runs([chosen], max_results=PAGE, page_token=token)
        for run in page:
            yield SourceRun(
                id=run.info.run_id,
                name=run.info.run_name or run.info.run_id,
                status=run.info.status,
                started=run.info.start_time,
                told={**run.data.tags, **run.data.params},
                metrics=list(run.data.metrics),
            )
        token = page.token
        if not token:
            return


def _history(client: Any, run: str, metric: str) -> Iterator[Value]:
    for value in client.get_metric_history(run, metric):
        yield value.step, value.value, value.timestamp * MILLISECOND
