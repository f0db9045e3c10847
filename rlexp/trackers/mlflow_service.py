"""The connection to MLflow: its client, its calls with limits, and the meaning of its errors."""

import base64
import logging
import math
import os
import re
import tempfile
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path, PurePosixPath
from typing import TYPE_CHECKING, Any
from urllib.parse import quote

from rlexp.errors import RlexpError, TrackerRefused, TrackerUnreachable
from rlexp.trackers.mlflow_bookkeeping import bookkeeping_of, filter_of, step_of
from rlexp.trackers.mlflow_limits import (
    NAME,
    PARAMETERS,
    MetricValue,
    Text,
    batches,
    readable,
)
from rlexp.trackers.mlflow_uri import (
    MLflowLocation,
    check_database,
    check_location,
    curves_page,
    make_database,
)
from rlexp.trackers.viewing import not_installed

if TYPE_CHECKING:
    from mlflow import MlflowClient
    from mlflow.entities import Run


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
"""MLflow's error codes that a repetition does not cure. BAD_REQUEST is not among them: MLflow also
uses it for a database that is temporarily unavailable."""
LOGIN = {"UNAUTHENTICATED", "CUSTOMER_UNAUTHORIZED", "PERMISSION_DENIED"}
PASSING = {408, 425, 429}
"""HTTP status codes 4xx that ask to try again later."""
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
"""Patterns in long messages of libraries, and their meaning in plain words."""
DENIED = re.compile(
    r"unauthori[sz]ed|not authenticated|forbidden|access denied|invalid (token|credentials)",
    re.IGNORECASE,
)
USER = re.compile(r"//[^/@\s'\"]+@")


@contextmanager
def tracker_errors(location: MLflowLocation) -> Iterator[None]:
    """Convert every error of MLflow and its libraries into a tracker error without secrets.

    Raises:
        TrackerUnreachable: A later try may succeed.
        TrackerRefused: A later try will fail in the same way.
    """
    try:
        yield
    except RlexpError:
        raise
    except Exception as error:  # noqa: BLE001 its libraries raise any type
        # Without the cause, whose text holds the address with its password.
        raise tracker_error(error, location) from None


def tracker_error(error: Exception, location: MLflowLocation) -> RlexpError:
    """The tracker error for an error of MLflow or one of its libraries."""
    if isinstance(error, ImportError):
        missing = error.name or str(error)
        if missing == "mlflow":
            return not_installed("mlflow")
        return TrackerRefused(
            f"MLflow at {location.shown} needs the package {missing}, which is not installed"
        )
    text = f"{type(error).__name__}: {error}"
    status = _status(error)
    login = getattr(error, "error_code", None) in LOGIN or status in {401, 403}
    if login or (hasattr(error, "json") and DENIED.search(text)):
        return TrackerRefused(
            f"MLflow at {location.shown} rejected the credentials: set "
            "MLFLOW_TRACKING_USERNAME and MLFLOW_TRACKING_PASSWORD, or MLFLOW_TRACKING_TOKEN"
        )
    reason = mask_secrets(_reason(text, error), secrets_of(location))
    if _is_final(error, status):
        return TrackerRefused(f"MLflow at {location.shown} rejected the request: {reason}")
    return TrackerUnreachable(f"MLflow at {location.shown} cannot be used now: {reason}")


def secrets_of(location: MLflowLocation) -> Sequence[str]:
    """Texts that no message may contain: credentials of the address and of the variables."""
    password = os.environ.get("MLFLOW_TRACKING_PASSWORD", "")
    token = os.environ.get("MLFLOW_TRACKING_TOKEN", "")
    login = f"{os.environ.get('MLFLOW_TRACKING_USERNAME', '')}:{password}"
    basic = base64.b64encode(login.encode()).decode() if password else ""
    return [*location.secrets, *(s for s in (basic, password, token) if s)]


def mask_secrets(text: str, secrets: Sequence[str]) -> str:
    """The text with these secrets masked, and without the user of any address."""
    # The longest first: a secret may be part of another one.
    for secret in sorted(secrets, key=len, reverse=True):
        text = text.replace(secret, MASK)
    return USER.sub("//", text)


