"""Seeds for every episode of environments that otherwise take seeds from the system."""

from typing import Any

import gymnasium
import numpy as np
import pytest

from rlexp.environments.seeding import SeededEpisodes


class Entropic(gymnasium.Env[Any, Any]):
    """Draws its first number from the seed of the reset, or from the system."""

    observation_space = gymnasium.spaces.Box(0.0, 1.0, ())
    action_space = gymnasium.spaces.Discrete(2)

    def reset(
        self, *, seed: int | None = None, options: Any = None
    ) -> tuple[float, dict[str, Any]]:
        return float(np.random.default_rng(seed).random()), {}


def first_observations(env: gymnasium.Env[Any, Any], seed: int, count: int = 4) -> list[float]:
    """The first observations of episodes, of which the first is seeded."""
    return [env.reset(seed=seed)[0], *(env.reset()[0] for _ in range(count - 1))]


def test_later_episodes_follow_from_the_first_seed() -> None:
    """Equal seeds give equal sequences of episodes, with the wrapper only."""
    first, second = (first_observations(SeededEpisodes(Entropic()), 7) for _ in range(2))
    assert first == second
    assert 4 == len(set(first))
    assert first_observations(Entropic(), 7) != first_observations(Entropic(), 7)
    assert first != first_observations(SeededEpisodes(Entropic()), 8)


def test_an_episode_is_repeated_from_the_generator_of_the_environment() -> None:
    """A restored generator gives the same next episode, so that runs can continue."""
    env = SeededEpisodes(Entropic())
    env.reset(seed=7)
    state = env.unwrapped.np_random.bit_generator.state
    second_observation = env.reset()[0]
    other_env = SeededEpisodes(Entropic())
    other_env.reset(seed=1)
    other_env.unwrapped.np_random.bit_generator.state = state
    assert second_observation == other_env.reset()[0]


@pytest.mark.parametrize("options", [None, {"low": 0.1}])
def test_options_are_handed_on(options: Any) -> None:
    """The options of a reset reach the environment."""
    received_options: list[Any] = []

    class RecordsOptions(Entropic):
        def reset(self, *, seed: int | None = None, options: Any = None) -> Any:
            received_options.append(options)
            return super().reset(seed=seed)

    SeededEpisodes(RecordsOptions()).reset(seed=1, options=options)
    assert [options] == received_options
