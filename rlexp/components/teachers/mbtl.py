"""The teacher MBTL: a model of performance and generalisation chooses the context of each stage."""

from dataclasses import dataclass
from math import inf, isfinite
from typing import Annotated, Any, ClassVar

import numpy as np
from annotated_types import Interval

from rlexp.components.teachers import Array
from rlexp.components.teachers.task_history import TeacherHistory, UnitBox
from rlexp.components.teachers.taught import Env, taught
from rlexp.environments import Stage
from rlexp.protocol.identity import Identity
from rlexp.tuners.time_varying_gp import Kernel, fitted_kernel

CANDIDATES = 200
"""Random contexts among which the next one is chosen."""
TARGETS = 200
"""Random contexts on which the performance is estimated."""
MOST_STAGES = 300
"""Number of newest stages in the model, whose cost grows with the cube."""
Share = Annotated[float, Interval(ge=0, le=1)]
FEWEST_STAGES = 4
"""Stages from which on the kernel is fitted to them."""
FIRST_KERNEL = Kernel(variance=1.0, length=0.5, forgetting=0.0, noise=0.01)
"""The kernel of fewer stages, for outcomes with standard deviation 1."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Mbtl:
    """Stages on one context each, the one from which the most is expected for all contexts.

    Cho et al. 2024, Model-Based Transfer Learning for Contextual Reinforcement Learning (MBTL-GP).
    A Gaussian process models the performance after training on a context, and performance falls
    linearly with the distance to the contexts that were trained on. The next context maximises the
    upper confidence bound of what the estimate gains over all contexts.

    The paper trains a policy from the start on each context, and acts with the best one for each
    target. Here one run trains one policy, in stages. A share of its episodes plays the contexts of
    earlier stages, so that it keeps what it has learnt there.
    """

    identity: ClassVar = Identity("teacher", "mbtl")
    splits: ClassVar = False
    """A teacher does not change evaluation."""
    shared: ClassVar = True
    """One teacher for all environments of a run."""

    outcome: str
    """Outcome of an episode: `return`, or the name of a measure (`success`)."""
    stage_episodes: Annotated[int, Interval(ge=10, le=1_000_000)]
    """Episodes of a stage, of the whole run."""
    slope: Annotated[float, Interval(ge=0, lt=inf)] | None
    """By how much outcomes fall from one end of a parameter to the other, θ; null: estimated from
    the episodes of each stage in other contexts."""
    exploration: Annotated[float, Interval(ge=0, lt=inf)]
    """Standard deviations that the confidence bound adds to the mean, the root of β."""
    earlier_share: Share
    """Share of the episodes of a stage that play contexts of earlier stages."""
    random_share: Share
    """Share of contexts that are drawn uniformly."""

    def wrap(self, environment: Env, stage: Stage) -> Env:
        """Return the environment with contexts from this teacher for training, else unchanged."""
        return taught(environment, stage, self, self.outcome)

    def acts_from(self) -> int:
        """The step of the run before which no stage has ended, however short episodes are."""
        return self.stage_episodes

    def begin(self, low: Array, high: Array, generator: np.random.Generator) -> "MbtlLessons":
        """Return new lessons, whose first stage is on the middle of the box."""
        return MbtlLessons(self, UnitBox(low, high), generator)


class MbtlLessons:
    """The stages so far, and the episodes of the current one."""

    def __init__(self, teacher: Mbtl, box: UnitBox, generator: np.random.Generator) -> None:
        self._teacher, self._box, self._generator = teacher, box, generator
        dimensions = len(box.low)
        self.trained = TrainedContexts(dimensions, MOST_STAGES)
        """The contexts of finished stages, with the outcomes at their ends."""
        self.point = np.full(dimensions, 0.5)
        """The context of the current stage, in the unit cube (dimensions)."""
        self._episodes = TeacherHistory(dimensions, teacher.stage_episodes)
        self.acted = 0
        """Stages whose context the model has chosen."""

    def propose(self) -> Array:
        """Return the context of the stage, of an earlier stage, or a random one."""
        kind = self._generator.random()
        if kind < self._teacher.random_share:
            return self._box.task(self._generator.random(len(self.point)))
        if len(self.trained) and self._generator.random() < self._teacher.earlier_share:
            chosen = int(self._generator.integers(len(self.trained)))
            return self._box.task(self.trained.points[chosen])
        return self._box.task(self.point)

    def learn(self, task: Array, outcome: float) -> None:
        """Add an episode to the stage; the last one ends it."""
        if not isfinite(outcome):
            return
        self._episodes.add(self._box.scaled(task), outcome)
        if len(self._episodes) == self._teacher.stage_episodes:
            self._end_stage()

    def state(self) -> dict[str, Any]:
        """Return the stages, the episodes of the current one, and the count of choices."""
        return {
            "trained": self.trained.state(),
            "point": self.point,
            "episodes": self._episodes.state(),
            "acted": self.acted,
        }

    def restore(self, state: dict[str, Any]) -> None:
        """Continue from the result of `state`."""
        self.trained.restore(state["trained"])
        self.point, self.acted = state["point"].copy(), state["acted"]
        self._episodes.restore(state["episodes"])

    def _end_stage(self) -> None:
        """Add the stage to the model, and choose the context of the next one."""
        self.trained.add_stage(self.point, self._episodes.points, self._episodes.outcomes)
        self._episodes = TeacherHistory(len(self.point), self._teacher.stage_episodes)
        candidates = self._generator.random((CANDIDATES, len(self.point)))
        targets = self._generator.random((TARGETS, len(self.point)))
        slope = self._teacher.slope
        gains = expected_gains(
            self.trained,
            candidates,
            targets,
            slope=self.trained.slope if slope is None else slope,
            exploration=self._teacher.exploration,
        )
        self.point = candidates[int(np.argmax(gains))]
        self.acted += 1


class TrainedContexts:
    """The contexts of finished stages with the outcomes at their ends, and the slope of the gap.

    Cho et al. 2024, Model-Based Transfer Learning for Contextual Reinforcement Learning, section 4.
    """

    def __init__(self, dimensions: int, most: int) -> None:
        """Begin without stages.

        Args:
            dimensions: Dimensions of a context.
            most: Largest number of stages, the newest.
        """
        self._stages = TeacherHistory(dimensions, most)
        # Sums over episodes outside of the context of their stage: distance times loss, and squares.
        self._sums = np.zeros(2)

    def __len__(self) -> int:
        return len(self._stages)

    @property
    def points(self) -> Array:
        """Contexts in the unit cube (stages × dimensions)."""
        return self._stages.points

    @property
    def outcomes(self) -> Array:
        """The mean outcome at the end of each stage in its context (stages)."""
        return self._stages.outcomes

    @property
    def slope(self) -> float:
        """By how much outcomes fall with the distance from the context of a stage; never negative."""
        product, squares = self._sums
        return max(float(product / squares), 0.0) if squares > 0 else 0.0

    def add_stage(self, point: Array, points: Array, outcomes: Array) -> None:
        """Add a stage, by the later half of its episodes.

        Args:
            point: The context that was asked for (dimensions).
            points: The contexts of its episodes, oldest first (episodes × dimensions).
            outcomes: Their outcomes (episodes).
        """
        distances = np.linalg.norm(points - point, axis=1)
        # A parameter with a list of values is played at the nearest one, always the same.
        played = points[np.argmin(distances)]
        episodes = np.flatnonzero((points == played).all(axis=1))
        outcome = float(outcomes[episodes[len(episodes) // 2 :]].mean())
        later = np.arange(len(points)) >= len(points) // 2
        others = later & ~(points == played).all(axis=1)
        away = np.linalg.norm(points[others] - played, axis=1)
        losses = outcome - outcomes[others]
        self._sums += (float((away * losses).sum()), float(np.square(away).sum()))
        self._stages.add(played, outcome)

    def state(self) -> dict[str, Any]:
        """Return all stages and sums."""
        return {"stages": self._stages.state(), "sums": self._sums.copy()}

    def restore(self, state: dict[str, Any]) -> None:
        """Continue from the result of `state`."""
        self._stages.restore(state["stages"])
        self._sums = state["sums"].copy()


def expected_gains(
    trained: TrainedContexts,
    candidates: Array,
    targets: Array,
    *,
    slope: float,
    exploration: float,
) -> Array:
    """Return by how much training on each candidate may raise the mean over targets (candidates).

    Args:
        trained: The stages so far, at least one.
        candidates: Contexts in the unit cube (candidates × dimensions).
        targets: Contexts in the unit cube (targets × dimensions).
        slope: By how much outcomes fall with distance.
        exploration: Standard deviations that are added to the mean.
    """
    best = (trained.outcomes[:, np.newaxis] - slope * _distances(trained.points, targets)).max(0)
    mean, deviation = posterior(trained.points, trained.outcomes, candidates)
    bound = mean + exploration * deviation
    hoped = bound[:, np.newaxis] - slope * _distances(candidates, targets)
    gains: Array = np.maximum(hoped - best, 0.0).mean(axis=1)
    return gains


def posterior(points: Array, outcomes: Array, at: Array) -> tuple[Array, Array]:
    """Return mean and standard deviation of a Gaussian process, each of shape (queries).

    Args:
        points: Observed points (observations × dimensions).
        outcomes: Their outcomes (observations).
        at: The queries (queries × dimensions).
    """
    from scipy.linalg import cho_solve, solve_triangular

    middle, width = float(outcomes.mean()), float(outcomes.std()) or 1.0
    targets = (outcomes - middle) / width
    # The first column is the time of the process, which does not pass here.
    rows, queries = (np.column_stack([np.zeros(len(each)), each]) for each in (points, at))
    kernel = fitted_kernel(rows, targets) if len(rows) >= FEWEST_STAGES else FIRST_KERNEL
    factor = np.linalg.cholesky(kernel.of_data(rows))
    between = kernel.between(rows, queries)
    mean = between.T @ cho_solve((factor, True), targets)
    explained = np.square(solve_triangular(factor, between, lower=True)).sum(axis=0)
    deviation = np.sqrt(np.maximum(kernel.variance - explained, 0.0))
    return middle + width * mean, width * deviation


def _distances(first: Array, second: Array) -> Array:
    """Return the distances between rows (n, d) and (m, d), of shape (n, m)."""
    distances: Array = np.linalg.norm(first[:, np.newaxis] - second[np.newaxis], axis=2)
    return distances
