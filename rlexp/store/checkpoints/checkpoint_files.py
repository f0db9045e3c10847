"""Checkpoints of a run and the replay-buffer chunks that they share.

A checkpoint is a folder with a manifest of checksums. It is published by renaming a complete
folder, so that every checkpoint on disk is complete; it is verified when it is read; the newest two
are kept. The replay buffer of an off-policy run is stored once, in chunks of transitions that are
never changed: a checkpoint names the chunks that it needs, and adds only the new transitions.
"""

import math
import os
from collections.abc import Callable, Iterator, Mapping
from contextlib import suppress
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

from rlexp.errors import RecordError
from rlexp.records.checkpoint import STATE, Checkpoint, SavedCheckpoint, Transitions
from rlexp.store.checkpoints.checkpoint_folders import (
    checkpoint_folders,
    complete_checkpoints,
    entries,
    hidden,
    is_stale,
    make_folder,
    opened,
    read_manifest,
    read_summed,
    remove,
    replace_file,
    set_aside,
    step_of_folder,
    write_file,
)
from rlexp.store.checkpoints.manifest import (
    MANIFEST,
    Chunk,
    Manifest,
    Sum,
    check_transitions,
    decode_manifest,
    is_chunk,
)
from rlexp.store.files import sync
from rlexp.store.layout import RunPaths


def publish_transitions(paths: RunPaths, checkpoint: Checkpoint) -> tuple[tuple[Chunk, ...], int]:
    """Publish the new transitions; returns the chunks that the checkpoint needs, and bytes written.

    Raises:
        OSError: The disk is full or fails.
        RecordError: An earlier chunk that the checkpoint needs is no longer on disk.
    """
    new = checkpoint.transitions
    stored = _stored(paths, checkpoint.step)
    begin = math.inf if new is None else new.begin
    # Chunks that end before `oldest` hold only transitions that the buffer has dropped; chunks
    # behind `begin` belong to steps that a resumed run takes anew.
    chunks = tuple(c for c in stored if checkpoint.oldest < c.end <= begin)
    _check_sizes(paths, chunks)
    if new is not None:
        chunks += (Chunk(new.begin, new.end, Sum.of(new.content)),)
    try:
        check_transitions(chunks, checkpoint.oldest)
    except ValueError as error:
        raise RecordError(f"{paths.replay} lacks what goes before: {error}") from error
    if new is None or _holds(paths, stored, chunks[-1]):
        return chunks, 0
    make_folder(paths.replay)
    replace_file(paths.replay / chunks[-1].name, new.content)
    return chunks, len(new.content)


def read_transitions(paths: RunPaths, manifest: Manifest) -> Iterator[Transitions]:
    """The chunks that a checkpoint needs, oldest first, read one at a time.

    Raises:
        RecordError: A chunk is missing or damaged, or all were removed when the run was completed.
    """
    if not manifest.resumable:
        raise RecordError(
            f"{paths.checkpoints / str(manifest.step)} has its policy only: "
            "the experience was removed when the run was completed",
        )
    for chunk in manifest.transitions:
        content = read_summed(paths.replay, chunk.name, chunk.sum)
        yield Transitions(chunk.begin, chunk.end, content)


def _stored(paths: RunPaths, step: int) -> tuple[Chunk, ...]:
    """The chunks of the newest checkpoint on disk at `step` or before."""
    manifests = complete_checkpoints(paths).values()
    return next((m.transitions for m in manifests if m.step <= step), ())


def _holds(paths: RunPaths, stored: tuple[Chunk, ...], chunk: Chunk) -> bool:
    """Whether a chunk is on disk; an intact chunk with other content is refused."""
    other = next((c for c in stored if c.name == chunk.name), None)
    if other is None or not _is_intact(paths, other):
        return False
    # An earlier checkpoint needs these bytes: replacing them would destroy that checkpoint.
    if other != chunk:
        raise RecordError(f"{paths.replay / chunk.name} holds other transitions")
    return True


def _is_intact(paths: RunPaths, chunk: Chunk) -> bool:
    try:
        read_summed(paths.replay, chunk.name, chunk.sum)
    except RecordError:
        return False
    return True


