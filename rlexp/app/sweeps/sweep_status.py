"""Reads how far a sweep is from its folder, whichever command runs it."""

from dataclasses import replace

from rlexp.app.reading.experiment_scan import ExperimentScan
from rlexp.app.sweeps.progress import make_view, why_stopped
from rlexp.app.sweeps.state import ReadOnlyLedger, restore_sweep
from rlexp.app.workspace import Workspace
from rlexp.engine.sweep_view import SweepStatus
from rlexp.errors import RlexpError
from rlexp.protocol.experiment import Experiment
from rlexp.records.run import State
from rlexp.store.lease import is_held
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
    return replace(view, driven=driven, left=left).status(stopped), None


def readable_runs(surveyed: ExperimentScan) -> list[StoredRun]:
    """The planned runs whose records can be read."""
    # If the definition cannot be read, the plan is unknown, and every run counts as planned.
    defined = surveyed.experiment is not None
    return [
        f.stored
        for f in surveyed.runs
        if f.stored is not None and (f.planned or not defined) and not f.damaged
    ]
