"""Checkpoints of a training: when they are published, and what happens if that fails."""

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from trainings import TINY, RecordingListener, run_training, shared_training

from rlexp.errors import RecordError
from rlexp.records.checkpoint import Checkpoint, Transitions
from rlexp.records.events import (
    Checkpointed,
    Continued,
    Ending,
    Event,
    Failure,
    Refused,
    RunEnded,
    StopRequest,
)
from rlexp.training.snapshot import Snapshot

SHORT = ("budget.steps=320", "budget.evaluation_every=null", "budget.final_episodes=1")
SMALL = (*TINY["ppo"], *SHORT, "agent.network=[4]")
SAC = (
    *(*TINY["sac"], *SHORT, "agent.network=[4]", "algorithm.batch_size=8"),
    "environment.max_episode_steps=50",
)


class Clock(RecordingListener):
    """A listener for which every step takes a second."""

    def beat(self, step: int) -> None:
        """Advance the clock."""
        super().beat(step)
        self.time = float(step)


def checkpoint_steps(listener: RecordingListener) -> list[int]:
    """The steps at which checkpoints were published."""
    return [c.step for c in listener.checkpoints]


def interrupted_training(folder: Path, at: int, *words: str, **operational: Any) -> Clock:
    """The listener of a training that receives a stop request at a step."""
    listener = Clock(folder)
    listener.request, listener.request_at = StopRequest(Ending.INTERRUPTED, "enough"), at
    run_training(folder, *words, listener=listener, **operational)
    return listener


def test_time_makes_checkpoints_due(tmp_path: Path) -> None:
    """A checkpoint is published at the first rollout after every two minutes, with its size."""
    listener, _ = run_training(tmp_path, *SMALL, listener=Clock(tmp_path), checkpoint_minutes=2)
    assert [128, 256] == checkpoint_steps(listener)
    events = [e for e in listener.events if isinstance(e, Checkpointed)]
    sizes = [sum(map(len, c.files.values())) for c in listener.checkpoints]
    assert sizes == [e.bytes for e in events]


@pytest.mark.parametrize("ending", [Ending.INTERRUPTED, Ending.PRUNED])
def test_an_interrupted_training_leaves_its_newest_copy(ending: Ending, tmp_path: Path) -> None:
    """An interruption publishes the state at the start of its rollout; pruning publishes none."""
    listener = Clock(tmp_path)
    listener.request, listener.request_at = StopRequest(ending, "enough"), 150
    run_training(tmp_path, *SMALL, listener=listener)
    assert ([128] if ending is Ending.INTERRUPTED else []) == checkpoint_steps(listener)


def test_a_training_that_is_interrupted_twice_continues_twice(tmp_path: Path) -> None:
    """A training interrupted twice ends with the weights of an uninterrupted training."""
    _, control = shared_training(*SMALL)
    first_listener = interrupted_training(tmp_path / "first", 100, *SMALL)
    second_listener = Clock(tmp_path / "second")
    second_listener.request, second_listener.request_at = (
        StopRequest(Ending.INTERRUPTED, "enough"),
        250,
    )
    run_training(
        tmp_path / "second",
        *SMALL,
        listener=second_listener,
        checkpoints=[first_listener.saved_checkpoint(-1)],
    )
    _, end = run_training(
        tmp_path / "third", *SMALL, checkpoints=[second_listener.saved_checkpoint(-1)]
    )
    assert ([64], [192]) == (checkpoint_steps(first_listener), checkpoint_steps(second_listener))
    assert control.weights == end.weights


def test_nothing_is_published_before_the_first_rollout_ends(tmp_path: Path) -> None:
    """A training that is interrupted in its first rollout publishes no checkpoint."""
    assert [] == checkpoint_steps(interrupted_training(tmp_path, 10, *SMALL))


def test_experience_is_written_once(tmp_path: Path) -> None:
    """Consecutive checkpoints hold each row of experience once."""
    listener, _ = run_training(tmp_path, *SAC, "algorithm.buffer_size=1000", checkpoint_every=64)
    stretches = [c.transitions for c in listener.checkpoints]
    row_ranges = [(t.begin, t.end) for t in stretches if t is not None]
    assert [(0, 64), (64, 128), (128, 192), (192, 256)] == row_ranges


