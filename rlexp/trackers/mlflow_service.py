"""The calls of MLflow's client that the tracker makes, bounded in time and size."""

import tempfile
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path, PurePosixPath
from typing import TYPE_CHECKING, Any

from rlexp.errors import TrackerRefused, TrackerUnreachable
from rlexp.trackers.mlflow_limits import (
    NAME,
    PARAMETERS,
    MetricValue,
    Text,
    batches,
    readable,
)
from rlexp.trackers.mlflow_uri import MLflowLocation, check_location

if TYPE_CHECKING:
    from mlflow.entities import Run
import logging
import math
import os
from typing import TYPE_CHECKING

from rlexp.trackers.mlflow_uri import check_database, make_database

if TYPE_CHECKING:
    from mlflow import MlflowClient
import base64
import re
from collections.abc import Iterator
from contextlib import contextmanager

from rlexp.errors import RlexpError

MASK = "********"
REFUSALS = {
    "UNAUTHENTICATED",
    "CUSTOMER_UNAUTHORIZED",
    "PERMISSION_DENIED",
    "ENDPOINT_NOT_FOUND",
    "NOT_FOUND",
    "RESOURCE_DOES_NOT_EXIST",
    "RESOURCE_ALREADY_EXISTS",
    "INVALID_PARAMETER_VALUE",
    "INVALID_STATE",
    "NOT_IMPLEMENTED",
}
"""MLflow's names of what stays as it is. BAD_REQUEST is none: it says so of its database, too."""
LOGIN = {"UNAUTHENTICATED", "CUSTOMER_UNAUTHORIZED", "PERMISSION_DENIED"}
PASSING = {408, 425, 429}
"""Answers that blame the request, but say: later."""
TOO_LARGE = 413
ANSWERS = (
    (r"too many (\d+) error responses", "it answers {0}"),
    (r"Connection refused", "connection refused"),
    (r"Failed to resolve|Name or service not known|getaddrinfo", "there is no such host"),
    (r"timeout exception|timed out", "no answer in time"),
    (r"CERTIFICATE_VERIFY_FAILED|SSLError", "its certificate cannot be verified"),
    (r"Connection aborted|Connection reset|RemoteDisconnected", "it broke the connection off"),
    (r"not in a valid JSON format|Expecting value", "what it answers is not MLflow"),
)
"""What stands in a library's long message, and what it means."""
DENIED = re.compile(
    r"unauthori[sz]ed|not authenticated|forbidden|access denied|invalid (token|credentials)",
    re.IGNORECASE,
)
USER = re.compile(r"//[^/@\s'\"]+@")


@contextmanager
def tracker_errors(place: MLflowLocation) -> Iterator[None]:
    """Turn whatever MLflow and its libraries raise into an error of ours, without secrets.

    Raises:
        TrackerUnreachable: Trying again may help.
        TrackerRefused: It does not.
    """
    try:
        yield
    except RlexpError:
        raise
    except Exception as error:  # noqa: BLE001 its libraries raise what they like
        # Without the cause: it says the address with its password.
        raise tracker_error(error, place) from None


def tracker_error(error: Exception, place: MLflowLocation) -> RlexpError:
    """The error of ours that says what another one means."""
    if isinstance(error, ImportError):
        missing = error.name or str(error)
        if missing == "mlflow":
            return TrackerRefused(
                "mlflow is not installed: pip install 'rlexp[mlflow]'",
                code="missing_package",
                command="pip install 'rlexp[mlflow]'",
            )
        return TrackerRefused(
            f"MLflow at {place.shown} needs the package {missing}, which is not installed"
        )
    text = f"{type(error).__name__}: {error}"
    status = _status(error)
    login = getattr(error, "error_code", None) in LOGIN or status in {401, 403}
    if login or (hasattr(error, "json") and DENIED.search(text)):
        return TrackerRefused(
            f"MLflow at {place.shown} lets nobody in with these credentials: set "
            "MLFLOW_TRACKING_USERNAME and MLFLOW_TRACKING_PASSWORD, or MLFLOW_TRACKING_TOKEN"
        )
    reason = mask_secrets(_reason(text, error), secrets_of(place))
    if _is_final(error, status):
        return TrackerRefused(f"MLflow at {place.shown} refuses: {reason}")
    return TrackerUnreachable(f"MLflow at {place.shown} cannot be used now: {reason}")


