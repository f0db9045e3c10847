"""Environments with scripted observations and rewards, which record their actions."""

from collections.abc import Sequence
from typing import Any

import gymnasium as gym
import numpy as np

Env = gym.Env[Any, Any]


class Scripted(gym.Env[Any, Any]):
    """Returns given observations and rewards, one per step, and stores actions."""

    def __init__(
        self,
        observations: Sequence[Any],
        *,
        rewards: Sequence[float] = (),
        infos: Sequence[dict[str, Any]] = (),
        truncates: bool = False,
        bound: float = np.inf,
        actions: gym.Space[Any] | None = None,
    ) -> None:
        self.observations = [np.atleast_1d(np.asarray(o, np.float64)) for o in observations]
        shape = self.observations[0].shape
        self.observation_space: gym.Space[Any] = gym.spaces.Box(-bound, bound, shape, np.float64)
        self.action_space = actions or gym.spaces.Box(-1.0, 1.0, (1,), np.float64)
        self.rewards, self.infos, self.truncates = rewards, infos, truncates
        self.played_actions: list[Any] = []

    def reset(self, *, seed: int | None = None, options: Any = None) -> Any:
        """Begin the script."""
        super().reset(seed=seed)
        self.played_actions = []
        return self.observations[0], {}

    def step(self, action: Any) -> Any:
        """Return the next line of the script."""
        self.played_actions.append(action)
        step = len(self.played_actions)
        ends = step == len(self.observations) - 1
        reward = self.rewards[step - 1] if self.rewards else 1.0
        info = dict(self.infos[step - 1]) if self.infos else {}
        outcome = (ends and not self.truncates, ends and self.truncates)
        return self.observations[step], reward, *outcome, info


def play(env: Env, actions: Sequence[Any], seed: int = 0) -> list[Any]:
    """Play an episode and return the result of each step."""
    env.reset(seed=seed)
    steps = []
    for action in actions:
        steps.append(env.step(action))
        if steps[-1][2] or steps[-1][3]:
            break
    return steps


def numbers(steps: Sequence[Any]) -> list[float]:
    """The single entry of each observation."""
    return [float(step[0][0]) for step in steps]


def array(*values: float) -> Any:
    """An action or observation as an array of floats."""
    return np.array(values, np.float64)
