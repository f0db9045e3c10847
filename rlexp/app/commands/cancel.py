"""`rlexp cancel`: ends the command that drives an experiment, or one run, gracefully."""

import os
import signal
import socket
from contextlib import suppress
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path
from typing import ClassVar

from rlexp.app.execution.queued import cancel_all
from rlexp.app.results import Schema
from rlexp.app.workspace import Workspace
from rlexp.errors import RecordError
from rlexp.records.events import Ending, StopRequest
from rlexp.records.run import State
from rlexp.store.layout import ExperimentPaths, RunPaths
from rlexp.store.lease import holder, holding, is_held
from rlexp.store.orders import ordered, withdraw
from rlexp.store.runs import read_run, request_stop

REASON = "cancelled by the user"


class Outcome(StrEnum):
    """What a cancellation led to."""

    ENDING = "ending"
    """The command, or the run, was asked to end."""
    WITHDRAWN = "withdrawn"
    """Runs were taken from the queue of workers, and those that run were asked to end."""
    QUEUED = "queued"
    """The run waits for a worker, and the command that drives its experiment would queue it again."""
    IDLE = "idle"
    """There is nothing to cancel."""
    ELSEWHERE = "elsewhere"
    """A command on another machine drives the experiment."""
    UNIDENTIFIED = "unidentified"
    """The process that holds the experiment could not be identified."""
    ENDED = "ended"
    """The command ended before it could be asked to."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Cancellation:
    """What was done to end an experiment's command, or a run.

    Attributes:
        experiment: The experiment.
        run: The run, if one was named.
        outcome: What it led to.
        state: The state of the run, if one was named.
        withdrawn: Runs that were taken from the queue of workers.
        process: The number of the process that was asked to end.
        holder: Who drives the experiment on another machine.
    """

    schema: ClassVar[Schema] = Schema("cancellation")

    experiment: str
    run: str | None = None
    outcome: Outcome
    state: str | None = None
    withdrawn: int = 0
    process: int | None = None
    holder: str | None = None


def cancel(target: str, workspace: Workspace) -> Cancellation:
    """Ask an experiment's command, or a run, to end.

    Raises:
        RlexpError: There is no such experiment or run, or it cannot be asked.
    """
    match = workspace.find(target)
    if isinstance(match, RunPaths):
        return _cancel_run(match)
    return _cancel_experiment(match, workspace)


def _cancel_run(run: RunPaths) -> Cancellation:
    name, experiment = run.folder.name, ExperimentPaths(run.folder.parent)
    state = read_run(run).record.state
    queued, running = name in ordered(experiment), state is State.RUNNING
    if running:
        outcome = Outcome.ENDING
    elif queued:
        outcome = Outcome.QUEUED if is_held(experiment.lock) else Outcome.WITHDRAWN
    else:
        outcome = Outcome.IDLE
    if outcome in {Outcome.ENDING, Outcome.WITHDRAWN}:
        _end_run(run, experiment, running=running)
    return Cancellation(
        experiment=experiment.name,
        run=name,
        outcome=outcome,
        state=str(state),
        withdrawn=int(outcome is Outcome.WITHDRAWN),
    )


def _end_run(run: RunPaths, experiment: ExperimentPaths, *, running: bool) -> None:
    """Take a run from the queue, and ask it to end if it runs."""
    try:
        withdraw(experiment, run.folder.name)
        if running:
            request_stop(run, StopRequest(Ending.INTERRUPTED, REASON))
    except OSError as error:
        raise RecordError(f"cannot write to {run.folder}: {error.strerror}") from error


def _cancel_experiment(paths: ExperimentPaths, workspace: Workspace) -> Cancellation:
    name = paths.name
    if not is_held(paths.lock):
        withdrawn = cancel_all(paths, workspace)
        outcome = Outcome.WITHDRAWN if withdrawn else Outcome.IDLE
        return Cancellation(experiment=name, outcome=outcome, withdrawn=withdrawn)
    entry = holding(paths.lock)
    pid, host = entry.get("pid"), entry.get("host")
    if host is not None and host != socket.gethostname():
        outcome = Outcome.ELSEWHERE
        return Cancellation(experiment=name, outcome=outcome, holder=str(holder(paths.lock)))
    if not isinstance(pid, int) or not _really_holds(pid, paths.lock):
        return Cancellation(experiment=name, outcome=Outcome.UNIDENTIFIED)
    return Cancellation(experiment=name, outcome=_end_process(pid, paths), process=pid)


def _end_process(pid: int, paths: ExperimentPaths) -> Outcome:
    """Ask the process that drives an experiment to end."""
    try:
        os.kill(pid, signal.SIGTERM)
    except ProcessLookupError:
        return Outcome.ENDED
    except PermissionError as error:
        raise RecordError(
            f"experiment {paths.name} is driven by {holder(paths.lock)}, "
            "which belongs to another user; ask them",
        ) from error
    return Outcome.ENDING


def _really_holds(pid: int, lock: Path) -> bool:
    """Whether the process has the lock open; the number may long belong to another process."""
    import psutil

    with suppress(psutil.Error, OSError):
        if pid > 0 and pid != os.getpid():
            return any(_same(f.path, lock) for f in psutil.Process(pid).open_files())
    return False


def _same(path: str, lock: Path) -> bool:
    with suppress(OSError):
        return lock.samefile(path)
    return False
