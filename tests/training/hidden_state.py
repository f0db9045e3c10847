"""Environments that each have one kind of state besides their generator and their actions."""

import random
import time
from dataclasses import dataclass
from typing import Any

import gymnasium as gym
import numpy as np

Array = np.ndarray[Any, Any]
PLAYED: list[None] = []


class Walk(gym.Env[Any, Any]):
    """A random walk that actions push, with seven steps per episode and no hidden state."""

    def __init__(self) -> None:
        self.observation_space: gym.Space[Any] = gym.spaces.Box(-np.inf, np.inf, (2,), np.float32)
        self.action_space: gym.Space[Any] = gym.spaces.Box(-1.0, 1.0, (2,), np.float32)
        self.place = np.zeros(2)
        self.length = 0

    def reset(self, *, seed: int | None = None, options: Any = None) -> Any:
        super().reset(seed=seed)
        self.place, self.length = self.begin(), 0
        return self.observe(), {}

    def step(self, action: Any) -> Any:
        self.length += 1
        self.place = self.place + self.push(action) + self.noise()
        terminated = self.length >= self.limit()
        return self.observe(), self.reward(), terminated, False, {}

    def begin(self) -> Array:
        """The first position of an episode."""
        return self.np_random.normal(size=2)

    def push(self, action: Any) -> Array:
        """The effect of an action."""
        return np.asarray(action, dtype=np.float64)

    def noise(self) -> Array:
        """The random part of a step."""
        return self.np_random.normal(size=2)

    def limit(self) -> int:
        """The number of steps of an episode."""
        return 7

    def reward(self) -> float:
        """The reward of a step."""
        return -float(np.abs(self.place).sum())

    def observe(self) -> Any:
        """The observation of a step."""
        return self.place.astype(np.float32)


class Parts(Walk):
    """Returns observations that are dictionaries."""

    def __init__(self) -> None:
        super().__init__()
        part = gym.spaces.Box(-np.inf, np.inf, (2,), np.float32)
        self.observation_space = gym.spaces.Dict(near=part, far=part)

    def observe(self) -> Any:
        near = super().observe()
        return {"near": near, "far": 2 * near}


class Picture(Walk):
    """Returns observations that are images."""

    def __init__(self) -> None:
        super().__init__()
        self.observation_space = gym.spaces.Box(0, 255, (8, 8, 3), np.uint8)

    def observe(self) -> Any:
        return np.full((8, 8, 3), self.place[0] * 20 % 256).astype(np.uint8)


class Sleeps(Walk):
    """Takes time at every step."""

    def noise(self) -> Array:
        time.sleep(0.05)
        return super().noise()


class ChangesActions(Walk):
    """Changes the array of the action that it receives."""

    def push(self, action: Any) -> Array:
        action *= 3.0
        return super().push(action)


class OlderGenerator(Walk):
    """Draws from a Mersenne twister that it stores as `np_random`."""

    def reset(self, *, seed: int | None = None, options: Any = None) -> Any:
        if seed is not None:
            self.np_random = np.random.Generator(np.random.MT19937(seed))
        return super().reset(seed=None)


class DrawsFromItsSpace(Walk):
    """Adds a random action of its space, which it seeds."""

    def reset(self, *, seed: int | None = None, options: Any = None) -> Any:
        if seed is not None:
            self.action_space.seed(seed)
        return super().reset(seed=seed)

    def push(self, action: Any) -> Array:
        random_action: Array = self.action_space.sample()
        return super().push(action) + random_action


class DrawsTwiceABeginning(gym.Wrapper[Any, Any, Any, Any]):
    """Resets its environment a random number of times, and takes a step."""

    def reset(self, *, seed: int | None = None, options: Any = None) -> Any:
        self.env.reset(seed=seed)
        for _ in range(self.np_random.integers(3)):
            self.env.reset()
        observation, _, _, _, info = self.env.step(np.zeros(2, np.float32))
        return observation, info


class GlobalWalk(Walk):
    """Draws from the global generators of its process."""

    def noise(self) -> Array:
        return np.array([np.random.normal(), random.gauss(0, 1)])  # noqa: NPY002


# A replay cannot restore the hidden state of most environments below.


class OwnGenerator(Walk):
    """Draws from a private generator that is seeded once."""

    def reset(self, *, seed: int | None = None, options: Any = None) -> Any:
        if seed is not None:
            self.own = np.random.default_rng(seed)
        return super().reset(seed=seed)

    def noise(self) -> Array:
        return self.own.normal(size=2)


