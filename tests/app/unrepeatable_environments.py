"""Environments that depend on something other than their seed."""

import datetime as dt
import random
import time
from typing import Any, ClassVar

import gymnasium as gym
import numpy as np


class Steady(gym.Env[Any, Any]):
    """An environment that depends only on its seed."""

    def __init__(self) -> None:
        self.observation_space: gym.Space[Any] = gym.spaces.Box(-1.0, 1.0, (2,), np.float64)
        self.action_space = gym.spaces.Discrete(2)
        self.length = 0

    def reset(self, *, seed: int | None = None, options: Any = None) -> Any:
        super().reset(seed=seed)
        self.length = 0
        return self.np_random.uniform(-1.0, 1.0, 2), {}

    def step(self, action: Any) -> Any:
        self.length += 1
        observation = self.np_random.uniform(-1.0, 1.0, 2)
        return observation, self.reward(), self.length >= 10, False, {}

    def reward(self) -> float:
        """The reward, in which the environments of this module differ."""
        return 1.0


class Clock(Steady):
    def reward(self) -> float:
        return time.perf_counter() % 1.0


class Date(Steady):
    def reward(self) -> float:
        return dt.datetime.now(tz=dt.UTC).microsecond / 1e6


class OwnGenerator(Steady):
    def __init__(self) -> None:
        super().__init__()
        self.generator = np.random.default_rng()

    def reward(self) -> float:
        return float(self.generator.uniform())


class PythonGenerator(Steady):
    def __init__(self) -> None:
        super().__init__()
        self.generator = random.Random()

    def reward(self) -> float:
        return self.generator.random()


class ClockAndGenerator(OwnGenerator):
    def reward(self) -> float:
        return super().reward() + time.time() % 1.0


class GlobalGenerator(Steady):
    def reward(self) -> float:
        return random.random() + float(np.random.uniform())  # noqa: NPY002


class Remembering(Steady):
    """An environment whose instances know the number of earlier instances."""

    count: ClassVar[int] = 0

    def __init__(self) -> None:
        super().__init__()
        Remembering.count += 1
        self.number = Remembering.count

    def reward(self) -> float:
        return float(self.number)


class LateClock(Steady):
    """An environment that reads the clock from the second episode on."""

    def __init__(self) -> None:
        super().__init__()
        self.episodes = 0

    def reset(self, *, seed: int | None = None, options: Any = None) -> Any:
        self.episodes += 1
        return super().reset(seed=seed)

    def reward(self) -> float:
        return time.time() % 1.0 if self.episodes > 1 else 0.0


class Names(Steady):
    """An environment that depends on the order of a set."""

    def reward(self) -> float:
        names = {"north", "east", "south", "west", "up", "down"}
        return float(sum(len(name) * k for k, name in enumerate(names)))


_kinds: list[type[Steady]] = [Steady, *Steady.__subclasses__(), ClockAndGenerator]
for _kind in _kinds:
    gym.register(f"unrepeatable/{_kind.__name__}-v0", entry_point=f"{__name__}:{_kind.__name__}")
