"""`rlexp mv`: gives an experiment another name; its records and their identities stay the same."""

import shlex
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from itertools import pairwise
from time import time
from typing import Any, ClassVar

from rlexp.app.commands.order.remove import unused
from rlexp.app.reading.experiment_scan import READ_ERRORS
from rlexp.app.results import Displayed, NextCommand, Schema
from rlexp.app.workspace import Workspace
from rlexp.errors import RecordError, RlexpError
from rlexp.store.files import read_document, read_json, sync
from rlexp.store.former_names import add_name, names_of
from rlexp.store.layout import ExperimentPaths
from rlexp.store.locks.lease import abandon, hold, holder, is_held
from rlexp.store.registers.ledger import publish_document
from rlexp.store.registers.protocols import read_protocols
from rlexp.store.run_queue import queued_runs
from rlexp.store.runs import read_definition
from rlexp.store.schemas import EXPERIMENT
from rlexp.store.tracker_positions import experiment_identity, keep_identity
from rlexp.text import format_count

FROM_SWEEP = "--from-sweep"
"""The option of `rlexp run` that names a sweep."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Move(Displayed):
    """An experiment that was given another name.

    Attributes:
        experiment: Its new name.
        before: Its name before.
        folder: The folder of its records.
        imported: Whether its runs were imported from another tool.
        name_in_services: The name under which trackers continue it; null if no tracker has it.
        referring: The experiments that extend its runs, or whose recorded commands name it by a former
            name.
        report: The folder of its report under the name before; null if there is none.
        next: Commands for what follows.
    """

    schema: ClassVar[Schema] = Schema("move")

    experiment: str
    before: str
    folder: str
    imported: bool
    name_in_services: str | None
    referring: tuple[str, ...]
    report: str | None
    next: tuple[NextCommand, ...]


def move(experiment: str, name: str, workspace: Workspace) -> Move:
    """Give an experiment another name.

    Raises:
        RlexpError: There is no such experiment, it is in use or queued, or the name is taken or not
            allowed; nothing was changed. Only where the disk fails after the renaming, the message
            says that the experiment has its new name.
    """
    paths = _experiment(experiment, workspace)
    target = workspace.new_experiment(name)
    _refuse_registered(paths, workspace)
    try:
        with ExitStack() as stack:
            stack.enter_context(unused(paths, lock=True))
            # Otherwise a command that adds a note would write it under the old name.
            what = f"the file with tags and notes of {paths.name}"
            stack.enter_context(hold(paths.annotations_lock, what, now=time()))
            _refuse_pending(paths)
            _rename(paths, target)
            stack.callback(_release, target)
            _rewrite(target)
    except OSError as error:
        raise RecordError(
            f"cannot rename {paths.folder}: {error.strerror}", code="unwritable"
        ) from error
    return _result(paths, target, workspace)


def _experiment(name: str, workspace: Workspace) -> ExperimentPaths:
    """The experiment of a name.

    Raises:
        RecordError: There is none, or the name is that of a run.
    """
    match = workspace.find(name)
    if isinstance(match, ExperimentPaths):
        return match
    command = shlex.join(["rlexp", "mv", match.folder.parent.name, "NEW"])
    raise RecordError(
        f"{match.folder.name} is a run, whose name follows from what defines it; only experiments "
        f"get another name: {command}",
        code="unknown_experiment",
        command=command,
    )


def _refuse_registered(paths: ExperimentPaths, workspace: Workspace) -> None:
    """Refuse to rename a registered protocol: `rlexp run --protocol` would train it anew."""
    if read_protocols(workspace.layout).named(paths.name) is not None:
        raise RecordError(
            f"{paths.name} is a registered protocol and keeps its name; add a tag instead: "
            f"rlexp tag {paths.name} TAG"
        )


def _refuse_pending(paths: ExperimentPaths) -> None:
    """Refuse while workers or a tracker's process would look for the old name.

    Raises:
        RecordError: Runs are queued, or records are being pushed to a tracker.
    """
    if queued := queued_runs(paths):
        command = shlex.join(["rlexp", "cancel", paths.name])
        raise RecordError(
            f"{format_count(len(queued), 'run')} of {paths.name} wait in the queue under this name;"
            f" to withdraw them: {command}",
            code="held",
            command=command,
        )
    for lock in paths.trackers.glob("*/.lock"):
        if is_held(lock):
            raise RecordError(
                f"the records of {paths.name} are being pushed to a tracker by {holder(lock)}; "
                "wait for it",
                code="held",
            )


def _rename(paths: ExperimentPaths, target: ExperimentPaths) -> None:
    # The name is written first: if the command is killed between the two steps, the folder has its
    # old name, and the name too many in the file counts for nothing.
    add_name(paths, target.name)
    # Atomic: there is one folder at every moment, with the old name or with the new one. A folder
    # of the new name that another command has made meanwhile is not empty, and refused.
    paths.folder.rename(target.folder)
    sync(target.folder.parent)


def _release(target: ExperimentPaths) -> None:
    """Remove the leases that moved along with the folder."""
    for lock in (target.lock, target.annotations_lock):
        abandon(lock)


def _rewrite(target: ExperimentPaths) -> None:
    """Write the new name where files name the experiment; nothing that is computed reads it there.

    Raises:
        RecordError: A file cannot be written; the experiment has its new name.
    """
    try:
        keep_identity(target)
        document = _definition(target)
        if document is not None and document.get("name") != target.name:
            publish_document(target, target.definition, {**document, "name": target.name})
    except (OSError, RecordError) as error:
        raise RecordError(
            f"the experiment is now {target.name}, but a file in it still has the old name: {error}"
        ) from error


def _definition(target: ExperimentPaths) -> Mapping[str, Any] | None:
    """The definition as it is on disk; None where it is unreadable or of an older schema."""
    try:
        schema, document = read_document(target.definition)
    except RecordError:
        return None
    # A file of an older schema is only read.
    return document if schema == EXPERIMENT.version else None


def _result(paths: ExperimentPaths, target: ExperimentPaths, workspace: Workspace) -> Move:
    report = workspace.folder / "reports" / paths.name
    following = [
        NextCommand(why="see it", command=shlex.join(["rlexp", "show", target.name])),
    ]
    if report.is_dir():
        command = shlex.join(["rlexp", "report", target.name])
        following.append(NextCommand(why="write its report under the new name", command=command))
    is_tracked = (target.trackers / "identity.json").exists()
    return Move(
        experiment=target.name,
        before=paths.name,
        folder=str(target.folder),
        imported=(_definition(target) or {}).get("imported") is not None,
        name_in_services=experiment_identity(target).name if is_tracked else None,
        referring=tuple(_referring(names_of(target)[:-1], workspace)),
        report=str(report) if report.is_dir() else None,
        next=tuple(following),
    )


def _referring(names: Sequence[str], workspace: Workspace) -> Iterator[str]:
    """The experiments that extend runs under one of the names, or whose recorded commands hold it."""
    from_sweep = {(FROM_SWEEP, name) for name in names}
    keys = ("algorithm.start_from", "replay.source")
    prefixes = tuple(f"{key}={name}/" for key in keys for name in names)
    for other in workspace.layout.experiments():
        try:
            words, extends = _command(other), read_definition(other).extends
        except (RlexpError, *READ_ERRORS):
            continue
        # The option and its value may be one word or two.
        named = from_sweep & {*pairwise(words), *(tuple(word.split("=", 1)) for word in words)}
        started = any(word.startswith(prefixes) for word in words)
        if named or started or (extends is not None and extends.experiment in names):
            yield other.name


def _command(paths: ExperimentPaths) -> list[str]:
    """The recorded command of one run of an experiment; all its runs come from the same one."""
    for run in paths.runs():
        if attempts := run.attempts():
            return [str(word) for word in read_json(attempts[-1].provenance)["command"]]
    return []
