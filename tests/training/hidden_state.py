"""Environments whose state is, in one way each, more than their generator and their actions."""

import random
import time
from dataclasses import dataclass
from typing import Any

import gymnasium as gym
import numpy as np

Array = np.ndarray[Any, Any]
PLAYED: list[None] = []


class Walk(gym.Env[Any, Any]):
    """A random walk that an action pushes; seven steps an episode, and nothing hidden."""

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
        ended = self.length >= self.limit()
        return self.observe(), self.reward(), ended, False, {}

    def begin(self) -> Array:
        """Where an episode begins."""
        return self.np_random.normal(size=2)

    def push(self, action: Any) -> Array:
        """What an action does."""
        return np.asarray(action, dtype=np.float64)

    def noise(self) -> Array:
        """What chance does."""
        return self.np_random.normal(size=2)

    def limit(self) -> int:
        """Steps of an episode."""
        return 7

    def reward(self) -> float:
        """What a step earns."""
        return -float(np.abs(self.place).sum())

    def observe(self) -> Any:
        """What is seen."""
        return self.place.astype(np.float32)


class Parts(Walk):
    """Shows a dictionary."""

    def __init__(self) -> None:
        super().__init__()
        part = gym.spaces.Box(-np.inf, np.inf, (2,), np.float32)
        self.observation_space = gym.spaces.Dict(near=part, far=part)

    def observe(self) -> Any:
        near = super().observe()
        return {"near": near, "far": 2 * near}


class Picture(Walk):
    """Shows an image."""

    def __init__(self) -> None:
        super().__init__()
        self.observation_space = gym.spaces.Box(0, 255, (8, 8, 3), np.uint8)

    def observe(self) -> Any:
        return np.full((8, 8, 3), self.place[0] * 20 % 256).astype(np.uint8)


class Sleeps(Walk):
    """Takes its time."""

    def noise(self) -> Array:
        time.sleep(0.05)
        return super().noise()


class ChangesActions(Walk):
    """Works in the array that it was given."""

    def push(self, action: Any) -> Array:
        action *= 3.0
        return super().push(action)


class OlderGenerator(Walk):
    """Draws from a Mersenne twister under the usual name."""

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
        drawn: Array = self.action_space.sample()
        return super().push(action) + drawn


class DrawsTwiceABeginning(gym.Wrapper[Any, Any, Any, Any]):
    """Resets as often as its generator says, and takes a step."""

    def reset(self, *, seed: int | None = None, options: Any = None) -> Any:
        self.env.reset(seed=seed)
        for _ in range(self.np_random.integers(3)):
            self.env.reset()
        observation, _, _, _, info = self.env.step(np.zeros(2, np.float32))
        return observation, info


class GlobalWalk(Walk):
    """Draws from the generators that everything in a process shares."""

    def noise(self) -> Array:
        return np.array([np.random.normal(), random.gauss(0, 1)])  # noqa: NPY002


# From here on, what is hidden cannot be repeated.


class OwnGenerator(Walk):
    """Draws from a generator of its own, seeded once."""

    def reset(self, *, seed: int | None = None, options: Any = None) -> Any:
        if seed is not None:
            self.own = np.random.default_rng(seed)
        return super().reset(seed=seed)

    def noise(self) -> Array:
        return self.own.normal(size=2)


class OldState(Walk):
    """Keeps a generator of the old kind where the new one belongs."""

    def reset(self, *, seed: int | None = None, options: Any = None) -> Any:
        if seed is not None:
            self.np_random = np.random.RandomState(seed)  # type: ignore[assignment]
        return super().reset(seed=None)


class CountsEpisodes(Walk):
    """Begins further out with every episode, as a curriculum does."""

    episodes = 0

    def begin(self) -> Array:
        self.episodes += 1
        return super().begin() + self.episodes


class LongerEpisodes(Walk):
    """Lets every episode last a step longer: nothing else shows."""

    episodes = 0

    def begin(self) -> Array:
        self.episodes += 1
        return super().begin()

    def limit(self) -> int:
        return 7 + self.episodes


class Curriculum(Walk):
    """Gets harder after sixty episodes: nothing shows before."""

    episodes = 0

    def begin(self) -> Array:
        self.episodes += 1
        return super().begin()

    def push(self, action: Any) -> Array:
        return super().push(action) * (1.0 if self.episodes <= 60 else 0.1)

    def limit(self) -> int:
        return 3


class RareSlips(Walk):
    """Slips in three of a hundred episodes, as a generator of its own says that is seeded once."""

    def reset(self, *, seed: int | None = None, options: Any = None) -> Any:
        if seed is not None:
            self.own = np.random.default_rng(seed)
        return super().reset(seed=seed)

    def push(self, action: Any) -> Array:
        slips = self.length == 2 and self.own.random() < 0.03
        return super().push(action) + (3.0 if slips else 0.0)


@dataclass(slots=True)
class Level:
    """How hard it is now."""

    episodes: int = 0


class LevelInAnObject(Walk):
    """Counts its episodes in an object."""

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
    """Shows what time it is."""

    def observe(self) -> Any:
        return np.array([self.place[0], time.perf_counter() % 1.0], np.float32)


class Slips(Walk):
    """Pays more for each step that it has ever taken, which only the reward tells."""

    taken = 0

    def reward(self) -> float:
        self.taken += 1
        return super().reward() * (1 + 1e-12 * self.taken)


class CountsInItsModule(Walk):
    """Lets every episode last longer than the one before, whichever copy of it played that."""

    def reset(self, *, seed: int | None = None, options: Any = None) -> Any:
        if seed is None:
            PLAYED.append(seed)
        return super().reset(seed=seed)

    def limit(self) -> int:
        return 7 + len(PLAYED)


class EndsItself(Walk):
    """Ends at once if it is not the first of its kind."""

    alive = 0

    def __init__(self) -> None:
        super().__init__()
        EndsItself.alive += 1
        self.number = EndsItself.alive

    def limit(self) -> int:
        return 7 if self.number == 1 else 2


class Remembers(gym.Wrapper[Any, Any, Any, Any]):
    """Adds the mean of all that was ever seen."""

    def __init__(self, env: gym.Env[Any, Any]) -> None:
        super().__init__(env)
        self.seen = 0
        self.mean = np.zeros(2)

    def step(self, action: Any) -> Any:
        observation, *rest = self.env.step(action)
        self.seen += 1
        self.mean += (observation - self.mean) / self.seen
        return (observation + self.mean).astype(np.float32), *rest


class Breaks(Walk):
    """Raises an error once it is used for long."""

    taken = 0

    def push(self, action: Any) -> Array:
        self.taken += 1
        if self.taken > 20:
            raise RuntimeError("the motor is on fire")
        return super().push(action)


class Words(Walk):
    """Takes words."""

    def __init__(self) -> None:
        super().__init__()
        self.action_space = gym.spaces.Text(3)


class Masked(Walk):
    """Forbids one of its actions, another one at each step, and insists on it."""

    def __init__(self) -> None:
        super().__init__()
        self.action_space = gym.spaces.Discrete(3)

    def action_masks(self) -> Array:
        """Which actions are allowed."""
        return np.not_equal(np.arange(3), self.length % 3)

    def push(self, action: Any) -> Array:
        assert action != (self.length - 1) % 3
        return np.full(2, float(action))


REGISTERED = {
    kind.__name__: f"hidden/{kind.__name__}-v0"
    for kind in list(vars().values())
    if isinstance(kind, type) and issubclass(kind, Walk)
}
for name, registered in REGISTERED.items():
    gym.register(registered, f"{__name__}:{name}")
