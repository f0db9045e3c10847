"""The MLflow tracker: an MLflow run for each run, nested below a run for its group."""

import json
import os
import shlex
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from hashlib import sha256
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Annotated, Any, ClassVar

from annotated_types import Ge, Len

from rlexp.errors import TrackerRefused, TrackerUnreachable
from rlexp.trackers import (
    ExperimentSummary,
    MetricRow,
    RunEnd,
    SyncPosition,
    TrackedExperiment,
    TrackedRun,
    TrackerConnection,
)
from rlexp.trackers.mlflow_limits import (
    MetricValue,
    metric_batches,
    parameters_of,
    readable,
    tags_of,
)
from rlexp.trackers.mlflow_service import PARENT, MLflowRun, Service
from rlexp.trackers.mlflow_summary import MODEL, SummaryWriter
from rlexp.trackers.mlflow_uri import find_location
from rlexp.trackers.viewing import shown_path

STATUS = {"completed": "FINISHED", "pruned": "FINISHED", "failed": "FAILED"}
"""MLflow's status by state; every other state (the run may continue) becomes KILLED."""
STEP = "rlexp.step"
"""The tag with the sync position: the run has every row up to this step."""
DESCRIBED = "rlexp.described"
"""The tag with the digest of the configuration and provenance that were uploaded."""
PAGE = "#/experiments?workflowType=machine_learning"
"""The list of experiments; without the last part it opens on pages for language models."""
NAME = "mlflow.runName"
"""The tag with the name that MLflow shows for a run."""
OF_END = ("failure", "reason")
"""Tags that are removed again when a later attempt ends without them."""
MODELS = ("model.zip", "normalisation.npz")


@dataclass(frozen=True, slots=True, kw_only=True)
class MLflow:
    """An MLflow server, or a SQLite database beside `runs/` that `mlflow ui` shows."""

    package: ClassVar[str] = "mlflow"

    uri: Annotated[str, Len(1)] | None = None
    experiment: Annotated[str, Len(1, 250)] | None = None
    models: bool = True
    register: Annotated[str, Len(1, 250)] | None = None
    timeout: Annotated[float, Ge(1)] = 10.0
    wait: Annotated[float, Ge(0)] = 10.0
    required: bool = False

    def destination(self, project: Path) -> str:
        """The server's address or the database's file, followed by the experiment if it is set."""
        shown = find_location(self.uri, project, os.environ).shown
        return shown if self.experiment is None else f"{shown} {self.experiment}"

    def where_to_look(self, project: Path, folder: Path) -> str:  # noqa: ARG002 files lie elsewhere
        """The link to the server; for a file, the command that starts a server and its link."""
        location = find_location(self.uri, project, os.environ)
        if location.file is None:
            return f"{location.shown}/{PAGE}"
        store = f"sqlite:///{shown_path(location.file, project.resolve())}"
        command = shlex.join(["mlflow", "ui", "--backend-store-uri", store])
        return f"{command}, then http://127.0.0.1:5000/{PAGE}"

    def open(self, experiment: TrackedExperiment) -> TrackerConnection:
        """Connect, and find or create the MLflow experiment; see `Tracker.open`."""
        if self.register is not None and not self.models:
            raise TrackerRefused(
                "tracker.mlflow.register needs tracker.mlflow.models=true: a model that is not "
                "uploaded cannot be registered"
            )
        if self.register is not None and set("/:") & set(self.register):
            raise TrackerRefused("tracker.mlflow.register must not contain / or :")
        location = find_location(self.uri, experiment.project, os.environ)
        if experiment.shared and location.file is not None:
            raise TrackerRefused(
                f"several machines may write {location.file}, which can damage a SQLite file: start "
                "'mlflow server' on one of them and set tracker.mlflow.uri to its address"
            )
        service = Service(location, self.timeout, experiment.id)
        service.enter(readable(self.experiment or experiment.name, 250))
        return MLflowSink(service, experiment, self)


@dataclass(slots=True)
class _OpenMlflowRun:
    """A run after `begin`: its id at MLflow, and its sync position."""

    id: str
    step: int