def _reason(text: str, error: Exception) -> str:
    for pattern, meaning in ANSWERS:
        if match := re.search(pattern, text):
            return meaning.format(*match.groups())
    status = _status(error)
    if status == TOO_LARGE:
        return "the file is too large for the server; tracker.mlflow.models=false skips models"
    if status:
        return f"it answers {status}"
    message = str(getattr(error, "message", "") or text)
    return (message.strip().splitlines() or [type(error).__name__])[0][:300]


def _is_final(error: Exception, status: int | None) -> bool:
    if status is not None:
        return 400 < status < 500 and status not in PASSING
    if type(error).__name__ == "InvalidUrlException":
        return True
    return getattr(error, "error_code", None) in REFUSALS


def _status(error: Exception) -> int | None:
    """The HTTP status of the answer; None if there was no answer."""
    status = getattr(getattr(error, "response", None), "status_code", None)
    if isinstance(status, int):
        return status
    match = re.search(r"failed with error code (\d+) !=", str(error))
    return int(match[1]) if match else None


SERVED = "mlflow-artifacts:/"
"""The default artifact location of `mlflow ui`, for experiments that other programs create."""
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


def make_client(location: MLflowLocation, timeout: float, unique: str) -> "MlflowClient":
    """The client of a location; a missing database is created.

    Args:
        location: The server or database.
        timeout: Seconds of one request.
        unique: Letters that no other process uses at the same time.

    Raises:
        TrackerRefused: The database cannot be written by this version of MLflow.
        TrackerUnreachable: The database is locked.
        ImportError: MLflow or a package that it needs is not installed.
        Exception: Any error of MLflow.
    """
    _prepare(timeout)
    from mlflow import MlflowClient

    if location.file is not None:
        make_database(location.file, unique, _make_tables)
        check_database(location.file, _revision())
    return MlflowClient(location.uri, location.uri)


def _prepare(timeout: float) -> None:
    """Set MLflow's limits, which it reads from environment variables only."""
    # MLflow itself would repeat a request for four minutes without a way to stop it. The mirror
    # process repeats requests instead, and it can be stopped.
    os.environ["MLFLOW_HTTP_REQUEST_MAX_RETRIES"] = "0"
    os.environ["MLFLOW_HTTP_REQUEST_TIMEOUT"] = str(math.ceil(timeout))
    os.environ.update(SILENT)
    logging.getLogger("mlflow").setLevel(logging.CRITICAL)


def _make_tables(file: Path) -> None:
    from mlflow.store.tracking.sqlalchemy_store import SqlAlchemyStore

    SqlAlchemyStore(f"sqlite:///{file}", SERVED).engine.dispose()


def _revision() -> str:
    """The schema version of the installed MLflow."""
    from mlflow.store.db.utils import _get_latest_schema_revision

    return str(_get_latest_schema_revision())


PARENT = "mlflow.parentRunId"
DATASET_NAME = 500
DATASET_DIGEST = 36
"""Most characters of a dataset's digest, which MLflow shows in parentheses after its name."""


@dataclass(frozen=True, slots=True)
class Latest:
    """The newest value of a metric, and its time in milliseconds since 1970."""

    value: float
    time: int


@dataclass(frozen=True, slots=True)
class MLflowRun:
    """A run as MLflow stores it.

    Attributes:
        id: MLflow's id.
        status: MLflow's status.
        tags: Tags by key.
        name: Its name.
        parameters: Keys of the parameters.
        metrics: The newest value of each metric.
        artifacts: The URI of the artifacts.
    """

    id: str
    status: str
    name: str
    tags: Mapping[str, str]
    parameters: frozenset[str]
    metrics: Mapping[str, Latest]
    artifacts: str

    @property
    def kept(self) -> dict[str, Any]:
        """What the tracker itself keeps of the run."""
        return bookkeeping_of(self.tags)

    @property
    def step(self) -> int:
        """The step up to which all rows are stored; -1 for none."""
        return step_of(self.kept)


