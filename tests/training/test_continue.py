"""A training that continues from a checkpoint ends as one that was never interrupted."""

from pathlib import Path

import hidden_state
import pytest
from in_full import IN_FULL
from trainings import RecordingListener, shared, trained, without_times

from rlexp.records.events import Continued, Evaluated, Event, Measured, Refused, RunEnded
from rlexp.training import training_run

BUDGET = (
    "budget.steps=240",
    "budget.evaluation_every=80",
    "budget.evaluation_episodes=1",
    "budget.final_episodes=2",
    "environment.max_episode_steps=25",
    "agent.network=[8]",
)
EVERY = 60
"""Steps between checkpoints: the first is early, at the last a buffer is full."""
OFF_POLICY = (
    "algorithm.learning_starts=40",
    "algorithm.buffer_size=130",
    "algorithm.batch_size=16",
)
CASES = {
    "ppo": ("algorithm=ppo", "algorithm.n_steps=64", "algorithm.n_epochs=3"),
    "a2c": ("algorithm=a2c", "environment=acrobot", "environment.vector.count=2"),
    "trpo": ("algorithm=trpo", "algorithm.n_steps=64", "algorithm.batch_size=64"),
    "recurrent_ppo": (
        "algorithm=recurrent_ppo",
        "agent=lstm",
        "agent.lstm_hidden_size=8",
        "algorithm.n_steps=64",
        "algorithm.batch_size=64",
        "algorithm.n_epochs=2",
    ),
    "maskable_ppo": (
        "algorithm=maskable_ppo",
        "algorithm.n_steps=64",
        "environment=gymnasium",
        "environment.id=odd_environments:Masked-v0",
    ),
    "ppo, normalised, stacked, in processes": (
        "algorithm=ppo",
        "environment=pendulum",
        "algorithm.n_steps=32",
        "algorithm.n_epochs=3",
        "environment.vector.count=2",
        "environment.vector.kind=subprocess",
        "environment.vector.frame_stack=3",
        "environment.vector.normalise_observations=true",
        "environment.vector.normalise_rewards=true",
    ),
    "ppo with gSDE": (
        "algorithm=ppo",
        "environment=pendulum",
        "algorithm.n_steps=64",
        "algorithm.n_epochs=3",
        "algorithm.use_sde=true",
        "algorithm.sde_sample_freq=4",
    ),
    "dqn": ("algorithm=dqn", *OFF_POLICY),
    "qrdqn": ("algorithm=qrdqn", *OFF_POLICY),
    "sac": ("algorithm=sac", "environment=pendulum", *OFF_POLICY, "algorithm.train_freq=3"),
    "sac, normalised, in twos": (
        "algorithm=sac",
        "environment=pendulum",
        *OFF_POLICY,
        "environment.vector.count=2",
        "environment.vector.normalise_observations=true",
        "environment.vector.normalise_rewards=true",
    ),
    "sac with gSDE": (
        "algorithm=sac",
        "environment=pendulum",
        *OFF_POLICY,
        "algorithm.use_sde=true",
        "algorithm.train_freq=8",
    ),
    "td3 with noise that remembers": (
        "algorithm=td3",
        "environment=pendulum",
        *OFF_POLICY,
        "algorithm.action_noise={kind: ornstein_uhlenbeck, sigma: 0.3}",
    ),
    "ddpg, n steps, noise that remembers": (
        "algorithm=ddpg",
        "environment=pendulum",
        *OFF_POLICY,
        "algorithm.n_steps=3",
        "algorithm.action_noise={kind: ornstein_uhlenbeck, sigma: 0.3}",
    ),
    "tqc": ("algorithm=tqc", "environment=pendulum", *OFF_POLICY),
    "crossq": ("algorithm=crossq", "environment=pendulum", *OFF_POLICY),
    "dqn, lean buffer": (
        "algorithm=dqn",
        *OFF_POLICY,
        "algorithm.optimize_memory_usage=true",
        "algorithm.replay_buffer_kwargs={handle_timeout_termination: false}",
    ),
}


