"""The teacher IWOCS: training contexts are drawn from a list that grows by the worst context.

Zouitine, Geist & Rachelson 2024, Solving robust MDPs as a sequence of static RL problems
(incremental worst-case search).
"""

from dataclasses import dataclass
from math import isfinite
from typing import Annotated, Any, ClassVar

import numpy as np
from annotated_types import Interval

from rlexp.components.teachers import Array, Lessons
from rlexp.components.teachers.task_history import UnitBox
from rlexp.components.teachers.taught import Env, taught
from rlexp.environments import Stage
from rlexp.errors import ConfigError
from rlexp.protocol.identity import Identity

PATIENCE = 2
"""Outcomes that a search waits for, as a multiple of its episodes: some may be of the list."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Iwocs:
    """Trains on a growing list of contexts, each the worst of a search with the policy of its time.

    The list begins with one context. After `train_episodes` episodes in contexts of the list, the
    policy of the training plays `evaluations` episodes in each of `candidates` contexts that are
    drawn uniformly. The one with the least mean outcome enters the list. Every episode is one of
    the training: the learner learns from it, and its steps are part of the budget.

    The paper searches by CMA-ES, trains one policy and one critic for each context of the list, and
    acts by the least of their values. Here one policy is trained on all contexts of the list.
    """

    identity: ClassVar = Identity("teacher", "iwocs")
    splits: ClassVar = False
    """A teacher does not change evaluation."""
    shared: ClassVar = True
    """A run has one list of contexts, which all of its environments play."""

    outcome: str
    """Outcome of an episode: `return`, or the name of a measure (`success`); larger is better."""
    first: tuple[float, ...] | None
    """First context of the list, one number for each parameter; None takes the middle of the box."""
    train_episodes: Annotated[int, Interval(ge=1, le=1_000_000)]
    """Episodes in contexts of the list from one search to the next."""
    candidates: Annotated[int, Interval(ge=2, le=10_000)]
    """Contexts among which a search finds the worst."""
    evaluations: Annotated[int, Interval(ge=1, le=1000)]
    """Episodes of a search in each of its contexts."""
    most: Annotated[int, Interval(ge=2, le=10_000)]
    """Largest number of contexts in the list, after which no more are searched."""

    def wrap(self, environment: Env, stage: Stage) -> Env:
        """Return the environment with contexts from this teacher for training, else unchanged.

        Raises:
            ConfigError: The first context is none of the environment.
        """
        wrapped = taught(environment, stage, self, self.outcome)
        if stage is Stage.TRAINING and self.first is not None:
            low, high = (environment.get_wrapper_attr(f"context_{end}") for end in ("low", "high"))
            _check_first(self.first, environment.get_wrapper_attr("context_names"), low, high)
        return wrapped

    def acts_from(self) -> int:
        """The step of the run before which no search has ended, however short episodes are."""
        return self.train_episodes + self.candidates * self.evaluations

    def begin(self, low: Array, high: Array, generator: np.random.Generator) -> Lessons:
        """Return new lessons."""
        return IwocsLessons(self, UnitBox(low, high), generator)


def _check_first(
    first: tuple[float, ...], names: tuple[str, ...], low: Array, high: Array
) -> None:
    """Refuse a first context of another length, or outside of the box."""
    key = "environment.components.teacher.first"
    if len(first) != len(names):
        raise ConfigError(
            f"{key}={list(first)} must have one number for each context parameter "
            f"({', '.join(names)}), or be null"
        )
    for name, value, least, greatest in zip(names, first, low, high, strict=True):
        # The comparison is false for NaN.
        if not least <= value <= greatest:
            raise ConfigError(
                f"{key}: {name}={value} is outside of the training contexts, which reach from "
                f"{least:g} to {greatest:g}"
            )


class IwocsLessons:
    """The list of contexts, and the search for the next one."""

    def __init__(self, teacher: Iwocs, box: UnitBox, generator: np.random.Generator) -> None:
        self._teacher, self._box, self._generator = teacher, box, generator
        middle = box.task(np.full(len(box.low), 0.5))
        first = middle if teacher.first is None else np.array(teacher.first, dtype=np.float64)
        self.contexts = first[np.newaxis]
        """The list of contexts, the first one first (contexts × dimensions)."""
        self.acted = 0
        """Contexts that searches have added."""
        self.evaluated = 0
        """Episodes that searches have played."""
        self.evaluation_steps = 0
        """Environment steps of these episodes."""
        self._trained = self._steps = 0
        self._searching = False
        # Contexts of the search that are still to be proposed (episodes × dimensions).
        self._left = np.empty((0, len(box.low)))
        # Contexts and outcomes of the search so far, and outcomes of any context meanwhile.
        self._played = np.empty((0, len(box.low)))
        self._outcomes = np.empty(0)
        self._waited = 0

    def propose(self) -> Array:
        """Return the next candidate of a search, else a context of the list, each equally likely."""
        if len(self._left):
            task, self._left = self._left[0], self._left[1:]
            return np.array(task)
        return np.array(self.contexts[self._generator.integers(len(self.contexts))])

    def count_steps(self, steps: int) -> None:
        """Receive the length of the episode that `learn` hears of next."""
        self._steps = steps

    @property
    def counts(self) -> dict[str, int]:
        """What searches have cost; empty before the first search."""
        if not self.evaluated:
            return {}
        return {"evaluation episodes": self.evaluated, "evaluation steps": self.evaluation_steps}

    def learn(self, task: Array, outcome: float) -> None:
        """Count an episode of training, or judge a candidate; begin and end searches."""
        if not isfinite(outcome):
            return
        if self._searching:
            self._judge(task, outcome)
            return
        if self._is_before_any_search:
            # Where a parameter has a list of values, the first context was played at the nearest one.
            self.contexts = task[np.newaxis]
        self._trained += 1
        is_due = self._trained >= self._teacher.train_episodes
        if is_due and len(self.contexts) < self._teacher.most:
            self._begin_search()

    def state(self) -> dict[str, Any]:
        """Return the list, the search and all counts."""
        return {
            "contexts": self.contexts,
            "acted": self.acted,
            "evaluated": self.evaluated,
            "evaluation_steps": self.evaluation_steps,
            "trained": self._trained,
            "searching": self._searching,
            "left": self._left,
            "played": self._played,
            "outcomes": self._outcomes,
            "waited": self._waited,
        }

    def restore(self, state: dict[str, Any]) -> None:
        """Continue from the result of `state`."""
        dimensions = len(self._box.low)
        self.contexts = _rows(state["contexts"], dimensions)
        self.acted, self.evaluated = int(state["acted"]), int(state["evaluated"])
        self.evaluation_steps = int(state["evaluation_steps"])
        self._trained, self._searching = int(state["trained"]), bool(state["searching"])
        self._left = _rows(state["left"], dimensions)
        self._played = _rows(state["played"], dimensions)
        self._outcomes = np.asarray(state["outcomes"], dtype=np.float64)
        self._waited = int(state["waited"])

    @property
    def _is_before_any_search(self) -> bool:
        # The count of outcomes stays as the last search has left it.
        return not self._searching and self._waited == 0

    def _begin_search(self) -> None:
        teacher, dimensions = self._teacher, len(self._box.low)
        points = self._generator.random((teacher.candidates, dimensions))
        candidates = np.stack([self._box.task(point) for point in points])
        # Round by round, so that the episodes of one candidate are of several policies.
        self._left = np.tile(candidates, (teacher.evaluations, 1))
        self._played, self._outcomes = np.empty((0, dimensions)), np.empty(0)
        self._waited, self._searching = 0, True

    def _judge(self, task: Array, outcome: float) -> None:
        self._waited += 1
        # Other environments may still play contexts of the list, which are no candidates.
        if not (self.contexts == task).all(axis=1).any():
            self.evaluated += 1
            self.evaluation_steps += self._steps
            self._played = np.vstack([self._played, task])
            self._outcomes = np.append(self._outcomes, outcome)
        episodes = self._teacher.candidates * self._teacher.evaluations
        if len(self._outcomes) >= episodes or self._waited >= PATIENCE * episodes:
            self._end_search()

    def _end_search(self) -> None:
        """Add the candidate with the least mean outcome; of equal ones, the least context."""
        if len(self._outcomes):
            played, of = np.unique(self._played, axis=0, return_inverse=True)
            sums = np.bincount(of.ravel(), weights=self._outcomes)
            worst = played[np.argmin(sums / np.bincount(of.ravel()))]
            inside = np.clip(worst, self._box.low, self._box.high)
            self.contexts = np.vstack([self.contexts, inside])
            self.acted += 1
        self._trained, self._searching = 0, False


def _rows(values: Any, dimensions: int) -> Array:
    """Return stored rows as an array of the shape (rows, dimensions)."""
    return np.asarray(values, dtype=np.float64).reshape(-1, dimensions)