class Service:
    """One experiment of MLflow. Its methods raise tracker errors only."""

    def __init__(self, location: MLflowLocation, timeout: float, unique: str) -> None:
        """Set MLflow up for this whole process; no request is sent yet.

        Args:
            location: The server or database.
            timeout: Seconds of one request.
            unique: Letters that no other process uses at the same time.

        Raises:
            TrackerRefused: MLflow is not installed, or the location cannot be used.
            TrackerUnreachable: The database is locked.
        """
        check_location(location)
        self._location = location
        self._experiment = ""
        with tracker_errors(location):
            self._client = make_client(location, timeout, unique)

    @property
    def shown(self) -> str:
        """The name of the location in messages."""
        return self._location.shown

    def enter(self, name: str) -> str:
        """Find or create the experiment; returns MLflow's id of it."""
        with tracker_errors(self._location):
            experiment = self._client.get_experiment_by_name(name)
            if experiment is None:
                self._experiment = self._make(name)
                return self._experiment
            if experiment.lifecycle_stage == "deleted":
                raise TrackerRefused(
                    f"the experiment {name} in MLflow at {self._location.shown} was deleted: restore "
                    f"it (mlflow experiments restore --experiment-id {experiment.experiment_id}), or "
                    "choose another name with tracker.mlflow.experiment"
                )
            self._experiment = self._checked_id(experiment.experiment_id)
            return self._experiment

    def find(self, run_id: str) -> list[MLflowRun]:
        """The runs with this tag: normally one, several after requests that timed out."""
        with tracker_errors(self._location):
            runs = self._client.search_runs([self._experiment], filter_of(run_id), max_results=20)
            return [_as_run(run) for run in runs]

    def has_children(self, run: str) -> bool:
        """Whether runs are nested below this one."""
        with tracker_errors(self._location):
            nested = f"tags.`{PARENT}` = '{run}'"
            return bool(self._client.search_runs([self._experiment], nested, max_results=1))

    def last_end(self, parent: str) -> float | None:
        """When the last run below a parent has ended, in seconds since 1970; None for none."""
        with tracker_errors(self._location):
            runs = self._client.search_runs(
                [self._experiment],
                f"tags.`{PARENT}` = '{parent}'",
                order_by=["attributes.end_time DESC"],
                max_results=1,
            )
            ends = [run.info.end_time for run in runs if run.info.end_time is not None]
            return ends[0] / 1000 if ends else None

    def create(self, name: str, started: float, tags: Sequence[Text]) -> MLflowRun:
        """Create a run with these tags, one of which is its bookkeeping."""
        with tracker_errors(self._location):
            run = self._client.create_run(
                self._experiment,
                start_time=int(started * 1000),
                tags=dict(tags),
                run_name=readable(name, NAME),
            )
            self._checked_id(run.info.run_id)
            return _as_run(run)

    def rename(self, run: str, name: str) -> None:
        """Give a run another name."""
        with tracker_errors(self._location):
            self._client.update_run(run, name=readable(name, NAME))

    def add_dataset(self, run: str, task: str, seeds: str) -> None:
        """Name the task and the seeds of a run as its dataset; a second call changes nothing."""
        from mlflow.entities import Dataset, DatasetInput

        dataset = Dataset(
            name=readable(task, DATASET_NAME),
            digest=readable(seeds, DATASET_DIGEST),
            source_type="rlexp",
            source=readable(task, DATASET_NAME),
        )
        with tracker_errors(self._location):
            self._client.log_inputs(run, [DatasetInput(dataset)])

    def experiment_tags(self) -> dict[str, str]:
        """The tags of the experiment."""
        with tracker_errors(self._location):
            return dict(self._client.get_experiment(self._experiment).tags)

    def tag_experiment(self, tags: Mapping[str, str]) -> None:
        """Write tags of the experiment."""
        with tracker_errors(self._location):
            for key, value in tags.items():
                self._client.set_experiment_tag(self._experiment, key, value)

    def curves_page(self) -> str:
        """The address of the experiment's curves within the pages of MLflow."""
        return curves_page(self._experiment)

    def artifact_page(self, run: str, name: str) -> str:
        """The address of an artifact within the pages of MLflow."""
        return f"#/experiments/{self._experiment}/runs/{run}/artifacts/{quote(name)}"

    def delete(self, run: str) -> None:
        """Mark a run as deleted; MLflow can restore it."""
        with tracker_errors(self._location):
            self._client.delete_run(run)

    def write(self, run: str, tags: Sequence[Text] = (), parameters: Sequence[Text] = ()) -> None:
        """Write parameters, and then tags."""
        from mlflow.entities import Param, RunTag

        with tracker_errors(self._location):
            for batch in batches(parameters, PARAMETERS):
                self._client.log_batch(run, params=[Param(k, v) for k, v in batch])
            for batch in batches(tags, PARAMETERS):
                self._client.log_batch(run, tags=[RunTag(k, v) for k, v in batch])

    def measure(self, run: str, metrics: Iterable[MetricValue], tags: Sequence[Text] = ()) -> None:
        """Write values of metrics that fit into one request, together with a few tags."""
        from mlflow.entities import Metric, RunTag

        with tracker_errors(self._location):
            self._client.log_batch(
                run,
                metrics=[Metric(m.key, m.value, m.time, m.step) for m in metrics],
                tags=[RunTag(k, v) for k, v in tags],
            )

    def untag(self, run: str, keys: Iterable[str]) -> None:
        """Remove existing tags."""
        with tracker_errors(self._location):
            for key in keys:
                self._client.delete_tag(run, key)

    def upload(self, run: str, name: str, content: Path | str) -> None:
        """Upload a file or a text under a name, which may contain folders."""
        path = PurePosixPath(name)
        folder = str(path.parent) if path.parent.name else None
        with tracker_errors(self._location), tempfile.TemporaryDirectory() as temporary:
            local_file = Path(temporary) / path.name
            if isinstance(content, Path):
                # MLflow takes the artifact's name from the file's name; a link renames without a
                # copy.
                local_file.symlink_to(content.absolute())
            else:
                local_file.write_text(content, encoding="utf-8", errors="backslashreplace")
            self._client.log_artifact(run, str(local_file), folder)

    def holds(self, run: str, name: str) -> bool:
        """Whether a run has an artifact or a folder of this name."""
        with tracker_errors(self._location):
            return any(file.path == name for file in self._client.list_artifacts(run))

    def set_status(self, run: str, status: str, ended: float | None = None) -> None:
        """Set the status of a run, and the end in seconds since 1970 unless it is `RUNNING`."""
        with tracker_errors(self._location):
            if ended is None:
                self._client.update_run(run, status)
            else:
                self._client.set_terminated(run, status, int(ended * 1000))

    def register(self, name: str, run: MLflowRun, folder: str, tags: Mapping[str, str]) -> None:
        """Register a run's artifacts as a model version; a second call only updates its tags."""
        with tracker_errors(self._location):
            versions = self._client.search_model_versions(f"run_id='{run.id}'")
            registered = [version for version in versions if version.name == name]
            for version in registered:
                for key, value in tags.items():
                    self._client.set_model_version_tag(name, version.version, key, value)
            if registered:
                return
            self._make_model(name)
            # By default MLflow would wait up to five minutes until the version is ready.
            self._client.create_model_version(
                name, f"{run.artifacts}/{folder}", run.id, dict(tags), await_creation_for=0
            )

    def _make(self, name: str) -> str:
        from mlflow.exceptions import MlflowException

        try:
            experiment_id = self._client.create_experiment(name, self._location.artifacts)
        except MlflowException as error:
            # Another process may have created it since `get_experiment_by_name`.
            if error.error_code != "RESOURCE_ALREADY_EXISTS":
                raise
            experiment = self._client.get_experiment_by_name(name)
            experiment_id = experiment.experiment_id if experiment else ""
        return self._checked_id(experiment_id)

    def _make_model(self, name: str) -> None:
        from mlflow.exceptions import MlflowException

        try:
            self._client.create_registered_model(name)
        except MlflowException as error:
            if error.error_code != "RESOURCE_ALREADY_EXISTS":
                raise

    def _checked_id(self, mlflow_id: str) -> str:
        """The id that MLflow gave; an empty one comes from a server that is not MLflow."""
        if not mlflow_id:
            raise TrackerUnreachable(f"the server at {self._location.shown} is not MLflow")
        return mlflow_id


def _as_run(run: "Run") -> MLflowRun:
    # `run.data.metrics` has values only, without their times.
    metrics: Iterable[Any] = run.to_proto().data.metrics
    return MLflowRun(
        id=run.info.run_id,
        status=run.info.status,
        name=run.info.run_name,
        tags=run.data.tags,
        parameters=frozenset(run.data.params),
        metrics={m.key: Latest(m.value, m.timestamp) for m in metrics},
        artifacts=run.info.artifact_uri,
    )