def secrets_of(place: MLflowLocation) -> Sequence[str]:
    """What no message may say: credentials of the address and of the variables."""
    password = os.environ.get("MLFLOW_TRACKING_PASSWORD", "")
    token = os.environ.get("MLFLOW_TRACKING_TOKEN", "")
    login = f"{os.environ.get('MLFLOW_TRACKING_USERNAME', '')}:{password}"
    basic = base64.b64encode(login.encode()).decode() if password else ""
    return [*place.secrets, *(s for s in (basic, password, token) if s)]


def mask_secrets(text: str, secrets: Sequence[str]) -> str:
    """A text without these words, and without the user of any address."""
    for secret in sorted(secrets, key=len, reverse=True):
        text = text.replace(secret, MASK)
    return USER.sub("//", text)


def _reason(text: str, error: Exception) -> str:
    for pattern, meaning in ANSWERS:
        if found := re.search(pattern, text):
            return meaning.format(*found.groups())
    status = _status(error)
    if status == TOO_LARGE:
        return "it takes no file of that size; tracker.mlflow.models=false leaves models out"
    if status:
        return f"it answers {status}"
    said = str(getattr(error, "message", "") or text)
    return (said.strip().splitlines() or [type(error).__name__])[0][:300]


def _is_final(error: Exception, status: int | None) -> bool:
    if status is not None:
        return 400 < status < 500 and status not in PASSING
    if type(error).__name__ == "InvalidUrlException":
        return True
    return getattr(error, "error_code", None) in REFUSALS


def _status(error: Exception) -> int | None:
    """What was answered, where it was an answer."""
    status = getattr(getattr(error, "response", None), "status_code", None)
    if isinstance(status, int):
        return status
    found = re.search(r"failed with error code (\d+) !=", str(error))
    return int(found[1]) if found else None


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


def make_client(place: MLflowLocation, timeout: float, own: str) -> "MlflowClient":
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


ID = "rlexp.run"
"""The tag by which a run is found again, whoever made it."""
PARENT = "mlflow.parentRunId"


@dataclass(frozen=True, slots=True)
class Latest:
    """The newest value of a metric, and when it was told, in milliseconds since 1970."""

    value: float
    time: int


@dataclass(frozen=True, slots=True)
class MLflowRun:
    """A run as MLflow has it.

    Attributes:
        id: As MLflow names it.
        status: As MLflow names it.
        tags: By key.
        parameters: Their keys.
        metrics: The newest value of each.
        artifacts: Where its artifacts are.
    """

    id: str
    status: str
    tags: Mapping[str, str]
    parameters: frozenset[str]
    metrics: Mapping[str, Latest]
    artifacts: str