def _check_sizes(paths: RunPaths, chunks: tuple[Chunk, ...]) -> None:
    # Sizes only: reading gigabytes of experience for each checkpoint would take too long. The
    # checksums are verified when a run continues from the checkpoint.
    for chunk in chunks:
        path = paths.replay / chunk.name
        try:
            with opened(paths.replay) as folder:
                size = os.stat(chunk.name, dir_fd=folder, follow_symlinks=False).st_size
        except FileNotFoundError as error:
            raise RecordError(f"{path} is missing") from error
        if size != chunk.sum.size:
            raise RecordError(f"{path} is damaged: it has {size} bytes, not {chunk.sum.size}")


KEPT_CHECKPOINTS = 2
"""Checkpoints that are kept: if the newest is damaged, the run continues from the other."""


def publish_checkpoint(
    paths: RunPaths,
    checkpoint: Checkpoint,
    about: Mapping[str, Any],
    *,
    last_look: Callable[[Path], object] = lambda _: None,
) -> int:
    """Publish a checkpoint, then remove older checkpoints and the chunks that none of them needs.

    Whenever the writer dies, the previous checkpoint or the new one is on disk, complete.

    Args:
        paths: The run, whose lease the caller holds.
        checkpoint: The checkpoint; one of the same step is replaced, newer ones are removed.
            Its transitions begin where those of the newest checkpoint on disk end, or with the
            oldest that it needs.
        about: Origin of the checkpoint as JSON values: the run's id under `run`, attempt,
            versions.
        last_look: Called with the written folder just before it is renamed to its final name.

    Returns:
        Bytes written.

    Raises:
        OSError: The disk is full or fails: the checkpoint is not published, earlier ones are
            untouched. Errors while older checkpoints are removed afterwards are ignored.
        RecordError: Earlier transitions that the checkpoint needs are no longer on disk, or the
            folder of checkpoints is a link.
        ValueError: A name or a count is not valid in a checkpoint.
    """
    try:
        chunks, written = publish_transitions(paths, checkpoint)
        manifest = Manifest(
            step=checkpoint.step,
            about=about if checkpoint.digest is None else {**about, "digest": checkpoint.digest},
            files={name: Sum.of(content) for name, content in checkpoint.files.items()},
            oldest=checkpoint.oldest,
            transitions=chunks,
        ).encode()
        # Read it back: a manifest that no reader accepts must not replace a good checkpoint.
        decode_manifest(manifest)
        files = {**checkpoint.files, MANIFEST: manifest}
        _publish_checkpoint(paths.checkpoints, checkpoint.step, files, last_look)
    except BaseException:
        # On a full disk the half-written files would keep the next checkpoint from being written.
        with suppress(OSError, RecordError):
            _prune(paths)
        raise
    # The checkpoint is published: an error of the clean-up is not an error of the checkpoint.
    with suppress(OSError, RecordError):
        _prune(paths, checkpoint.step)
    return written + sum(map(len, files.values()))


def checkpoint_steps(paths: RunPaths) -> list[int]:
    """The steps of the checkpoints that look complete, newest first.

    Raises:
        RecordError: The folder of checkpoints cannot be read, or is a link.
    """
    return list(_folders(paths))


def read_checkpoint(paths: RunPaths, step: int, *, run_id: str) -> SavedCheckpoint:
    """Read the checkpoint at `step`, every file once, and verify all checksums.

    Raises:
        RecordError: The checkpoint is missing, damaged, of another version or of another run.
            Its `transitions` raise it where chunks are missing, damaged, or were removed when the
            run was completed.
    """
    folder, manifest = _find(paths, step)
    run = manifest.about.get("run")
    if run != run_id:
        raise RecordError(f"{folder} is a checkpoint of another run, {run!r:.80}")
    files = {name: read_summed(folder, name, total) for name, total in manifest.files.items()}
    transitions = partial(read_transitions, paths, manifest)
    return SavedCheckpoint(step=step, about=manifest.about, files=files, transitions=transitions)


def is_resumable(paths: RunPaths, step: int) -> bool:
    """Whether a run can continue from a checkpoint; False where only its policy was kept.

    Raises:
        RecordError: The checkpoint is missing, damaged or of another version.
    """
    return _find(paths, step)[1].resumable


def discard_after(paths: RunPaths, step: int | None) -> None:
    """Remove leftovers, and checkpoints newer than the one that an attempt continues from.

    Args:
        paths: The run, whose lease the caller holds.
        step: The checkpoint that the attempt continues from; None where it begins anew.

    Raises:
        OSError: The disk fails.
        RecordError: A folder is a link.
    """
    _prune(paths, -1 if step is None else step)


