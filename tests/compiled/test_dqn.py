"""Compiled DQN learns as DQN of stable-baselines3 does, from the same transitions."""

from pathlib import Path
from types import SimpleNamespace
from typing import Any

import jax
import numpy as np
import pytest
import torch
from off_policy_learners import collected, fake_sample, learner_of
from stable_baselines3.common.buffers import NStepReplayBuffer, ReplayBuffer
from trainings import run_training, without_times

from rlexp.algorithms.compiled import off_policy_learner, training
from rlexp.algorithms.compiled.replay import sample
from rlexp.records.events import Continued, Ending, Evaluated, Failure, Measured, Refused

SMALL = (
    *("algorithm=compiled_dqn", "environment=cartpole", "environment.max_episode_steps=20"),
    *("environment.vector.count=2", "algorithm.buffer_size=200", "algorithm.learning_starts=20"),
    *("algorithm.learning_rate=0.01", "algorithm.exploration_initial_eps=0.5"),
)


@pytest.mark.parametrize(
    "words", [(), ("algorithm.max_grad_norm=0.01",), ("agent.activation=elu",)]
)
def test_an_update_equals_that_of_the_library(words: tuple[str, ...], tmp_path: Path) -> None:
    """From the same minibatches, the loss and the weights equal those of stable-baselines3."""
    learner = learner_of(*SMALL, *words, folder=tmp_path)
    program, state = collected(learner)
    with torch.no_grad():
        for parameter in learner.q_net_target.parameters():
            parameter.add_(0.1)
    learned, scalars = learner._learned(), {**learner._scalars(), "learning_rate": 0.01}
    minibatches = [
        sample(state.ring, jax.random.PRNGKey(n), 60, 32, 1, np.float32(0.9), bootstrap=True)
        for n in range(5)
    ]
    update = jax.jit(program.learning.update)
    losses = []
    for minibatch in minibatches:
        learned, numbers = update(learned, minibatch, jax.random.PRNGKey(0), 0, scalars)
        losses.append(float(numbers["loss"]))
    learner.replay_buffer = SimpleNamespace(sample=fake_sample(minibatches))
    before = [p.detach().clone() for p in learner.q_net.parameters()]
    learner.train(gradient_steps=5, batch_size=32)
    assert np.mean(losses) == pytest.approx(learner.logger.name_to_value["train/loss"], rel=1e-4)
    for name, parameter in learner.q_net.named_parameters():
        difference = np.asarray(learned.network.parameters[name]) - parameter.detach().numpy()
        assert np.abs(difference).max() < 2e-5, name
    pairs = zip(before, learner.q_net.parameters(), strict=True)
    assert max(float((a - b.detach()).abs().max()) for a, b in pairs) > 1e-3


