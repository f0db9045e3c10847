"""Time-limit awareness shows the remaining share of time from the first to the last step."""

from typing import Any

import gymnasium as gym
import numpy as np
import pytest
from gymnasium.wrappers import MaxAndSkipObservation, TimeLimit
from scripted import Scripted, array, play

from rlexp.components.time_limit_awareness import TimeLimitAwareness
from rlexp.environments import Stage
from rlexp.errors import ConfigError

AWARE = TimeLimitAwareness()


def test_the_remaining_share_follows_the_observation() -> None:
    """With four steps the share is 1, 3/4, 1/2, 1/4, 0; a reset restores 1."""
    env = AWARE.wrap(TimeLimit(Scripted([7] * 9), 4), Stage.TRAINING)
    for _ in range(2):
        assert [7.0, 1.0] == env.reset()[0].tolist()
        steps = play(env, [array(0.0)] * 4)
        assert [[7.0, 0.75], [7.0, 0.5], [7.0, 0.25], [7.0, 0.0]] == [s[0].tolist() for s in steps]
        assert steps[-1][3]


def test_the_space_grows_by_one_entry_at_every_stage() -> None:
    """The space grows by one entry, and the other entries keep their type and bounds."""
    for stage in Stage:
        env = AWARE.wrap(gym.make("CartPole-v1"), stage)
        task_space = gym.make("CartPole-v1").observation_space
        assert isinstance(env.observation_space, gym.spaces.Box)
        assert isinstance(task_space, gym.spaces.Box)
        assert [*task_space.low.tolist(), 0.0] == env.observation_space.low.tolist()
        assert [*task_space.high.tolist(), 1.0] == env.observation_space.high.tolist()
        assert np.float32 == env.observation_space.dtype
        assert env.observation_space.contains(env.reset(seed=0)[0])
    assert not AWARE.splits


def test_the_tightest_limit_counts_also_where_frames_are_skipped() -> None:
    """With a limit of 8 frames and a skip of two, a step uses a quarter."""
    env = MaxAndSkipObservation(TimeLimit(Scripted([7] * 20), 8), skip=2)
    wrapped_env = AWARE.wrap(env, Stage.TRAINING)
    wrapped_env.reset()
    assert 0.75 == wrapped_env.step(array(0.0))[0][1]
    env_with_tighter_limit = AWARE.wrap(TimeLimit(env, 2), Stage.TRAINING)
    env_with_tighter_limit.reset()
    assert 0.5 == env_with_tighter_limit.step(array(0.0))[0][1]


def _environment_with_space(space: gym.Space[Any]) -> gym.Env[Any, Any]:
    env = Scripted([0, 0])
    env.observation_space = space
    return TimeLimit(env, 5)


@pytest.mark.parametrize(
    ("env", "reason"),
    [
        (Scripted([0, 0]), "set environment.max_episode_steps"),
        (_environment_with_space(gym.spaces.Discrete(3)), "not Discrete"),
        (
            _environment_with_space(gym.spaces.Box(0, 255, (8, 8, 3), np.uint8)),
            r"not of shape \(8, 8, 3\)",
        ),
        (_environment_with_space(gym.spaces.Box(0, 9, (2,), np.int64)), "and type int64"),
    ],
)
def test_environments_that_do_not_fit_are_refused(env: Any, reason: str) -> None:
    """No limit, no numbers, images and integer observations are refused."""
    with pytest.raises(ConfigError, match=reason):
        AWARE.wrap(env, Stage.TRAINING)
