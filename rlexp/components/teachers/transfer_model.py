"""What is expected of training on a context for all others: a Gaussian process and a gap.

Cho et al. 2024, Model-Based Transfer Learning for Contextual Reinforcement Learning, section 4.
"""

from typing import Any

import numpy as np

from rlexp.components.teachers import Array
from rlexp.components.teachers.task_history import TeacherHistory
from rlexp.tuners.time_varying_gp import Kernel, fitted_kernel

FEWEST = 4
"""Stages from which on the kernel is fitted to them."""
FIRST = Kernel(variance=1.0, length=0.5, forgetting=0.0, noise=0.01)
"""The kernel of fewer stages, for outcomes with standard deviation 1."""


class TrainedContexts:
    """The contexts of finished stages with the outcomes at their ends, and the slope of the gap."""

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
        own = np.flatnonzero((points == played).all(axis=1))
        outcome = float(outcomes[own[len(own) // 2 :]].mean())
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
    known = (trained.outcomes[:, np.newaxis] - slope * _distances(trained.points, targets)).max(0)
    mean, deviation = posterior(trained.points, trained.outcomes, candidates)
    bound = mean + exploration * deviation
    hoped = bound[:, np.newaxis] - slope * _distances(candidates, targets)
    gains: Array = np.maximum(hoped - known, 0.0).mean(axis=1)
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
    kernel = fitted_kernel(rows, targets) if len(rows) >= FEWEST else FIRST
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
