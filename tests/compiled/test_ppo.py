"""Compiled PPO learns as PPO of stable-baselines3 does, from the same experience."""

from pathlib import Path
from typing import Any

import gymnasium
import jax
import numpy as np
import pytest
import stable_baselines3
import torch
from stable_baselines3.common.logger import configure
from trainings import run_training, spec_of, without_times

from rlexp.algorithms.compiled import ppo_learner, training
from rlexp.algorithms.compiled.ppo_program import ProgramState
from rlexp.app.execution.run_process import assemble
from rlexp.records.events import (
    Continued,
    Ending,
    Evaluated,
    Event,
    Failure,
    Measured,
    Refused,
    RunEnded,
)
from rlexp.training.training_run import TrainingRun

pytestmark = pytest.mark.filterwarnings("ignore:You have specified a mini-batch size")
"""Some rollouts end with a short minibatch on purpose, of which the library warns."""

CASES: dict[str, tuple[str, ...]] = {
    "discrete": ("environment=cartpole", "environment.max_episode_steps=20"),
    "continuous": ("environment=pendulum", "environment.max_episode_steps=20"),
    "values clipped": ("environment=cartpole", "algorithm.clip_range_vf=0.05"),
    "stopped early": ("environment=pendulum", "algorithm.target_kl=0.0005"),
    "one network for each, and an entropy bonus": (
        "environment=cartpole",
        "agent.actor=[16]",
        "agent.critic=[24,8]",
        "agent.activation=relu",
        "algorithm.ent_coef=0.1",
        "algorithm.normalize_advantage=false",
    ),
}
SMALL = (
    "algorithm=compiled_ppo",
    "algorithm.n_steps=32",
    "algorithm.batch_size=128",
    "algorithm.n_epochs=4",
    "algorithm.learning_rate=0.01",
    "environment.vector.count=4",
)
"""A minibatch is a whole rollout: its order changes rounding alone."""


def learner_of(*words: str, folder: Path) -> Any:
    """A fresh learner, ready to learn."""
    learner = assemble(spec_of(*SMALL, *words)).build(folder)
    learner.set_logger(configure(str(folder), []))
    learner._current_progress_remaining = 0.5
    return learner


@pytest.mark.parametrize("case", CASES)
def test_an_update_equals_that_of_the_library(case: str, tmp_path: Path) -> None:
    """From one rollout, advantages, losses and weights equal those of stable-baselines3."""
    learner = learner_of(*CASES[case], folder=tmp_path)
    program = learner._program()
    state: ProgramState = learner._state(program)
    parameters = state.optimiser.parameters
    scalars = {
        **learner._scalars(),
        "learning_rate": np.float32(0.01),
        "clip_range": np.float32(0.2),
        "clip_range_vf": np.float32(0.05),
    }
    environments, rollout = jax.jit(program._collect)(
        parameters, state.environments, jax.random.PRNGKey(5)
    )
    batch = program._experience(parameters, environments, rollout, scalars)
    optimiser, epochs = jax.jit(program._learn)(
        state.optimiser, batch, jax.random.PRNGKey(6), scalars
    )
    fill(learner, rollout, environments)
    shape = (program.n_steps, program.environments.count)
    expected = learner.rollout_buffer.advantages
    assert np.abs(np.asarray(batch.advantages).reshape(shape) - expected).max() < 1e-4
    assert np.asarray(rollout.truncations).any() == ("max_episode_steps" in "".join(CASES[case]))
    learner.rollout_buffer.advantages[:] = np.asarray(batch.advantages).reshape(shape)
    learner.rollout_buffer.returns[:] = np.asarray(batch.targets).reshape(shape)
    learner.rollout_buffer.full = True
    before = {name: p.detach().numpy().copy() for name, p in learner.policy.named_parameters()}
    learner.train()
    for name, parameter in learner.policy.named_parameters():
        learned = np.asarray(optimiser.parameters[name])
        assert np.abs(learned - parameter.detach().numpy()).max() < 5e-5, name
    moved = [np.abs(np.asarray(optimiser.parameters[n]) - before[n]).max() for n in before]
    assert max(moved) > 1e-3
    logged = learner.logger.name_to_value
    numbers = program._logged(optimiser, epochs, batch)
    assert learner._n_updates == numbers["epochs"]
    assert (case == "stopped early") == (learner._n_updates < 4)
    for name in set(numbers) - {"epochs", "std"}:
        assert float(numbers[name]) == pytest.approx(logged[f"train/{name}"], rel=1e-3, abs=1e-5)


