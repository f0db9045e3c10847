"""MLflow: a run for each run below one for its group, on a server or in a file beside `runs/`."""

import json
import os
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from hashlib import sha256
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Annotated, Any

from annotated_types import Ge, Len

from rlexp.errors import TrackerRefused, TrackerUnreachable
from rlexp.trackers import Ended, Reached, Row, Sink, Summary, TrackedExperiment, TrackedRun
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

STATUS = {"completed": "FINISHED", "pruned": "FINISHED", "failed": "FAILED"}
"""What goes on later was killed, as MLflow calls it."""
STEP = "rlexp.step"
"""The tag up to whose step a run has every row."""
DESCRIBED = "rlexp.described"
"""The tag that says which configuration and provenance a run has."""
OF_END = ("failure", "reason")
"""Tags that an end sets and a later one may take away."""
MODELS = ("model.zip", "normalisation.npz")


@dataclass(frozen=True, slots=True, kw_only=True)
class MLflow:
    """A server by its address, or a SQLite database that `mlflow ui` shows beside `runs/`."""

    uri: Annotated[str, Len(1)] | None = None
    experiment: Annotated[str, Len(1, 250)] | None = None
    models: bool = True
    register: Annotated[str, Len(1, 250)] | None = None
    timeout: Annotated[float, Ge(1)] = 10.0
    wait: Annotated[float, Ge(0)] = 10.0
    required: bool = False

    def place(self, project: Path) -> str:
        """The server's address or the database's file, and the experiment if it is set."""
        shown = find_location(self.uri, project, os.environ).shown
        return shown if self.experiment is None else f"{shown} {self.experiment}"

    def open(self, experiment: TrackedExperiment) -> Sink:
        """Reach the server or the database, and find or make the experiment; see `Tracker.open`."""
        if self.register is not None and not self.models:
            raise TrackerRefused(
                "tracker.mlflow.register needs tracker.mlflow.models=true: a model that is not "
                "uploaded cannot be registered"
            )
        if self.register is not None and set("/:") & set(self.register):
            raise TrackerRefused("tracker.mlflow.register is a name without / and :")
        place = find_location(self.uri, experiment.project, os.environ)
        if experiment.shared and place.file is not None:
            raise TrackerRefused(
                f"{place.file} may be written by several machines, which damages SQLite: start "
                "'mlflow server' on one of them and set tracker.mlflow.uri to its address"
            )
        service = Service(place, self.timeout, experiment.id)
        service.enter(readable(self.experiment or experiment.name, 250))
        return MLflowSink(service, experiment, self)


@dataclass(slots=True)
class _OpenRun:
    """A run that was begun: its id at MLflow, and the step that it has every row up to."""

    id: str
    step: int