@dataclass(slots=True)
class MLflowSink:
    """Uploads the runs of an experiment; the tag with its id identifies each MLflow run."""

    service: Service
    experiment: TrackedExperiment
    settings: MLflow
    _open: dict[str, _OpenMlflowRun] = field(default_factory=dict)
    _parents: dict[str, str] = field(default_factory=dict)

    def begin(self, run: TrackedRun, reached: SyncPosition) -> SyncPosition:  # noqa: ARG002 it may lag
        """Find or create the run and describe it; see `TrackerConnection.begin`.

        The position is read from the run's tag, which is newer than `reached` after a crash.
        """
        mlflow_run = self._find(run.id) or self._make(run)
        step = _step(mlflow_run)
        if mlflow_run.status != "RUNNING":
            self.service.set_status(mlflow_run.id, "RUNNING")
        self._describe(mlflow_run, run)
        self._open[run.id] = _OpenMlflowRun(mlflow_run.id, step)
        return SyncPosition(step=step)

    def push(self, run: TrackedRun, rows: Sequence[MetricRow]) -> SyncPosition:
        """Upload rows in large requests, each of which also sets the position; see `TrackerConnection.push`."""
        open_run = self._open[run.id]
        for portion in metric_batches(rows):
            tags = [] if portion.step is None else [(STEP, str(portion.step))]
            # Metrics and the tag with the position travel in one request: the position can never be
            # ahead of the rows.
            self.service.measure(open_run.id, portion.metrics, tags)
            open_run.step = max(open_run.step, -1 if portion.step is None else portion.step)
        return SyncPosition(step=open_run.step)

    def end(self, run: TrackedRun, ended: RunEnd) -> SyncPosition:
        """Write the end of the run and upload its files; see `TrackerConnection.end`."""
        open_run = self._open[run.id]
        mlflow_run = self._find(run.id)
        # A server that was restored from a backup, for instance.
        if mlflow_run is None or _step(mlflow_run) < open_run.step:
            raise TrackerUnreachable(
                f"MLflow at {self.service.shown} lost rows of the run {run.name}; "
                "they are uploaded again later"
            )
        tags = _end_tags(ended)
        self.service.untag(
            mlflow_run.id, [k for k in OF_END if tags[k] is None and k in mlflow_run.tags]
        )
        if ended.score is not None:
            when = max(int(ended.time * 1000), 0)
            self.service.measure(
                mlflow_run.id, [MetricValue("score", ended.score, when, ended.step)]
            )
        self.service.write(mlflow_run.id, tags_of(tags))
        for name, path in ended.files.items():
            if name not in MODELS:
                self.service.upload(mlflow_run.id, name, path)
            elif self.settings.models:
                self.service.upload(mlflow_run.id, f"{MODEL}/{name}", path)
        self.service.set_status(mlflow_run.id, STATUS.get(ended.state, "KILLED"), ended.time)
        return SyncPosition(step=open_run.step)

    def summarise(self, summary: ExperimentSummary) -> None:
        """Write the results of each group to the group's run; see `TrackerConnection.summarise`."""
        SummaryWriter(self.service, self._parent, self.settings.register)(summary)

    def close(self) -> None:
        """Forget all runs; nothing stays open."""
        self._open.clear()
        self._parents.clear()

    def _find(self, run_id: str) -> MLflowRun | None:
        """The MLflow run with this tag; None if there is none.

        The server may still carry out a request that timed out here, so that a run is created
        twice. The one with more rows is kept, the other is deleted.
        """
        matches = sorted(self.service.find(run_id), key=lambda run: (-_step(run), run.id))
        for duplicate in matches[1:]:
            self.service.delete(duplicate.id)
        return matches[0] if matches else None

    def _make(self, run: TrackedRun) -> MLflowRun:
        parent = self._parents.get(run.group) or self._reopen(run.group)
        tags = {PARENT: parent, **self._group_tags(run.group), **_run_tags(run)}
        return self.service.create(run.id, _run_name(run), run.started, tags_of(tags))

    def _parent(self, group: str) -> MLflowRun:
        """The MLflow run of a group, created if it is missing."""
        group_id = sha256(f"{self.experiment.id}/{group}".encode()).hexdigest()[:32]
        parent = self._find(group_id)
        if parent is None:
            parent = self.service.create(
                group_id, group, time.time(), tags_of(self._group_tags(group))
            )
        if DESCRIBED not in parent.tags:
            definition = _json(self.experiment.definition)
            self.service.upload(parent.id, "experiment.json", definition)
            self.service.write(parent.id, [(DESCRIBED, _digest(definition))])
        self._parents[group] = parent.id
        return parent

    def _reopen(self, group: str) -> str:
        """The id of the group's run, which is reopened if it was finished."""
        parent = self._parent(group)
        if parent.status != "RUNNING":
            self.service.set_status(parent.id, "RUNNING")
        return parent.id

    def _group_tags(self, group: str) -> dict[str, Any]:
        return {
            "rlexp.experiment": self.experiment.id,
            "rlexp.group": group,
            "rlexp.version": _version(),
        }

    def _describe(self, mlflow_run: MLflowRun, run: TrackedRun) -> None:
        """Upload the configuration and the provenance, unless the run already has them."""
        configuration, provenance = _json(run.configuration), _json(run.provenance)
        # A run may have been created before its label was known.
        tags = {NAME: _run_name(run), "rlexp.group": run.group, **_run_tags(run)}
        described = _digest(configuration + provenance + _json(tags))
        if mlflow_run.tags.get(DESCRIBED) == described:
            return
        parent = self._parents.get(run.group) or self._parent(run.group).id
        parameters = parameters_of(run.configuration)
        # MLflow refuses a request that sets a parameter a second time.
        new_parameters = [
            (key, value) for key, value in parameters if key not in mlflow_run.parameters
        ]
        self.service.write(mlflow_run.id, parameters=new_parameters)
        self.service.upload(mlflow_run.id, "configuration.json", configuration)
        self.service.upload(mlflow_run.id, "provenance.json", provenance)
        self.service.write(
            mlflow_run.id,
            [*tags_of({PARENT: parent, **tags}), (DESCRIBED, described)],
        )
        self._leave(mlflow_run.tags.get(PARENT, parent), parent)

    def _leave(self, before: str, parent: str) -> None:
        """Delete the run of a group that its last run has left for another group."""
        if before != parent and not self.service.has_children(before):
            self.service.delete(before)
            self._parents = {g: i for g, i in self._parents.items() if i != before}


