"""An environment remembers how its present episode came about."""

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


def repeatable(env: gym.Env[Any, Any], seed: int = 7) -> ReplayableEnvironment:
    """Wrap an environment as a training does."""
    tap = RewardTap(env)
    return ReplayableEnvironment(tap, tap, seed, filename=None, defer=False)


def test_actions_since_the_reset_are_remembered() -> None:
    """As one array, a row a step, whatever becomes of the arrays that were handed in."""
    env = repeatable(Walk())
    env.reset()
    env.step(np.ones(2, np.float32))
    env.reset()
    action = np.zeros(2, np.float32)
    for number in range(3):
        action[:] = number, -number
        env.step(action)

    remembered = env.situation()["actions"]

    assert [[0, 0], [1, -1], [2, -2]] == remembered.tolist()
    assert np.float32 == remembered.dtype


def test_numbers_as_actions_are_remembered() -> None:
    """Discrete actions are integers of NumPy, or of Python."""
    env = repeatable(gym.make("CartPole-v1"))
    env.reset()
    env.step(np.int64(1))
    env.step(0)

    remembered = env.situation()["actions"]

    assert [1, 0] == remembered.tolist()
    assert np.int64 == remembered.dtype


def test_first_episode_is_known_by_its_seed() -> None:
    """The others by the generator from before their reset."""
    env = repeatable(Walk())
    first, _ = env.reset()
    one = env.situation()
    before = env.unwrapped.np_random.bit_generator.state
    env.reset()
    two = env.situation()

    assert (7, True, 7, False) == (one["seed"], one["seeded"], two["seed"], two["seeded"])
    assert before == two["before"]["environment"]
    assert "environment" not in one["before"]
    assert digest(first) == one["observation"]


def test_evaluations_remember_nothing() -> None:
    """Only a training can be interrupted."""
    tap = RewardTap(Walk())
    env = WatchedEnvironment(tap, tap, 7, filename=None, defer=False)
    env.reset()
    env.step(np.zeros(2, np.float32))

    assert env._past is None
    assert not hasattr(env, "situation")


@pytest.mark.parametrize("limit", [2.5, 3.5])
def test_repetition_has_a_time_limit(limit: float) -> None:
    """It is given up at the step at which the time is over."""
    env = repeatable(Walk())
    env.reset()
    for _ in range(3):
        env.step(np.zeros(2, np.float32))
    clock: Iterator[float] = iter(np.arange(10.0))

    told = repeatable(Walk()).resume(env.situation(), limit, clock=lambda: next(clock))

    over = "its episode takes too long to replay: 3 of 3 steps were done"
    assert (over if limit < 3 else None) == told


def test_nothing_stands_in_for_a_generator() -> None:
    """A generator that went elsewhere meanwhile is told."""
    env = repeatable(Walk())
    env.reset()
    env.unwrapped.np_random.random()

    told = repeatable(Walk()).resume(env.situation(), 1.0)

    assert told == "the generator 'environment' differs when its episode is replayed"


BIT_GENERATORS = ["PCG64", "PCG64DXSM", "MT19937", "Philox", "SFC64"]


@pytest.mark.parametrize("name", BIT_GENERATORS)
def test_every_generator_of_numpy_is_put_back(name: str) -> None:
    """Into an environment that has another one, or none."""
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
    """Spaces hold spaces."""
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
def test_digest_tells_apart(one: Any, other: Any) -> None:
    """What is equal but for a type, a shape or a bit is not the same."""
    assert digest(one) != digest(other)
    assert digest([one, other]) == digest([one, other])


def test_what_cannot_be_written_down_is_refused() -> None:
    """Plain values and arrays of numbers are all there is."""
    for value in (object(), np.array([object()]), {"a": [set()]}):
        with pytest.raises(TypeError, match="cannot be stored in a checkpoint"):
            digest(value)


def test_memory_is_never_the_end_of_a_training() -> None:
    """A generator that cannot be read is a reason, told when somebody asks."""
    env = Walk()
    env._np_random = object()  # type: ignore[assignment]
    memory = EpisodeLog(env, own_process=False)
    memory.begin(3)

    with pytest.raises(Exception, match="its random generator cannot be read"):
        memory.as_dict(None)
