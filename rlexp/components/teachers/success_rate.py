"""A teacher of tasks that succeed now and then."""

from dataclasses import dataclass
from math import inf, isfinite
from typing import Annotated, ClassVar

import numpy as np
from annotated_types import Interval

from rlexp.components.teachers import Array, Lessons
from rlexp.components.teachers.task_history import TeacherHistory, UnitBox
from rlexp.components.teachers.taught import Env, taught
from rlexp.environments import Stage
from rlexp.errors import ConfigError
from rlexp.protocol.identity import Identity

CANDIDATES = 50
"""Tasks of which one is chosen."""

Share = Annotated[float, Interval(ge=0, le=1)]


@dataclass(frozen=True, slots=True, kw_only=True)
class SuccessRate:
    """Tasks of intermediate difficulty: those whose rate of success lies between two bounds.

    The goals of Florensa et al. 2018, section 4.1 (GOID), with R_min and R_max of theirs. In
    place of their generative network stand uniform draws, each judged by the newest episodes of
    the tasks nearest to it; where none is between the bounds, the one that is nearest to them is
    taken.
    """

    identity: ClassVar = Identity("teacher", "success_rate")

    outcome: str
    """What an episode counts for: `return`, or a measure of it (`success`)."""
    success_from: Annotated[float, Interval(gt=-inf, lt=inf)] | None
    """Outcome from which on it is a success; null: half-way between the lowest and the highest
    that are remembered."""
    minimum: Share
    """Rate of success below which a task is too hard, R_min."""
    maximum: Share
    """Rate above which it is too easy, R_max."""
    neighbours: Annotated[int, Interval(ge=1, le=1000)]
    """Episodes, the nearest, by which a task is judged."""
    window: Annotated[int, Interval(ge=1, le=10_000)]
    """Episodes of one environment that are remembered, the newest."""
    random_share: Share
    """Of tasks that are drawn uniformly from the box all the same."""

    def __post_init__(self) -> None:
        if self.minimum > self.maximum:
            raise ConfigError(
                f"component.minimum={self.minimum} must not exceed maximum={self.maximum}"
            )
        if self.neighbours > self.window:
            raise ConfigError(
                f"component.neighbours={self.neighbours} must not exceed window={self.window}"
            )

    @property
    def splits(self) -> bool:
        """No: what is evaluated stays as it is declared."""
        return False

    def wrap(self, environment: Env, stage: Stage) -> Env:
        """Return the environment with contexts from this teacher, if it is for training."""
        return taught(environment, stage, self, self.outcome)

    def begin(self, low: Array, high: Array, generator: np.random.Generator) -> Lessons:
        """Begin to teach an environment."""
        return SuccessRateLessons(self, UnitBox(low, high), generator)


class SuccessRateLessons:
    """What this teacher has seen of one environment."""

    def __init__(self, teacher: SuccessRate, box: UnitBox, generator: np.random.Generator) -> None:
        self._teacher, self._box, self._generator = teacher, box, generator
        self._history = TeacherHistory(len(box.low), teacher.window)

    def propose(self) -> Array:
        """Choose a task, or, now and then and before enough is known, draw any."""
        teacher, dimensions = self._teacher, len(self._box.low)
        known = len(self._history) >= teacher.neighbours
        if not known or self._generator.random() < teacher.random_share:
            return self._box.task(self._generator.random(dimensions))
        candidates = self._generator.random((CANDIDATES, dimensions))
        rates = self._rates(candidates)
        outside = np.maximum(teacher.minimum - rates, rates - teacher.maximum)
        return self._box.task(candidates[np.argmin(np.maximum(outside, 0.0))])

    def learn(self, task: Array, outcome: float) -> None:
        """Remember the episode."""
        if isfinite(outcome):
            self._history.add(self._box.scaled(task), outcome)

    def _rates(self, candidates: Array) -> Array:
        """Rates of success near some points (candidates × dimensions); shape: candidates."""
        nearest = self._history.nearest(candidates, self._teacher.neighbours)
        rates: Array = self._successes()[nearest].mean(axis=1)
        return rates

    def _successes(self) -> Array:
        """Whether each episode that is remembered was a success, 0 or 1."""
        outcomes = self._history.outcomes
        bound = self._teacher.success_from
        if bound is None:
            bound = float(outcomes.min() / 2 + outcomes.max() / 2)
        return (outcomes >= bound).astype(np.float64)