def _run_name(run: TrackedRun) -> str:
    name = f"{run.label} {run.phase} seed {run.seed}"
    return name if run.trial is None else f"{name} of trial {run.trial}"


def _run_tags(run: TrackedRun) -> dict[str, Any]:
    return {
        "label": run.label,
        "task": run.task,
        "phase": run.phase,
        "seed": run.seed,
        "trial": run.trial,
        "fingerprint": run.fingerprint,
        "folder": run.name,
        "mlflow.source.git.commit": run.commit,
    }


def _end_tags(ended: RunEnd) -> dict[str, Any]:
    return {
        "state": ended.state,
        "failure": ended.failure,
        "reason": ended.reason,
        "weights": ended.weights,
        "attempts": ended.attempts,
        "seconds": ended.seconds,
        "score_rule": ended.score_rule,
    }


def _step(mlflow_run: MLflowRun) -> int:
    try:
        return int(mlflow_run.tags.get(STEP, ""))
    except ValueError:
        return -1


def _json(content: Mapping[str, Any]) -> str:
    return json.dumps(content, indent=2, ensure_ascii=False, default=str)


def _digest(text: str) -> str:
    # File names that are not UTF-8 contain surrogates, which cannot be encoded.
    return sha256(text.encode("utf-8", "backslashreplace")).hexdigest()


def _version() -> str:
    try:
        return version("rlexp")
    except PackageNotFoundError:
        return "unknown"
