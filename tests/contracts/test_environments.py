"""What every environment promises, run on every yaml of `conf/environment`."""

from pathlib import Path

import gymnasium
import numpy as np
import pytest
from members import member, names

BASE = "gymnasium"
READY = [name for name in names("environment") if name != BASE]


@pytest.fixture(autouse=True)
def _elsewhere(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """MuJoCo writes its warnings into the current folder."""
    monkeypatch.chdir(tmp_path)


@pytest.mark.parametrize("name", READY)
def test_makes_resets_and_steps(name: str) -> None:
    """A ready environment makes, and its first observations and rewards are as declared."""
    environment = member("environment", name).make()
    observation, _ = environment.reset(seed=1)
    assert environment.observation_space.contains(observation)
    environment.action_space.seed(1)
    for _ in range(3):
        observation, reward, *_ = environment.step(environment.action_space.sample())
        assert environment.observation_space.contains(observation)
        assert np.isfinite(reward)
    environment.close()


@pytest.mark.parametrize("name", READY)
def test_threshold_is_that_of_the_registry(name: str) -> None:
    """Where Gymnasium registers a reward threshold, the reference has the same."""
    environment = member("environment", name)
    threshold = gymnasium.registry[environment.id].reward_threshold
    if threshold is None:
        assert environment.reference.threshold in (None, -150.0)
    else:
        assert threshold == environment.reference.threshold


@pytest.mark.parametrize("name", READY)
def test_reference_is_ordered_and_sourced(name: str) -> None:
    """Minimum, random score, threshold and maximum stand in this order, and say whence."""
    reference = member("environment", name).reference
    known = [reference.minimum, reference.random, reference.threshold, reference.maximum]
    scores = [score for score in known if score is not None]
    assert sorted(scores) == scores
    assert reference.source


@pytest.mark.parametrize("name", ["cartpole", "mountain_car", "pendulum", "frozen_lake", "taxi"])
def test_random_episodes_stay_within_the_declared_bounds(name: str) -> None:
    """The return of random episodes lies between the declared minimum and maximum."""
    environment = member("environment", name)
    env, reference = environment.make(), environment.reference
    env.action_space.seed(1)
    for seed in range(3):
        env.reset(seed=seed)
        total, done = 0.0, False
        while not done:
            _, reward, terminated, truncated, _ = env.step(env.action_space.sample())
            total, done = total + float(reward), terminated or truncated
        assert reference.minimum <= total <= reference.maximum


@pytest.mark.parametrize("name", READY)
def test_tasks_have_distinct_names_and_a_step_limit(name: str) -> None:
    """No two ready environments share a task name, and every one ends its episodes."""
    environment = member("environment", name)
    others = [member("environment", other).task for other in READY if other != name]
    assert environment.task not in others
    limit = environment.max_episode_steps or gymnasium.registry[environment.id].max_episode_steps
    assert limit is not None
