"""The seeding of environments, and the checks of their numbers."""

from typing import Any

import gymnasium as gym
import numpy as np
import pytest
from odd_environments import OddEnv

from rlexp.errors import EnvironmentFault
from rlexp.training.environments.monitor import FAULT, RewardTap, WatchedEnvironment


def watch(env: gym.Env[Any, Any], *, seed: int = 7, defer: bool = False) -> WatchedEnvironment:
    """Wrap an environment as a training does."""
    tap = RewardTap(env)
    return WatchedEnvironment(tap, tap, seed, filename=None, defer=defer)


def test_the_first_reset_uses_the_seed_of_the_wrapper() -> None:
    """The first reset uses the seed of the wrapper, not the seed + i of a library."""
    first, _ = watch(OddEnv()).reset(seed=1)
    second, _ = watch(OddEnv()).reset(seed=2)
    assert first.tolist() == second.tolist()
    expected, _ = OddEnv().reset(seed=7)
    assert expected.tolist() == first.tolist()


def test_later_resets_are_not_seeded() -> None:
    """The second episode continues the generator of the first."""
    env = watch(OddEnv())
    assert env.reset()[0].tolist() != env.reset(seed=7)[0].tolist()


def test_an_episode_is_reported_with_return_and_length() -> None:
    """The last step of an episode reports its return and length."""
    env = watch(OddEnv())
    env.reset()
    infos = [env.step(0)[4] for _ in range(10)]
    assert (infos[-1]["episode"]["r"], infos[-1]["episode"]["l"]) == (10.0, 10)
    assert all("episode" not in info for info in infos[:-1])


def test_a_deferred_fault_waits_in_the_info_dictionary() -> None:
    """A fault in another process is reported in the info dictionary at every further step."""
    env = watch(OddEnv("raise", at=1), defer=True)
    env.reset()
    for _ in range(2):
        observation, _, _, truncated, info = env.step(0)
        assert (truncated, observation.shape) == (True, (4,))
        assert str(info[FAULT]) == "step 1: RuntimeError: the motor is on fire"


class Nested(gym.Env[Any, Any]):
    """An environment with nested observations, of which parts may be missing or invalid."""

    def __init__(self, observation: Any) -> None:
        part = gym.spaces.Box(-1, 1, (2,), np.float32)
        parts = gym.spaces.Tuple((gym.spaces.Discrete(3), part))
        self.observation_space = gym.spaces.Dict(position=part, pair=parts)
        self.action_space = gym.spaces.Discrete(2)
        self.observation = observation

    def reset(self, *, seed: int | None = None, options: Any = None) -> Any:
        return self.observation, {}


GOOD = np.zeros(2, np.float32)
BAD = np.array([0, np.inf], np.float32)


@pytest.mark.parametrize(
    ("observation", "fault"),
    [
        ({"position": GOOD}, "observation['pair'] is missing"),
        ({"position": BAD, "pair": (1, GOOD)}, "observation['position'][1] is inf"),
        ({"position": GOOD, "pair": (1, BAD)}, "observation['pair'][1][1] is inf"),
        ({"position": GOOD, "pair": (1,)}, "observation['pair'][1] is missing"),
        ({"position": GOOD, "pair": (np.zeros(2), GOOD)}, "has shape (2,), declared is ()"),
    ],
)
def test_the_field_of_a_nested_observation_is_named(observation: Any, fault: str) -> None:
    """A fault names the field of a nested observation."""
    with pytest.raises(EnvironmentFault) as error_info:
        watch(Nested(observation)).reset()
    assert fault in str(error_info.value)
