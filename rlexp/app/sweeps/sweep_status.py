"""Reads how far a sweep is from its folder, whichever command runs it."""

from dataclasses import replace

from rlexp.app.reading.experiment_scan import ExperimentScan
from rlexp.app.sweeps.progress import make_view, why_stopped
from rlexp.app.sweeps.state import ReadOnlyLedger, restore_sweep
from rlexp.app.workspace import Workspace
from rlexp.engine.failure_streak import trial_reason
from rlexp.engine.sweep_source import SweepSource
from rlexp.engine.sweep_view import SweepStatus, SweepView
from rlexp.engine.trial_state import TrialProgress
from rlexp.errors import RlexpError
from rlexp.protocol.experiment import Experiment
from rlexp.protocol.sweep import PROPOSALS
from rlexp.records.run import State
from rlexp.records.selection import DEFAULT
from rlexp.records.trial import TrialState
from rlexp.store.locks.lease import is_held
from rlexp.store.runs import StoredRun

IMPORTED = "imported"
"""The stage of a search that another tool made."""


def sweep_status(
    surveyed: ExperimentScan, experiment: Experiment, workspace: Workspace
) -> tuple[SweepStatus | None, str | None]:
    """The progress of an experiment's sweep, or the reason why it cannot be computed.

    Returns:
        Both are None for an experiment that is not a sweep.
    """
    if experiment.sweep is None:
        return None, None
    runs = readable_runs(surveyed)
    try:
        sweeping = restore_sweep(surveyed.paths, experiment, runs, workspace, ReadOnlyLedger())
    except RlexpError as error:
        return None, str(error)
    spent = {s.record.spec.id: s.record.spent for s in runs}
    # The command that runs the sweep may be on another machine: its running runs show its workers.
    workers = max(sum(s.record.state is State.RUNNING for s in runs), 1)
    view = make_view(sweeping, spent, workers)
    driven = is_held(surveyed.paths.lock)
    stopped = None if driven else why_stopped(sweeping)
    left = view.left if stopped is None else None
    if experiment.imported is not None:
        view = replace(view, stage=IMPORTED)
    elif experiment.sweep.is_stream and sweeping.selection is None:
        view = _of_stream(view, sweeping)
    return replace(view, driven=driven, left=left).status(stopped), None


def _of_stream(view: SweepView, sweeping: SweepSource) -> SweepView:
    """The progress of a stream that takes candidates: its first champion is none of them."""
    entries = sweeping.search.entries
    kept = [line for line in view.ended if line.state == TrialState.COMPLETE]
    candidates = tuple(
        replace(line, best=line in kept, reason=_reason(entries[line.number]))
        for line in view.ended
        if line.number != DEFAULT
    )
    champion = kept[-1] if kept else None
    return replace(
        view,
        stage=PROPOSALS,
        trials=len(entries) - 1,
        runs=(0, 0),
        ended=candidates,
        running=len(entries) - 1 - len(candidates),
        best=None
        if champion is None or champion.value is None
        else (champion.number, champion.value),
        # A candidate holds what it changes of the champion before it, and not all that leads to it.
        parameters=None,
    )


def _reason(entry: TrialProgress) -> str | None:
    """The decision of the register; a candidate does not end at a step, as a pruned trial does."""
    return entry.stop.reason if entry.stop is not None else trial_reason(entry)


def readable_runs(surveyed: ExperimentScan) -> list[StoredRun]:
    """The planned runs whose records can be read."""
    # If the definition cannot be read, the plan is unknown, and every run counts as planned.
    defined = surveyed.experiment is not None
    return [
        f.stored
        for f in surveyed.runs
        if f.stored is not None and (f.planned or not defined) and not f.damaged
    ]
