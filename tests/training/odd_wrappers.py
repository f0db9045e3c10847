"""A wrapper of a user's study."""

from typing import Any

import gymnasium as gym


class TenTimes(gym.RewardWrapper[Any, Any]):
    """Multiplies rewards by ten."""

    def reward(self, reward: Any) -> float:
        return 10.0 * float(reward)
