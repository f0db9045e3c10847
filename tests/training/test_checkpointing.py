"""When a training is copied and published, and what happens if that fails."""

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from trainings import TINY, RecordingListener, shared, trained

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


def steps(memory: RecordingListener) -> list[int]:
    """The steps at which checkpoints were published."""
    return [c.step for c in memory.checkpoints]


def interrupted(folder: Path, at: int, *words: str, **operational: Any) -> Clock:
    """A training that receives a stop request at a step."""
    listener = Clock(folder)
    listener.request, listener.request_at = StopRequest(Ending.INTERRUPTED, "enough"), at
    trained(folder, *words, listener=listener, **operational)
    return listener


def test_time_makes_checkpoints_due(tmp_path: Path) -> None:
    """A checkpoint is published at the first rollout after every two minutes, with its cost."""
    memory, _ = trained(tmp_path, *SMALL, listener=Clock(tmp_path), checkpoint_minutes=2)
    assert [128, 256] == steps(memory)
    events = [e for e in memory.events if isinstance(e, Checkpointed)]
    sizes = [sum(map(len, c.files.values())) for c in memory.checkpoints]
    assert sizes == [e.bytes for e in events]


@pytest.mark.parametrize("ending", [Ending.INTERRUPTED, Ending.PRUNED])
def test_an_interrupted_training_leaves_its_newest_copy(ending: Ending, tmp_path: Path) -> None:
    """A stop request within a rollout publishes the state at the start of that rollout."""
    listener = Clock(tmp_path)
    listener.request, listener.request_at = StopRequest(ending, "enough"), 150
    trained(tmp_path, *SMALL, listener=listener)
    assert ([128] if ending is Ending.INTERRUPTED else []) == steps(listener)


def test_a_training_that_is_interrupted_twice_continues_twice(tmp_path: Path) -> None:
    """A training interrupted twice still ends with the weights of the control."""
    _, control = shared(*SMALL)
    first = interrupted(tmp_path / "first", 100, *SMALL)
    second = Clock(tmp_path / "second")
    second.request, second.request_at = StopRequest(Ending.INTERRUPTED, "enough"), 250
    trained(tmp_path / "second", *SMALL, listener=second, checkpoints=[first.saved(-1)])
    _, ended = trained(tmp_path / "third", *SMALL, checkpoints=[second.saved(-1)])
    assert ([64], [192]) == (steps(first), steps(second))
    assert control.weights == ended.weights


def test_nothing_is_published_before_the_first_rollout_ends(tmp_path: Path) -> None:
    """A training stopped in its first rollout publishes nothing and starts from scratch."""
    assert [] == steps(interrupted(tmp_path, 10, *SMALL))


def test_experience_is_written_once(tmp_path: Path) -> None:
    """Checkpoints hold consecutive stretches with each row that the buffer received."""
    memory, _ = trained(tmp_path, *SAC, "algorithm.buffer_size=1000", checkpoint_every=64)
    stretches = [c.transitions for c in memory.checkpoints]
    found = [(t.begin, t.end) for t in stretches if t is not None]
    assert [(0, 64), (64, 128), (128, 192), (192, 256)] == found


def test_experience_that_the_buffer_dropped_is_not_written(tmp_path: Path) -> None:
    """With a buffer of 50 rows, each checkpoint holds the last 50."""
    memory, _ = trained(tmp_path, *SAC, "algorithm.buffer_size=50", checkpoint_every=100)
    stretches = [c.transitions for c in memory.checkpoints]
    assert [(50, 100), (150, 200), (250, 300)] == [(t.begin, t.end) for t in stretches if t]
    assert [50, 150, 250] == [c.oldest for c in memory.checkpoints]


@pytest.mark.parametrize("evaluating", [False, True])
def test_a_full_buffer_leaves_a_checkpoint_when_interrupted(
    evaluating: bool, tmp_path: Path
) -> None:
    """A training whose newest copy is overwritten continues to a state that can be copied."""
    every = "151" if evaluating else "null"
    words = (
        *(*SAC, "algorithm.buffer_size=50", "algorithm.train_freq=3", "budget.steps=165"),
        *(f"budget.evaluation_every={every}", "budget.evaluation_episodes=1"),
    )
    _, control = shared(*words)
    first = interrupted(tmp_path / "first", 151, *words)
    assert [153] == steps(first)
    again, ended = trained(tmp_path / "again", *words, checkpoints=[first.saved(-1)])
    assert ([153], control.weights) == (again.began_at, ended.weights)


