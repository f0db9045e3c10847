"""`rlexp rm`: removes an experiment or a run, and nothing outside `runs/`."""

import shlex
import shutil
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import NoReturn
from uuid import uuid4

from rlexp.app.workspace import Workspace
from rlexp.console import Console
from rlexp.errors import NO_SPACE, RecordError
from rlexp.records.ledger import RemovedRun
from rlexp.store.layout import ExperimentPaths, RunPaths
from rlexp.store.lease import hold, holder, is_held
from rlexp.store.ledger import append_entry
from rlexp.store.runs import folder_size
from rlexp.text import size


def remove(target: str, workspace: Workspace, console: Console, *, yes: bool) -> int:
    """Remove an experiment or a run, or say what that would remove; returns the exit code.

    Raises:
        RlexpError: There is none, it is in use, it lies outside `runs/`, or, with `yes`, only a
            part of a run's name was given.
    """
    found = workspace.find(target)
    folder = found.folder
    _require_inside(folder, workspace.layout.root)
    name = str(folder.relative_to(workspace.layout.root))
    command = shlex.join(["rlexp", "rm", name, "--yes"])
    if yes and folder.name != target.rstrip("/").rpartition("/")[2]:
        raise RecordError(f"{target!r} is only a part of {name}; to remove it: {command}")
    try:
        with _unused(found, lock=yes):
            what = f"{name}: {_said(found)}"
            if yes:
                _remove_entered(found)
    except OSError as error:
        raise RecordError(f"cannot remove {folder}: {error.strerror}") from error
    if yes:
        console.line(f"removed {what}")
    else:
        console.line(f"would remove {what}")
        console.line(f"To do it: {command}")
    return 0


def _require_inside(folder: Path, root: Path) -> None:
    """Refuse what is reached through a link that leads out of `runs/`."""
    if not folder.parent.resolve().is_relative_to(root.resolve()):
        raise RecordError(
            f"{folder} lies outside {root}, behind a link; remove it where it lies: "
            f"{folder.resolve()}",
        )


def _said(found: ExperimentPaths | RunPaths) -> str:
    if found.folder.is_symlink():
        return "a link, and not what it leads to"
    count = len(found.runs()) if isinstance(found, ExperimentPaths) else 1
    return f"{count} {'run' if count == 1 else 'runs'}, {size(folder_size(found.folder))}"


@contextmanager
def _unused(found: ExperimentPaths | RunPaths, *, lock: bool) -> Iterator[None]:
    """Refuse what is in use; with `lock`, keep others from using it meanwhile."""
    if isinstance(found, RunPaths):
        experiment, runs = ExperimentPaths(found.folder.parent), [found]
    else:
        experiment, runs = found, found.runs()
    what = f"experiment {experiment.name}"
    linked = experiment is found and found.folder.is_symlink()
    if is_held(experiment.lock):
        _refuse(what, experiment.lock, experiment.name)
    with ExitStack() as stack:
        if lock and not linked:
            stack.enter_context(hold(experiment.lock, what, now=time.time()))
        for run in runs:
            if is_held(run.lease):
                name = run.folder.name
                _refuse(f"run {name}", run.lease, f"{experiment.name}/{name}")
        yield


def _refuse(what: str, lock: Path, name: str) -> NoReturn:
    command = shlex.join(["rlexp", "cancel", name])
    raise RecordError(f"{what} is in use by {holder(lock)}; to end it: {command}")


def _remove_entered(found: ExperimentPaths | RunPaths) -> None:
    """Enter in the ledger that a run is removed, first: one that is gone otherwise is missing."""
    if isinstance(found, ExperimentPaths):
        _remove(found.folder)
        return
    experiment = ExperimentPaths(found.folder.parent)
    entry = RemovedRun(run=found.folder.name)
    try:
        append_entry(experiment, entry)
    except OSError as error:
        if error.errno not in NO_SPACE:
            raise
        # There is room for it once the run is gone.
        _remove(found.folder)
        append_entry(experiment, entry)
    else:
        _remove(found.folder)


def _remove(folder: Path) -> None:
    """Give the folder a hidden name, so that it is gone at once, then delete it."""
    hidden = folder.with_name(f".removed-{uuid4().hex[:8]}")
    folder.rename(hidden)
    try:
        if hidden.is_symlink():
            hidden.unlink()
        else:
            shutil.rmtree(hidden)
    except OSError as error:
        raise RecordError(
            f"{folder.name} is removed, but some of its files are left in {hidden}: "
            f"{error.strerror}",
        ) from error