def fill(learner: Any, rollout: Any, environments: Any) -> None:
    """Put the rollout of a program into the library's buffer, as `collect_rollouts` does."""
    steps, count = rollout.rewards.shape
    starts = np.ones(count, dtype=np.float32)
    for step in range(steps):
        rewards = np.array(rollout.rewards[step])
        with torch.no_grad():
            # `MlpPolicy` values the observation that a truncated episode ended with.
            beyond = learner.policy.predict_values(torch.tensor(np.array(rollout.lasts[step])))
            values = torch.tensor(np.array(rollout.values[step]))
            actions = np.array(rollout.actions[step])
            discrete = actions.ndim == 1
            _, log_probabilities, _ = learner.policy.evaluate_actions(
                torch.tensor(np.array(rollout.observations[step])), torch.tensor(actions)
            )
        truncated = np.asarray(rollout.truncations[step])
        rewards[truncated] += learner.gamma * beyond.numpy()[truncated, 0]
        learner.rollout_buffer.add(
            np.array(rollout.observations[step]),
            actions[:, None] if discrete else actions,
            rewards,
            starts,
            values,
            log_probabilities,
        )
        starts = np.array(rollout.dones[step], dtype=np.float32)
    with torch.no_grad():
        last = learner.policy.predict_values(torch.tensor(np.array(environments.observations)))
    learner.rollout_buffer.compute_returns_and_advantage(last, starts)


@pytest.mark.parametrize("activation", ["tanh", "relu", "elu", "leaky_relu", "silu", "gelu"])
@pytest.mark.parametrize("task", ["cartpole", "pendulum"])
def test_policies_are_equal(task: str, activation: str, tmp_path: Path) -> None:
    """On 1,000 observations, logits or means and values equal those of the policy of torch."""
    words = (f"environment={task}", f"agent.activation={activation}")
    learner = learner_of(*words, folder=tmp_path)
    program = learner._program()
    parameters = learner._state(program).optimiser.parameters
    shape = (1000, learner.observation_space.shape[0])
    observations = np.random.default_rng(0).normal(size=shape).astype(np.float32)
    with torch.no_grad():
        given = torch.from_numpy(observations)
        scores = learner.policy.get_distribution(given).distribution
        expected = scores.logits if task == "cartpole" else scores.mean
        values = learner.policy.predict_values(given)[:, 0]
    made = program.policy.scores(parameters, observations)
    if task == "cartpole":
        made = jax.nn.log_softmax(made)
    assert np.abs(np.asarray(made) - expected.numpy()).max() < 1e-5
    made_values = np.asarray(program.policy.value(parameters, observations))
    assert np.abs(made_values - values.numpy()).max() < 1e-5


def test_an_episode_is_truncated_at_the_time_limit(tmp_path: Path) -> None:
    """Episodes of the pendulum end at the time limit of the task, and never before."""
    learner = learner_of("environment=pendulum", "algorithm.n_steps=256", folder=tmp_path)
    program = learner._program()
    state = learner._state(program)
    _, rollout = jax.jit(program._collect)(
        state.optimiser.parameters, state.environments, state.key
    )
    lengths = np.asarray(rollout.lengths)
    assert [200] * 4 == lengths[lengths > 0].tolist()
    assert (lengths > 0).tolist() == np.asarray(rollout.truncations).tolist()


TINY = (
    *SMALL,
    "environment=cartpole",
    "algorithm.batch_size=48",
    "budget.steps=1000",
    "budget.evaluation_every=300",
    "budget.evaluation_episodes=1",
    "budget.final_episodes=2",
)
"""Eight rollouts of 128 steps, whose last minibatches are short, and three evaluations."""


@pytest.fixture(scope="module")
def whole(tmp_path_factory: pytest.TempPathFactory) -> Any:
    """A training without an interruption, with a checkpoint after each rollout or two."""
    return run_training(tmp_path_factory.mktemp("whole"), *TINY, checkpoint_every=200)


def evaluations(events: list[Event]) -> list[Any]:
    """The evaluations among events, without their times."""
    return without_times([event for event in events if isinstance(event, Evaluated)])


def test_a_training_is_recorded_as_others(whole: Any) -> None:
    """The journal holds what PPO's journal holds: metrics of each rollout, and evaluations."""
    listener, ended = whole
    assert Ending.COMPLETED is ended.ending, ended.reason
    steps = [e.step for e in listener.events if isinstance(e, Evaluated)]
    # The first step of all four environments at or after a multiple of 300.
    assert [300, 600, 900, 1024] == steps
    measured = [e for e in listener.events if isinstance(e, Measured)]
    assert [128 * n for n in range(1, 9)] == [event.step for event in measured]
    names = {"rollout/ep_rew_mean", "train/loss", "train/approx_kl", "train/learning_rate"}
    assert names <= set(measured[-1].metrics)
    assert [256, 512, 640, 896] == [checkpoint.step for checkpoint in listener.checkpoints]


@pytest.mark.parametrize("position", [0, -1])
def test_a_training_continues_bit_for_bit(whole: Any, position: int, tmp_path: Path) -> None:
    """From any checkpoint, the final weights have the same sha256 and the scores are the same."""
    listener, ended = whole
    again, end = run_training(
        tmp_path, *TINY, checkpoints=[listener.saved_checkpoint(position)], checkpoint_every=200
    )
    assert not [event for event in again.events if isinstance(event, Refused)]
    assert [event for event in again.events if isinstance(event, Continued)]
    assert ended.weights == end.weights
    assert evaluations(listener.events)[-1] == evaluations(again.events)[-1]
    digests = {c.step: c.digest for c in listener.checkpoints}
    assert all(digests[c.step] == c.digest for c in again.checkpoints)


