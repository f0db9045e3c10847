"""Opens MLflow's client: quiet, bounded in time, on a database that is whole."""

import logging
import math
import os
from pathlib import Path
from typing import TYPE_CHECKING

from rlexp.trackers.mlflow_places import Place, check_database, make_database

if TYPE_CHECKING:
    from mlflow import MlflowClient

SERVED = "mlflow-artifacts:/"
"""Where `mlflow ui` lets experiments that others make keep their artifacts."""
SILENT = {
    "DO_NOT_TRACK": "true",
    "MLFLOW_DISABLE_TELEMETRY": "true",
    "MLFLOW_ENABLE_SYSTEM_METRICS_LOGGING": "false",
    "MLFLOW_ENABLE_ASYNC_LOGGING": "false",
    "MLFLOW_ENABLE_ARTIFACTS_PROGRESS_BAR": "false",
    "MLFLOW_SUPPRESS_PRINTING_URL_TO_STDOUT": "true",
    "MLFLOW_LOGGING_LEVEL": "CRITICAL",
    "MLFLOW_ALLOW_PICKLE_DESERIALIZATION": "false",
    "GIT_PYTHON_REFRESH": "quiet",
}


def make_client(place: Place, timeout: float, own: str) -> "MlflowClient":
    """The client of a place, whose database is made if it is one and is not there.

    Args:
        place: Where to.
        timeout: Seconds of one request.
        own: Letters that no other process uses at the same time.

    Raises:
        TrackerRefused: The database is none that this MLflow may write.
        TrackerUnreachable: It is locked.
        ImportError: MLflow is not installed, or what it needs here.
        Exception: Whatever MLflow says.
    """
    _prepare(timeout)
    from mlflow import MlflowClient

    if place.file is not None:
        make_database(place.file, own, _make_tables)
        check_database(place.file, _revision())
    return MlflowClient(place.uri, place.uri)


def _prepare(timeout: float) -> None:
    """MLflow takes its limits from variables only; this process is the mirror's own."""
    # It would try for four minutes by itself; the mirror tries again, and can be told to stop.
    os.environ["MLFLOW_HTTP_REQUEST_MAX_RETRIES"] = "0"
    os.environ["MLFLOW_HTTP_REQUEST_TIMEOUT"] = str(math.ceil(timeout))
    os.environ.update(SILENT)
    logging.getLogger("mlflow").setLevel(logging.CRITICAL)


def _make_tables(file: Path) -> None:
    from mlflow.store.tracking.sqlalchemy_store import SqlAlchemyStore

    SqlAlchemyStore(f"sqlite:///{file}", SERVED).engine.dispose()


def _revision() -> str:
    """The version of the tables that this MLflow knows."""
    from mlflow.store.db.utils import _get_latest_schema_revision

    return str(_get_latest_schema_revision())
