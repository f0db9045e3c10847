"""Levels: a finite set of seeds to train on, and other seeds to be scored on (Cobbe et al. 2020).

Leveraging Procedural Generation to Benchmark Reinforcement Learning, section 3.
"""

from dataclasses import dataclass
from typing import Annotated, Any, ClassVar, SupportsFloat

import gymnasium as gym
from annotated_types import Interval

from rlexp.environments import MEASURES, Stage
from rlexp.environments.composed import RESETS_AGAIN
from rlexp.errors import ConfigError
from rlexp.protocol.identity import Identity

Env = gym.Env[Any, Any]
MOST = 2**30
"""Levels of a set: all seeds stay below 2**32."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Levels:
    """Training plays levels of one set, evaluations the levels of another, in order.

    A level is what the environment makes of a seed at a reset: a maze, a track, a start. What
    happens by chance after that is not part of it.
    """

    identity: ClassVar = Identity("component", "levels")

    training: Annotated[int, Interval(ge=1, le=MOST)]
    """Levels that training draws from: the seeds `start` …"""
    test: Annotated[int, Interval(ge=1, le=MOST)]
    """Levels that evaluations play: the seeds that follow."""
    start: Annotated[int, Interval(ge=0, le=MOST)]
    """The first seed."""

    @property
    def splits(self) -> bool:
        """Evaluations play levels that training never sees."""
        return True

    def wrap(self, environment: Env, stage: Stage) -> Env:
        """Return the environment with a level in every episode.

        Raises:
            ConfigError: A component inside resets to seeds that are no levels.
        """
        if environment.has_wrapper_attr(RESETS_AGAIN):
            raise ConfigError(
                "levels must be inside of jump_start and snapshots: "
                "component=[levels,snapshots], in this order"
            )
        training = range(self.start, self.start + self.training)
        test = range(training.stop, training.stop + self.test)
        levels = test if stage is Stage.EVALUATION else training
        return LevelEnvironment(environment, levels, drawn=stage is Stage.TRAINING)


class LevelEnvironment(gym.Wrapper[Any, Any, Any, Any]):
    """Each reset plays a level that is drawn, or the next one in order."""

    def __init__(self, env: Env, levels: range, *, drawn: bool) -> None:
        super().__init__(env)
        self._levels = levels
        self._drawn = drawn
        self._position, self._stride = 0, 1
        self._level = levels.start

    def deal(self, position: int, of: int) -> None:
        """Play every `of`-th level, from `position` on."""
        self._position, self._stride = position, of
        if self.env.has_wrapper_attr("deal"):
            self.env.get_wrapper_attr("deal")(position, of)

    def reset(
        self, *, seed: int | None = None, options: dict[str, Any] | None = None
    ) -> tuple[Any, dict[str, Any]]:
        """Reset to another level.

        The level has a generator of its own. That of the environment goes on after it as if there
        had been none: it draws the levels, and what happens by chance in an episode.
        """
        if seed is not None:
            self.env.reset(seed=seed, options=options)
        self._level = self._next()
        state = self.np_random.bit_generator.state
        observation, info = self.env.reset(seed=self._level, options=options)
        self.np_random.bit_generator.state = state
        return observation, info

    def step(self, action: Any) -> tuple[Any, SupportsFloat, bool, bool, dict[str, Any]]:
        """Step; the last one tells the level."""
        observation, reward, terminated, truncated, info = self.env.step(action)
        if terminated or truncated:
            info.setdefault(MEASURES, {})["context/level"] = float(self._level)
        return observation, reward, terminated, truncated, info

    def _next(self) -> int:
        if self._drawn:
            return self._levels[int(self.np_random.integers(len(self._levels)))]
        level = self._levels[self._position % len(self._levels)]
        self._position += self._stride
        return level
