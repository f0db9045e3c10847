"""An extended training ends like a training of that length that was never extended."""

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from in_full import long
from trainings import RecordingListener, run_training, shared_training, spec_of, without_times

from rlexp.algorithms.schedules import HyperparameterSchedule, in_library_terms
from rlexp.app.execution.run_process import assemble
from rlexp.errors import ConfigError
from rlexp.protocol.spec import Parent
from rlexp.records.checkpoint import SavedCheckpoint
from rlexp.records.events import Ending, Evaluated, Failure, RunEnded, StopRequest
from rlexp.training.training_run import train

SHORT, LONG = 100, 260
WORDS = (
    "budget.evaluation_every=40",
    "budget.evaluation_episodes=1",
    "budget.final_episodes=2",
    "agent.network=[8]",
)
OFF_POLICY = (
    "environment=pendulum",
    "environment.max_episode_steps=25",
    "algorithm.learning_starts=40",
    "algorithm.buffer_size=90",
    "algorithm.batch_size=16",
)
NORMALISED = (
    "environment.vector.normalise_observations=true",
    "environment.vector.normalise_rewards=true",
)
CONSTANT = ("algorithm.exploration_initial_eps=0.1", "algorithm.exploration_final_eps=0.1")
VALUES = (
    "algorithm.learning_starts=40",
    "algorithm.buffer_size=90",
    "algorithm.batch_size=16",
    "algorithm.target_update_interval=50",
    *CONSTANT,
)
LIBRARY = {
    "ppo": ("algorithm=ppo", "algorithm.n_steps=64", "algorithm.n_epochs=2"),
    "a2c": ("algorithm=a2c", "environment.vector.count=2"),
    "dqn": ("algorithm=dqn", *VALUES),
    "sac": ("algorithm=sac", *OFF_POLICY, "algorithm.train_freq=4"),
    "td3": ("algorithm=td3", *OFF_POLICY, "algorithm.train_freq=[1,episode]"),
    "ddpg": ("algorithm=ddpg", *OFF_POLICY, "algorithm.train_freq=2"),
    "trpo": ("algorithm=trpo", "algorithm.n_steps=64", "algorithm.batch_size=64"),
    "qrdqn": ("algorithm=qrdqn", *VALUES),
    "tqc": ("algorithm=tqc", *OFF_POLICY, "algorithm.train_freq=4"),
    "crossq": ("algorithm=crossq", *OFF_POLICY, "algorithm.train_freq=4"),
    "recurrent_ppo": (
        *("algorithm=recurrent_ppo", "agent=lstm", "agent.lstm_hidden_size=8"),
        *("algorithm.n_steps=32", "algorithm.batch_size=32", "algorithm.n_epochs=2"),
    ),
    "maskable_ppo": (
        *("algorithm=maskable_ppo", "algorithm.n_steps=32", "algorithm.batch_size=32"),
        *("environment=gymnasium", "environment.id=odd_environments:Masked-v0"),
    ),
}
"""The algorithms whose state can be copied, with settings that do not depend on the length."""
CASES = LIBRARY | {f"{name}, normalised": (*w, *NORMALISED) for name, w in LIBRARY.items()}
QUICK = ("ppo", "sac, normalised")
"""Cases of the ordinary tests."""


def shorter(words: Sequence[str], steps: int = SHORT) -> RecordingListener:
    """The listener of a training of `steps` environment steps that keeps its last copy."""
    return shared_training(*words, *WORDS, f"budget.steps={steps}", keep_last=True)[0]


def kept(listener: RecordingListener) -> tuple[SavedCheckpoint, Parent]:
    """The copy that a training has kept, and the parent that it makes."""
    checkpoint = listener.checkpoints[-1]
    assert checkpoint.digest is not None
    parent = Parent(run="0" * 64, step=checkpoint.step, digest=checkpoint.digest)
    return listener.saved_checkpoint(-1), parent


def extended(
    folder: Path,
    words: Sequence[str],
    parent: Parent | None,
    checkpoints: Sequence[SavedCheckpoint],
    listener: RecordingListener | None = None,
    **operational: Any,
) -> tuple[RecordingListener, RunEnded]:
    """Continue a training up to `LONG` environment steps."""
    folder.mkdir(parents=True, exist_ok=True)
    recorder = listener or RecordingListener(folder)
    spec = replace(spec_of(*words, *WORDS, f"budget.steps={LONG}"), parent=parent)
    training = assemble(spec, operational=operational)
    return recorder, train(training, recorder, folder, checkpoints)


def evaluations(listener: RecordingListener, after: int = 0) -> list[Any]:
    """All evaluations after a step, without times."""
    events = [e for e in listener.events if isinstance(e, Evaluated) and e.step > after]
    return without_times(list(events))