def test_experience_that_the_buffer_dropped_is_not_written(tmp_path: Path) -> None:
    """With a buffer of 50 rows, each checkpoint holds the last 50 rows."""
    listener, _ = run_training(tmp_path, *SAC, "algorithm.buffer_size=50", checkpoint_every=100)
    stretches = [c.transitions for c in listener.checkpoints]
    assert [(50, 100), (150, 200), (250, 300)] == [(t.begin, t.end) for t in stretches if t]
    assert [50, 150, 250] == [c.oldest for c in listener.checkpoints]


@pytest.mark.parametrize("evaluating", [False, True])
def test_a_full_buffer_leaves_a_checkpoint_when_interrupted(
    evaluating: bool, tmp_path: Path
) -> None:
    """An interrupted training with a full buffer goes on to a state that it can publish."""
    evaluation_every = "151" if evaluating else "null"
    words = (
        *(*SAC, "algorithm.buffer_size=50", "algorithm.train_freq=3", "budget.steps=165"),
        *(f"budget.evaluation_every={evaluation_every}", "budget.evaluation_episodes=1"),
    )
    _, control = shared_training(*words)
    first_listener = interrupted_training(tmp_path / "first", 151, *words)
    assert [153] == checkpoint_steps(first_listener)
    second_listener, end = run_training(
        tmp_path / "again", *words, checkpoints=[first_listener.saved_checkpoint(-1)]
    )
    assert ([153], control.weights) == (second_listener.began_at, end.weights)


