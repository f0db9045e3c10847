"""Agents of gradient-boosted trees train, continue and load. Needs the package gbrl: `make test-suites`."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import stable_baselines3
import torch
from trainings import check_continuation, run_training, shared_training

from rlexp.records.events import Ending
from rlexp.training.parameters import weights_digest

BUDGET = (
    "budget.steps=192",
    "budget.evaluation_every=64",
    "budget.final_episodes=2",
    "agent=gbrl",
)
CASES: dict[str, tuple[str, ...]] = {
    "ppo, discrete": (
        *("algorithm=ppo", "environment=cartpole", "environment.vector.count=2"),
        *("algorithm.n_steps=16", "algorithm.batch_size=16", "algorithm.n_epochs=2"),
    ),
    "ppo, continuous": (
        *("algorithm=ppo", "environment=pendulum", "environment.max_episode_steps=20"),
        *("algorithm.n_steps=32", "algorithm.batch_size=16", "algorithm.n_epochs=2"),
    ),
    "a2c": ("algorithm=a2c", "environment=cartpole", "agent.grow_policy=oblivious"),
    "observations are numbers": (
        *("algorithm=a2c", "environment=frozen_lake", "agent.split_score=l2"),
        *("agent.max_policy_gradient=0.5", "agent.max_value_gradient=0.5"),
    ),
}


@pytest.mark.parametrize("name", CASES)
def test_a_training_with_trees_continues_exactly(name: str, tmp_path: Path) -> None:
    """A training that was stopped ends with the trees (SHA-256) and scores of one that was not."""
    check_continuation(tmp_path, (*CASES[name], *BUDGET), (70, 130), checkpoint_every=32)


@pytest.mark.parametrize("name", CASES)
def test_training_changes_the_trees(name: str) -> None:
    """A training of half the length has other trees."""
    words = (*CASES[name], *BUDGET)
    _, whole = shared_training(*words)
    _, half = shared_training(*words, "budget.steps=96")
    assert Ending.COMPLETED is whole.ending is half.ending
    assert whole.weights != half.weights


def test_a_saved_model_holds_the_trees(tmp_path: Path) -> None:
    """`model.zip` loads in the library with the same trees, and predicts the same actions."""
    run_training(tmp_path, *CASES["ppo, discrete"], *BUDGET)
    first, second = (stable_baselines3.PPO.load(tmp_path / "model.zip") for _ in range(2))
    policy: Any = first.policy
    assert policy.ensemble.get_iteration() == 24
    assert weights_digest(first) == weights_digest(second)
    observations = np.random.default_rng(0).normal(size=(100, 4)).astype(np.float32)
    actions, again = (
        model.predict(observations, deterministic=True)[0] for model in (first, second)
    )
    assert np.array_equal(actions, again)


def test_predictions_are_on_the_device_of_the_policy(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Trees are evaluated on the CPU, and the losses of the learner are computed on its device."""
    run_training(tmp_path, *CASES["ppo, discrete"], *BUDGET)
    policy: Any = stable_baselines3.PPO.load(tmp_path / "model.zip").policy
    # `meta` is the one other device that every machine has.
    monkeypatch.setattr(type(policy), "device", torch.device("meta"))
    predicted = policy._predicted(torch.zeros(3, 4), gradients=True)
    assert ["meta", "meta"] == [each.device.type for each in predicted]


def test_state_dependent_exploration_is_refused(tmp_path: Path) -> None:
    """Trees have no features for gSDE: the message names the setting."""
    _, end = run_training(tmp_path, *CASES["ppo, continuous"], *BUDGET, "algorithm.use_sde=true")
    assert Ending.COMPLETED is not end.ending
    assert "use_sde=false" in str(end.reason)
