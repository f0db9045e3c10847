"""The MLflow tracker: an MLflow run for each run, nested below a run for its group."""

import getpass
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
from rlexp.trackers.mlflow_bookkeeping import bookkeeping_tag, step_of
from rlexp.trackers.mlflow_limits import (
    NAME,
    MetricValue,
    metric_batches,
    parameters_of,
    readable,
    tags_of,
)
from rlexp.trackers.mlflow_service import PARENT, MLflowRun, Service
from rlexp.trackers.mlflow_summary import MODEL, SummaryWriter
from rlexp.trackers.mlflow_uri import find_location, run_list_page
from rlexp.trackers.parameters import parameters, shared_parameters
from rlexp.trackers.viewing import shown_path

STATUS = {"completed": "FINISHED", "pruned": "FINISHED", "failed": "FAILED"}
"""MLflow's status by state; every other state (the run may continue) becomes KILLED."""
DESCRIBED = "described"
"""The bookkeeping with the digest of the description that was uploaded."""
EXPERIMENT_ID = "experiment_id"
"""The file with MLflow's id of the experiment, which is part of the link to its runs."""
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

    def where_to_look(self, project: Path, folder: Path) -> str:
        """The link to the server; for a file, the command that starts a server and its link."""
        location = find_location(self.uri, project, os.environ)
        experiment = _read_experiment_id(folder)
        if location.file is None:
            return run_list_page(location.shown, experiment)
        store = f"sqlite:///{shown_path(location.file, project.resolve())}"
        command = shlex.join(["mlflow", "ui", "--backend-store-uri", store])
        return f"{command}, then {run_list_page('http://127.0.0.1:5000', experiment)}"

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
        experiment_id = service.enter(readable(self.experiment or experiment.name, 250))
        experiment.folder.mkdir(parents=True, exist_ok=True)
        (experiment.folder / EXPERIMENT_ID).write_text(experiment_id)
        return MLflowSink(service, experiment, self)


def _read_experiment_id(folder: Path) -> str | None:
    """MLflow's id of the experiment; None where MLflow never received it."""
    try:
        return (folder / EXPERIMENT_ID).read_text() or None
    except (OSError, ValueError):
        return None


