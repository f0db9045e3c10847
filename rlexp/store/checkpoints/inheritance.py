"""The copy of a finished run's training, from which an extended run continues.

The copy lies in the folder `parent` of the extended run, with the files of a checkpoint and of its
replay buffer. Its files are hard links where the file system allows: they are never changed, so
that both runs share the space, and either may be removed.
"""

import os
import shutil
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from rlexp.errors import RecordError
from rlexp.protocol.spec import Parent, RunSpec
from rlexp.records.events import (
    Ending,
    Evaluated,
    Event,
    Inherited,
    Measured,
    RunEnded,
    RunStarted,
)
from rlexp.records.run import RunRecord
from rlexp.store.checkpoints.checkpoint_files import read_checkpoint
from rlexp.store.checkpoints.checkpoint_folders import (
    clear_stale,
    complete_checkpoints,
    entries,
    hidden,
    link,
    make_folder,
    remove,
)
from rlexp.store.checkpoints.manifest import MANIFEST, Manifest
from rlexp.store.files import sync
from rlexp.store.journal import write_journal
from rlexp.store.layout import AttemptPaths, ExperimentPaths, RunPaths
from rlexp.store.runs import read_run, write_run

FIRST = 1
"""Number of the attempt that holds the events of the parent."""
OF_THE_ATTEMPT = ("attempt.json", "provenance.json", "diff.patch")
"""Files of the parent's attempt that the first attempt of an extended run takes."""


@dataclass(frozen=True, slots=True, kw_only=True)
class KeptCopy:
    """The copy of a training that a run keeps.

    Attributes:
        run: The run.
        folder: The folder of the checkpoint.
        manifest: What the checkpoint holds, and what made it.
        parent: The run, the step and the digest of the state.
    """

    run: RunPaths
    folder: Path
    manifest: Manifest
    parent: Parent


def find_copy(run: RunPaths, run_id: str) -> KeptCopy | None:
    """The newest copy from which the training of a run can continue; None without one.

    Raises:
        RecordError: The folder of checkpoints cannot be read, or is a link.
    """
    try:
        complete = complete_checkpoints(run)
    except OSError as error:
        raise RecordError(f"{run.checkpoints} cannot be read: {error.strerror}") from error
    for folder, manifest in complete.items():
        digest = manifest.about.get("digest")
        if manifest.resumable and manifest.about.get("run") == run_id and isinstance(digest, str):
            parent = Parent(run=run_id, step=manifest.step, digest=digest)
            return KeptCopy(run=run, folder=folder, manifest=manifest, parent=parent)
    return None


def verify_copy(copy: KeptCopy) -> None:
    """Read every file of a copy and compare it with its checksum.

    Raises:
        RecordError: A file is missing or damaged; names it.
    """
    saved = read_checkpoint(copy.run, copy.parent.step, run_id=copy.parent.run)
    for _ in saved.transitions():
        pass


def find_run(experiment: ExperimentPaths, run_id: str) -> RunPaths:
    """The folder of a run with this id.

    Raises:
        RecordError: The experiment does not hold the run any more.
    """
    # The name of a run's folder ends with the first digits of its id.
    for run in experiment.runs():
        if run.folder.name.endswith(f"-{run_id[:10]}"):
            return run
    raise RecordError(f"{experiment.folder} does not hold run {run_id[:10]} any more")


def inherit(run: RunPaths, spec: RunSpec, experiment: ExperimentPaths) -> None:
    """Give an extended run the copy of its parent's training, and the events up to that step.

    A process that is killed meanwhile leaves nothing that counts, and a repetition completes it.

    Args:
        run: The extended run, which no other process uses.
        spec: Its definition, with the parent.
        experiment: The experiment of the parent.

    Raises:
        OSError: The disk is full or fails.
        RecordError: The parent or its copy is missing, damaged, or another one than defined.
    """
    if run.attempts() or spec.parent is None:
        return
    source = find_run(experiment, spec.parent.run)
    copy = find_copy(source, spec.parent.run)
    if copy is None or copy.parent != spec.parent:
        raise RecordError(
            f"run {source.folder.name} of {experiment.name} does not hold the copy of step "
            f"{spec.parent.step:,} any more, from which {spec.name} continues"
        )
    verify_copy(copy)
    write_run(run, spec)
    clear_stale(run.folder, {run.parent.folder.name})
    if not os.path.lexists(run.parent.folder):
        try:
            _link_copy(copy, run)
        except FileNotFoundError as error:
            # Another command has just removed it.
            raise RecordError(f"{error.filename} is missing") from error
    _write_first_attempt(copy, run, experiment.name)


def drop_copy(run: RunPaths) -> None:
    """Remove the copy of the parent's training, which a completed run does not need any more.

    Raises:
        OSError: The disk fails.
    """
    if os.path.lexists(run.parent.folder):
        remove(run.parent.folder)


def _link_copy(copy: KeptCopy, run: RunPaths) -> None:
    temporary = RunPaths(hidden(run.folder, run.parent.folder.name))
    folder = temporary.checkpoints / str(copy.parent.step)
    folder.mkdir(parents=True)
    for name in (*copy.manifest.files, MANIFEST):
        link(copy.folder / name, folder / name)
    if copy.manifest.transitions:
        temporary.replay.mkdir()
        for chunk in copy.manifest.transitions:
            link(copy.run.replay / chunk.name, temporary.replay / chunk.name)
        sync(temporary.replay)
    sync(folder)
    sync(temporary.checkpoints)
    temporary.folder.rename(run.parent.folder)
    sync(run.folder)


def _write_first_attempt(copy: KeptCopy, run: RunPaths, experiment: str) -> None:
    """Write the events of the parent as the first attempt of the extended run."""
    record = read_run(copy.run, measurements=True).record
    made_by = copy.manifest.about.get("attempt")
    maker = copy.run.attempt(made_by) if isinstance(made_by, int) else None
    first = run.attempt(FIRST)
    make_folder(first.folder.parent)
    clear_stale(first.folder.parent, {first.folder.name})
    temporary = AttemptPaths(hidden(first.folder.parent, first.folder.name))
    temporary.folder.mkdir()
    write_journal(temporary.journal, inherited_events(record, copy.parent, experiment))
    for name in OF_THE_ATTEMPT:
        if maker is not None and (maker.folder / name).is_file():
            shutil.copyfile(maker.folder / name, temporary.folder / name, follow_symlinks=False)
    for path in entries(temporary.folder):
        sync(path)
    sync(temporary.folder)
    # In one step: an attempt is there with all its events, or not at all.
    temporary.folder.rename(first.folder)
    sync(first.folder.parent)


def inherited_events(record: RunRecord, parent: Parent, experiment: str) -> Iterator[Event]:
    """The events of a record up to the step from which another run continues, as an attempt.

    Args:
        record: The record of the parent, with its measurements.
        parent: The step.
        experiment: The name of the parent's experiment.
    """
    name, step = record.spec.name, parent.step
    every: list[Evaluated | Measured] = [*record.evaluations, *record.measurements]
    events = [event for event in every if event.step <= step]
    # At one step, an evaluation happens within the rollout whose measurements follow it.
    events.sort(key=lambda event: event.step)
    begun = record.started or 0.0
    time = max((event.time for event in events), default=begun)
    yield RunStarted(time=begun, attempt=FIRST, pid=0, host="")
    yield from events
    yield Inherited(time=time, step=step, experiment=experiment, run=name)
    yield RunEnded(
        time=time,
        step=step,
        ending=Ending.INTERRUPTED,
        seconds=0.0,
        reason=f"the events up to step {step:,} are those of run {name} of {experiment}",
    )