def clear_replay(paths: RunPaths) -> None:
    """Remove the replay-buffer chunks of a completed run; its checkpoints keep their policies.

    Raises:
        OSError: The disk fails.
        RecordError: A folder is a link.
    """
    # Manifests first: a checkpoint that names removed chunks would count as damaged.
    for folder, manifest in complete_checkpoints(paths).items():
        if manifest.transitions:
            policy = replace(manifest, oldest=0, transitions=(), resumable=False)
            replace_file(folder / MANIFEST, policy.encode())
    _prune(paths)
    with suppress(OSError):
        paths.replay.rmdir()


def clear_states(paths: RunPaths) -> None:
    """Remove all of a completed run's checkpoints but their policies, with their experience.

    Raises:
        OSError: The disk fails.
        RecordError: A folder is a link.
    """
    for folder, manifest in complete_checkpoints(paths).items():
        files = {name: total for name, total in manifest.files.items() if name != STATE}
        policy = replace(manifest, files=files, oldest=0, transitions=(), resumable=False)
        if policy != manifest:
            replace_file(folder / MANIFEST, policy.encode())
        # After the manifest: a checkpoint that names a removed file would count as damaged.
        with suppress(FileNotFoundError):
            (folder / STATE).unlink()
    clear_replay(paths)


def _publish_checkpoint(
    folder: Path, step: int, files: Mapping[str, bytes], last_look: Callable[[Path], object]
) -> None:
    make_folder(folder)
    temporary = hidden(folder, str(step))
    temporary.mkdir()
    for name, content in files.items():
        write_file(temporary / name, content)
    # Files, then their folder, then the rename: a visible checkpoint has all its files on disk.
    sync(temporary)
    # The caller checks here that the run is still its own: checking is as late as it can be.
    last_look(temporary)
    final = folder / str(step)
    # A folder cannot be replaced in one step: the old checkpoint keeps a name that readers
    # accept (`.100.old`) until the new one has its name.
    if os.path.lexists(final):
        aside = set_aside(folder, step)
        if os.path.lexists(aside):
            remove(aside)
        final.rename(aside)
    temporary.rename(final)


def _folders(paths: RunPaths) -> dict[int, Path]:
    try:
        return checkpoint_folders(paths)
    except OSError as error:
        raise RecordError(f"{paths.checkpoints} cannot be read: {error.strerror}") from error


def _find(paths: RunPaths, step: int) -> tuple[Path, Manifest]:
    folder = _folders(paths).get(step)
    if folder is None:
        raise RecordError(f"{paths.checkpoints / str(step)} is missing")
    try:
        return folder, read_manifest(folder)
    except OSError as error:
        raise RecordError(f"{folder / MANIFEST} cannot be read: {error.strerror}") from error


def _in_place(folder: Path) -> Path:
    """Restore the name of a checkpoint that a writer set aside before it died."""
    final = folder.with_name(str(step_of_folder(folder)))
    if folder != final:
        if os.path.lexists(final):
            remove(final)
        folder.rename(final)
    return final


def _prune(paths: RunPaths, newest: float = math.inf) -> None:
    """Keep the last complete checkpoints up to step `newest` and their chunks; remove the rest.

    If a checkpoint cannot be read for the moment, an error is raised and nothing is removed.
    """
    complete = [item for item in complete_checkpoints(paths).items() if item[1].step <= newest]
    kept = {_in_place(folder): manifest for folder, manifest in complete[:KEPT_CHECKPOINTS]}
    if paths.checkpoints.exists():
        # Before the removal: after a power cut, the names of new checkpoints must be on disk.
        sync(paths.checkpoints)
    for path in entries(paths.checkpoints):
        if path not in kept and (is_stale(path) or step_of_folder(path) is not None):
            remove(path)
    # Chunks last: a chunk may go only once no checkpoint on disk names it.
    named = {chunk.name for manifest in kept.values() for chunk in manifest.transitions}
    for path in entries(paths.replay):
        if path.name not in named and (is_stale(path) or is_chunk(path.name)):
            remove(path)
    for path in (path for folder in kept for path in entries(folder)):
        if is_stale(path):
            remove(path)
