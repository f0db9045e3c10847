"""Transitions of other runs that enter a replay buffer: which rows, exact continuation, and refusals."""

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest
from test_scheduled_values import BUDGET, REPLAY
from trainings import RecordingListener, results, run_training, spec_of

from rlexp.app.execution.run_process import assemble
from rlexp.errors import ConfigError
from rlexp.records.checkpoint import SavedCheckpoint, Transitions
from rlexp.records.events import Ending, RunEnded, StopRequest
from rlexp.training.learner_state import add_rows, buffer_of, first_row, read_rows, unpack
from rlexp.training.training_run import train

DQN = (
    *("algorithm=dqn", "environment=cartpole", "algorithm.exploration_fraction=0.1", *REPLAY[1:]),
    "algorithm.target_update_interval=8",
)
OTHERS = "a" * 64
RECEIVES = (
    "algorithm.experience={shape: steps, steps: [0, 100, 180], values: [null, "
    f"{OTHERS}, {'b' * 64}]}}"
)


@pytest.fixture(scope="module")
def transitions(tmp_path_factory: pytest.TempPathFactory) -> bytes:
    """The replay buffer of another run, with 200 rows."""
    folder = tmp_path_factory.mktemp("other")
    listener, _ = run_training(folder, *DQN, *BUDGET, seed=3, checkpoint_every=200)
    saved = [c.transitions for c in listener.checkpoints if c.transitions is not None]
    return saved[0].content


def trained(
    folder: Path,
    content: bytes,
    *checkpoints: SavedCheckpoint,
    listener: RecordingListener | None = None,
) -> tuple[RecordingListener, RunEnded]:
    """A training that receives rows of the other run twice: 50 rows, then 30."""

    def read(digest: str) -> Iterator[Transitions]:
        yield Transitions(20, 70, content) if digest == OTHERS else Transitions(0, 30, content)

    folder.mkdir(parents=True, exist_ok=True)
    recorder = listener or RecordingListener(folder)
    operational = {"checkpoint_every": 32} if listener else {}
    training = assemble(spec_of(*DQN, *BUDGET, RECEIVES), operational=operational, lean=True)
    return recorder, train(replace(training, read_experience=read), recorder, folder, checkpoints)


def test_a_training_that_receives_transitions_continues_exactly(
    transitions: bytes, tmp_path: Path
) -> None:
    """Stopped before, between and after the transitions enter, it ends with the same weights and scores."""
    control, expected = trained(tmp_path / "control", transitions)
    assert expected.ending is Ending.COMPLETED, expected.reason
    alone, end = run_training(tmp_path / "alone", *DQN, *BUDGET)
    assert results(alone, until=64) == results(control, until=64)
    assert end.weights != expected.weights
    for stop in (70, 140, 220):
        stopped = RecordingListener(tmp_path / str(stop))
        stopped.request, stopped.request_at = StopRequest(Ending.INTERRUPTED, "enough"), stop
        trained(tmp_path / str(stop), transitions, listener=stopped)
        checkpoint = stopped.saved_checkpoint(-1)
        rest, end = trained(tmp_path / f"rest-{stop}", transitions, checkpoint)
        assert checkpoint.step == rest.began_at[0]
        assert expected.weights == end.weights
        assert results(control, checkpoint.step) == results(rest)


def test_rows_enter_in_their_order_behind_those_that_are_there(
    transitions: bytes, tmp_path: Path
) -> None:
    """The buffer is a ring: rows are added at its end, and the oldest ones go."""
    learner = assemble(spec_of(*DQN, "algorithm.buffer_size=64"), operational={}).build(tmp_path)
    add_rows(learner, [Transitions(10, 60, transitions)])
    add_rows(learner, [Transitions(0, 20, transitions), Transitions(5, 15, transitions)])
    buffer, content = buffer_of(learner), unpack(transitions)
    assert buffer is not None
    assert (16, True, 16) == (buffer.pos, buffer.full, first_row(learner))
    rows = unpack(read_rows(learner, 16, 80).content)
    expected = [*range(26, 60), *range(20), *range(5, 15)]
    assert all((rows[name] == content[name][expected]).all() for name in content)
    assert learner.env is not None
    learner.env.close()


def test_only_single_transitions_are_received() -> None:
    """A buffer that joins transitions with those that follow refuses others between them."""
    joined = assemble(spec_of(*DQN, "algorithm.n_steps=3", RECEIVES), operational={}).algorithm
    with pytest.raises(ConfigError, match="experience brings single transitions"):
        joined.check(1)
    assemble(spec_of(*DQN, RECEIVES), operational={}).algorithm.check(1)
