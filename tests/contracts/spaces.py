"""A tiny environment with any spaces, on which tests build learners."""

from typing import Any

import gymnasium
import numpy as np
from gymnasium import spaces
from stable_baselines3.common.vec_env import DummyVecEnv

OBSERVATIONS: dict[str, gymnasium.Space[Any]] = {
    "Box": spaces.Box(-1.0, 1.0, (3,), np.float32),
    "Image": spaces.Box(0, 255, (3, 36, 36), np.uint8),
    "Discrete": spaces.Discrete(4),
    "MultiDiscrete": spaces.MultiDiscrete([3, 2]),
    "MultiBinary": spaces.MultiBinary(3),
    "Dict": spaces.Dict({"vector": spaces.Box(-1.0, 1.0, (2,), np.float32)}),
}
ACTIONS: dict[str, gymnasium.Space[Any]] = {
    "Box": spaces.Box(-1.0, 1.0, (2,), np.float32),
    "Discrete": spaces.Discrete(3),
    "MultiDiscrete": spaces.MultiDiscrete([3, 2]),
    "MultiBinary": spaces.MultiBinary(2),
}


class Tiny(gymnasium.Env[Any, Any]):
    """Random observations, reward 1, episodes of five steps, and every action allowed."""

    def __init__(self, observation: str = "Box", action: str = "Box") -> None:
        self.observation_space = OBSERVATIONS[observation]
        self.action_space = ACTIONS[action]
        self.steps = 0

    def reset(
        self, *, seed: int | None = None, options: dict[str, Any] | None = None
    ) -> tuple[Any, dict[str, Any]]:
        """Begin an episode."""
        super().reset(seed=seed)
        self.steps = 0
        return self.observation_space.sample(), {}

    def step(self, action: Any) -> tuple[Any, float, bool, bool, dict[str, Any]]:
        """Count a step."""
        self.steps += 1
        return self.observation_space.sample(), 1.0, self.steps >= 5, False, {}

    def action_masks(self) -> Any:
        """Allow every action."""
        space = self.action_space
        sizes = getattr(space, "nvec", [getattr(space, "n", 0)])
        factor = 2 if isinstance(space, spaces.MultiBinary) else 1
        return np.ones(int(np.sum(sizes)) * factor, dtype=bool)


def tiny_environments(
    observation: str = "Box", action: str = "Box", count: int = 1
) -> DummyVecEnv:
    """A vector of tiny environments."""
    return DummyVecEnv([lambda: Tiny(observation, action)] * count)
