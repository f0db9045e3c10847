"""The teacher of intermediate difficulty: proposes tasks with a medium rate of success."""

from dataclasses import dataclass
from math import inf, isfinite
from typing import Annotated, Any, ClassVar

import numpy as np
from annotated_types import Interval

from rlexp.components.teachers import Array, Lessons
from rlexp.components.teachers.task_history import TeacherHistory, UnitBox
from rlexp.components.teachers.taught import Env, taught
from rlexp.environments import Stage
from rlexp.errors import ConfigError
from rlexp.protocol.identity import Identity

CANDIDATES = 50
"""Number of random tasks among which one is chosen."""

Share = Annotated[float, Interval(ge=0, le=1)]


@dataclass(frozen=True, slots=True, kw_only=True)
class SuccessRate:
    """Tasks of intermediate difficulty: those whose rate of success lies between two bounds.

    The goals of intermediate difficulty of Florensa et al. 2018, section 4.1 (GOID), with their
    R_min and R_max. Instead of their generative network, candidates are drawn uniformly, and the
    success rate of a candidate is estimated from the nearest episodes in memory. If no candidate
    lies between the bounds, the candidate closest to them is chosen.
    """

    identity: ClassVar = Identity("teacher", "success_rate")
    splits: ClassVar = False
    """A teacher does not change evaluation."""

    outcome: str
    """Outcome of an episode: `return`, or the name of a measure (`success`)."""
    success_from: Annotated[float, Interval(gt=-inf, lt=inf)] | None
    """Smallest outcome of a success; null takes the middle between the lowest and the highest
    outcome in memory."""
    minimum: Share
    """Rate of success below which a task is too hard, R_min."""
    maximum: Share
    """Rate of success above which a task is too easy, R_max."""
    neighbours: Annotated[int, Interval(ge=1, le=1000)]
    """Number of nearest episodes from which a rate of success is estimated."""
    window: Annotated[int, Interval(ge=1, le=10_000)]
    """Number of newest episodes in memory."""
    random_share: Share
    """Share of tasks that are drawn uniformly."""
    shared: bool | None = None
    """Whether one teacher hears of all episodes of the run; null: each environment has one, which
    is what teachers were before this setting."""

    def __post_init__(self) -> None:
        if self.minimum > self.maximum:
            raise ConfigError(
                f"component.minimum={self.minimum} must not exceed maximum={self.maximum}"
            )
        if self.neighbours > self.window:
            raise ConfigError(
                f"component.neighbours={self.neighbours} must not exceed window={self.window}"
            )

    def wrap(self, environment: Env, stage: Stage) -> Env:
        """Return the environment with contexts from this teacher for training, else unchanged."""
        return taught(environment, stage, self, self.outcome)

    def acts_from(self) -> int:
        """The step of the run, or of one environment, before which no rate is estimated."""
        return self.neighbours

    def begin(self, low: Array, high: Array, generator: np.random.Generator) -> Lessons:
        """Return new lessons."""
        return SuccessRateLessons(self, UnitBox(low, high), generator)


class SuccessRateLessons:
    """The memory of this teacher."""

    def __init__(self, teacher: SuccessRate, box: UnitBox, generator: np.random.Generator) -> None:
        self._teacher, self._box, self._generator = teacher, box, generator
        self._history = TeacherHistory(len(box.low), teacher.window)
        self.acted = 0
        """Tasks that were chosen by estimated rates."""

    def propose(self) -> Array:
        """Choose a candidate; a random share, and all first tasks, are uniform draws."""
        teacher, dimensions = self._teacher, len(self._box.low)
        can_estimate = len(self._history) >= teacher.neighbours
        if not can_estimate or self._generator.random() < teacher.random_share:
            return self._box.task(self._generator.random(dimensions))
        self.acted += 1
        candidates = self._generator.random((CANDIDATES, dimensions))
        rates = self._rates(candidates)
        outside = np.maximum(teacher.minimum - rates, rates - teacher.maximum)
        return self._box.task(candidates[np.argmin(np.maximum(outside, 0.0))])

    def learn(self, task: Array, outcome: float) -> None:
        """Add the episode to the memory."""
        if isfinite(outcome):
            self._history.add(self._box.scaled(task), outcome)

    def state(self) -> dict[str, Any]:
        """Return the memory, and the count of what was chosen by rates."""
        return {"history": self._history.state(), "acted": self.acted}

    def restore(self, state: dict[str, Any]) -> None:
        """Continue from the result of `state`."""
        self._history.restore(state["history"])
        self.acted = state["acted"]

    def _rates(self, candidates: Array) -> Array:
        """Return the estimated rate of success of each candidate (candidates).

        Args:
            candidates: Points of the unit cube (candidates × dimensions).
        """
        nearest = self._history.nearest(candidates, self._teacher.neighbours)
        rates: Array = self._successes()[nearest].mean(axis=1)
        return rates

    def _successes(self) -> Array:
        """Return 1 for each episode in memory that was a success, else 0."""
        outcomes = self._history.outcomes
        bound = self._teacher.success_from
        if bound is None:
            # Halved before the sum, which could overflow.
            bound = float(outcomes.min() / 2 + outcomes.max() / 2)
        return (outcomes >= bound).astype(np.float64)
