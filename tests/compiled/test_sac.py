"""Compiled SAC learns as SAC of stable-baselines3 does, from the same transitions."""

from pathlib import Path
from types import SimpleNamespace
from typing import Any

import jax
import numpy as np
import pytest
import torch
from off_policy_learners import collected, fake_sample, learner_of
from trainings import run_training, without_times

from rlexp.algorithms.compiled import training
from rlexp.algorithms.compiled.replay import sample
from rlexp.records.events import Ending, Evaluated, Measured

SMALL = (
    *("algorithm=compiled_sac", "environment=pendulum", "environment.max_episode_steps=20"),
    *("environment.vector.count=2", "algorithm.buffer_size=200", "algorithm.learning_starts=20"),
    *("algorithm.batch_size=32", "algorithm.learning_rate=0.003", "agent.network=[24,16]"),
)
CASES: dict[str, tuple[str, ...]] = {
    "learned coefficient": (),
    "learned from 0.1, target every second step": (
        "algorithm.ent_coef=auto_0.1",
        "algorithm.target_entropy=-0.5",
        "algorithm.target_update_interval=2",
    ),
    "fixed coefficient": ("algorithm.ent_coef=0.2", "algorithm.tau=0.3"),
    "no entropy, three critics": (
        "algorithm.ent_coef=0.0",
        "agent.policy_kwargs={n_critics: 3}",
    ),
}


@pytest.mark.parametrize("case", CASES)
def test_an_update_equals_that_of_the_library(
    case: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """From the same minibatches and normal numbers, losses and weights equal the library's."""
    learner = learner_of(*SMALL, *CASES[case], folder=tmp_path)
    program, state = collected(learner)
    learned = learner._learned()
    scalars = {**learner._scalars(), "learning_rate": np.float32(0.003)}
    minibatches = [
        sample(state.ring, jax.random.PRNGKey(n), 40, 32, 1, np.float32(0.9), bootstrap=True)
        for n in range(4)
    ]
    normal = np.random.default_rng(0).normal(size=(4, 2, 32, 1)).astype(np.float32)
    update = jax.jit(program.learning.update_with)
    sums: dict[str, float] = {}
    for step, minibatch in enumerate(minibatches):
        learned, numbers = update(learned, minibatch, tuple(normal[step]), step, scalars)
        sums = {name: sums.get(name, 0.0) + float(number) / 4 for name, number in numbers.items()}
    rest = iter(normal.reshape(8, 32, 1))

    def rsample(distribution: Any, *_: Any) -> torch.Tensor:
        return distribution.loc + distribution.scale * torch.from_numpy(next(rest))  # type: ignore[no-any-return]

    monkeypatch.setattr(torch.distributions.Normal, "rsample", rsample)
    learner.replay_buffer = SimpleNamespace(sample=fake_sample(minibatches))
    before = [p.detach().clone() for p in learner.policy.parameters()]
    learner.train(gradient_steps=4, batch_size=32)
    logged = learner.logger.name_to_value
    for name in set(sums) - (set() if learner.log_ent_coef is not None else {"ent_coef_loss"}):
        assert sums[name] == pytest.approx(logged[f"train/{name}"], rel=1e-3, abs=1e-5), name
    after = [p.detach().clone() for p in learner.policy.parameters()]
    coefficient = None if learner.log_ent_coef is None else float(learner.log_ent_coef.detach())
    learner._write_learned(learned)
    for mine, expected in zip(learner.policy.parameters(), after, strict=True):
        assert float((mine.detach() - expected).abs().max()) < 5e-5
    if coefficient is not None:
        assert float(learner.log_ent_coef.detach()) == pytest.approx(coefficient, abs=1e-5)
    pairs = zip(before, after, strict=True)
    assert max(float((a - b).abs().max()) for a, b in pairs) > 1e-3


def test_policies_are_equal(tmp_path: Path) -> None:
    """On 1,000 observations, actions and their densities equal those of torch's policy to 1e-5."""
    learner = learner_of(*SMALL, folder=tmp_path)
    rng = np.random.default_rng(0)
    observations = rng.normal(size=(1000, 3)).astype(np.float32)
    learning: Any = learner._learning()
    parameters = learner._learned().actor.parameters
    actions, density = learning.actor.sample(parameters, observations, np.zeros((1000, 1)))
    with torch.no_grad():
        given = torch.from_numpy(observations)
        expected = learner.actor(given, deterministic=True)
        mean, log_std, _ = learner.actor.get_action_dist_params(given)
        distribution = learner.actor.action_dist.proba_distribution(mean, log_std)
        expected_density = distribution.log_prob(expected, gaussian_actions=mean)
    assert np.abs(np.asarray(actions) - expected.numpy()).max() < 1e-5
    assert np.abs(np.asarray(density) - expected_density.numpy()).max() < 1e-5


def test_the_task_gets_actions_in_its_bounds(tmp_path: Path) -> None:
    """The buffer stores actions in [-1, 1], uniform while warming; the task gets twice as much."""
    learner = learner_of(*SMALL, folder=tmp_path)
    learning: Any = learner._learning()
    drawn = learning.draw(jax.random.PRNGKey(0), 2000, 2)
    row = jax.tree.map(lambda x: x.reshape(4000, 1), drawn)
    observations = np.zeros((4000, 3), np.float32)
    actions, stored = learning.act(
        learner._learned(), observations, row, warming=True, exploration=0.0
    )
    assert np.allclose(actions, 2 * np.asarray(stored), atol=1e-6)
    assert np.asarray(stored).std() == pytest.approx(1 / np.sqrt(3), abs=0.02)
    _, stored = learning.act(learner._learned(), observations, row, warming=False, exploration=0.0)
    assert np.asarray(stored).std() != pytest.approx(1 / np.sqrt(3), abs=0.02)


TINY = (
    *SMALL,
    *("algorithm.train_freq=3", "algorithm.gradient_steps=2", "budget.steps=300"),
    *("budget.evaluation_every=100", "budget.evaluation_episodes=1", "budget.final_episodes=2"),
)


def test_a_training_continues_bit_for_bit(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Weights, metrics and evaluations do not depend on kills and on the length of chunks."""
    listener, ended = run_training(tmp_path / "whole", *TINY, checkpoint_every=90)
    assert Ending.COMPLETED is ended.ending, ended.reason
    measured = [event for event in listener.events if isinstance(event, Measured)]
    assert {"train/ent_coef", "train/actor_loss", "train/critic_loss"} <= set(measured[-1].metrics)
    saved = listener.saved_checkpoint(1)
    _, again = run_training(tmp_path / "again", *TINY, checkpoints=[saved], checkpoint_every=90)
    assert ended.weights == again.weights
    monkeypatch.setattr(training, "CHUNK_SECONDS", 0.0)
    slow, end = run_training(tmp_path / "slow", *TINY)
    assert ended.weights == end.weights
    expected, actual = (
        without_times([e for e in recorder.events if isinstance(e, Evaluated | Measured)])
        for recorder in (listener, slow)
    )
    assert expected == actual
