"""The scores of one label by task; tasks may have different numbers of runs."""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import accumulate, pairwise
from math import nan

import numpy as np
from numpy.typing import ArrayLike, NDArray

Anchors = tuple[float, float]
"""Normalisation anchors of a task: the scores that become 0 and 1, as of a random and an expert."""


def min_max(scores: ArrayLike, low: ArrayLike, high: ArrayLike) -> NDArray[np.float64]:
    """Normalised scores: `low` becomes 0 and `high` becomes 1, without clipping.

    Args:
        scores: Of any shape; `low` and `high` broadcast with it.
        low: Score that becomes 0.
        high: Score that becomes 1.

    Raises:
        ValueError: An anchor is not finite, or a low anchor is not below its high anchor.
    """
    floor, ceiling = np.asarray(low, np.float64), np.asarray(high, np.float64)
    if not (np.isfinite(floor).all() and np.isfinite(ceiling).all() and (floor < ceiling).all()):
        raise ValueError(
            f"the anchors low = {floor} and high = {ceiling} must be finite, and low below high"
        )
    return (np.asarray(scores, np.float64) - floor) / (ceiling - floor)


# Without slots: a label is compared with many others, and its sorted scores are computed once.
@dataclass(frozen=True)
class TaskScores:
    """Scores of the runs of every task, or a batch of such scores.

    Attributes:
        values: Of shape (…, N): the runs of the first task, then those of the second, and so on.
        sizes: Runs of each task, m numbers that sum to N.
    """

    values: NDArray[np.float64]
    sizes: tuple[int, ...]

    @classmethod
    def from_tasks(cls, tasks: Sequence[ArrayLike]) -> "TaskScores":
        """The scores of all tasks, sorted within each task: the order of runs is irrelevant.

        Args:
            tasks: Scores of each task, of shape (n_j,), n_j ≥ 1; the n_j may differ.

        Raises:
            ValueError: There is no task, a task has no run, or a score is not a finite number
                up to 1e150.
        """
        arrays = [np.sort(np.asarray(task, dtype=np.float64).ravel()) for task in tasks]
        if not arrays or not all(len(array) for array in arrays):
            raise ValueError("every task needs at least one score")
        values = np.concatenate(arrays)
        # Written in this way the test refuses NaN too: each comparison with NaN is False.
        if not (np.abs(values) <= LARGEST_SCORE).all():
            raise ValueError("a score must be a finite number up to 1e150: leave out failed runs")
        return cls(values, tuple(len(array) for array in arrays))

    def by_task(self) -> list[NDArray[np.float64]]:
        """Views of each task's scores, of shape (…, n_j)."""
        ends = accumulate(self.sizes, initial=0)
        return [self.values[..., low:high] for low, high in pairwise(ends)]

    @cached_property
    def sorted_tasks(self) -> list[NDArray[np.float64]]:
        """Each task's scores, ascending, of shape (n_j,)."""
        return [np.sort(task) for task in self.by_task()]

    @cached_property
    def variances(self) -> list[float]:
        """Sample variance of each task's scores; NaN for a single run."""
        return [variance(task) for task in self.sorted_tasks]

    @cached_property
    def largest(self) -> float:
        """Largest absolute score; NaN if a score is NaN."""
        return float(np.abs(self.values).max())

    @property
    def n(self) -> int:
        """Runs of all tasks."""
        return sum(self.sizes)

    @property
    def balanced(self) -> bool:
        """Whether all tasks have the same number of runs."""
        return len(set(self.sizes)) == 1


def variance(scores: NDArray[np.float64]) -> float:
    """Sample variance of scores of shape (n,), exactly 0 if all are equal; NaN for n = 1."""
    # Rounding of the mean of equal scores would leave a tiny variance; their differences are 0.
    return float(np.var(scores - scores[0], ddof=1)) if len(scores) > 1 else nan


def comparable(scores: TaskScores, anchors: Sequence[Anchors | None]) -> TaskScores:
    """Scores that may be aggregated over tasks: raw for one task, normalised for several.

    Args:
        scores: Of shape (…, N), of m tasks.
        anchors: Anchors of each of the m tasks, None where they are not known.

    Raises:
        ValueError: There are several tasks, and one has no anchors or invalid ones.
    """
    if len(scores.sizes) == 1:
        return scores
    declared = [pair for pair in anchors if pair is not None]
    if len(declared) != len(scores.sizes) or len(anchors) != len(scores.sizes):
        raise ValueError(
            f"{len(scores.sizes)} tasks need normalisation anchors, but {len(declared)} have them: "
            "give each task the scores that count as 0 and as 1, or evaluate each task separately"
        )
    low, high = np.repeat(np.asarray(declared, np.float64), scores.sizes, axis=0).T
    return TaskScores(min_max(scores.values, low, high), scores.sizes)


LARGEST_SCORE = 1e150
"""Squares and sums of larger scores could overflow."""
