"""Environments that each violate the interface or crash in one way."""

import ctypes
import os
import sys
import time
from typing import Any

import gymnasium as gym
import numpy as np

BAD_STEP = 3
"""The step at which an environment fails; the first step is 0."""


class Good(gym.Env[Any, Any]):
    """An environment without faults: four numbers, two actions, ten steps per episode."""

    def __init__(self) -> None:
        self.observation_space: gym.Space[Any] = gym.spaces.Box(-1.0, 1.0, (4,), np.float32)
        self.action_space = gym.spaces.Discrete(2)
        self.length = 0

    def reset(self, *, seed: int | None = None, options: Any = None) -> Any:
        super().reset(seed=seed)
        self.length = 0
        return self.observe(), {}

    def step(self, action: Any) -> Any:
        self.length += 1
        result: Any = self.observe(), 1.0, self.length >= 10, False, {}
        return self.spoil(*result) if self.length == BAD_STEP + 1 else result

    def observe(self) -> Any:
        """Random numbers from the generator that the seed determines."""
        return self.np_random.uniform(-1, 1, 4).astype(np.float32)

    def spoil(self, *result: Any) -> Any:
        """The result of the bad step."""
        return result


class Ageing(Good):
    """An environment whose observations shrink over all episodes."""

    age = 0

    def step(self, action: Any) -> Any:
        self.age += 1
        return super().step(action)

    def observe(self) -> Any:
        return (super().observe() * 0.99**self.age).astype(np.float32)


class NanObservation(Good):
    def spoil(self, observation: Any, *others: Any) -> Any:
        observation[2] = np.nan
        return observation, *others


class Outside(Good):
    def spoil(self, observation: Any, *others: Any) -> Any:
        observation[1] = 5.0
        return observation, *others


class Shape(Good):
    def spoil(self, observation: Any, *others: Any) -> Any:
        return observation[:3], *others


class NanReward(Good):
    def spoil(self, observation: Any, reward: Any, *others: Any) -> Any:
        return observation, float("nan"), *others


class ArrayReward(Good):
    def spoil(self, observation: Any, reward: Any, *others: Any) -> Any:
        return observation, np.ones(2), *others


class NoReward(Good):
    def spoil(self, observation: Any, reward: Any, *others: Any) -> Any:
        return observation, None, *others


class OldStep(Good):
    def spoil(self, observation: Any, reward: Any, *others: Any) -> Any:
        return observation, reward, False, {}


class NumberAsFlag(Good):
    def spoil(self, observation: Any, reward: Any, *others: Any) -> Any:
        return observation, reward, 1, False, {}


class NoInfo(Good):
    def spoil(self, observation: Any, reward: Any, *others: Any) -> Any:
        return observation, reward, False, False, None


class Raises(Good):
    def spoil(self, *result: Any) -> Any:
        raise KeyError("lost")


class Leaves(Good):
    def spoil(self, *result: Any) -> Any:
        sys.exit(5)


class Segfault(Good):
    def spoil(self, *result: Any) -> Any:
        ctypes.string_at(0)


class Exits(Good):
    def spoil(self, *result: Any) -> Any:
        print("the licence server said no")
        sys.stdout.flush()
        os._exit(0)


class Hangs(Good):
    def spoil(self, *result: Any) -> Any:
        time.sleep(1000)


class Unseeded(Good):
    def observe(self) -> Any:
        return np.random.uniform(-1, 1, 4).astype(np.float32)  # noqa: NPY002


class Constant(Good):
    def observe(self) -> Any:
        return np.zeros(4, np.float32)


class WrongDtype(Good):
    def observe(self) -> Any:
        return self.np_random.uniform(-1, 1, 4)


class Endless(Good):
    def step(self, action: Any) -> Any:
        return self.observe(), 1.0, False, False, {}


class OldReset(Good):
    def reset(self, *, seed: int | None = None, options: Any = None) -> Any:
        return super().reset(seed=seed)[0]


class NoSpaces(Good):
    def __init__(self) -> None:
        super().__init__()
        self.observation_space = (4,)  # type: ignore[assignment]


class BadClose(Good):
    def close(self) -> None:
        raise RuntimeError("cannot let go")


class BadConstructor(Good):
    def __init__(self) -> None:
        raise ValueError("no such level")


class MissingKey(Good):
    def __init__(self) -> None:
        super().__init__()
        box = gym.spaces.Box(-1.0, 1.0, (2,), np.float32)
        self.observation_space = gym.spaces.Dict({"near": box, "far": box})

    def observe(self) -> Any:
        near, far = self.np_random.uniform(-1, 1, (2, 2)).astype(np.float32)
        return {"near": near, "far": far}

    def spoil(self, observation: Any, *others: Any) -> Any:
        return {"near": observation["near"]}, *others


class Masked(Good):
    """Only the second action is allowed; the first one raises an error."""

    def action_masks(self) -> Any:
        """Which actions are allowed."""
        return [False, True]

    def step(self, action: Any) -> Any:
        assert action == 1
        return super().step(action)


_kinds: list[type[Good]] = [Good, *Good.__subclasses__()]
for _kind in _kinds:
    gym.register(f"faulty/{_kind.__name__}-v0", entry_point=f"{__name__}:{_kind.__name__}")
