"""Checkpoints of an off-policy run, 100 steps apart, with a small replay buffer."""

import random
from pathlib import Path

import pytest

from rlexp.errors import RecordError
from rlexp.records.checkpoint import MODEL, NORMALISATION, STATE, Checkpoint, Transitions
from rlexp.store.checkpoints.checkpoint_files import (
    checkpoint_steps,
    publish_checkpoint,
    read_checkpoint,
)
from rlexp.store.layout import RunPaths

SPACING = 100
"""Steps between checkpoints."""
CAPACITY = 250
"""Transitions that the replay buffer holds."""
ABOUT = {"run": "0123456789abcdef", "attempt": 1, "versions": {"torch": "2.8.0"}}


def content(name: object, step: int) -> bytes:
    """The content of the checkpoint's file at a step: 3000 bytes that differ by step."""
    return random.Random(f"{name} {step}").randbytes(3000)


def checkpoint(step: int, *, learns_from: bool = True) -> Checkpoint:
    """The checkpoint at a step; an on-policy run has no replay buffer."""
    files = {name: content(name, step) for name in (MODEL, NORMALISATION, STATE)}
    if not learns_from:
        return Checkpoint(step=step, files=files)
    begin = step - SPACING
    new = Transitions(begin, step, content("transitions", begin))
    return Checkpoint(step=step, files=files, oldest=max(step - CAPACITY, 0), transitions=new)


def publish_up_to(paths: RunPaths, step: int) -> None:
    """Publish every checkpoint up to a step."""
    for published_step in range(SPACING, step + SPACING, SPACING):
        publish_checkpoint(paths, checkpoint(published_step), ABOUT)


def read_whole(paths: RunPaths, step: int) -> list[Transitions]:
    """Read a checkpoint, check its files, and return the transitions that it needs.

    Raises:
        RecordError: The run cannot continue from this checkpoint.
    """
    saved = read_checkpoint(paths, step, run_id=str(ABOUT["run"]))
    assert (step, ABOUT) == (saved.step, saved.about)
    assert checkpoint(step).files == saved.files
    return list(saved.transitions())


def needed(step: int) -> list[Transitions]:
    """The parts of the replay buffer that the checkpoint at a step needs, as published."""
    oldest = max(step - CAPACITY, 0)
    begins = range(oldest - oldest % SPACING, step, SPACING)
    return [Transitions(b, b + SPACING, content("transitions", b)) for b in begins]


def usable(paths: RunPaths) -> list[int]:
    """The steps of the checkpoints that a run can continue from, newest first."""
    steps = []
    for step in checkpoint_steps(paths):
        try:
            transitions = read_whole(paths, step)
        except RecordError:
            continue
        assert needed(step) == transitions
        steps.append(step)
    return steps


def files_of(paths: RunPaths) -> dict[Path, bytes]:
    """Every file of a run and its content."""
    return {p: p.read_bytes() for p in sorted(paths.folder.rglob("*")) if p.is_file()}


def refusal(paths: RunPaths, step: int) -> str:
    """The one-line reason why a checkpoint is refused."""
    with pytest.raises(RecordError) as caught:
        read_whole(paths, step)
    assert "\n" not in str(caught.value)
    return str(caught.value)


def only_second(paths: RunPaths) -> list[Path]:
    """The files that only the second checkpoint needs."""
    files = [*(paths.checkpoints / "200").iterdir(), paths.replay / "100-200.npz"]
    assert 5 == len(files)
    return files