class Service:
    """An experiment of MLflow. Every method raises only what a tracker may raise."""

    def __init__(self, place: MLflowLocation, timeout: float, own: str) -> None:
        """Set MLflow up in this whole process; nothing is asked for yet.

        Args:
            place: Where to.
            timeout: Seconds of one request.
            own: Letters that no other process uses at the same time.

        Raises:
            TrackerRefused: It is not installed, or the place is none.
            TrackerUnreachable: The database is locked.
        """
        check_location(place)
        self._place = place
        self._experiment = ""
        with tracker_errors(place):
            self._client = make_client(place, timeout, own)

    @property
    def shown(self) -> str:
        """How messages name it."""
        return self._place.shown

    def enter(self, name: str) -> None:
        """Find or make the experiment."""
        with tracker_errors(self._place):
            found = self._client.get_experiment_by_name(name)
            if found is None:
                self._experiment = self._make(name)
                return
            if found.lifecycle_stage == "deleted":
                raise TrackerRefused(
                    f"the experiment {name} in MLflow at {self._place.shown} was deleted: restore "
                    f"it (mlflow experiments restore --experiment-id {found.experiment_id}), or "
                    "name another one by tracker.mlflow.experiment"
                )
            self._experiment = self._sensible(found.experiment_id)

    def find(self, own: str) -> list[MLflowRun]:
        """The runs that have an id of ours: one, or more after a request that was too slow."""
        with tracker_errors(self._place):
            runs = self._client.search_runs(
                [self._experiment], f"tags.`{ID}` = '{own}'", max_results=20
            )
            return [_as_run(run) for run in runs]

    def create(self, own: str, name: str, started: float, tags: Sequence[Text]) -> MLflowRun:
        """Make a run with an id of ours."""
        with tracker_errors(self._place):
            run = self._client.create_run(
                self._experiment,
                start_time=int(started * 1000),
                tags={ID: own, **dict(tags)},
                run_name=readable(name, NAME),
            )
            self._sensible(run.info.run_id)
            return _as_run(run)

    def delete(self, run: str) -> None:
        """Move a run to MLflow's bin."""
        with tracker_errors(self._place):
            self._client.delete_run(run)

    def write(self, run: str, tags: Sequence[Text] = (), parameters: Sequence[Text] = ()) -> None:
        """Write parameters, and then tags."""
        from mlflow.entities import Param, RunTag

        with tracker_errors(self._place):
            for batch in batches(parameters, PARAMETERS):
                self._client.log_batch(run, params=[Param(k, v) for k, v in batch])
            for batch in batches(tags, PARAMETERS):
                self._client.log_batch(run, tags=[RunTag(k, v) for k, v in batch])

    def measure(self, run: str, metrics: Iterable[MetricValue], tags: Sequence[Text] = ()) -> None:
        """Write values of metrics that fit into a request, and after them a few tags."""
        from mlflow.entities import Metric, RunTag

        with tracker_errors(self._place):
            self._client.log_batch(
                run,
                metrics=[Metric(m.key, m.value, m.time, m.step) for m in metrics],
                tags=[RunTag(k, v) for k, v in tags],
            )

    def untag(self, run: str, keys: Iterable[str]) -> None:
        """Take tags away that are there."""
        with tracker_errors(self._place):
            for key in keys:
                self._client.delete_tag(run, key)

    def upload(self, run: str, name: str, content: Path | str) -> None:
        """Put a file, or a text, under a name that may hold folders."""
        path = PurePosixPath(name)
        folder = str(path.parent) if path.parent.name else None
        with tracker_errors(self._place), tempfile.TemporaryDirectory() as temporary:
            named = Path(temporary) / path.name
            if isinstance(content, Path):
                named.symlink_to(content.absolute())
            else:
                named.write_text(content, encoding="utf-8", errors="backslashreplace")
            self._client.log_artifact(run, str(named), folder)

    def holds(self, run: str, name: str) -> bool:
        """Whether a run has an artifact in a folder of that name."""
        with tracker_errors(self._place):
            return any(file.path == name for file in self._client.list_artifacts(run))

    def stands(self, run: str, status: str, ended: float | None = None) -> None:
        """Say whether a run is `RUNNING`, or how and when it ended, in seconds since 1970."""
        with tracker_errors(self._place):
            if ended is None:
                self._client.update_run(run, status)
            else:
                self._client.set_terminated(run, status, int(ended * 1000))

    def register(self, name: str, run: MLflowRun, folder: str, tags: Mapping[str, str]) -> None:
        """Make a version of a registered model of a run's artifacts, once."""
        with tracker_errors(self._place):
            versions = self._client.search_model_versions(f"run_id='{run.id}'")
            known = [version for version in versions if version.name == name]
            for version in known:
                for key, value in tags.items():
                    self._client.set_model_version_tag(name, version.version, key, value)
            if known:
                return
            self._make_model(name)
            self._client.create_model_version(
                name, f"{run.artifacts}/{folder}", run.id, dict(tags), await_creation_for=0
            )

    def _make(self, name: str) -> str:
        from mlflow.exceptions import MlflowException

        try:
            made = self._client.create_experiment(name, self._place.artifacts)
        except MlflowException as error:
            if error.error_code != "RESOURCE_ALREADY_EXISTS":
                raise
            found = self._client.get_experiment_by_name(name)
            made = found.experiment_id if found else ""
        return self._sensible(made)

    def _make_model(self, name: str) -> None:
        from mlflow.exceptions import MlflowException

        try:
            self._client.create_registered_model(name)
        except MlflowException as error:
            if error.error_code != "RESOURCE_ALREADY_EXISTS":
                raise

    def _sensible(self, made: str) -> str:
        """An id that MLflow gave; something in its place answers `{}` to everything."""
        if not made:
            raise TrackerUnreachable(f"what answers at {self._place.shown} is not MLflow")
        return made


def _as_run(run: "Run") -> MLflowRun:
    metrics: Iterable[Any] = run.to_proto().data.metrics
    return MLflowRun(
        id=run.info.run_id,
        status=run.info.status,
        tags=run.data.tags,
        parameters=frozenset(run.data.params),
        metrics={m.key: Latest(m.value, m.timestamp) for m in metrics},
        artifacts=run.info.artifact_uri,
    )
