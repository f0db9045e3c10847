"""The experience of off-policy learners on disk: chunks that checkpoints share, never changed."""

import math
import os
from collections.abc import Iterator

from rlexp.errors import RecordError
from rlexp.records.checkpoint import Checkpoint, Transitions
from rlexp.store.bundles import complete_bundles, make_folder, opened, read_summed, replace_file
from rlexp.store.layout import RunPaths
from rlexp.store.manifest import Chunk, Manifest, Sum, check_transitions


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
