"""`rlexp cancel`: ends the command that drives an experiment, or one run, gracefully."""

import os
import signal
import socket
from contextlib import suppress
from pathlib import Path

from rlexp.app.away import cancel_all
from rlexp.app.workspace import Workspace
from rlexp.console import Console
from rlexp.errors import RecordError
from rlexp.records.events import Ending, StopRequest
from rlexp.records.run import State
from rlexp.reports.sentences import counted
from rlexp.store.layout import ExperimentPaths, RunPaths
from rlexp.store.lease import holder, holding, is_held
from rlexp.store.orders import ordered, withdraw
from rlexp.store.runs import read_run, request_stop

REASON = "cancelled by the user"


def cancel(target: str, workspace: Workspace, console: Console) -> int:
    """Ask an experiment's command, or a run, to end; returns the exit code.

    Raises:
        RlexpError: There is no such experiment or run, or it cannot be asked.
    """
    found = workspace.find(target)
    told = (
        _cancel_run(found) if isinstance(found, RunPaths) else _cancel_experiment(found, workspace)
    )
    console.line(told)
    return 0


def _cancel_run(run: RunPaths) -> str:
    name, experiment = run.folder.name, ExperimentPaths(run.folder.parent)
    state = read_run(run).record.state
    is_ordered = name in ordered(experiment)
    if state is not State.RUNNING and is_ordered and is_held(experiment.lock):
        return (
            f"run {name} waits for a worker (it is {state}): cancel it once it runs, or all: "
            f"rlexp cancel {experiment.name}"
        )
    if state is not State.RUNNING and not is_ordered:
        return f"run {name} is not running (it is {state}): nothing to cancel"
    try:
        withdraw(experiment, name)
        if state is State.RUNNING:
            request_stop(run, StopRequest(Ending.INTERRUPTED, REASON))
    except OSError as error:
        raise RecordError(f"cannot write to {run.folder}: {error.strerror}") from error
    if state is not State.RUNNING:
        return f"took back the order of run {name}; a repeat of its command orders it again"
    return (
        f"asked run {name} to end: it stops at its next step and is recorded as interrupted; "
        "'rlexp resume', or a repeat of its command, continues it"
    )


def _cancel_experiment(paths: ExperimentPaths, workspace: Workspace) -> str:
    if not is_held(paths.lock):
        if out := cancel_all(paths, workspace):
            return (
                f"took back {counted(out, 'order')} of experiment {paths.name}: what runs "
                "is recorded as interrupted, and a repeat of its command continues"
            )
        return f"no command drives experiment {paths.name}: nothing to cancel"
    entry = holding(paths.lock)
    pid, host = entry.get("pid"), entry.get("host")
    if host is not None and host != socket.gethostname():
        return f"experiment {paths.name} is driven by {holder(paths.lock)}; cancel it there"
    if not isinstance(pid, int) or not _really_holds(pid, paths.lock):
        return f"experiment {paths.name} is in use by a process that cannot be told; try again"
    try:
        os.kill(pid, signal.SIGTERM)
    except ProcessLookupError:
        return f"the command that drove experiment {paths.name} has just ended"
    except PermissionError as error:
        raise RecordError(
            f"experiment {paths.name} is driven by {holder(paths.lock)}, "
            "which belongs to another user; ask them",
        ) from error
    return (
        f"asked process {pid}, which drives experiment {paths.name}, to end: "
        "its runs are recorded as interrupted, and a repeat of its command continues"
    )


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
