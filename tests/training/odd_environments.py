"""Environments that go wrong in one way each, at a chosen step."""

import ctypes
import os
import sys
import time
from collections.abc import Callable
from typing import Any

import gymnasium as gym
import numpy as np
from stable_baselines3.common.envs import BitFlippingEnv


class OddEnv(gym.Env[np.ndarray, Any]):
    """Four numbers, two actions and ten steps per episode; the argument `fault` names its fault."""

    def __init__(self, fault: str = "none", at: int = 100) -> None:
        self.observation_space = gym.spaces.Box(-1.0, 1.0, (4,), np.float32)
        self.action_space = gym.spaces.Discrete(2)
        self.fault, self.at, self.steps, self.length = fault, at, 0, 0

    def reset(self, *, seed: int | None = None, options: Any = None) -> Any:
        super().reset(seed=seed)
        self.length = 0
        return self._observe(), {}

    def _observe(self) -> np.ndarray:
        return self.np_random.uniform(-1, 1, 4).astype(np.float32)

    def step(self, action: int) -> Any:
        # Only an environment with a fault has state that outlives an episode.
        self.steps += self.fault != "none"
        self.length += 1
        observation, reward = self._observe(), 1.0
        if self.steps == self.at:
            observation, reward = self._go_wrong(observation)
        return observation, reward, self.length >= 10, False, {}

    def _go_wrong(self, observation: np.ndarray) -> tuple[Any, Any]:
        if self.fault in ENDINGS:
            ENDINGS[self.fault]()
        reward: Any = REWARDS.get(self.fault, 1.0)
        if self.fault == "nan_observation":
            observation[2] = np.nan
        return observation[: 3 if self.fault == "shape" else 4], reward


class MaskedEnv(OddEnv):
    """An `OddEnv` whose second action is forbidden."""

    def action_masks(self) -> np.ndarray:
        """Which actions are allowed."""
        return np.array([True, False])

    def step(self, action: int) -> Any:
        assert action == 0
        return super().step(action)


class LateEnv(OddEnv):
    """Fails when it is closed."""

    def close(self) -> None:
        if self.fault in ENDINGS:
            ENDINGS[self.fault]()

    def _go_wrong(self, observation: np.ndarray) -> tuple[Any, Any]:
        return observation, 1.0


class GlobalEnv(OddEnv):
    """Draws from NumPy's global generator, when it is made and at each step."""

    def __init__(self, **settings: Any) -> None:
        super().__init__(**settings)
        self.shift = np.random.uniform()  # noqa: NPY002

    def _observe(self) -> np.ndarray:
        numbers = np.random.uniform(-1, 1, 3)  # noqa: NPY002
        return np.array([*numbers, self.shift], np.float32)


def _raise(error: Exception) -> None:
    raise error


def _flood() -> None:
    for _ in range(200):
        os.write(1, b"x" * 100_000 + b"\n")
        time.sleep(0.005)


ENDINGS: dict[str, Callable[[], object]] = {
    "raise": lambda: _raise(RuntimeError("the motor is on fire")),
    "memory": lambda: _raise(MemoryError("no memory for the world")),
    "sys_exit": lambda: sys.exit(0),
    "exit": lambda: os._exit(0),
    "segfault": lambda: ctypes.string_at(0),
    "hang": lambda: time.sleep(10_000),
    "flood": _flood,
}
REWARDS = {"infinite_reward": float("inf"), "array_reward": np.ones(2)}


class GoalBits(BitFlippingEnv):
    """Flip bits until they are those of the goal; a step may also cost what its info says.

    Start and goal are drawn as in the HER paper, from the generator of the environment.
    """

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> Any:
        """Draw a start and a goal."""
        gym.Env.reset(self, seed=seed)
        goal = self.desired_goal
        self.desired_goal = self.np_random.integers(0, 2, len(goal)).astype(goal.dtype)
        self._obs_space.seed(int(self.np_random.integers(2**31)))
        return super().reset(options=options)

    def step(self, action: Any) -> Any:
        """Flip one bit."""
        given: Any = super().step(action)
        observation, _, terminated, truncated, info = given
        info["cost"] = np.float32(0.125 if self.costly else 0.0)
        goals = (observation["achieved_goal"], observation["desired_goal"])
        reward = float(self.compute_reward(goals[0][None], goals[1][None], [info])[0])
        return observation, reward, terminated, truncated, info

    def compute_reward(self, achieved_goal: Any, desired_goal: Any, _info: Any) -> Any:
        """The reward for each of several goals."""
        distant = super().compute_reward(achieved_goal, desired_goal, None)
        costs = [info.get("cost", 0.0) for info in (() if _info is None else _info)] or 0.0
        return distant - np.asarray(costs, dtype=np.float32)

    costly = False


class CostlyGoalBits(GoalBits):
    """`GoalBits` whose steps cost, so that the reward for another goal needs the info."""

    costly = True


gym.register("GoalBits-v0", "odd_environments:GoalBits", max_episode_steps=8, kwargs={"n_bits": 8})
gym.register(
    "CostlyGoalBits-v0",
    "odd_environments:CostlyGoalBits",
    max_episode_steps=8,
    kwargs={"n_bits": 8},
)
gym.register("Odd-v0", "odd_environments:OddEnv")
gym.register("Masked-v0", "odd_environments:MaskedEnv")
gym.register("Late-v0", "odd_environments:LateEnv")
gym.register("Global-v0", "odd_environments:GlobalEnv")