def test_a_learner_that_cannot_be_copied_is_trained_without_checkpoints(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A learner with an unknown kind of state gets no checkpoints but finishes its run."""
    _, control = shared_training(*SMALL)

    def fail(*_: object) -> Snapshot:
        raise TypeError("what is this")

    monkeypatch.setattr(Snapshot, "take", fail)
    listener, end = run_training(tmp_path / "x", *SMALL, checkpoint_every=64)
    assert ([], control.weights) == (checkpoint_steps(listener), end.weights)


def test_heartbeats_continue_while_a_checkpoint_is_restored(tmp_path: Path) -> None:
    """Heartbeats continue while a long episode is replayed."""
    words = (*SMALL, "environment=pendulum")
    first_listener = interrupted_training(tmp_path / "first", 190, *words)
    second_listener = RecordingListener(tmp_path / "again")
    beat_counts: list[int] = []
    emit_event = second_listener.emit

    def emit(event: Event) -> None:
        beat_counts.append(len(second_listener.beats)) if isinstance(event, Continued) else None
        emit_event(event)

    second_listener.emit = emit  # type: ignore[method-assign]
    run_training(
        tmp_path / "again",
        *words,
        listener=second_listener,
        checkpoints=[first_listener.saved_checkpoint(-1)],
    )
    assert beat_counts[0] >= 128


def test_an_unusable_checkpoint_is_refused_and_the_next_one_taken(tmp_path: Path) -> None:
    """Damaged, foreign and incomplete checkpoints are reported, and the next one is used."""
    listener, control = shared_training(*SAC, checkpoint_every=100)
    good_checkpoint = listener.saved_checkpoint(0)

    def broken() -> Iterator[Transitions]:
        raise RecordError("replay/0-100.npz is damaged")

    other_listener, _ = shared_training(*SMALL, checkpoint_every=100)
    bad_checkpoints = [
        replace(
            listener.saved_checkpoint(1), files={**good_checkpoint.files, "state.npz": b"nonsense"}
        ),
        replace(listener.saved_checkpoint(1), transitions=broken),
        replace(listener.saved_checkpoint(1), transitions=lambda: iter(())),
        other_listener.saved_checkpoint(0),
    ]
    second_listener, end = run_training(
        tmp_path / "again", *SAC, checkpoints=[*bad_checkpoints, good_checkpoint]
    )
    reasons = [e.reason for e in second_listener.events if isinstance(e, Refused)]
    assert 4 == len(reasons), reasons
    assert "replay/0-100.npz is damaged" == reasons[1]
    assert "transitions 0 to 200 are missing" in reasons[2]
    assert [good_checkpoint.step] == [
        e.step for e in second_listener.events if isinstance(e, Continued)
    ]
    assert control.weights == end.weights


def test_where_no_checkpoint_is_usable_the_training_begins_anew(tmp_path: Path) -> None:
    """A training without a usable checkpoint says why, restarts and ends with equal weights."""
    listener, control = shared_training(*SMALL, checkpoint_every=100)
    bad_checkpoint = replace(listener.saved_checkpoint(0), files={})
    second_listener, end = run_training(tmp_path / "again", *SMALL, checkpoints=[bad_checkpoint])
    assert ([None], 1) == (
        second_listener.began_at,
        sum(isinstance(e, Refused) for e in second_listener.events),
    )
    assert control.weights == end.weights


def test_a_learner_that_cannot_be_interrupted_says_so(tmp_path: Path) -> None:
    """ARS reports that it starts from scratch, because it cannot continue from a checkpoint."""
    words = ("algorithm=ars", "agent=linear", "algorithm.n_delta=2", *SHORT[1:])
    small_words = (*words, "budget.steps=400", "environment.max_episode_steps=20")
    listener, control = shared_training(*small_words, checkpoint_every=100)
    second_listener, end = run_training(
        tmp_path / "again", *small_words, checkpoints=[listener.saved_checkpoint(0)]
    )
    reasons = [e.reason for e in second_listener.events if isinstance(e, Refused)]
    assert ["ARS has no rollouts between which it can be continued"] == reasons
    assert control.weights == end.weights


class FullDisk(Clock):
    """A listener that cannot take checkpoints."""

    def checkpoint(self, checkpoint: Checkpoint) -> int:
        """Raise the error of a full disk."""
        raise OSError(28, "No space left on device")


def test_a_checkpoint_that_cannot_be_written_is_never_swallowed(tmp_path: Path) -> None:
    """A full disk ends the run with the failure `disk`, which the next command retries."""
    _, end = run_training(tmp_path, *SMALL, listener=FullDisk(tmp_path), checkpoint_every=100)
    assert (Ending.FAILED, Failure.DISK) == (end.ending, end.failure)


def test_a_full_disk_does_not_change_how_an_interruption_is_recorded(tmp_path: Path) -> None:
    """A run that cannot save its copy is still recorded as interrupted."""
    listener = FullDisk(tmp_path)
    listener.request, listener.request_at = StopRequest(Ending.INTERRUPTED, "enough"), 150
    _, end = run_training(tmp_path, *SMALL, listener=listener)
    assert isinstance(end, RunEnded)
    assert (Ending.INTERRUPTED, "enough") == (end.ending, end.reason)


class Forgetful(RecordingListener):
    """A listener that once lost the experience of earlier checkpoints."""

    def checkpoint(self, checkpoint: Checkpoint) -> int:
        """Refuse a checkpoint that builds on earlier experience."""
        if checkpoint.transitions is not None and checkpoint.transitions.begin > 0:
            raise RecordError("replay/0-64.npz is missing")
        return super().checkpoint(checkpoint)


def test_experience_that_is_lost_on_disk_is_written_again(tmp_path: Path) -> None:
    """A run whose stored experience was lost writes all experience in its next checkpoint."""
    words = (*SAC, "algorithm.buffer_size=1000")
    listener, end = run_training(
        tmp_path, *words, listener=Forgetful(tmp_path), checkpoint_every=128
    )
    assert Ending.COMPLETED is end.ending
    stretches = [c.transitions for c in listener.checkpoints]
    assert [(0, 128), (0, 256)] == [(t.begin, t.end) for t in stretches if t]


def test_the_time_limit_counts_what_earlier_attempts_took(tmp_path: Path) -> None:
    """A continued run with a limit of 300 seconds, of which 192 were used, has 108 left."""
    first_listener = interrupted_training(tmp_path / "first", 200, *SMALL, timeout=300)
    _, end = run_training(
        tmp_path / "again",
        *SMALL,
        listener=Clock(tmp_path / "again"),
        checkpoints=[first_listener.saved_checkpoint(-1)],
        timeout=300,
    )
    assert (Failure.TIMEOUT, True) == (end.failure, end.step < 320)