@dataclass(slots=True)
class MLflowSink:
    """The runs of an experiment, each found by the tag that holds its id."""

    service: Service
    experiment: TrackedExperiment
    settings: MLflow
    _known: dict[str, _OpenRun] = field(default_factory=dict)
    _parents: dict[str, str] = field(default_factory=dict)

    def begin(self, run: TrackedRun, reached: Reached) -> Reached:  # noqa: ARG002 it may lag
        """Find or make a run, and describe it; how far it is, it says itself; see `Sink.begin`."""
        found = self._one(run.id) or self._make(run)
        step = _step(found)
        if found.status != "RUNNING":
            self.service.stands(found.id, "RUNNING")
        self._describe(found, run)
        self._known[run.id] = _OpenRun(found.id, step)
        return Reached(step=step)

    def push(self, run: TrackedRun, rows: Sequence[Row]) -> Reached:
        """Write rows in large requests, each of which says how far it comes; see `Sink.push`."""
        known = self._known[run.id]
        for portion in metric_batches(rows):
            tags = [] if portion.step is None else [(STEP, str(portion.step))]
            self.service.measure(known.id, portion.metrics, tags)
            known.step = max(known.step, -1 if portion.step is None else portion.step)
        return Reached(step=known.step)

    def end(self, run: TrackedRun, ended: Ended) -> Reached:
        """Say how it ended, and upload its model; see `Sink.end`."""
        known = self._known[run.id]
        found = self._one(run.id)
        if found is None or _step(found) < known.step:
            raise TrackerUnreachable(
                f"MLflow at {self.service.shown} lost what was pushed of the run {run.name}; "
                "it is pushed anew later"
            )
        told = _end_tags(ended)
        self.service.untag(found.id, [k for k in OF_END if told[k] is None and k in found.tags])
        if ended.score is not None:
            when = max(int(ended.time * 1000), 0)
            self.service.measure(found.id, [MetricValue("score", ended.score, when, ended.step)])
        self.service.write(found.id, tags_of(told))
        for name, path in ended.files.items():
            if name not in MODELS:
                self.service.upload(found.id, name, path)
            elif self.settings.models:
                self.service.upload(found.id, f"{MODEL}/{name}", path)
        self.service.stands(found.id, STATUS.get(ended.state, "KILLED"), ended.time)
        return Reached(step=known.step)

    def summarise(self, summary: Summary) -> None:
        """Say how each group stands, on its run; see `Sink.summarise`."""
        SummaryWriter(self.service, self._parent, self.settings.register)(summary)

    def close(self) -> None:
        """Forget everything."""
        self._known.clear()
        self._parents.clear()

    def _one(self, own: str) -> MLflowRun | None:
        """The run that has an id of ours.

        A request that was given up may be served all the same, and a run be there twice: the one
        that is further remains.
        """
        found = sorted(self.service.find(own), key=lambda run: (-_step(run), run.id))
        for extra in found[1:]:
            self.service.delete(extra.id)
        return found[0] if found else None

    def _make(self, run: TrackedRun) -> MLflowRun:
        parent = self._parents.get(run.group) or self._again(run.group)
        tags = {PARENT: parent, **self._about_all(run.group), **_about(run)}
        name = f"{run.label} {run.phase} seed {run.seed}"
        if run.trial is not None:
            name = f"{name} of trial {run.trial}"
        return self.service.create(run.id, name, run.started, tags_of(tags))

    def _parent(self, group: str) -> MLflowRun:
        """The run that stands for a group, made if there is none."""
        own = sha256(f"{self.experiment.id}/{group}".encode()).hexdigest()[:32]
        found = self._one(own)
        if found is None:
            found = self.service.create(own, group, time.time(), tags_of(self._about_all(group)))
        if DESCRIBED not in found.tags:
            definition = _json(self.experiment.definition)
            self.service.upload(found.id, "experiment.json", definition)
            self.service.write(found.id, [(DESCRIBED, _digest(definition))])
        self._parents[group] = found.id
        return found

    def _again(self, group: str) -> str:
        """The run of a group to which runs are added."""
        found = self._parent(group)
        if found.status != "RUNNING":
            self.service.stands(found.id, "RUNNING")
        return found.id

    def _about_all(self, group: str) -> dict[str, Any]:
        return {
            "rlexp.experiment": self.experiment.id,
            "rlexp.group": group,
            "rlexp.version": _version(),
        }

    def _describe(self, found: MLflowRun, run: TrackedRun) -> None:
        """Write the configuration and the provenance, if it does not have these."""
        configuration, provenance = _json(run.configuration), _json(run.provenance)
        described = _digest(configuration + provenance)
        if found.tags.get(DESCRIBED) == described:
            return
        parameters = parameters_of(run.configuration)
        lacking = [(key, value) for key, value in parameters if key not in found.parameters]
        self.service.write(found.id, parameters=lacking)
        self.service.upload(found.id, "configuration.json", configuration)
        self.service.upload(found.id, "provenance.json", provenance)
        self.service.write(found.id, [*tags_of(_about(run)), (DESCRIBED, described)])


def _about(run: TrackedRun) -> dict[str, Any]:
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


def _end_tags(ended: Ended) -> dict[str, Any]:
    return {
        "state": ended.state,
        "failure": ended.failure,
        "reason": ended.reason,
        "weights": ended.weights,
        "attempts": ended.attempts,
        "seconds": ended.seconds,
        "score_rule": ended.score_rule,
    }


def _step(found: MLflowRun) -> int:
    try:
        return int(found.tags.get(STEP, ""))
    except ValueError:
        return -1


def _json(content: Mapping[str, Any]) -> str:
    return json.dumps(content, indent=2, ensure_ascii=False, default=str)


def _digest(text: str) -> str:
    return sha256(text.encode("utf-8", "backslashreplace")).hexdigest()


def _version() -> str:
    try:
        return version("rlexp")
    except PackageNotFoundError:
        return "unknown"
