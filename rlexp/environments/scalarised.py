"""The wrapper that turns vector rewards into a weighted sum and measures each objective."""

import math
from typing import Any, SupportsFloat

import gymnasium

from rlexp.environments import MEASURES
from rlexp.errors import EnvironmentFault

Env = gymnasium.Env[Any, Any]


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
