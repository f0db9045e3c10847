"""A wrapper of a study's own."""

from typing import Any

import gymnasium as gym


class TenTimes(gym.RewardWrapper[Any, Any]):
    """Multiplies rewards by ten."""

    def reward(self, reward: Any) -> float:
        return 10.0 * float(reward)
