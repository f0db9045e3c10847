"""`rlexp rm`: removes an experiment or a run; it never deletes files outside `runs/`."""

import shlex
import shutil
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import ClassVar, NoReturn
from uuid import uuid4

from rlexp.app.results import NextCommand, Schema
from rlexp.app.workspace import Workspace
from rlexp.errors import NO_SPACE, RecordError
from rlexp.records.annotation import Annotation
from rlexp.records.ledger import RemovedRun
from rlexp.store.annotations import change_annotation
from rlexp.store.layout import ExperimentPaths, RunPaths
from rlexp.store.locks.lease import hold, holder, is_held
from rlexp.store.registers.ledger import append_entry
from rlexp.store.registers.protocols import read_protocols
from rlexp.store.runs import folder_size


@dataclass(frozen=True, slots=True, kw_only=True)
class Removal:
    """The experiment or run that was removed, or that `--yes` would remove.

    Attributes:
        name: The experiment, or the run as `EXPERIMENT/RUN`.
        removed: Whether it was removed.
        link: Whether it is a symbolic link; then only the link is removed, not its target.
        runs: Number of its runs; 0 for a link.
        bytes: The size of its files, in bytes; 0 for a link.
        next: The command that removes it; empty if it was removed.
    """

    schema: ClassVar[Schema] = Schema("removal")

    name: str
    removed: bool
    link: bool
    runs: int
    bytes: int
    next: tuple[NextCommand, ...]


def remove(target: str, workspace: Workspace, *, yes: bool) -> Removal:
    """Remove an experiment or a run; without `yes`, only measure it.

    Raises:
        RlexpError: There is no such experiment or run, it is in use, it lies outside `runs/`, or,
            with `yes`, only a part of a run's name was given. A registered experiment keeps its runs.
    """
    match = workspace.find(target)
    folder = match.folder
    _require_inside(folder, workspace.layout.root)
    name = str(folder.relative_to(workspace.layout.root))
    _refuse_registered(match, workspace)
    command = shlex.join(["rlexp", "rm", name, "--yes"])
    # A part of a name may match another run later, so a removal needs the whole name.
    if yes and folder.name != target.rstrip("/").rpartition("/")[2]:
        raise RecordError(
            f"{target!r} is only a part of the name {name}; to remove that run: {command}"
        )
    try:
        with unused(match, lock=yes):
            link, runs, size = _measure(match)
            if yes:
                _remove_recorded(match)
    except OSError as error:
        raise RecordError(f"cannot remove {folder}: {error.strerror}") from error
    following = () if yes else (NextCommand(why="do it", command=command),)
    return Removal(name=name, removed=yes, link=link, runs=runs, bytes=size, next=following)


def _refuse_registered(match: ExperimentPaths | RunPaths, workspace: Workspace) -> None:
    """Refuse a registered experiment and its runs: that they were made again would stay hidden.

    Raises:
        RecordError: The experiment is a registered protocol.
    """
    name = match.name if isinstance(match, ExperimentPaths) else match.folder.parent.name
    if read_protocols(workspace.layout).named(name) is not None:
        command = shlex.join(["rlexp", "verify", name])
        raise RecordError(
            f"{name} is a registered protocol and keeps its runs; to check them: {command}",
            command=command,
        )


def _require_inside(folder: Path, root: Path) -> None:
    """Refuse a folder that a symbolic link places outside `runs/`.

    Raises:
        RecordError: The folder lies outside `runs/`.
    """
    # Only the parent is resolved: a link in `runs/` is itself inside, wherever it leads.
    if not folder.parent.resolve().is_relative_to(root.resolve()):
        raise RecordError(
            f"{folder} is outside {root}, because a folder above it is a link; remove it there: "
            f"{folder.resolve()}",
        )


def _measure(match: ExperimentPaths | RunPaths) -> tuple[bool, int, int]:
    """Whether it is a link, the number of its runs, and its size in bytes."""
    if match.folder.is_symlink():
        return True, 0, 0
    runs = len(match.runs()) if isinstance(match, ExperimentPaths) else 1
    return False, runs, folder_size(match.folder)


@contextmanager
def unused(match: ExperimentPaths | RunPaths, *, lock: bool) -> Iterator[None]:
    """Check that nothing uses the experiment or run; with `lock`, lock it while the context is open.

    Raises:
        RecordError: A process uses it.
    """
    if isinstance(match, RunPaths):
        experiment, runs = ExperimentPaths(match.folder.parent), [match]
    else:
        experiment, runs = match, match.runs()
    what = f"experiment {experiment.name}"
    linked = experiment is match and match.folder.is_symlink()
    if is_held(experiment.lock):
        _refuse(what, experiment.lock, experiment.name)
    # A link to a folder is removed without touching the folder, so the folder needs no lock.
    with ExitStack() as stack:
        if lock and not linked:
            stack.enter_context(hold(experiment.lock, what, now=time.time()))
        for run in runs:
            # The claim too: an attempt that is just starting has no lease yet.
            for lease in filter(is_held, (run.lease, run.claim)):
                name = run.folder.name
                _refuse(f"run {name}", lease, f"{experiment.name}/{name}")
        yield


def _refuse(what: str, lock: Path, name: str) -> NoReturn:
    command = shlex.join(["rlexp", "cancel", name])
    raise RecordError(f"{what} is in use by {holder(lock)}; to stop it: {command}")


def _remove_recorded(match: ExperimentPaths | RunPaths) -> None:
    """Remove an experiment, or record the removal of a run in the ledger and remove the run."""
    if isinstance(match, ExperimentPaths):
        _remove(match.folder)
        return
    experiment = ExperimentPaths(match.folder.parent)
    entry = RemovedRun(run=match.folder.name)
    # The ledger comes first: if the command is killed between the two steps, `rlexp verify` must
    # not report a run as missing that the user removed.
    try:
        append_entry(experiment, entry)
    except OSError as error:
        if error.errno not in NO_SPACE:
            raise
        # A full disk must not prevent the user from freeing space: the removal makes room.
        _remove(match.folder)
        append_entry(experiment, entry)
    else:
        _remove(match.folder)
    # The same run may be made again: it must not begin with the tags of its predecessor.
    with suppress(RecordError):
        change_annotation(experiment, match.folder.name, lambda _: Annotation())


def _remove(folder: Path) -> None:
    """Rename the folder to a hidden name, then delete it."""
    # The rename is atomic: other commands never see a half-deleted run.
    # The random part keeps two removals of the same name apart.
    hidden = folder.with_name(f".removed-{uuid4().hex[:8]}")
    folder.rename(hidden)
    try:
        if hidden.is_symlink():
            hidden.unlink()
        else:
            shutil.rmtree(hidden)
    except OSError as error:
        raise RecordError(
            f"{folder.name} is removed, but some of its files remain in {hidden}: "
            f"{error.strerror}; delete that folder",
        ) from error
