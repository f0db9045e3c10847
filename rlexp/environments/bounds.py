"""A wrapper for environments whose observations leave their declared bounds."""

from typing import Any

import gymnasium
import numpy as np

Env = gymnasium.Env[Any, Any]


class UnboundedObservation(gymnasium.ObservationWrapper[Any, Any, Any]):
    """Declares observations without bounds; leaves the observations unchanged."""

    def __init__(self, env: Env) -> None:
        """Wrap `env`.

        Raises:
            ValueError: Its observations are not arrays of floating-point numbers.
        """
        super().__init__(env)
        space = env.observation_space
        if not isinstance(space, gymnasium.spaces.Box) or space.dtype.kind != "f":
            raise ValueError(f"observations must be floating-point numbers, not {space}")
        kind: Any = space.dtype.type
        self.observation_space = gymnasium.spaces.Box(-np.inf, np.inf, space.shape, kind)

    def observation(self, observation: Any) -> Any:
        """Return the observation unchanged."""
        return observation
