"""The log of the current episode of an environment."""

from collections.abc import Iterator
from typing import Any

import gymnasium as gym
import numpy as np
import pytest
from hidden_state import Walk

from rlexp.training import rng_state
from rlexp.training.episode_log import EpisodeLog, digest
from rlexp.training.monitor import RewardTap, WatchedEnvironment
from rlexp.training.replayable_env import ReplayableEnvironment


def replayable(env: gym.Env[Any, Any], seed: int = 7) -> ReplayableEnvironment:
    """Wrap an environment as a training does."""
    tap = RewardTap(env)
    return ReplayableEnvironment(tap, tap, seed, filename=None, defer=False)


def test_actions_since_the_reset_are_logged() -> None:
    """Actions become one array (steps × action), even if the caller changes its arrays later."""
    env = replayable(Walk())
    env.reset()
    env.step(np.ones(2, np.float32))
    env.reset()
    action = np.zeros(2, np.float32)
    for number in range(3):
        action[:] = number, -number
        env.step(action)

    remembered = env.env_state()["actions"]

    assert [[0, 0], [1, -1], [2, -2]] == remembered.tolist()
    assert np.float32 == remembered.dtype


def test_discrete_actions_are_logged() -> None:
    """Discrete actions may be integers of NumPy or of Python."""
    env = replayable(gym.make("CartPole-v1"))
    env.reset()
    env.step(np.int64(1))
    env.step(0)

    remembered = env.env_state()["actions"]

    assert [1, 0] == remembered.tolist()
    assert np.int64 == remembered.dtype


def test_first_episode_is_logged_with_its_seed() -> None:
    """The first episode is logged with its seed, later ones with the generator before the reset."""
    env = replayable(Walk())
    first, _ = env.reset()
    one = env.env_state()
    before = env.unwrapped.np_random.bit_generator.state
    env.reset()
    two = env.env_state()

    assert (7, True, 7, False) == (one["seed"], one["seeded"], two["seed"], two["seeded"])
    assert before == two["before"]["environment"]
    assert "environment" not in one["before"]
    assert digest(first) == one["observation"]


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
    """A replay stops at the step at which its time is over."""
    env = replayable(Walk())
    env.reset()
    for _ in range(3):
        env.step(np.zeros(2, np.float32))
    clock: Iterator[float] = iter(np.arange(10.0))

    told = replayable(Walk()).resume(env.env_state(), limit, clock=lambda: next(clock))

    over = "its episode takes too long to replay: 3 of 3 steps were done"
    assert (over if limit < 3 else None) == told


def test_a_differing_generator_is_reported() -> None:
    """A generator with another state after the replay is reported."""
    env = replayable(Walk())
    env.reset()
    env.unwrapped.np_random.random()

    told = replayable(Walk()).resume(env.env_state(), 1.0)

    assert told == "the generator 'environment' differs when its episode is replayed"


BIT_GENERATORS = ["PCG64", "PCG64DXSM", "MT19937", "Philox", "SFC64"]


@pytest.mark.parametrize("name", BIT_GENERATORS)
def test_every_bit_generator_is_restored(name: str) -> None:
    """Each bit generator is restored into an environment with another one or none."""
    first, second, third = Walk(), Walk(), Walk()
    first.np_random = np.random.Generator(getattr(np.random, name)(5))
    first.np_random.random(3)
    second.reset(seed=1)
    states = rng_state.to_plain_tree(rng_state.Generators(first, own_process=False).read())
    expected = first.np_random.random(5).tolist()

    for env in (second, third):
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
    ("one", "other"),
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
def test_digests_of_different_values_differ(one: Any, other: Any) -> None:
    """Values that differ in type, shape or one bit have different digests."""
    assert digest(one) != digest(other)
    assert digest([one, other]) == digest([one, other])


def test_a_value_that_cannot_be_stored_is_refused() -> None:
    """Objects other than plain values and arrays of numbers are refused."""
    for value in (object(), np.array([object()]), {"a": [set()]}):
        with pytest.raises(TypeError, match="cannot be stored in a checkpoint"):
            digest(value)


def test_logging_never_ends_a_training() -> None:
    """A generator that cannot be read raises an error only when the log is read."""
    env = Walk()
    env._np_random = object()  # type: ignore[assignment]
    memory = EpisodeLog(env, own_process=False)
    memory.begin(3)

    with pytest.raises(Exception, match="its random generator cannot be read"):
        memory.as_dict(None)