@pytest.mark.parametrize(
    "name", [name if name in QUICK else pytest.param(name, marks=long) for name in CASES]
)
def test_an_extended_training_equals_a_longer_one(name: str, tmp_path: Path) -> None:
    """Weights, evaluations and score are those of a training of that length, also after a stop."""
    words = CASES[name]
    control, end = shared_training(*words, *WORDS, f"budget.steps={LONG}")
    copy, parent = kept(shorter(words))
    listener, extension = extended(tmp_path / "whole", words, parent, [copy])
    stopped = RecordingListener(tmp_path / "stopped")
    stopped.request, stopped.request_at = StopRequest(Ending.INTERRUPTED, "enough"), 190
    _, interrupted = extended(
        tmp_path / "stopped", words, parent, [copy], stopped, checkpoint_every=50
    )
    rest, after = extended(
        tmp_path / "rest", words, parent, [joined(shorter(words), stopped), copy]
    )
    assert Ending.INTERRUPTED is interrupted.ending
    assert end.weights is not None
    assert without_times([end]) == without_times([extension]) == without_times([after])
    assert evaluations(control, copy.step) == evaluations(listener)
    assert rest.began_at[0] is not None
    assert evaluations(control, rest.began_at[0]) == evaluations(rest)


def joined(parent: RecordingListener, child: RecordingListener) -> SavedCheckpoint:
    """The newest checkpoint of an extended training, with the experience of its parent."""
    both = RecordingListener(child.folder)
    both.checkpoints = [*parent.checkpoints, *child.checkpoints]
    return both.saved_checkpoint(-1)


@pytest.mark.parametrize("name", ["ppo", "a2c", "sac"])
def test_the_copy_is_that_of_the_last_rollout(name: str) -> None:
    """A training keeps the state at the start of its last rollout, which may end after its budget."""
    listener = shorter(CASES[name])
    expected = {"ppo": 64, "a2c": 90, "sac": 96}[name]
    assert expected == listener.checkpoints[-1].step


def test_two_executions_keep_the_same_state(tmp_path: Path) -> None:
    """The digest of the kept state does not depend on the clock; that of another seed differs."""
    words = (*CASES["ppo"], *WORDS, f"budget.steps={SHORT}")
    first, second = (run_training(tmp_path / name, *words)[0] for name in "ab")
    other, _ = run_training(tmp_path / "c", *words, seed=1)
    digests = [listener.checkpoints[-1].digest for listener in (first, second, other)]
    assert digests[0] is not None
    assert digests[0] == digests[1] != digests[2]


@pytest.mark.parametrize(
    ("words", "keep", "count"),
    [("ppo", None, 1), ("ppo", False, 0), ("sac", None, 0), ("sac", True, 1)],
)
def test_what_is_kept(words: str, keep: bool | None, count: int, tmp_path: Path) -> None:
    """A copy is kept by default where there is no replay buffer, or as the setting says."""
    listener, _ = run_training(
        tmp_path, *CASES[words], *WORDS, f"budget.steps={SHORT}", keep_last=keep
    )
    assert count == len(listener.checkpoints)


def test_an_extended_training_never_begins_at_step_0(tmp_path: Path) -> None:
    """An extended training without a usable copy fails, because it would be another run."""
    _, parent = kept(shorter(CASES["ppo"]))
    listener, end = extended(tmp_path, CASES["ppo"], parent, [])
    assert Failure.USER is end.failure
    assert end.reason is not None
    assert "begins nowhere else" in end.reason
    assert [] == evaluations(listener)


@pytest.mark.parametrize("share", [0.25, 0.5])
def test_a_restarted_schedule_begins_and_ends_as_before(share: float) -> None:
    """A restarted schedule has its first value where it restarts, and its last at the same part."""
    schedule = HyperparameterSchedule(shape="linear", initial=0.4, final=0.1, until=0.5)
    value = in_library_terms(schedule.restarted(share))
    middle = share + 0.25 * (1 - share)
    remaining = [1 - share, 1 - middle, 1 - share - 0.5 * (1 - share), 0.0]
    assert [value(r) for r in remaining] == pytest.approx([0.4, 0.25, 0.1, 0.1])


def test_a_schedule_that_cannot_restart_is_refused() -> None:
    """A schedule that rises steeply would be negative at the start, which the library refuses."""
    schedule = HyperparameterSchedule(shape="linear", initial=0.1, final=0.9)
    with pytest.raises(ConfigError, match="cannot begin again after 50 %"):
        schedule.restarted(0.5)


def test_exploration_begins_again(tmp_path: Path) -> None:
    """The exploration of an extended DQN begins again where the extension starts."""
    parent = Parent(run="0" * 64, step=65, digest="0" * 64)
    spec = spec_of("algorithm=dqn", *WORDS, f"budget.steps={LONG}", budget={"restarts": [SHORT]})
    model: Any = assemble(replace(spec, parent=parent)).build(tmp_path)
    model.env.close()
    first, last = model.exploration_schedule(1 - 65 / LONG), model.exploration_schedule(0.0)
    assert (first, last) == (pytest.approx(1.0), pytest.approx(0.05))
    assert model.exploration_schedule(1 - 75 / LONG) < 1.0