@pytest.mark.parametrize("bootstrap", [True, False])
@pytest.mark.parametrize("steps", [1, 3])
@pytest.mark.parametrize("rollouts", [10, 40])
def test_a_minibatch_equals_that_of_the_library(
    steps: int, bootstrap: bool, rollouts: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The same rows of the buffer, full or not, give the same minibatch, also of n-step returns."""
    words = (
        f"algorithm.n_steps={steps}",
        f"algorithm.replay_buffer_kwargs={{handle_timeout_termination: {str(bootstrap).lower()}}}",
        "algorithm.buffer_size=100",
    )
    learner = learner_of(*SMALL, *words, folder=tmp_path)
    program, state = collected(learner, rollouts)
    end = rollouts * program.train_freq
    assert learner.replay_buffer.full == (end >= 50)
    gamma = np.float32(learner.gamma)
    key = jax.random.PRNGKey(3)
    made = sample(state.ring, key, end, 64, steps, gamma, bootstrap=program.bootstrap)
    first, second = jax.random.split(key)
    rows = np.asarray(jax.random.randint(first, (64,), 0, min(end, 50)))
    columns = np.asarray(jax.random.randint(second, (64,), 0, 2))
    monkeypatch.setattr(np.random, "randint", lambda *_, **__: columns)
    buffer = learner.replay_buffer
    assert type(buffer) is (ReplayBuffer if steps == 1 else NStepReplayBuffer)
    expected = buffer._get_samples(rows)
    for name, array in (
        *(("observations", expected.observations), ("following", expected.next_observations)),
        *(("actions", expected.actions[:, 0]), ("rewards", expected.rewards[:, 0])),
        ("dones", expected.dones[:, 0]),
    ):
        assert np.allclose(np.asarray(getattr(made, name)), array.numpy(), atol=1e-6), name
    if steps > 1:
        discounts = expected.discounts
        assert discounts is not None
        assert np.allclose(np.asarray(made.discounts), discounts[:, 0], atol=1e-6)
    assert np.asarray(state.ring.truncations).any()


def test_action_values_are_equal(tmp_path: Path) -> None:
    """On 1,000 observations, action values equal those of the policy of torch to 1e-5."""
    learner = learner_of(*SMALL, folder=tmp_path)
    shape = (1000, learner.observation_space.shape[0])
    observations = np.random.default_rng(0).normal(size=shape).astype(np.float32)
    made = learner._learning().network(learner._learned().network.parameters, observations)
    with torch.no_grad():
        expected = learner.q_net(torch.from_numpy(observations)).numpy()
    assert np.abs(np.asarray(made) - expected).max() < 1e-5


def test_the_target_network_moves_at_its_interval(tmp_path: Path) -> None:
    """Between two updates the target network stays; then it moves by tau, as Polyak averaging does."""
    words = ("algorithm.tau=0.25", "algorithm.target_update_interval=10")
    learner = learner_of(*SMALL, *words, folder=tmp_path)
    learning: Any = learner._learning()
    assert 5 == learning.target_every
    learned, scalars = learner._learned(), learner._scalars()
    parameters = {name: array + 1 for name, array in learned.network.parameters.items()}
    learned = learned._replace(network=learned.network._replace(parameters=parameters))
    stayed = learning.after_step(learned, 4, scalars).target
    moved = learning.after_step(learned, 5, scalars).target
    for name, array in learned.target.items():
        assert (np.asarray(stayed[name]) == array).all()
        assert np.allclose(np.asarray(moved[name]), array + 0.25, atol=1e-6)


def test_exploration_follows_its_schedule(tmp_path: Path) -> None:
    """Rates of random actions are those that the library has before each step."""
    learner = learner_of(*SMALL, "algorithm.exploration_fraction=0.5", folder=tmp_path)
    steps = np.arange(0, 1000, 2)
    rates = learner._exploration(steps, 1000)
    expected = [learner.exploration_schedule(1.0 - step / 1000) for step in steps]
    assert 0 == rates[0]
    assert np.allclose(rates[1:], expected[1:], atol=1e-7)


def test_random_actions_are_as_frequent_as_their_rate(tmp_path: Path) -> None:
    """All actions are random while warming, a share of them while exploring, and otherwise none."""
    learner = learner_of(*SMALL, folder=tmp_path)
    learning: Any = learner._learning()
    learned = learner._learned()
    observations = np.tile(np.array([[0.1, -0.2, 0.05, 0.3]], np.float32), (2, 1))
    greedy = int(
        np.asarray(learning.network(learned.network.parameters, observations))[0].argmax()
    )
    drawn = learning.draw(jax.random.PRNGKey(0), 4000, 2)

    def share(*, warming: bool, rate: float) -> float:
        def act(row: Any) -> Any:
            return learning.act(learned, observations, row, warming=warming, exploration=rate)[0]

        return float((np.asarray(jax.lax.map(act, drawn)) != greedy).mean())

    assert 0 == share(warming=False, rate=0.0)
    assert share(warming=False, rate=0.4) == pytest.approx(0.2, abs=0.03)
    assert share(warming=True, rate=0.0) == pytest.approx(0.5, abs=0.03)


TINY = (
    *SMALL,
    *("algorithm.buffer_size=300", "algorithm.train_freq=3", "algorithm.gradient_steps=2"),
    *("algorithm.target_update_interval=8", "algorithm.exploration_fraction=0.8"),
    *("budget.steps=600", "budget.evaluation_every=200", "budget.evaluation_episodes=1"),
    *("budget.final_episodes=2", "budget.evaluation_deterministic=false"),
)
"""A hundred rollouts of six steps, whose buffer is full after half of them."""


@pytest.fixture(scope="module")
def whole(tmp_path_factory: pytest.TempPathFactory) -> Any:
    """A training without an interruption."""
    return run_training(tmp_path_factory.mktemp("whole"), *TINY, checkpoint_every=100)


def test_a_training_is_recorded_as_others(whole: Any) -> None:
    """The journal holds what DQN's journal holds: metrics at every fourth episode, and evaluations."""
    listener, ended = whole
    assert Ending.COMPLETED is ended.ending, ended.reason
    evaluated = [event.step for event in listener.events if isinstance(event, Evaluated)]
    assert [200, 400, 600, 600] == evaluated
    measured = [event for event in listener.events if isinstance(event, Measured)]
    names = {"rollout/ep_rew_mean", "rollout/exploration_rate", "train/loss", "train/n_updates"}
    last = measured[-1]
    assert names <= set(last.metrics)
    # Rollouts of six steps end at 24 and later; each ends with two gradient steps.
    assert last.metrics["train/n_updates"] == 2 * ((last.step - 1) // 6 - 3)


@pytest.mark.parametrize("position", [0, -1])
def test_a_training_continues_bit_for_bit(whole: Any, position: int, tmp_path: Path) -> None:
    """From any checkpoint, buffer full or not, weights and checkpoints have the same sha256."""
    listener, ended = whole
    saved = listener.saved_checkpoint(position)
    again, end = run_training(tmp_path, *TINY, checkpoints=[saved], checkpoint_every=100)
    assert not [event for event in again.events if isinstance(event, Refused)]
    assert [event for event in again.events if isinstance(event, Continued)]
    assert ended.weights == end.weights
    digests = {c.step: c.digest for c in listener.checkpoints}
    assert all(digests[c.step] == c.digest for c in again.checkpoints)


@pytest.mark.parametrize("seconds", [0.0, 1000.0])
def test_the_length_of_chunks_changes_nothing(
    whole: Any, seconds: float, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """However rollouts are divided into chunks, weights, metrics and evaluations are the same."""
    monkeypatch.setattr(training, "CHUNK_SECONDS", seconds)
    monkeypatch.setattr(off_policy_learner, "MOST_NUMBERS", 100)
    listener, ended = run_training(tmp_path, *TINY)
    assert whole[1].weights == ended.weights
    kinds = (Evaluated, Measured)
    expected, actual = (
        without_times([e for e in recorder.events if isinstance(e, kinds)])
        for recorder in (whole[0], listener)
    )
    assert expected == actual


def test_nan_is_a_failure_with_its_step(tmp_path: Path) -> None:
    """A learning rate that blows up fails the run as nan, before it is evaluated as a score."""
    _, ended = run_training(tmp_path, *TINY, "algorithm.learning_rate=1e38")
    assert Failure.NAN is ended.failure
    assert "at step" in str(ended.reason)
    assert not (tmp_path / "model.zip").exists()