LONGEST = ("sac, normalised, in twos", "td3 with noise that remembers", "crossq", "qrdqn", "tqc")
if not IN_FULL:
    CASES = {name: words for name, words in CASES.items() if name not in LONGEST}


def results(events: list[Event], after: int) -> list[object]:
    """The evaluations and the end from a step on, without times."""
    kept: list[Event] = [e for e in events if isinstance(e, Evaluated | RunEnded)]
    return [plain for plain in without_times(kept) if plain["step"] > after]


@pytest.mark.parametrize("case", CASES)
def test_a_continued_training_ends_with_the_same_weights_and_scores(
    case: str, tmp_path: Path
) -> None:
    """With every learner, the rest after two checkpoints is equal to the last bit."""
    words = (*CASES[case], *BUDGET)
    control, ended = shared(*words, checkpoint_every=EVERY)
    assert ended.weights is not None, ended
    assert len(control.checkpoints) > 2
    for position in (0, len(control.checkpoints) - 1):
        saved = control.saved(position)
        memory, again = trained(tmp_path / str(position), *words, checkpoints=[saved])
        assert [saved.step] == [e.step for e in memory.events if isinstance(e, Continued)]
        assert [saved.step] == memory.began_at
        assert ended.weights == again.weights
        assert results(control.events, saved.step) == results(memory.events, saved.step)


def test_checkpoints_change_nothing(tmp_path: Path) -> None:
    """A training with checkpoints emits the same events as one without."""
    for name in ("ppo", "sac"):
        words = (*CASES[name], *BUDGET)
        with_them, one = shared(*words, checkpoint_every=EVERY)
        without, two = trained(tmp_path / name, *words)
        assert len(with_them.checkpoints) > 1
        assert one.weights == two.weights
        assert results(with_them.events, 0) == results(without.events, 0)


def test_losses_after_a_continuation_are_those_of_the_control(tmp_path: Path) -> None:
    """PPO logs the same numbers at each update, except for times."""
    words = (*CASES["ppo"], *BUDGET)
    control, _ = shared(*words, checkpoint_every=EVERY)
    saved = control.saved(1)
    memory, _ = trained(tmp_path / "again", *words, checkpoints=[saved])

    def measured(of: RecordingListener) -> list[object]:
        kept: list[Event] = [e for e in of.events if isinstance(e, Measured)]
        return [plain for plain in without_times(kept) if plain["step"] > saved.step]

    # The first line repeats losses of an update before the checkpoint.
    assert measured(control)[1:] == measured(memory)[1:]


def late(name: str) -> tuple[str, ...]:
    """A training on an environment whose hidden state has late effects."""
    task = f"environment.id={hidden_state.REGISTERED[name]}"
    return ("algorithm=ppo", "algorithm.n_steps=64", "environment=gymnasium", task, *BUDGET)


def test_counters_go_on(tmp_path: Path) -> None:
    """An environment that gets harder after its sixtieth episode does so at the same episode."""
    words = late("Curriculum")
    control, ended = shared(*words, checkpoint_every=EVERY)
    saved = control.saved(0)
    memory, again = trained(tmp_path / "again", *words, checkpoints=[saved])
    assert [saved.step] == memory.began_at
    assert ended.weights is not None
    assert ended.weights == again.weights


@pytest.mark.parametrize("tried", [True, False])
def test_state_that_shows_late_is_refused(
    tried: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The run starts from scratch and ends as the control, even without the replay check."""
    if not tried:
        monkeypatch.setattr(training_run, "check_round_trip", lambda *_, **__: None)
    words = late("RareSlips")
    control, ended = shared(*words, checkpoint_every=EVERY)
    memory, again = trained(tmp_path / "again", *words, checkpoints=[control.saved(0)])
    (refused,) = [e for e in memory.events if isinstance(e, Refused)]
    assert "own of RareSlips differs after the replay" in refused.reason
    assert [None] == memory.began_at
    assert ended.weights is not None
    assert ended.weights == again.weights