@dataclass(slots=True)
class _OpenMlflowRun:
    """A run after `begin`: its id at MLflow, and its bookkeeping with the sync position."""

    id: str
    kept: dict[str, Any]

    @property
    def step(self) -> int:
        """The step up to which MLflow has all rows; -1 for none."""
        return step_of(self.kept)


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
        if mlflow_run.status != "RUNNING":
            self.service.set_status(mlflow_run.id, "RUNNING")
        kept = self._describe(mlflow_run, run)
        self._open[run.id] = _OpenMlflowRun(mlflow_run.id, kept)
        return SyncPosition(step=mlflow_run.step)

    def push(self, run: TrackedRun, rows: Sequence[MetricRow]) -> SyncPosition:
        """Upload rows in large requests, each of which also sets the position; see `TrackerConnection.push`."""
        open_run = self._open[run.id]
        for portion in metric_batches(rows):
            step = open_run.step if portion.step is None else max(open_run.step, portion.step)
            kept = {**open_run.kept, "step": step}
            # Metrics and the tag with the position travel in one request: the position can never be
            # ahead of the rows.
            self.service.measure(open_run.id, portion.metrics, [bookkeeping_tag(kept)])
            open_run.kept = kept
        return SyncPosition(step=open_run.step)

    def end(self, run: TrackedRun, ended: RunEnd) -> SyncPosition:
        """Write the end of the run and upload its files; see `TrackerConnection.end`."""
        open_run = self._open[run.id]
        mlflow_run = self._find(run.id)
        # A server that was restored from a backup, for instance.
        if mlflow_run is None or mlflow_run.step < open_run.step:
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
        writer = SummaryWriter(
            self.service, self.experiment, self._existing_parent, self.settings.register
        )
        writer(summary)

    def close(self) -> None:
        """Forget all runs; nothing stays open."""
        self._open.clear()
        self._parents.clear()

    def _find(self, run_id: str) -> MLflowRun | None:
        """The MLflow run with this tag; None if there is none.

        The server may still carry out a request that timed out here, so that a run is created
        twice. The one with more rows is kept, the other is deleted.
        """
        matches = sorted(self.service.find(run_id), key=lambda run: (-run.step, run.id))
        for duplicate in matches[1:]:
            self.service.delete(duplicate.id)
        return matches[0] if matches else None

    def _make(self, run: TrackedRun) -> MLflowRun:
        tags = {**self._origin(run), **_run_tags(run), PARENT: self._reopen(run)}
        kept = bookkeeping_tag(self._bookkeeping(run.id, run.group))
        created = self.service.create(
            run.title_in(self.experiment), run.started, [*tags_of(tags), kept]
        )
        self.service.add_dataset(created.id, run.task, f"{run.phase} seed {run.seed}")
        return created

    def _existing_parent(self, group: str) -> MLflowRun:
        """The MLflow run of a group, which is created if none of its runs was pushed."""
        return self._find(self._group_id(group)) or self._make_parent(group, time.time(), {})

    def _group_id(self, group: str) -> str:
        return sha256(f"{self.experiment.id}/{group}".encode()).hexdigest()[:32]

    def _make_parent(self, group: str, started: float, tags: Mapping[str, Any]) -> MLflowRun:
        """The MLflow run of a group, with the definition of the experiment."""
        kept = bookkeeping_tag(self._bookkeeping(self._group_id(group), group))
        all_tags = tags_of({"label": group, **tags})
        parent = self.service.create(group, started, [*all_tags, kept])
        self.service.upload(parent.id, "experiment.json", _json(self.experiment.definition))
        return parent

    def _reopen(self, run: TrackedRun) -> str:
        """The id of the run of the group, which starts with the first run below it."""
        if run.group in self._parents:
            return self._parents[run.group]
        parent = self._find(self._group_id(run.group))
        if parent is None:
            started = run.started if run.group_started is None else run.group_started
            parent = self._make_parent(run.group, started, self._origin(run))
        elif parent.status != "RUNNING":
            self.service.set_status(parent.id, "RUNNING")
        # A summary makes the parent of a label of which no run has started.
        origin = {k: v for k, v in self._origin(run).items() if k not in parent.tags}
        self.service.write(parent.id, tags_of(origin))
        shared = parameters_of(shared_parameters(self.experiment, run))
        # MLflow refuses a request that sets a parameter a second time.
        self.service.write(
            parent.id, parameters=[p for p in shared if p[0] not in parent.parameters]
        )
        self._parents[run.group] = parent.id
        return parent.id

    def _bookkeeping(self, run_id: str, group: str) -> dict[str, Any]:
        return {
            "run": run_id,
            "experiment": self.experiment.id,
            "group": group,
            "version": _version(),
        }

    def _origin(self, run: TrackedRun) -> dict[str, Any]:
        """The user who pushes a run, and the command that trained it, in MLflow's own tags."""
        command = run.provenance.get("command")
        words = [str(word) for word in command] if isinstance(command, list) else []
        return {
            "mlflow.user": _user(),
            "mlflow.source.type": "LOCAL" if words else None,
            "mlflow.source.name": shlex.join(words) or None,
            "mlflow.source.git.commit": run.commit,
        }

    def _describe(self, mlflow_run: MLflowRun, run: TrackedRun) -> dict[str, Any]:
        """Upload what describes the run, unless MLflow has it; returns the bookkeeping."""
        configuration, provenance = _json(run.configuration), _json(run.provenance)
        # Its group can have changed, too: an early push may not know the label of a run yet.
        about = {**self._origin(run), **_run_tags(run), PARENT: self._reopen(run)}
        name, tags = run.title_in(self.experiment), tags_of(about)
        described = _digest(f"{configuration}{provenance}{name}{tags}")
        about_group = {"group": readable(run.group, NAME)}
        kept = {**mlflow_run.kept, **about_group, DESCRIBED: described}
        if mlflow_run.kept == kept:
            return kept
        every = parameters_of(parameters(run.configuration))
        # MLflow refuses a request that sets a parameter a second time.
        self.service.write(
            mlflow_run.id, parameters=[p for p in every if p[0] not in mlflow_run.parameters]
        )
        self.service.upload(mlflow_run.id, "configuration.json", configuration)
        self.service.upload(mlflow_run.id, "provenance.json", provenance)
        if mlflow_run.name != readable(name, NAME):
            self.service.rename(mlflow_run.id, name)
        self.service.write(mlflow_run.id, tags)
        self._leave(mlflow_run.kept.get("group"), run.group)
        # Written last: until then, the bookkeeping names the former group, and all this is repeated.
        self.service.write(mlflow_run.id, [bookkeeping_tag(kept)])
        return kept

    def _leave(self, before: object, group: str) -> None:
        """Delete the run of a group that its last run has left for another group."""
        if not isinstance(before, str) or before == group:
            return
        former = self._find(self._group_id(before))
        if former is not None and not self.service.has_children(former.id):
            self.service.delete(former.id)
            self._parents.pop(before, None)


def _run_tags(run: TrackedRun) -> dict[str, Any]:
    return {
        "label": run.label,
        "task": run.task,
        "phase": run.phase,
        "seed": run.seed,
        "trial": run.trial,
        "fingerprint": run.fingerprint,
        "folder": run.name,
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


def _json(content: Mapping[str, Any]) -> str:
    return json.dumps(content, indent=2, ensure_ascii=False, default=str)


def _digest(text: str) -> str:
    # File names that are not UTF-8 contain surrogates, which cannot be encoded.
    return sha256(text.encode("utf-8", "backslashreplace")).hexdigest()


def _user() -> str | None:
    try:
        return getpass.getuser()
    except (OSError, KeyError, ImportError):
        # A container may run as a user without a name.
        return None


def _version() -> str:
    try:
        return version("rlexp")
    except PackageNotFoundError:
        return "unknown"