def test_a_learner_that_cannot_be_copied_is_trained_without_checkpoints(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A learner with an unknown kind of state gets no checkpoints but finishes its run."""
    _, control = shared(*SMALL)

    def fail(*_: object) -> Snapshot:
        raise TypeError("what is this")

    monkeypatch.setattr(Snapshot, "take", fail)
    memory, ended = trained(tmp_path / "x", *SMALL, checkpoint_every=64)
    assert ([], control.weights) == (steps(memory), ended.weights)


def test_heartbeats_continue_while_a_checkpoint_is_restored(tmp_path: Path) -> None:
    """Heartbeats continue while a long episode is replayed."""
    words = (*SMALL, "environment=pendulum")
    first = interrupted(tmp_path / "first", 190, *words)
    again = RecordingListener(tmp_path / "again")
    heard: list[int] = []
    told = again.emit

    def emit(event: Event) -> None:
        heard.append(len(again.beats)) if isinstance(event, Continued) else None
        told(event)

    again.emit = emit  # type: ignore[method-assign]
    trained(tmp_path / "again", *words, listener=again, checkpoints=[first.saved(-1)])
    assert heard[0] >= 128


def test_an_unusable_checkpoint_is_refused_and_the_next_one_taken(tmp_path: Path) -> None:
    """Damaged, foreign and incomplete checkpoints are reported, and the next one is used."""
    memory, control = shared(*SAC, checkpoint_every=100)
    good = memory.saved(0)

    def broken() -> Iterator[Transitions]:
        raise RecordError("replay/0-100.npz is damaged")

    other, _ = shared(*SMALL, checkpoint_every=100)
    bad = [
        replace(memory.saved(1), files={**good.files, "state.npz": b"nonsense"}),
        replace(memory.saved(1), transitions=broken),
        replace(memory.saved(1), transitions=lambda: iter(())),
        other.saved(0),
    ]
    again, ended = trained(tmp_path / "again", *SAC, checkpoints=[*bad, good])
    reasons = [e.reason for e in again.events if isinstance(e, Refused)]
    assert 4 == len(reasons), reasons
    assert "replay/0-100.npz is damaged" == reasons[1]
    assert "transitions 0 to 200 are missing" in reasons[2]
    assert [good.step] == [e.step for e in again.events if isinstance(e, Continued)]
    assert control.weights == ended.weights


def test_where_no_checkpoint_is_usable_the_training_begins_anew(tmp_path: Path) -> None:
    """The training reports why, starts from scratch, and ends with the same weights."""
    memory, control = shared(*SMALL, checkpoint_every=100)
    bad = replace(memory.saved(0), files={})
    again, ended = trained(tmp_path / "again", *SMALL, checkpoints=[bad])
    assert ([None], 1) == (again.began_at, sum(isinstance(e, Refused) for e in again.events))
    assert control.weights == ended.weights


def test_a_learner_that_cannot_be_interrupted_says_so(tmp_path: Path) -> None:
    """ARS publishes its policy, and reports that it starts from scratch."""
    words = ("algorithm=ars", "agent=linear", "algorithm.n_delta=2", *SHORT[1:])
    small = (*words, "budget.steps=400", "environment.max_episode_steps=20")
    memory, control = shared(*small, checkpoint_every=100)
    again, ended = trained(tmp_path / "again", *small, checkpoints=[memory.saved(0)])
    reasons = [e.reason for e in again.events if isinstance(e, Refused)]
    assert ["ARS has no rollouts between which it can be continued"] == reasons
    assert control.weights == ended.weights


class FullDisk(Clock):
    """A listener that cannot take checkpoints."""

    def checkpoint(self, checkpoint: Checkpoint) -> int:
        """Raise the error of a full disk."""
        raise OSError(28, "No space left on device")


def test_a_checkpoint_that_cannot_be_written_is_never_swallowed(tmp_path: Path) -> None:
    """A full disk ends the run with the failure `disk`, which the next command retries."""
    _, ended = trained(tmp_path, *SMALL, listener=FullDisk(tmp_path), checkpoint_every=100)
    assert (Ending.FAILED, Failure.DISK) == (ended.ending, ended.failure)


def test_a_full_disk_does_not_change_how_an_interruption_is_recorded(tmp_path: Path) -> None:
    """A run that cannot save its copy is still recorded as interrupted."""
    listener = FullDisk(tmp_path)
    listener.request, listener.request_at = StopRequest(Ending.INTERRUPTED, "enough"), 150
    _, ended = trained(tmp_path, *SMALL, listener=listener)
    assert isinstance(ended, RunEnded)
    assert (Ending.INTERRUPTED, "enough") == (ended.ending, ended.reason)


class Forgetful(RecordingListener):
    """A store that loses earlier experience once."""

    def checkpoint(self, checkpoint: Checkpoint) -> int:
        """Refuse what builds on the experience before."""
        if checkpoint.transitions is not None and checkpoint.transitions.begin > 0:
            raise RecordError("replay/0-64.npz is missing")
        return super().checkpoint(checkpoint)


def test_experience_that_is_lost_on_disk_is_written_again(tmp_path: Path) -> None:
    """The run continues, and its checkpoint holds all experience."""
    words = (*SAC, "algorithm.buffer_size=1000")
    memory, ended = trained(tmp_path, *words, listener=Forgetful(tmp_path), checkpoint_every=128)
    assert Ending.COMPLETED is ended.ending
    stretches = [c.transitions for c in memory.checkpoints]
    assert [(0, 128), (0, 256)] == [(t.begin, t.end) for t in stretches if t]


def test_the_time_limit_counts_what_earlier_attempts_took(tmp_path: Path) -> None:
    """A run with a limit of 300 seconds that has used 192 has 108 left."""
    first = interrupted(tmp_path / "first", 200, *SMALL, timeout=300)
    _, ended = trained(
        tmp_path / "again",
        *SMALL,
        listener=Clock(tmp_path / "again"),
        checkpoints=[first.saved(-1)],
        timeout=300,
    )
    assert (Failure.TIMEOUT, True) == (ended.failure, ended.step < 320)
