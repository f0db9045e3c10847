"""A training that continues from a checkpoint ends like a training that was not interrupted."""

from pathlib import Path

import hidden_state
import pytest
from in_full import IN_FULL
from trainings import RecordingListener, run_training, shared_training, without_times

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
"""Steps between checkpoints: the first checkpoint is early, and at the last a buffer is full."""
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


GOALS = (
    *("agent=multi_input", "algorithm=dqn", "environment=gymnasium", *OFF_POLICY, "replay=her"),
    "environment.id=odd_environments:GoalBits-v0",
)
CASES |= {
    "dqn, n-step replay": ("algorithm=dqn", *OFF_POLICY, "replay=n_step"),
    "dqn, prioritised": ("algorithm=dqn", *OFF_POLICY, "replay=prioritised"),
    "sac, prioritised, in twos": (
        *("algorithm=sac", "environment=pendulum", *OFF_POLICY, "replay=prioritised"),
        *("environment.vector.count=2", "environment.vector.normalise_observations=true"),
    ),
    "dqn, hindsight, in twos": (*GOALS, "environment.vector.count=2"),
    "dqn, hindsight with infos": (
        *(*GOALS, "environment.id=odd_environments:CostlyGoalBits-v0"),
        "replay.copy_info_dict=true",
    ),
}

LONGEST = (
    "dqn, n-step replay",
    "sac, prioritised, in twos",
    "sac, normalised, in twos",
    "td3 with noise that remembers",
    "crossq",
    "qrdqn",
    "tqc",
)
if not IN_FULL:
    CASES = {name: words for name, words in CASES.items() if name not in LONGEST}


def results(events: list[Event], after: int) -> list[object]:
    """The evaluations and the end after a step, without times."""
    score_events: list[Event] = [e for e in events if isinstance(e, Evaluated | RunEnded)]
    return [values for values in without_times(score_events) if values["step"] > after]


@pytest.mark.parametrize("case", CASES)
def test_a_continued_training_ends_with_the_same_weights_and_scores(
    case: str, tmp_path: Path
) -> None:
    """A training continued from its first or last checkpoint gives the same weights and scores."""
    words = (*CASES[case], *BUDGET)
    control, end = shared_training(*words, checkpoint_every=EVERY)
    assert end.weights is not None, end
    assert len(control.checkpoints) > 2
    for position in (0, len(control.checkpoints) - 1):
        checkpoint = control.saved_checkpoint(position)
        listener, continued_end = run_training(
            tmp_path / str(position), *words, checkpoints=[checkpoint]
        )
        assert [checkpoint.step] == [e.step for e in listener.events if isinstance(e, Continued)]
        assert [checkpoint.step] == listener.began_at
        assert end.weights == continued_end.weights
        assert results(control.events, checkpoint.step) == results(
            listener.events, checkpoint.step
        )


def test_checkpoints_change_nothing(tmp_path: Path) -> None:
    """A training with checkpoints emits the same events as one without."""
    for name in ("ppo", "sac"):
        words = (*CASES[name], *BUDGET)
        with_checkpoints, end_with_checkpoints = shared_training(*words, checkpoint_every=EVERY)
        without_checkpoints, end_without_checkpoints = run_training(tmp_path / name, *words)
        assert len(with_checkpoints.checkpoints) > 1
        assert end_with_checkpoints.weights == end_without_checkpoints.weights
        assert results(with_checkpoints.events, 0) == results(without_checkpoints.events, 0)


@pytest.mark.parametrize("case", ["ppo", "dqn", "sac"])
def test_losses_after_a_continuation_are_those_of_the_control(case: str, tmp_path: Path) -> None:
    """A continued training logs the same losses as the control, from the first line on."""
    words = (*CASES[case], *BUDGET)
    control, _ = shared_training(*words, checkpoint_every=EVERY)
    checkpoint = control.saved_checkpoint(1)
    listener, _ = run_training(tmp_path / "again", *words, checkpoints=[checkpoint])

    def losses(source: RecordingListener) -> list[object]:
        measurements: list[Event] = [e for e in source.events if isinstance(e, Measured)]
        return [
            values for values in without_times(measurements) if values["step"] > checkpoint.step
        ]

    assert losses(control)
    assert losses(control) == losses(listener)


def late_effect_words(name: str) -> tuple[str, ...]:
    """The overrides of a training on an environment whose hidden state has late effects."""
    task = f"environment.id={hidden_state.REGISTERED[name]}"
    return ("algorithm=ppo", "algorithm.n_steps=64", "environment=gymnasium", task, *BUDGET)


def test_counters_go_on(tmp_path: Path) -> None:
    """An environment that gets harder after sixty episodes keeps its counter in a continued run."""
    words = late_effect_words("Curriculum")
    control, end = shared_training(*words, checkpoint_every=EVERY)
    checkpoint = control.saved_checkpoint(0)
    listener, continued_end = run_training(tmp_path / "again", *words, checkpoints=[checkpoint])
    assert [checkpoint.step] == listener.began_at
    assert end.weights is not None
    assert end.weights == continued_end.weights


@pytest.mark.parametrize("check_replay", [True, False])
def test_state_that_shows_late_is_refused(
    check_replay: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A checkpoint of hidden state is refused before the state shows, and the run restarts."""
    if not check_replay:
        monkeypatch.setattr(training_run, "check_round_trip", lambda *_, **__: None)
    words = late_effect_words("RareSlips")
    control, end = shared_training(*words, checkpoint_every=EVERY)
    listener, restarted_end = run_training(
        tmp_path / "again", *words, checkpoints=[control.saved_checkpoint(0)]
    )
    (refusal,) = [e for e in listener.events if isinstance(e, Refused)]
    assert "own of RareSlips differs after the replay" in refusal.reason
    assert [None] == listener.began_at
    assert end.weights is not None
    assert end.weights == restarted_end.weights
