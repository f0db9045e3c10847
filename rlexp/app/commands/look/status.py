"""`rlexp status`: reads the progress of experiments and sweeps, whichever command runs them."""

import shlex
import time
from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import ClassVar

from rlexp.app.execution.queued import QueuedRuns
from rlexp.app.reading.experiment_scan import ExperimentScan, survey
from rlexp.app.reporting.experiment_commands import (
    ExperimentState,
    changing_commands,
    scanned_state,
)
from rlexp.app.results import Displayed, NextCommand, Schema
from rlexp.app.sweeps.sweep_status import readable_runs, sweep_status
from rlexp.app.workspace import Workspace
from rlexp.engine.sweep_view import SweepStatus
from rlexp.records.run import State
from rlexp.reports.evidence.restarts import RestartCounts
from rlexp.store.locks.lease import is_held
from rlexp.store.runs import StoredRun

DAMAGED = "damaged"
"""The state of an experiment whose definition, or the progress of whose sweep, cannot be read."""
PAUSE = 2.0
"""Seconds between two updates of `rlexp status --watch`."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RunningRun:
    """A running run.

    Attributes:
        run: The name of the run.
        step: Steps so far.
        steps: Steps of its budget.
        unit: The unit of steps: `environment_steps`, or `environment.unit`.
        quantity: What is scored: `return`, or the name of a measure.
        last_mean: The mean of the quantity in its last evaluation; null before the first one. NaN if
            an episode does not report the measure.
    """

    run: str
    step: int
    steps: int
    unit: str
    quantity: str
    last_mean: float | None


@dataclass(frozen=True, slots=True, kw_only=True)
class ExperimentStatus:
    """The progress of an experiment.

    Attributes:
        experiment: The name of the experiment.
        driven: Whether a command runs it now.
        runs: Number of runs by state.
        sweep: The progress of its sweep; null for an experiment that is not a sweep.
        sweep_problem: Why the progress of its sweep cannot be computed; null if it can.
        queued: Runs that are queued for workers.
        past: Number of runs that continued from checkpoints or started again from step 0.
        running: The running runs.
        problems: Problems of its folder.
        state: `running`, `unfinished`, `failed` or `finished`; `damaged` where it cannot be read.
        next: Suggested next commands.
    """

    experiment: str
    driven: bool
    runs: Mapping[str, int]
    sweep: SweepStatus | None
    sweep_problem: str | None
    queued: QueuedRuns
    past: RestartCounts
    running: tuple[RunningRun, ...]
    problems: tuple[str, ...]
    state: str
    next: tuple[NextCommand, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Status(Displayed):
    """The progress of experiments.

    Attributes:
        folder: The folder with the experiments.
        experiments: The experiments, sorted by name; empty before the first run.
    """

    schema: ClassVar[Schema] = Schema("status")

    folder: str
    experiments: tuple[ExperimentStatus, ...]

    @property
    def driven(self) -> bool:
        """Whether a command runs any of the experiments now."""
        return any(experiment.driven for experiment in self.experiments)


def status(experiment: str | None, workspace: Workspace) -> Status:
    """The progress of one experiment, or of all.

    Raises:
        RecordError: There is no such experiment.
    """
    workspace.make_allowed_importable()
    folders = (
        workspace.layout.experiments()
        if experiment is None
        else [workspace.experiment(experiment)]
    )
    surveys = (survey(folder, brief=True) for folder in folders)
    return Status(
        folder=str(workspace.layout.root),
        experiments=tuple(experiment_status(surveyed, workspace) for surveyed in surveys),
    )


def watch(experiment: str | None, workspace: Workspace) -> Iterator[Status]:
    """Yield the progress of one experiment, or of all, every 2 s until no command runs any.

    Raises:
        RecordError: There is no such experiment.
    """
    while True:
        update = status(experiment, workspace)
        yield update
        if not update.driven:
            return
        time.sleep(PAUSE)


def experiment_status(surveyed: ExperimentScan, workspace: Workspace) -> ExperimentStatus:
    """The progress of one experiment."""
    runs, experiment = readable_runs(surveyed), surveyed.experiment
    sweep, problem = (
        (None, None) if experiment is None else sweep_status(surveyed, experiment, workspace)
    )
    state = scanned_state(surveyed, sweep, workspace)
    return ExperimentStatus(
        experiment=surveyed.paths.name,
        driven=is_held(surveyed.paths.lock),
        runs=dict(Counter(str(stored.record.state) for stored in runs)),
        sweep=sweep,
        sweep_problem=problem,
        queued=QueuedRuns.of(surveyed.paths),
        past=RestartCounts.of(stored.record for stored in runs),
        running=tuple(_running(runs)),
        problems=tuple(surveyed.problems),
        state=DAMAGED if state is None else state.word,
        next=() if state is None else tuple(_next(state)),
    )


def _next(state: ExperimentState) -> Iterator[NextCommand]:
    """The suggested next commands: of a finished experiment, the one that shows its scores."""
    if state.complete:
        show = shlex.join(["rlexp", "show", state.name])
        yield NextCommand(why="see its scores", command=show)
    else:
        yield from changing_commands(state)


def _running(runs: list[StoredRun]) -> Iterator[RunningRun]:
    """The running runs; `survey` has read their present steps."""
    for stored in runs:
        record = stored.record
        if record.state is State.RUNNING:
            last = record.evaluations[-1] if record.evaluations else None
            yield RunningRun(
                run=record.spec.name,
                step=record.step,
                steps=record.spec.budget["steps"],
                unit=record.spec.unit,
                quantity=record.spec.quantity,
                last_mean=last.mean_of(record.spec.quantity) if last else None,
            )
