"""The task of flipping bits until they equal those of a goal: the smallest task with goals.

Andrychowicz et al. 2017, Hindsight Experience Replay, section 3.1. An import of this module registers
`BitFlipping-v0` in Gymnasium, which is how `environment.imports` brings in tasks.
"""

from typing import Any

import gymnasium
import numpy as np
from gymnasium.spaces import Dict, Discrete, MultiBinary
from numpy.typing import NDArray

Bits = NDArray[np.int8]
Observation = dict[str, Bits]


class BitFlipping(gymnasium.Env[Any, Any]):
    """Each action flips one bit; the reward is -1 for each step until all bits are those of the goal.

    Bits and goal are drawn uniformly for each episode. `info["is_success"]` says whether the goal is
    reached, which ends the episode.
    """

    def __init__(self, bits: int) -> None:
        """Build the spaces.

        Args:
            bits: Number of bits, and of actions.
        """
        self.action_space = Discrete(bits)
        names = ("observation", "achieved_goal", "desired_goal")
        self.observation_space = Dict({name: MultiBinary(bits) for name in names})
        self._bits = self._goal = np.zeros(bits, dtype=np.int8)

    def reset(
        self, *, seed: int | None = None, options: dict[str, Any] | None = None
    ) -> tuple[Observation, dict[str, Any]]:
        """Draw the bits and the goal."""
        super().reset(seed=seed, options=options)
        self._bits, self._goal = self.np_random.integers(
            2, size=(2, len(self._bits)), dtype=np.int8
        )
        return self._observation(), {}

    def step(self, action: np.int64) -> tuple[Observation, float, bool, bool, dict[str, Any]]:
        """Flip the bit with the number of the action."""
        self._bits[action] ^= 1
        reward = float(self.compute_reward(self._bits, self._goal, {}))
        reached = reward == 0
        return self._observation(), reward, reached, False, {"is_success": reached}

    def compute_reward(
        self, achieved_goal: Bits, desired_goal: Bits, info: object
    ) -> NDArray[np.float32]:
        """Return 0 where both are equal, otherwise -1 (goals of shape (…, bits), rewards of (…))."""
        del info
        differs: NDArray[np.bool_] = np.any(achieved_goal != desired_goal, axis=-1)
        return -differs.astype(np.float32)

    def _observation(self) -> Observation:
        return {
            "observation": self._bits.copy(),
            "achieved_goal": self._bits.copy(),
            "desired_goal": self._goal.copy(),
        }


gymnasium.register(
    "BitFlipping-v0",
    entry_point="rlexp.environments.bit_flipping:BitFlipping",
    max_episode_steps=10,
    kwargs={"bits": 10},
)
