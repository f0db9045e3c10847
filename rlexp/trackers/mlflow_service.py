"""The calls of MLflow's client that the tracker makes, bounded in time and size."""

import tempfile
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path, PurePosixPath
from typing import TYPE_CHECKING, Any

from rlexp.errors import TrackerRefused, TrackerUnreachable
from rlexp.trackers.mlflow_client import make_client
from rlexp.trackers.mlflow_faults import one_line
from rlexp.trackers.mlflow_limits import (
    NAME,
    PARAMETERS,
    Measured,
    Text,
    batches,
    readable,
)
from rlexp.trackers.mlflow_places import Place, check_place

if TYPE_CHECKING:
    from mlflow.entities import Run

ID = "rlexp.run"
"""The tag by which a run is found again, whoever made it."""
PARENT = "mlflow.parentRunId"


@dataclass(frozen=True, slots=True)
class Latest:
    """The newest value of a metric, and when it was told, in milliseconds since 1970."""

    value: float
    time: int


@dataclass(frozen=True, slots=True)
class Found:
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

    def __init__(self, place: Place, timeout: float, own: str) -> None:
        """Set MLflow up in this whole process; nothing is asked for yet.

        Args:
            place: Where to.
            timeout: Seconds of one request.
            own: Letters that no other process uses at the same time.

        Raises:
            TrackerRefused: It is not installed, or the place is none.
            TrackerUnreachable: The database is locked.
        """
        check_place(place)
        self._place = place
        self._experiment = ""
        with one_line(place):
            self._client = make_client(place, timeout, own)

    @property
    def shown(self) -> str:
        """How messages name it."""
        return self._place.shown

    def enter(self, name: str) -> None:
        """Find or make the experiment."""
        with one_line(self._place):
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

    def find(self, own: str) -> list[Found]:
        """The runs that have an id of ours: one, or more after a request that was too slow."""
        with one_line(self._place):
            runs = self._client.search_runs(
                [self._experiment], f"tags.`{ID}` = '{own}'", max_results=20
            )
            return [_found(run) for run in runs]

    def create(self, own: str, name: str, started: float, tags: Sequence[Text]) -> Found:
        """Make a run with an id of ours."""
        with one_line(self._place):
            run = self._client.create_run(
                self._experiment,
                start_time=int(started * 1000),
                tags={ID: own, **dict(tags)},
                run_name=readable(name, NAME),
            )
            self._sensible(run.info.run_id)
            return _found(run)

    def delete(self, run: str) -> None:
        """Move a run to MLflow's bin."""
        with one_line(self._place):
            self._client.delete_run(run)

    def write(self, run: str, tags: Sequence[Text] = (), parameters: Sequence[Text] = ()) -> None:
        """Write parameters, and then tags."""
        from mlflow.entities import Param, RunTag

        with one_line(self._place):
            for batch in batches(parameters, PARAMETERS):
                self._client.log_batch(run, params=[Param(k, v) for k, v in batch])
            for batch in batches(tags, PARAMETERS):
                self._client.log_batch(run, tags=[RunTag(k, v) for k, v in batch])

    def measure(self, run: str, metrics: Iterable[Measured], tags: Sequence[Text] = ()) -> None:
        """Write values of metrics that fit into a request, and after them a few tags."""
        from mlflow.entities import Metric, RunTag

        with one_line(self._place):
            self._client.log_batch(
                run,
                metrics=[Metric(m.key, m.value, m.time, m.step) for m in metrics],
                tags=[RunTag(k, v) for k, v in tags],
            )

    def untag(self, run: str, keys: Iterable[str]) -> None:
        """Take tags away that are there."""
        with one_line(self._place):
            for key in keys:
                self._client.delete_tag(run, key)

    def upload(self, run: str, name: str, content: Path | str) -> None:
        """Put a file, or a text, under a name that may hold folders."""
        path = PurePosixPath(name)
        folder = str(path.parent) if path.parent.name else None
        with one_line(self._place), tempfile.TemporaryDirectory() as temporary:
            named = Path(temporary) / path.name
            if isinstance(content, Path):
                named.symlink_to(content.absolute())
            else:
                named.write_text(content, encoding="utf-8", errors="backslashreplace")
            self._client.log_artifact(run, str(named), folder)

    def holds(self, run: str, name: str) -> bool:
        """Whether a run has an artifact in a folder of that name."""
        with one_line(self._place):
            return any(file.path == name for file in self._client.list_artifacts(run))

    def stands(self, run: str, status: str, ended: float | None = None) -> None:
        """Say whether a run is `RUNNING`, or how and when it ended, in seconds since 1970."""
        with one_line(self._place):
            if ended is None:
                self._client.update_run(run, status)
            else:
                self._client.set_terminated(run, status, int(ended * 1000))

    def register(self, name: str, run: Found, folder: str, tags: Mapping[str, str]) -> None:
        """Make a version of a registered model of a run's artifacts, once."""
        with one_line(self._place):
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


def _found(run: "Run") -> Found:
    metrics: Iterable[Any] = run.to_proto().data.metrics
    return Found(
        id=run.info.run_id,
        status=run.info.status,
        tags=run.data.tags,
        parameters=frozenset(run.data.params),
        metrics={m.key: Latest(m.value, m.timestamp) for m in metrics},
        artifacts=run.info.artifact_uri,
    )
