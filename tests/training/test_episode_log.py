"""The log of the current episode of an environment."""

from collections.abc import Iterator
from typing import Any

import gymnasium as gym
import numpy as np
import pytest
from hidden_state import Walk

from rlexp.training.environments import rng_state
from rlexp.training.environments.episode_log import EpisodeLog, digest
from rlexp.training.environments.monitor import RewardTap, WatchedEnvironment
from rlexp.training.environments.replayable_env import ReplayableEnvironment


def replayable_env(env: gym.Env[Any, Any], seed: int = 7) -> ReplayableEnvironment:
    """Wrap an environment as a training does."""
    tap = RewardTap(env)
    return ReplayableEnvironment(tap, tap, seed, filename=None, defer=False)


def test_actions_since_the_reset_are_logged() -> None:
    """The log has one array of the actions since the reset, which later changes do not alter."""
    env = replayable_env(Walk())
    env.reset()
    env.step(np.ones(2, np.float32))
    env.reset()
    action = np.zeros(2, np.float32)
    for number in range(3):
        action[:] = number, -number
        env.step(action)

    logged_actions = env.env_state()["actions"]

    assert [[0, 0], [1, -1], [2, -2]] == logged_actions.tolist()
    assert np.float32 == logged_actions.dtype


def test_discrete_actions_are_logged() -> None:
    """Discrete actions may be integers of NumPy or of Python."""
    env = replayable_env(gym.make("CartPole-v1"))
    env.reset()
    env.step(np.int64(1))
    env.step(0)

    logged_actions = env.env_state()["actions"]

    assert [1, 0] == logged_actions.tolist()
    assert np.int64 == logged_actions.dtype


def test_first_episode_is_logged_with_its_seed() -> None:
    """The first episode is logged with its seed, later episodes with their generator."""
    env = replayable_env(Walk())
    first_observation, _ = env.reset()
    first_log = env.env_state()
    generator_state = env.unwrapped.np_random.bit_generator.state
    env.reset()
    second_log = env.env_state()

    assert (7, True, 7, False) == (
        first_log["seed"],
        first_log["seeded"],
        second_log["seed"],
        second_log["seeded"],
    )
    assert generator_state == second_log["before"]["environment"]
    assert "environment" not in first_log["before"]
    assert digest(first_observation) == first_log["observation"]


def test_evaluations_log_nothing() -> None:
    """Evaluation environments log nothing, because only a training can be interrupted."""
    tap = RewardTap(Walk())
    env = WatchedEnvironment(tap, tap, 7, filename=None, defer=False)
    env.reset()
    env.step(np.zeros(2, np.float32))

    assert env._past is None
    assert not hasattr(env, "env_state")


@pytest.mark.parametrize("limit", [2.5, 3.5])
def test_replay_has_a_time_limit(limit: float) -> None:
    """A replay that exceeds its time limit stops and says so."""
    env = replayable_env(Walk())
    env.reset()
    for _ in range(3):
        env.step(np.zeros(2, np.float32))
    clock: Iterator[float] = iter(np.arange(10.0))

    reason = replayable_env(Walk()).resume(env.env_state(), limit, clock=lambda: next(clock))

    too_long = "its episode takes too long to replay: 3 of 3 steps were done"
    assert (too_long if limit < 3 else None) == reason


def test_a_differing_generator_is_reported() -> None:
    """A generator with another state after the replay is reported."""
    env = replayable_env(Walk())
    env.reset()
    env.unwrapped.np_random.random()

    reason = replayable_env(Walk()).resume(env.env_state(), 1.0)

    assert reason == "the generator 'environment' differs when its episode is replayed"


BIT_GENERATORS = ["PCG64", "PCG64DXSM", "MT19937", "Philox", "SFC64"]


@pytest.mark.parametrize("name", BIT_GENERATORS)
def test_every_bit_generator_is_restored(name: str) -> None:
    """Each bit generator is restored into an environment with another one or none."""
    source_env, seeded_env, new_env = Walk(), Walk(), Walk()
    source_env.np_random = np.random.Generator(getattr(np.random, name)(5))
    source_env.np_random.random(3)
    seeded_env.reset(seed=1)
    states = rng_state.to_plain_tree(rng_state.Generators(source_env, own_process=False).read())
    expected = source_env.np_random.random(5).tolist()

    for env in (seeded_env, new_env):
        rng_state.Generators(env, own_process=False).write(states)
        assert expected == env.np_random.random(5).tolist()


def test_generators_of_parts_of_spaces_are_found() -> None:
    """Generators of nested spaces are part of the state."""
    env = Walk()
    part = gym.spaces.Discrete(2, seed=3)
    env.observation_space = gym.spaces.Dict(inner=gym.spaces.Tuple([part]))
    generators = rng_state.Generators(env, own_process=False)
    state = part.np_random.bit_generator.state

    assert [state] == [s for name, s in generators.read().items() if name.startswith("space")]


@pytest.mark.parametrize(
    ("first", "second"),
    [
        (0.0, -0.0),
        (1, 1.0),
        (True, 1),
        (np.zeros(2), np.zeros(2, np.float32)),
        (np.zeros((1, 2)), np.zeros((2, 1))),
        ([1, [2]], [1, 2]),
        ({"a": 1}, {"b": 1}),
        (np.array([np.nan]), np.array([-np.nan])),
    ],
)
def test_digests_of_different_values_differ(first: Any, second: Any) -> None:
    """Values that differ in type, shape or one bit have different digests."""
    assert digest(first) != digest(second)
    assert digest([first, second]) == digest([first, second])


def test_a_value_that_cannot_be_stored_is_refused() -> None:
    """Objects other than plain values and arrays of numbers are refused."""
    for value in (object(), np.array([object()]), {"a": [set()]}):
        with pytest.raises(TypeError, match="cannot be stored in a checkpoint"):
            digest(value)


def test_logging_never_ends_a_training() -> None:
    """A generator that cannot be read raises an error only when the log is read."""
    env = Walk()
    env._np_random = object()  # type: ignore[assignment]
    log = EpisodeLog(env, own_process=False)
    log.begin(3)

    with pytest.raises(Exception, match="its random generator cannot be read"):
        log.as_dict(None)