@pytest.mark.parametrize(("seconds", "rollouts"), [(0.0, 64), (1000.0, 64), (1000.0, 2)])
def test_the_length_of_chunks_changes_nothing(
    whole: Any,
    seconds: float,
    rollouts: int,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """However rollouts are divided into chunks, weights, metrics and evaluations are the same."""
    monkeypatch.setattr(training, "CHUNK_SECONDS", seconds)
    monkeypatch.setattr(ppo_learner, "MOST_ROLLOUTS", rollouts)
    listener, ended = run_training(tmp_path, *TINY)
    assert whole[1].weights is not None
    assert whole[1].weights == ended.weights
    kinds = (Evaluated, Measured)
    expected, actual = (
        without_times([e for e in recorder.events if isinstance(e, kinds)])
        for recorder in (whole[0], listener)
    )
    assert expected == actual


def test_other_seeds_give_other_weights(whole: Any, tmp_path: Path) -> None:
    """A second seed ends with other weights."""
    _, ended = run_training(tmp_path, *TINY, seed=1)
    assert whole[1].weights != ended.weights


def test_nan_is_a_failure_with_its_step(tmp_path: Path) -> None:
    """A learning rate that blows up fails the run as nan, before it is evaluated as a score."""
    words = (*TINY, "algorithm.learning_rate=1e30")
    listener, ended = run_training(tmp_path, *words)
    assert Failure.NAN is ended.failure
    assert "step 128" in str(ended.reason) or "step 256" in str(ended.reason)
    assert isinstance(listener.events[-1], RunEnded)
    assert not (tmp_path / "model.zip").exists()


def test_the_model_is_one_of_the_library(whole: Any) -> None:
    """`model.zip` loads as PPO of stable-baselines3, and acts on Gymnasium's task."""
    listener, _ = whole
    model = stable_baselines3.PPO.load(listener.folder / "model.zip")
    task = gymnasium.make("CartPole-v1")
    observation, _ = task.reset(seed=0)
    assert int(model.predict(observation, deterministic=True)[0]) in {0, 1}


def test_compiled_ppo_solves_cartpole(tmp_path: Path) -> None:
    """A hundred thousand steps solve CartPole, as Gymnasium's task scores it."""
    words = (
        *("algorithm=compiled_ppo", "environment=cartpole", "environment.vector.count=8"),
        *("algorithm.n_steps=128", "algorithm.batch_size=256", "algorithm.n_epochs=4"),
        *("algorithm.learning_rate=0.001", "algorithm.ent_coef=0.01", "budget.steps=100000"),
        *("budget.evaluation_every=50000", "budget.final_episodes=20"),
    )
    listener, ended = run_training(tmp_path, *words)
    final = [event for event in listener.events if isinstance(event, Evaluated) and event.final]
    assert Ending.COMPLETED is ended.ending
    assert np.mean(final[0].returns) > 300


TWIN = """
from dataclasses import dataclass
import jax
import jax.numpy as jnp


@dataclass(frozen=True)
class Slow:
    gravity: float = 9.8

    def reset(self, key):
        return jax.random.uniform(key, (4,), minval=-0.05, maxval=0.05)

    def observe(self, state):
        return state

    def step(self, key, state, action):
        state = state + 0.01 * jax.random.normal(key, (4,))
        return state, jnp.float32(1), jnp.abs(state[2]) > 0.2
"""


def test_a_twin_of_the_user_trains(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A twin that `algorithm.twin` names is trained on, and its settings are passed."""
    (tmp_path / "slow_twin.py").write_text(TWIN)
    monkeypatch.syspath_prepend(tmp_path)
    twin = {"algorithm": {"twin": {"_target_": "slow_twin.Slow", "gravity": 1.0}}}
    _, ended = run_training(tmp_path / "run", *TINY, changes=twin)
    assert Ending.COMPLETED is ended.ending, ended.reason


def test_a_twin_with_other_observations_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A twin whose observations have another shape than the task's fails with both shapes."""
    (tmp_path / "short_twin.py").write_text(TWIN.replace("return state\n", "return state[:3]\n"))
    monkeypatch.syspath_prepend(tmp_path)
    twin = {"algorithm": {"twin": {"_target_": "short_twin.Slow"}}}
    _, ended = run_training(tmp_path / "run", *TINY, changes=twin)
    assert Failure.USER is ended.failure
    assert "float32[3]" in str(ended.reason)
    assert "float32[4]" in str(ended.reason)


def test_no_environment_of_gymnasium_is_replayed(whole: Any, tmp_path: Path) -> None:
    """The check of replays, which costs seconds, is left out for compiled environments."""
    listener, _ = whole
    run = TrainingRun(assemble(spec_of(*TINY)), listener, tmp_path, [])
    assert run._find_obstacle() is None
