"""`rlexp cancel`: asks the command that runs an experiment, or one run, to stop."""

import os
import signal
import socket
from contextlib import suppress
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path
from typing import ClassVar

from rlexp.app.execution.queued import cancel_all, withdraw
from rlexp.app.results import Schema
from rlexp.app.workspace import Workspace
from rlexp.errors import RecordError
from rlexp.records.run import State
from rlexp.store.layout import ExperimentPaths, RunPaths
from rlexp.store.locks.lease import holder, holding, is_held
from rlexp.store.run_queue import queued_runs
from rlexp.store.runs import read_run


class CancelOutcome(StrEnum):
    """The effect of a cancellation."""

    ENDING = "ending"
    """The command, or the run, was asked to stop."""
    WITHDRAWN = "withdrawn"
    """Runs were removed from the queue of workers, and running ones were asked to stop."""
    QUEUED = "queued"
    """The run waits for a worker; it stays queued, because an active command would requeue it."""
    IDLE = "idle"
    """Nothing was running."""
    ELSEWHERE = "elsewhere"
    """A command on another machine runs the experiment."""
    UNIDENTIFIED = "unidentified"
    """The process that holds the experiment's lock could not be identified."""
    ENDED = "ended"
    """The command ended before it could be asked to stop."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Cancellation:
    """The effect of cancelling an experiment or a run.

    Attributes:
        experiment: The name of the experiment.
        run: The name of the run; null if an experiment was cancelled.
        outcome: The effect of the cancellation.
        state: The state of the run before it was cancelled; null if an experiment was cancelled.
        withdrawn: Number of runs that were removed from the queue of workers.
        process: The process id of the command that was asked to stop.
        holder: The process on another machine that runs the experiment.
    """

    schema: ClassVar[Schema] = Schema("cancellation")

    experiment: str
    run: str | None = None
    outcome: CancelOutcome
    state: str | None = None
    withdrawn: int = 0
    process: int | None = None
    holder: str | None = None


def cancel(target: str, workspace: Workspace) -> Cancellation:
    """Ask the command that runs an experiment, or one run, to stop.

    Raises:
        RlexpError: There is no such experiment or run, its folder cannot be written, or its
            process belongs to another user.
    """
    match = workspace.find(target)
    if isinstance(match, RunPaths):
        return _cancel_run(match)
    return _cancel_experiment(match, workspace)


def _cancel_run(run: RunPaths) -> Cancellation:
    name, experiment = run.folder.name, ExperimentPaths(run.folder.parent)
    state = read_run(run).record.state
    queued, running = name in queued_runs(experiment), state is State.RUNNING
    if running:
        outcome = CancelOutcome.ENDING
    elif queued:
        # An active command requeues what is missing from the queue, so its runs stay queued.
        outcome = CancelOutcome.QUEUED if is_held(experiment.lock) else CancelOutcome.WITHDRAWN
    else:
        outcome = CancelOutcome.IDLE
    if outcome in {CancelOutcome.ENDING, CancelOutcome.WITHDRAWN} and _end_run(run, experiment):
        # A worker may have taken the run since the look at its state.
        outcome = CancelOutcome.ENDING
    return Cancellation(
        experiment=experiment.name,
        run=name,
        outcome=outcome,
        state=str(state),
        withdrawn=int(outcome is CancelOutcome.WITHDRAWN),
    )


def _end_run(run: RunPaths, experiment: ExperimentPaths) -> bool:
    """Remove a run from the queue; if it runs, ask it to stop and return True."""
    try:
        return withdraw(experiment, run.folder.name)
    except OSError as error:
        raise RecordError(f"cannot write to {run.folder}: {error.strerror}") from error


def _cancel_experiment(paths: ExperimentPaths, workspace: Workspace) -> Cancellation:
    name = paths.name
    if not is_held(paths.lock):
        withdrawn = cancel_all(paths, workspace)
        outcome = CancelOutcome.WITHDRAWN if withdrawn else CancelOutcome.IDLE
        return Cancellation(experiment=name, outcome=outcome, withdrawn=withdrawn)
    entry = holding(paths.lock)
    pid, host = entry.get("pid"), entry.get("host")
    # A process id of another machine may belong to any process here.
    if host is not None and host != socket.gethostname():
        outcome = CancelOutcome.ELSEWHERE
        return Cancellation(experiment=name, outcome=outcome, holder=str(holder(paths.lock)))
    if not isinstance(pid, int) or not _really_holds(pid, paths.lock):
        return Cancellation(experiment=name, outcome=CancelOutcome.UNIDENTIFIED)
    return Cancellation(experiment=name, outcome=_end_process(pid, paths), process=pid)


def _end_process(pid: int, paths: ExperimentPaths) -> CancelOutcome:
    """Ask the process that runs an experiment to stop."""
    try:
        # The command handles SIGTERM: it stops its runs and records them as interrupted.
        os.kill(pid, signal.SIGTERM)
    except ProcessLookupError:
        return CancelOutcome.ENDED
    except PermissionError as error:
        raise RecordError(
            f"experiment {paths.name} is run by {holder(paths.lock)}, which belongs to another "
            "user; ask that user to cancel it",
        ) from error
    return CancelOutcome.ENDING


def _really_holds(pid: int, lock: Path) -> bool:
    """Whether the process has the lock file open."""
    import psutil

    # The recorded process may have ended, and the system may have given its id to another process,
    # which must not receive a signal.
    with suppress(psutil.Error, OSError):
        if pid > 0 and pid != os.getpid():
            return any(_is_same_file(f.path, lock) for f in psutil.Process(pid).open_files())
    return False


def _is_same_file(path: str, lock: Path) -> bool:
    with suppress(OSError):
        return lock.samefile(path)
    return False
