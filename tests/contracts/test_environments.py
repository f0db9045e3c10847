"""Properties of every environment, tested on every yaml of `conf/environment`."""

from collections.abc import Iterator
from contextlib import closing
from functools import cache
from pathlib import Path
from typing import Any

import gymnasium
import numpy as np
import pytest
from gymnasium.utils.env_checker import data_equivalence
from in_full import long
from members import member, names, settings

from rlexp.environments.suites import suite_of_module

STEPS = 50
FEW_STEPS = 10
"""Steps in suites whose steps or resets take a hundred times as long."""
SLOW_SUITES = ("highway", "atari")

# Some environments declare their rewards as rounded 32-bit numbers.
pytestmark = pytest.mark.filterwarnings("ignore:.*precision lowered by casting")


def is_ready(name: str) -> bool:
    """Whether the yaml describes a complete task and is not a base for others."""
    return "???" not in settings("environment", name).values()


READY = [name for name in names("environment") if is_ready(name)]


@cache
def tasks() -> dict[str, str]:
    """The task of each complete environment, with or without its package."""
    return {name: member("environment", name).task for name in READY}


def installed_environment(name: str) -> Any:
    """The environment with its suite imported; skips the test if the suite is missing."""
    environment = member("environment", name)
    for module in needed_modules(name):
        suite = suite_of_module(module)
        pytest.importorskip(module, reason=f"needs rlexp[{suite.extra if suite else module}]")
    return environment


def needed_modules(name: str) -> list[str]:
    """The modules that the yaml of an environment names."""
    values = settings("environment", name)
    suite_modules = ["metaworld"] if "meta_world" in values["_target_"] else []
    return [*suite_modules, *values.get("imports", ())]


def registry_entry(environment: Any) -> Any:
    """The entry of Gymnasium's registry, if the task has one."""
    return gymnasium.registry.get(getattr(bare_task(environment), "id", ""))


def bare_task(environment: Any) -> Any:
    """The task without components."""
    return getattr(environment, "environment", environment)


@pytest.fixture(autouse=True)
def _in_temporary_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Run each test in a temporary folder, because MuJoCo writes warnings into the current one."""
    monkeypatch.chdir(tmp_path)


def play(environment: Any, steps: int) -> Iterator[tuple[Any, float]]:
    """Play random steps over episodes, of which only the first has a seed, and reset at the end."""
    with closing(environment.make()) as env:
        observation, _ = env.reset(seed=1)
        env.action_space.seed(1)
        actions = [env.action_space.sample() for _ in range(steps)]
        for action in actions:
            assert env.observation_space.contains(observation)
            yield observation, 0.0
            observation, reward, terminated, truncated, _ = env.step(action)
            assert env.observation_space.contains(observation)
            flat: Any = gymnasium.spaces.flatten(env.observation_space, observation)
            assert np.isfinite(flat).all()
            assert np.isfinite(reward)
            yield observation, float(reward)
            if terminated or truncated:
                observation, _ = env.reset()
        yield env.reset()[0], 0.0


@cache
def first_play(name: str) -> tuple[tuple[Any, float], ...]:
    """The results of the first play of an environment."""
    return tuple(
        play(installed_environment(name), FEW_STEPS if name.startswith(SLOW_SUITES) else STEPS)
    )


@pytest.mark.parametrize("name", READY)
def test_plays_as_declared(name: str) -> None:
    """Observations are in the declared space, and rewards are finite."""
    assert len(first_play(name)) > FEW_STEPS


ATARI_SAMPLE = ("atari_breakout", "atari_pong")
"""Atari games that `make test` plays twice; the others differ in their ROM only."""
PLAYED_TWICE = [
    pytest.param(n, marks=long) if n.startswith("atari") and n not in ATARI_SAMPLE else n
    for n in READY
]


@pytest.mark.parametrize("name", PLAYED_TWICE)
def test_plays_twice_alike(name: str) -> None:
    """The seed of the first reset determines observations and rewards of all episodes."""
    second_play = tuple(
        play(installed_environment(name), FEW_STEPS if name.startswith(SLOW_SUITES) else STEPS)
    )
    assert data_equivalence(first_play(name), second_play, exact=True)


@pytest.mark.parametrize("name", READY)
def test_threshold_is_that_of_the_registry(name: str) -> None:
    """The threshold is that of Gymnasium's registry, or has a source.

    An environment with components is another task, for which the registry has no threshold.
    """
    environment = installed_environment(name)
    entry, reference = registry_entry(environment), environment.reference
    without_components = bare_task(environment) is environment
    if without_components and entry is not None and entry.reward_threshold is not None:
        assert entry.reward_threshold == reference.threshold
    else:
        assert reference.threshold is None or "threshold" in reference.source


@pytest.mark.parametrize("name", READY)
def test_reference_is_ordered_and_sourced(name: str) -> None:
    """Minimum, random score, threshold and maximum are in this order, with a source."""
    reference = member("environment", name).reference
    levels = [reference.minimum, reference.random, reference.threshold, reference.maximum]
    scores = [score for score in levels if score is not None]
    assert sorted(scores) == scores
    assert reference.source or not scores


BOUNDED = [
    *("cartpole", "mountain_car", "pendulum", "frozen_lake", "taxi"),
    *("atari_pong", "fetch_reach", "metaworld_reach", "minigrid_empty"),
]


@pytest.mark.parametrize("name", BOUNDED)
def test_random_episodes_stay_within_the_declared_bounds(name: str) -> None:
    """The return of random episodes lies between the declared minimum and maximum."""
    environment = installed_environment(name)
    env, reference = environment.make(), environment.reference
    env.action_space.seed(1)
    for seed in range(1 if name.startswith("atari") else 3):
        env.reset(seed=seed)
        total, done = 0.0, False
        while not done:
            _, reward, terminated, truncated, _ = env.step(env.action_space.sample())
            total, done = total + float(reward), terminated or truncated
        assert reference.minimum <= total
        assert reference.maximum is None or total <= reference.maximum


@pytest.mark.parametrize("name", READY)
def test_tasks_have_distinct_names(name: str) -> None:
    """No two ready environments share a task name."""
    own_task = tasks()[name]
    assert [name] == [other for other, task in tasks().items() if task == own_task]


@pytest.mark.parametrize("name", READY)
def test_every_episode_ends(name: str) -> None:
    """Every environment has a step limit in its yaml, in the registry or built in."""
    environment = installed_environment(name)
    entry = registry_entry(environment)
    if bare_task(environment).max_episode_steps or (entry is not None and entry.max_episode_steps):
        return
    assert built_in_limit(environment) > 0


def built_in_limit(environment: Any) -> float:
    """The limit of suites that count steps, frames or seconds themselves."""
    if "max_num_frames_per_episode" in getattr(bare_task(environment), "arguments", {}):
        return float(bare_task(environment).arguments["max_num_frames_per_episode"])
    with closing(environment.make()) as env:
        unwrapped: Any = env.unwrapped
        return float(
            unwrapped.config["duration"] if hasattr(unwrapped, "config") else unwrapped.max_steps
        )
