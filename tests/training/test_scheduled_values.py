"""Hyperparameters that change at given steps: what learners train with, and exact continuation."""

from pathlib import Path

import pytest
from in_full import long
from stable_baselines3.common.base_class import BaseAlgorithm
from trainings import check_continuation, results, shared_training

from rlexp.protocol.step_schedule import StepSchedule
from rlexp.training.parts import ScheduledValues

BUDGET = (
    "budget.steps=256",
    "budget.evaluation_every=64",
    "budget.evaluation_episodes=1",
    "budget.final_episodes=2",
    "environment.max_episode_steps=25",
    "agent.network=[8]",
)
ON_POLICY = ("learning_rate", "gamma", "gae_lambda", "ent_coef", "vf_coef", "max_grad_norm")
OFF_POLICY = ("learning_rate", "gamma", "tau")
REPLAY = (
    "environment=pendulum",
    "algorithm.learning_starts=40",
    "algorithm.buffer_size=200",
    "algorithm.batch_size=16",
)
VALUES = {
    "learning_rate": (0.001, 0.01),
    "gamma": (0.9, 0.5),
    "gae_lambda": (0.95, 0.3),
    "ent_coef": (0.01, 0.3),
    "vf_coef": (0.5, 0.1),
    "max_grad_norm": (0.5, 0.01),
    "clip_range": (0.2, 0.02),
    "clip_range_vf": (0.3, 0.03),
    "tau": (0.005, 0.5),
    "target_policy_noise": (0.2, 0.9),
    "target_noise_clip": (0.5, 0.1),
}
"""Two values of each hyperparameter that can change."""
PPO = ("algorithm=ppo", "algorithm.n_steps=64", "algorithm.n_epochs=2")
CASES: dict[str, tuple[tuple[str, ...], tuple[str, ...]]] = {
    "ppo": (PPO, (*ON_POLICY, "clip_range", "clip_range_vf")),
    "a2c": (("algorithm=a2c", "algorithm.n_steps=16"), ON_POLICY),
    "sac": (("algorithm=sac", *REPLAY, "algorithm.train_freq=4"), (*OFF_POLICY, "ent_coef")),
    "td3": (
        ("algorithm=td3", *REPLAY, "algorithm.train_freq=4"),
        (*OFF_POLICY, "target_policy_noise", "target_noise_clip"),
    ),
    "dqn": (
        (
            *("algorithm=dqn", "environment=cartpole", "algorithm.exploration_fraction=0.1"),
            *("algorithm.target_update_interval=8", *REPLAY[1:]),
        ),
        (*OFF_POLICY, "max_grad_norm"),
    ),
    "tqc": (("algorithm=tqc", *REPLAY, "algorithm.train_freq=4"), (*OFF_POLICY, "ent_coef")),
    "crossq": (
        ("algorithm=crossq", *REPLAY, "algorithm.train_freq=4"),
        ("learning_rate", "gamma", "ent_coef"),
    ),
    "qrdqn": (
        ("algorithm=qrdqn", "algorithm.target_update_interval=8", *REPLAY[1:]),
        OFF_POLICY,
    ),
    "trpo": (
        ("algorithm=trpo", "algorithm.n_steps=64", "algorithm.batch_size=64"),
        ("learning_rate", "gamma", "gae_lambda"),
    ),
    "recurrent_ppo": (
        (
            *("algorithm=recurrent_ppo", "agent=lstm", "agent.lstm_hidden_size=8"),
            *("algorithm.n_steps=64", "algorithm.batch_size=64", "algorithm.n_epochs=2"),
        ),
        ON_POLICY,
    ),
    "compiled_ppo": (
        ("algorithm=compiled_ppo", *PPO[1:], "environment=cartpole"),
        (*ON_POLICY, "clip_range"),
    ),
}
"""An algorithm with its words, and the hyperparameters that can change."""
QUICK = ("ppo", "sac")
NAMES = [name if name in QUICK else pytest.param(name, marks=long) for name in CASES]


def words_of(name: str, *, steps: tuple[int, ...], positions: tuple[int, ...]) -> tuple[str, ...]:
    """The words of a case in which every hyperparameter has these of its values at these steps."""
    words, changing = CASES[name]
    listed = "[" + ",".join(map(str, steps)) + "]"
    schedules = (
        f"algorithm.{key}={{shape: steps, steps: {listed}, values: "
        f"[{','.join(str(VALUES[key][p]) for p in positions)}]}}"
        for key in changing
    )
    return (*words, *schedules, *BUDGET)


def constant(name: str, position: int) -> tuple[str, ...]:
    """The words of a case in which every hyperparameter has one value."""
    words, changing = CASES[name]
    return (*words, *(f"algorithm.{key}={VALUES[key][position]}" for key in changing), *BUDGET)


def require_packages(name: str) -> None:
    """Skip a case whose algorithm needs a package that is not installed."""
    if name.startswith("compiled"):
        pytest.importorskip("jax")


@pytest.mark.parametrize("name", NAMES)
def test_a_schedule_without_a_change_trains_as_the_value_does(name: str) -> None:
    """A schedule whose values are equal gives the weights and scores of that value, bit for bit."""
    require_packages(name)
    scheduled, end = shared_training(*words_of(name, steps=(0, 128), positions=(1, 1)))
    plain, expected = shared_training(*constant(name, 1))
    assert expected.weights is not None
    assert expected.weights == end.weights
    assert results(plain) == results(scheduled)


@pytest.mark.parametrize("name", NAMES)
def test_values_change_at_their_step_and_not_before(name: str) -> None:
    """Up to the step of a change a training equals that of the first value, and differs afterwards."""
    require_packages(name)
    scheduled, end = shared_training(*words_of(name, steps=(0, 128), positions=(0, 1)))
    first, expected = shared_training(*constant(name, 0))
    assert results(first, until=128) == results(scheduled, until=128)
    assert expected.weights != end.weights


@pytest.mark.parametrize("name", NAMES)
def test_a_training_with_schedules_continues_exactly(name: str, tmp_path: Path) -> None:
    """A training that is stopped before and after a change ends with the same weights and scores."""
    require_packages(name)
    words = words_of(name, steps=(0, 100, 190), positions=(0, 1, 0))
    check_continuation(tmp_path, words, (70, 210))


class Learner:
    """A learner of which only the number of steps is read."""

    def __init__(self) -> None:
        self.num_timesteps = 0
        self.vf_coef = -1.0


def test_a_value_is_in_force_from_the_first_rollout_after_its_step() -> None:
    """A value is set at the beginning of a rollout, never within one, and the last one stays."""
    schedule = StepSchedule(shape="steps", steps=(0, 100, 200), values=(1.0, 2.0, 3.0))
    values, learner = ScheduledValues({"vf_coef": schedule}), Learner()
    model: BaseAlgorithm = learner  # type: ignore[assignment]
    seen = []
    for step in (0, 64, 128, 192, 256, 320):
        learner.num_timesteps = step
        values.set_on(model)
        seen.append(learner.vf_coef)
    assert [1.0, 1.0, 2.0, 2.0, 3.0, 3.0] == seen
    assert [100, 200, None] == [values.next_change(step) for step in (0, 100, 200)]


def test_normalised_rewards_follow_the_discount() -> None:
    """The vector that normalises rewards uses the discount of the moment, as the learner does."""
    reward = ("environment.vector.normalise_rewards=true",)
    scheduled, _ = shared_training(*words_of("ppo", steps=(0, 128), positions=(1, 1)), *reward)
    plain, _ = shared_training(*constant("ppo", 1), *reward)
    assert results(plain) == results(scheduled)