class OldState(Walk):
    """Stores a `RandomState` where a `Generator` belongs."""

    def reset(self, *, seed: int | None = None, options: Any = None) -> Any:
        if seed is not None:
            self.np_random = np.random.RandomState(seed)  # type: ignore[assignment]
        return super().reset(seed=None)


class CountsEpisodes(Walk):
    """Begins further out in every episode, as a curriculum does."""

    episodes = 0

    def begin(self) -> Array:
        self.episodes += 1
        return super().begin() + self.episodes


class LongerEpisodes(Walk):
    """Makes every episode one step longer; nothing else shows its counter."""

    episodes = 0

    def begin(self) -> Array:
        self.episodes += 1
        return super().begin()

    def limit(self) -> int:
        return 7 + self.episodes


class Curriculum(Walk):
    """Gets harder after sixty episodes; nothing shows its counter before."""

    episodes = 0

    def begin(self) -> Array:
        self.episodes += 1
        return super().begin()

    def push(self, action: Any) -> Array:
        return super().push(action) * (1.0 if self.episodes <= 60 else 0.1)

    def limit(self) -> int:
        return 3


class RareSlips(Walk):
    """Slips in three of a hundred episodes, drawn from a private generator."""

    def reset(self, *, seed: int | None = None, options: Any = None) -> Any:
        if seed is not None:
            self.own = np.random.default_rng(seed)
        return super().reset(seed=seed)

    def push(self, action: Any) -> Array:
        slips = self.length == 2 and self.own.random() < 0.03
        return super().push(action) + (3.0 if slips else 0.0)


@dataclass(slots=True)
class Level:
    """A counter of episodes in a separate object."""

    episodes: int = 0


class LevelInAnObject(Walk):
    """Counts its episodes in an object of another class."""

    def __init__(self) -> None:
        super().__init__()
        self.level = Level()

    def begin(self) -> Array:
        self.level.episodes += 1
        return super().begin()


class CarriesOver(Walk):
    """Begins where the last episode ended."""

    def begin(self) -> Array:
        return self.place


class ReadsTheClock(Walk):
    """Returns the time as observation."""

    def observe(self) -> Any:
        return np.array([self.place[0], time.perf_counter() % 1.0], np.float32)


class Slips(Walk):
    """Scales rewards by the number of all its steps; only rewards show this counter."""

    total_steps = 0

    def reward(self) -> float:
        self.total_steps += 1
        return super().reward() * (1 + 1e-12 * self.total_steps)


class CountsInItsModule(Walk):
    """Counts episodes in a variable of its module, which all copies share."""

    def reset(self, *, seed: int | None = None, options: Any = None) -> Any:
        if seed is None:
            PLAYED.append(seed)
        return super().reset(seed=seed)

    def limit(self) -> int:
        return 7 + len(PLAYED)


class EndsItself(Walk):
    """Ends its episodes after two steps unless it is the first instance of its class."""

    alive = 0

    def __init__(self) -> None:
        super().__init__()
        EndsItself.alive += 1
        self.number = EndsItself.alive

    def limit(self) -> int:
        return 7 if self.number == 1 else 2


class Remembers(gym.Wrapper[Any, Any, Any, Any]):
    """Adds the mean of all past observations to each observation."""

    def __init__(self, env: gym.Env[Any, Any]) -> None:
        super().__init__(env)
        self.total_steps = 0
        self.mean = np.zeros(2)

    def step(self, action: Any) -> Any:
        observation, *other_results = self.env.step(action)
        self.total_steps += 1
        self.mean += (observation - self.mean) / self.total_steps
        return (observation + self.mean).astype(np.float32), *other_results


class Breaks(Walk):
    """Raises an error after some steps."""

    total_steps = 0

    def push(self, action: Any) -> Array:
        self.total_steps += 1
        if self.total_steps > 20:
            raise RuntimeError("the motor is on fire")
        return super().push(action)


class Words(Walk):
    """Takes text as actions."""

    def __init__(self) -> None:
        super().__init__()
        self.action_space = gym.spaces.Text(3)


class Masked(Walk):
    """Forbids another action at each step, and fails if that action is taken."""

    def __init__(self) -> None:
        super().__init__()
        self.action_space = gym.spaces.Discrete(3)

    def action_masks(self) -> Array:
        """The allowed actions."""
        return np.not_equal(np.arange(3), self.length % 3)

    def push(self, action: Any) -> Array:
        assert action != (self.length - 1) % 3
        return np.full(2, float(action))


REGISTERED = {
    kind.__name__: f"hidden/{kind.__name__}-v0"
    for kind in list(vars().values())
    if isinstance(kind, type) and issubclass(kind, Walk)
}
for name, environment_id in REGISTERED.items():
    gym.register(environment_id, f"{__name__}:{name}")
