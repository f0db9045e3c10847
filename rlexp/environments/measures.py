"""Measures of an episode: numbers besides its return, such as success or the return of each objective."""

import math
from typing import Any, Literal, SupportsFloat, get_args

import gymnasium

from rlexp.environments import MEASURES
from rlexp.errors import EnvironmentFault

Env = gymnasium.Env[Any, Any]
Take = Literal["last", "sum", "mean", "largest"]
"""How the values of all steps become one number."""


class Scalarised(gymnasium.Wrapper[Any, Any, Any, Any]):
    """Returns the weighted sum as reward, and the return of each objective as a measure."""

    def __init__(self, env: Env, weights: tuple[float, ...], names: tuple[str, ...]) -> None:
        """Wrap `env`, whose rewards are vectors as long as `weights` and `names`."""
        super().__init__(env)
        self._weights = weights
        self._names = names
        self._rewards: list[tuple[float, ...]] = []

    def reset(self, **settings: Any) -> tuple[Any, dict[str, Any]]:
        """Reset, and clear the rewards of the last episode."""
        self._rewards.clear()
        return self.env.reset(**settings)

    def step(self, action: Any) -> tuple[Any, SupportsFloat, bool, bool, dict[str, Any]]:
        """Step, and return the weighted sum of the reward vector."""
        result: Any = self.env.step(action)
        observation, vector, terminated, truncated, info = result
        rewards = tuple(map(float, vector))
        if len(rewards) != len(self._weights):
            raise EnvironmentFault(
                f"reward is a vector of {len(rewards)}, declared is {len(self._weights)}"
            )
        self._rewards.append(rewards)
        if terminated or truncated:
            # Exact sums, as for the return of the episode itself.
            returns = map(math.fsum, zip(*self._rewards, strict=True))
            info.setdefault(MEASURES, {}).update(
                {f"return/{name}": sum_ for name, sum_ in zip(self._names, returns, strict=True)}
            )
        reward = math.fsum(w * r for w, r in zip(self._weights, rewards, strict=True))
        return observation, reward, terminated, truncated, info


class EpisodeMeasure(gymnasium.Wrapper[Any, Any, Any, Any]):
    """Turns the values of an info key into one measure per episode (`rlexp:Measured`)."""

    def __init__(self, env: Env, name: str, key: str, take: Take = "last") -> None:
        """Wrap `env`.

        Args:
            env: The environment.
            name: The name of the measure (`success`).
            key: The key of the info dictionary (`is_success`); a truth value counts as 0 or 1.
            take: The number of the episode: the value of its last step, or the sum, the mean or
                the largest of all steps that have the key.

        Raises:
            ValueError: `take` is another word.
        """
        super().__init__(env)
        if take not in get_args(Take):
            raise ValueError(f"take={take!r} must be one of {', '.join(get_args(Take))}")
        self._name = name
        self._key = key
        self._take = take
        self._values: list[float] = []

    def reset(self, **settings: Any) -> tuple[Any, dict[str, Any]]:
        """Reset, and discard the values of the last episode."""
        self._values.clear()
        return self.env.reset(**settings)

    def step(self, action: Any) -> tuple[Any, SupportsFloat, bool, bool, dict[str, Any]]:
        """Step; at the end of the episode, add the measure to the info dictionary."""
        result = self.env.step(action)
        *_, terminated, truncated, info = result
        if self._key in info:
            self._add(info[self._key])
        if terminated or truncated:
            # With `last`, a value of an earlier step is not the value at the end of the episode.
            if not self._values or (self._take == "last" and self._key not in info):
                raise EnvironmentFault(self._missing(info))
            info.setdefault(MEASURES, {})[self._name] = self._taken()
        return result

    def _add(self, value: Any) -> None:
        try:
            number = float(value)
        except (TypeError, ValueError) as error:
            raise EnvironmentFault(
                f"measure {self._name}: info['{self._key}'] is {value!r}, no single number"
            ) from error
        # Only the last value is needed here, so long episodes use no memory.
        if self._take == "last":
            self._values = [number]
        else:
            self._values.append(number)

    def _taken(self) -> float:
        match self._take:
            case "last":
                return self._values[-1]
            case "sum":
                return math.fsum(self._values)
            case "mean":
                return math.fsum(self._values) / len(self._values)
            case "largest":
                return max(self._values)

    def _missing(self, info: dict[str, Any]) -> str:
        keys = ", ".join(sorted(str(key) for key in info if key != MEASURES))
        return (
            f"measure {self._name}: info has no key '{self._key}' as the episode ends; "
            f"it has {keys or 'none'}"
        )
