"""Checkpoints on disk: complete or not there, verified when read, the newest two kept."""

import math
import os
from collections.abc import Callable, Iterator, Mapping
from contextlib import suppress
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

from rlexp.errors import RecordError
from rlexp.records.checkpoint import Checkpoint, SavedCheckpoint, Transitions
from rlexp.store.bundles import (
    bundle_step,
    bundles,
    complete_bundles,
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
    write_file,
)
from rlexp.store.files import sync
from rlexp.store.layout import RunPaths
from rlexp.store.manifest import (
    MANIFEST,
    Chunk,
    Manifest,
    Sum,
    check_transitions,
    decode_manifest,
    is_chunk,
)


def publish_transitions(paths: RunPaths, checkpoint: Checkpoint) -> tuple[tuple[Chunk, ...], int]:
    """Publish what is new; returns the chunks that the checkpoint needs, and bytes written.

    Raises:
        OSError: The disk is full or fails.
        RecordError: What is needed besides is not on disk any more.
    """
    new = checkpoint.transitions
    stored = _stored(paths, checkpoint.step)
    begin = math.inf if new is None else new.begin
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
    """Read the chunks that a checkpoint needs, oldest first.

    Raises:
        RecordError: One is missing or damaged, or all were removed when the run was completed.
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
    """The chunks of the newest checkpoint on disk up to a step."""
    manifests = complete_bundles(paths).values()
    return next((m.transitions for m in manifests if m.step <= step), ())


def _holds(paths: RunPaths, stored: tuple[Chunk, ...], chunk: Chunk) -> bool:
    """Whether a chunk is on disk; what a checkpoint needs is never replaced by anything else."""
    other = next((c for c in stored if c.name == chunk.name), None)
    if other is None or not _is_intact(paths, other):
        return False
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
    for chunk in chunks:
        path = paths.replay / chunk.name
        try:
            with opened(paths.replay) as place:
                size = os.stat(chunk.name, dir_fd=place, follow_symlinks=False).st_size
        except FileNotFoundError as error:
            raise RecordError(f"{path} is missing") from error
        if size != chunk.sum.size:
            raise RecordError(f"{path} is damaged: it has {size} bytes, not {chunk.sum.size}")


KEPT_CHECKPOINTS = 2
"""How many are kept: should the newest be damaged, there is the one before."""


def publish_checkpoint(
    paths: RunPaths,
    checkpoint: Checkpoint,
    about: Mapping[str, Any],
    *,
    last_look: Callable[[Path], object] = lambda _: None,
) -> int:
    """Publish a checkpoint, then remove the oldest and the experience that none needs any more.

    Whenever the writer dies, the checkpoint published before is there, or this one, complete.

    Args:
        paths: The run, whose lease the caller holds.
        checkpoint: What is published; one of the same step is replaced, newer ones are removed.
            Its transitions begin where those of the newest checkpoint on disk end, or with the
            oldest that it needs.
        about: Its origin, JSON values: the run's id under `run`, attempt, versions.
        last_look: Called with the folder of what is written, before it takes its place.

    Returns:
        Bytes written.

    Raises:
        OSError: The disk is full or fails: the checkpoint is not published, earlier ones are
            untouched. An error after the publication, while older ones are removed, is none.
        RecordError: Earlier transitions that it needs are not on disk any more, or the folder of
            checkpoints is a link.
        ValueError: A name or a count cannot be that of a checkpoint.
    """
    try:
        chunks, written = publish_transitions(paths, checkpoint)
        manifest = Manifest(
            step=checkpoint.step,
            about=about,
            files={name: Sum.of(content) for name, content in checkpoint.files.items()},
            oldest=checkpoint.oldest,
            transitions=chunks,
        ).encode()
        decode_manifest(manifest)
        files = {**checkpoint.files, MANIFEST: manifest}
        _publish_bundle(paths.checkpoints, checkpoint.step, files, last_look)
    except BaseException:
        with suppress(OSError, RecordError):
            _prune(paths)
        raise
    with suppress(OSError, RecordError):
        _prune(paths, checkpoint.step)
    return written + sum(map(len, files.values()))


def checkpoint_steps(paths: RunPaths) -> list[int]:
    """The steps of the checkpoints that look complete, newest first.

    Raises:
        RecordError: Their folder cannot be read, or is a link.
    """
    return list(_bundles(paths))


def read_checkpoint(paths: RunPaths, step: int, *, run_id: str) -> SavedCheckpoint:
    """Read the checkpoint at `step`, every file of it once, and verify all sums.

    Raises:
        RecordError: It is missing, damaged, of another version or of another run. Its
            `transitions` raise one where they are, or were removed when the run was completed.
    """
    bundle, manifest = _find(paths, step)
    run = manifest.about.get("run")
    if run != run_id:
        raise RecordError(f"{bundle} is a checkpoint of another run, {run!r:.80}")
    files = {name: read_summed(bundle, name, total) for name, total in manifest.files.items()}
    transitions = partial(read_transitions, paths, manifest)
    return SavedCheckpoint(step=step, about=manifest.about, files=files, transitions=transitions)


def is_resumable(paths: RunPaths, step: int) -> bool:
    """Whether a checkpoint has all that a run needs, and not only its policy.

    Raises:
        RecordError: It is missing, damaged or of another version.
    """
    return _find(paths, step)[1].resumable


def discard_after(paths: RunPaths, step: int | None) -> None:
    """Remove newer checkpoints than the one that an attempt continues from, and leftovers.

    Args:
        paths: The run, whose lease the caller holds.
        step: The checkpoint that is continued from; None where the attempt begins anew.

    Raises:
        OSError: The disk fails.
        RecordError: A folder is a link.
    """
    _prune(paths, -1 if step is None else step)


def clear_replay(paths: RunPaths) -> None:
    """Remove the experience of a run that is completed; its checkpoints keep their policies.

    Raises:
        OSError: The disk fails.
        RecordError: A folder is a link.
    """
    for bundle, manifest in complete_bundles(paths).items():
        if manifest.transitions:
            policy = replace(manifest, oldest=0, transitions=(), resumable=False)
            replace_file(bundle / MANIFEST, policy.encode())
    _prune(paths)
    with suppress(OSError):
        paths.replay.rmdir()


def _publish_bundle(
    folder: Path, step: int, files: Mapping[str, bytes], last_look: Callable[[Path], object]
) -> None:
    make_folder(folder)
    temporary = hidden(folder, str(step))
    temporary.mkdir()
    for name, content in files.items():
        write_file(temporary / name, content)
    sync(temporary)
    last_look(temporary)
    final = folder / str(step)
    if os.path.lexists(final):
        aside = set_aside(folder, step)
        if os.path.lexists(aside):
            remove(aside)
        final.rename(aside)
    temporary.rename(final)


def _bundles(paths: RunPaths) -> dict[int, Path]:
    try:
        return bundles(paths)
    except OSError as error:
        raise RecordError(f"{paths.checkpoints} cannot be read: {error.strerror}") from error


def _find(paths: RunPaths, step: int) -> tuple[Path, Manifest]:
    bundle = _bundles(paths).get(step)
    if bundle is None:
        raise RecordError(f"{paths.checkpoints / str(step)} is missing")
    try:
        return bundle, read_manifest(bundle)
    except OSError as error:
        raise RecordError(f"{bundle / MANIFEST} cannot be read: {error.strerror}") from error


def _in_place(bundle: Path) -> Path:
    """Put a checkpoint back that was set aside by a writer that died."""
    final = bundle.with_name(str(bundle_step(bundle)))
    if bundle != final:
        if os.path.lexists(final):
            remove(final)
        bundle.rename(final)
    return final


def _prune(paths: RunPaths, newest: float = math.inf) -> None:
    """Leave the last complete checkpoints up to step `newest`, and the experience they name.

    What cannot be read for the moment is an error, and nothing is removed.
    """
    complete = [item for item in complete_bundles(paths).items() if item[1].step <= newest]
    kept = {_in_place(bundle): manifest for bundle, manifest in complete[:KEPT_CHECKPOINTS]}
    if paths.checkpoints.exists():
        # The new goes before the old: what is not sure to outlast a power cut replaces nothing.
        sync(paths.checkpoints)
    for path in entries(paths.checkpoints):
        if path not in kept and (is_stale(path) or bundle_step(path) is not None):
            remove(path)
    named = {chunk.name for manifest in kept.values() for chunk in manifest.transitions}
    for path in entries(paths.replay):
        if path.name not in named and (is_stale(path) or is_chunk(path.name)):
            remove(path)
    for path in (path for bundle in kept for path in entries(bundle)):
        if is_stale(path):
            remove(path)
