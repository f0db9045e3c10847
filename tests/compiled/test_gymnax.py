"""Tasks of gymnax train compiled algorithms, and the same functions score them on the host."""

from collections.abc import Iterator
from importlib.metadata import version
from pathlib import Path
from typing import Any

import gymnasium
import jax
import numpy as np
import pytest
from trainings import run_training

gymnax = pytest.importorskip("gymnax")

from rlexp.environments.classic_control_twins.cart_pole import CartPoleTwin  # noqa: E402
from rlexp.environments.gymnax_adapter import GymnaxTask, GymnaxTwin  # noqa: E402
from rlexp.records.events import Ending, Evaluated, Failure  # noqa: E402

INSTALLED = version("gymnax")
TASKS = ("Breakout-MinAtar", "Catch-bsuite", "DeepSea-bsuite", "PointRobot-misc", "Reacher-misc")
TRAINING = (
    *("algorithm=compiled_ppo", "environment=gymnasium", "environment.vector.count=4"),
    *("algorithm.n_steps=32", "algorithm.batch_size=64", "algorithm.n_epochs=4"),
    *("algorithm.learning_rate=0.003", "budget.evaluation_every=null", "budget.final_episodes=20"),
)


@pytest.fixture(autouse=True)
def registered() -> Iterator[None]:
    """The tasks of gymnax in Gymnasium, as a module of a user registers them."""
    entry = "rlexp.environments.gymnax_adapter:GymnaxTask"
    for name in TASKS:
        gymnasium.register(
            f"gymnax-{name}-v0", entry, max_episode_steps=100, kwargs={"name": name}
        )
    yield
    for name in TASKS:
        del gymnasium.registry[f"gymnax-{name}-v0"]


def twin_of(name: str, **settings: Any) -> dict[str, Any]:
    """The configuration of a twin."""
    target = "rlexp.environments.gymnax_adapter.GymnaxTwin"
    return {"_target_": target, "name": name, "version": INSTALLED, **settings}


def test_a_step_equals_that_of_rlexps_twin() -> None:
    """From 1,000 states of CartPole, gymnax and the proved twin of rlexp take equal steps."""
    theirs, ours = GymnaxTwin("CartPole-v1", INSTALLED), CartPoleTwin()
    key = jax.random.PRNGKey(0)
    low, high = np.array([-2.4, -3, -0.2, -3]), np.array([2.4, 3, 0.2, 3])
    numbers = np.random.default_rng(0).uniform(low, high, size=(1000, 4)).astype(np.float32)
    _, parameters = theirs.made()
    state, _ = theirs.reset(key)

    def both(row: jax.Array, action: jax.Array) -> Any:
        named = state.replace(x=row[0], x_dot=row[1], theta=row[2], theta_dot=row[3])
        first, *rest = theirs.step(key, (named, row), action)
        second, *others = ours.step(key, row, action)
        return (theirs.observe(first), *rest), (ours.observe(second), *others)

    for action in (0, 1):
        first, second = jax.vmap(lambda row, a=action: both(row, a))(numbers)
        for mine, other in zip(first, second, strict=True):
            difference = np.abs(np.asarray(mine, float) - np.asarray(other, float))
            assert difference.max() < 1e-5
    assert parameters.max_steps_in_episode == gymnasium.spec("CartPole-v1").max_episode_steps


@pytest.mark.parametrize("name", TASKS)
def test_the_host_takes_the_steps_of_the_twin(name: str) -> None:
    """With the same keys and actions, the task on the host and the twin are equal step by step."""
    task, twin = gymnasium.make(f"gymnax-{name}-v0"), GymnaxTwin(name, INSTALLED)
    observation, _ = task.reset(seed=3)
    task.action_space.seed(0)
    assert isinstance(task.unwrapped, GymnaxTask)
    state, key = task.unwrapped._state, task.unwrapped._key
    for _ in range(30):
        action = task.action_space.sample()
        key, used = jax.random.split(key)
        state, reward, terminated = twin.step(used, state, action)
        observation, scored, ended, _, _ = task.step(action)
        assert task.observation_space.contains(observation)
        assert np.allclose(twin.observe(state), observation, atol=1e-6)
        assert float(reward) == pytest.approx(scored, abs=1e-5)
        assert bool(terminated) is bool(ended)
        if ended:
            break


def test_a_task_of_gymnax_alone_is_learned_and_scored(tmp_path: Path) -> None:
    """On Catch, 30,000 steps raise the score of the final policy far above that of a random one."""
    words = ("environment.id=gymnax-Catch-bsuite-v0", "budget.steps=30000")
    changes = {"algorithm": {"twin": twin_of("Catch-bsuite")}}
    listener, ended = run_training(tmp_path, *TRAINING, *words, changes=changes)
    assert Ending.COMPLETED is ended.ending, ended.reason
    final = [event for event in listener.events if isinstance(event, Evaluated) and event.final]
    # A random policy catches one ball of five: its mean return is -0.6.
    assert np.mean(final[0].returns) > 0.5


@pytest.mark.parametrize("name", ["Breakout-MinAtar", "PointRobot-misc"])
def test_arrays_and_continuous_actions_train(name: str, tmp_path: Path) -> None:
    """Images are flattened, and continuous actions are learned."""
    words = (f"environment.id=gymnax-{name}-v0", "budget.steps=256")
    changes = {"algorithm": {"twin": twin_of(name)}}
    _, ended = run_training(tmp_path, *TRAINING, *words, changes=changes)
    assert Ending.COMPLETED is ended.ending, ended.reason


@pytest.mark.parametrize(
    ("changed", "words"),
    [
        ({"version": "0.0.1"}, f"version=0.0.1, but gymnax {INSTALLED} is installed"),
        ({"name": "Catch"}, "gymnax has no task Catch; choose one of CartPole-v1"),
        ({"settings": {"speed": 1}}, "speed"),
    ],
)
def test_a_wrong_setting_is_named(changed: dict[str, Any], words: str, tmp_path: Path) -> None:
    """Another version, an unknown task and an unknown parameter fail the run as a user's mistake."""
    task = ("environment.id=gymnax-Catch-bsuite-v0", "budget.steps=256")
    changes = {"algorithm": {"twin": {**twin_of("Catch-bsuite"), **changed}}}
    _, ended = run_training(tmp_path, *TRAINING, *task, changes=changes)
    assert Failure.USER is ended.failure
    assert words in str(ended.reason)


def test_a_task_without_a_time_limit_is_refused() -> None:
    """An episode that never ends could not be scored: the first reset names what is missing."""
    with pytest.raises(ValueError, match="register it with max_episode_steps"):
        GymnaxTask("Catch-bsuite").reset(seed=0)
