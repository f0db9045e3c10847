"""Levels: one finite set of seeds for training, another for evaluation (Cobbe et al. 2020).

Leveraging Procedural Generation to Benchmark Reinforcement Learning, section 3.
"""

from dataclasses import dataclass
from typing import Annotated, Any, ClassVar, SupportsFloat

import gymnasium as gym
import numpy as np
from annotated_types import Interval
from numpy.typing import NDArray

from rlexp.environments import MEASURES, Stage
from rlexp.environments.composed import RESETS_AGAIN
from rlexp.environments.task_bins import TaskBins
from rlexp.errors import ConfigError
from rlexp.protocol.identity import Identity

Env = gym.Env[Any, Any]
MOST = 2**30
"""Largest number of levels of a set, so that all seeds stay below 2**32."""
MOST_COUNTED = 100_000
"""Largest number of training levels whose episodes are counted."""
LEVEL = "context/level"
"""The measure that reports the level of an episode."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Levels:
    """Training draws levels from one set; evaluations play the levels of another set in order.

    A level is what a reset creates from a seed: a maze, a track, a start state. Random events
    after the reset are not part of the level.
    """

    identity: ClassVar = Identity("component", "levels")

    training: Annotated[int, Interval(ge=1, le=MOST)]
    """Number of training levels: the seeds from `start` on."""
    test: Annotated[int, Interval(ge=1, le=MOST)]
    """Number of test levels: the seeds from `first_test` on."""
    start: Annotated[int, Interval(ge=0, le=MOST)]
    """Seed of the first training level."""
    first_test: Annotated[int, Interval(ge=0, le=2 * MOST)] | None = None
    """Seed of the first test level; None takes the one after the training levels."""

    def __post_init__(self) -> None:
        training, test = self._training_levels, self._test_levels
        if training.start < test.stop and test.start < training.stop:
            raise ConfigError(
                f"component levels: test levels {test.start} to {test[-1]} share seeds with training "
                f"levels {training.start} to {training[-1]}: use "
                f"environment.components.levels.first_test={training.stop} or more, or null"
            )

    @property
    def splits(self) -> bool:
        """True: evaluations play levels that training never sees."""
        return True

    def task_bins(self) -> dict[str, TaskBins]:
        """A bin for each training level, all as likely: they stand for the levels of the task."""
        if self.training > MOST_COUNTED:
            return {}
        edges = np.arange(self.training + 1, dtype=np.float64) + (self.start - 0.5)
        return {LEVEL: TaskBins(edges, np.full(self.training, 1 / self.training))}

    def wrap(self, environment: Env, stage: Stage) -> Env:
        """Return the environment with a level in every episode.

        Raises:
            ConfigError: A component inside would reset to seeds that are not levels.
        """
        if environment.has_wrapper_attr(RESETS_AGAIN):
            raise ConfigError(
                "levels must be inside of jump_start and snapshots: "
                "component=[levels,snapshots], in this order"
            )
        levels = self._test_levels if stage is Stage.EVALUATION else self._training_levels
        return LevelEnvironment(environment, levels, drawn=stage is Stage.TRAINING)

    @property
    def _training_levels(self) -> range:
        return range(self.start, self.start + self.training)

    @property
    def _test_levels(self) -> range:
        first = self._training_levels.stop if self.first_test is None else self.first_test
        return range(first, first + self.test)


class LevelEnvironment(gym.Wrapper[Any, Any, Any, Any]):
    """Resets to a drawn level, or to the next level in order."""

    def __init__(self, env: Env, levels: range, *, drawn: bool) -> None:
        super().__init__(env)
        self._levels = levels
        self._drawn = drawn
        self._position, self._stride = 0, 1
        self._level = levels.start
        self._planned: int | None = None
        self.level_low, self.level_high = np.array([levels[0]]), np.array([levels[-1]])
        """The first and the last level; shape: 1."""

    def plan_level(self, level: NDArray[np.float64]) -> None:
        """Set the level of the next reset (shape: 1)."""
        self._planned = int(level[0])

    def as_level(self, level: NDArray[np.float64]) -> NDArray[np.float64]:
        """Return the nearest level (shape: 1)."""
        return np.clip(np.rint(level), self.level_low, self.level_high)

    def deal(self, position: int, of: int) -> None:
        """Play every `of`-th level, from `position` on."""
        self._position, self._stride = position, of
        if self.env.has_wrapper_attr("deal"):
            self.env.get_wrapper_attr("deal")(position, of)

    def reset(
        self, *, seed: int | None = None, options: dict[str, Any] | None = None
    ) -> tuple[Any, dict[str, Any]]:
        """Reset to the next level.

        The seed of the level creates the level only. Afterwards the environment's generator
        continues from its state before the reset, and draws levels and random events.
        """
        if seed is not None:
            # This reset seeds the generator that draws the level.
            self.env.reset(seed=seed, options=options)
        self._level = self._next()
        # Without this, equal levels would also have equal random events in their episodes.
        state = self.np_random.bit_generator.state
        observation, info = self.env.reset(seed=self._level, options=options)
        self.np_random.bit_generator.state = state
        return observation, info

    def step(self, action: Any) -> tuple[Any, SupportsFloat, bool, bool, dict[str, Any]]:
        """Step; the last step of an episode reports the level as a measure."""
        observation, reward, terminated, truncated, info = self.env.step(action)
        if terminated or truncated:
            info.setdefault(MEASURES, {})[LEVEL] = float(self._level)
        return observation, reward, terminated, truncated, info

    def _next(self) -> int:
        if self._planned is not None:
            level, self._planned = self._planned, None
            return level
        if self._drawn:
            return self._levels[int(self.np_random.integers(len(self._levels)))]
        level = self._levels[self._position % len(self._levels)]
        self._position += self._stride
        return level
