"""The scores of one label by task: runs × tasks, with as many runs as each task has."""

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise

import numpy as np
from numpy.typing import ArrayLike, NDArray

Anchors = tuple[float, float]
"""The scores of a task that count as 0 and as 1: of a random policy, say, and of a good one."""


def min_max(scores: ArrayLike, low: ArrayLike, high: ArrayLike) -> NDArray[np.float64]:
    """Put scores where `low` is 0 and `high` is 1; what lies beyond them stays beyond.

    Args:
        scores: Of any shape; `low` and `high` broadcast with it.
        low: What counts as 0.
        high: What counts as 1.

    Raises:
        ValueError: An anchor is not finite, or a low one is not below the high one.
    """
    floor, ceiling = np.asarray(low, np.float64), np.asarray(high, np.float64)
    if not (np.isfinite(floor).all() and np.isfinite(ceiling).all() and (floor < ceiling).all()):
        raise ValueError(
            f"low = {floor} and high = {ceiling} are no anchors: give finite numbers, low below high"
        )
    return (np.asarray(scores, np.float64) - floor) / (ceiling - floor)


@dataclass(frozen=True, slots=True)
class TaskScores:
    """Scores of the runs of every task, or a batch of such.

    Attributes:
        values: Of shape (…, N): the runs of the first task, then those of the second, and so on.
        sizes: Runs of each task, m numbers that sum to N.
    """

    values: NDArray[np.float64]
    sizes: tuple[int, ...]

    @classmethod
    def from_tasks(cls, tasks: Sequence[ArrayLike]) -> "TaskScores":
        """Put the scores of the tasks together, sorted within each: runs have no order.

        Args:
            tasks: Scores of each task, of shape (n_j,), n_j ≥ 1; as many runs as there are.

        Raises:
            ValueError: There is no task, a task has no run, or a score is not a finite number
                up to 1e150.
        """
        arrays = [np.sort(np.asarray(task, dtype=np.float64).ravel()) for task in tasks]
        if not arrays or not all(len(array) for array in arrays):
            raise ValueError("every task needs a score")
        values = np.concatenate(arrays)
        if not (np.abs(values) <= LARGEST_SCORE).all():
            raise ValueError("a score must be a finite number up to 1e150; a failure is no score")
        return cls(values, tuple(len(array) for array in arrays))

    def by_task(self) -> list[NDArray[np.float64]]:
        """Views of each task's scores, of shape (…, n_j)."""
        ends = np.cumsum((0, *self.sizes))
        return [self.values[..., low:high] for low, high in pairwise(ends)]

    @property
    def n(self) -> int:
        """Runs of all tasks."""
        return sum(self.sizes)

    @property
    def balanced(self) -> bool:
        """Whether every task has as many runs."""
        return len(set(self.sizes)) == 1


def comparable(scores: TaskScores, anchors: Sequence[Anchors | None]) -> TaskScores:
    """Scores that may be aggregated over tasks: those of one task raw, of several normalised.

    Args:
        scores: Of shape (…, N), of m tasks.
        anchors: Of each task, m of them; nothing where none are known.

    Raises:
        ValueError: There are several tasks and one has no anchors, or wrong ones.
    """
    if len(scores.sizes) == 1:
        return scores
    known = [pair for pair in anchors if pair is not None]
    if len(known) != len(scores.sizes) or len(anchors) != len(scores.sizes):
        raise ValueError(
            f"{len(scores.sizes)} tasks need as many pairs of anchors, and {len(known)} are known: "
            "give each task the scores that count as 0 and as 1, or look at each task by itself"
        )
    low, high = np.repeat(np.asarray(known, np.float64), scores.sizes, axis=0).T
    return TaskScores(min_max(scores.values, low, high), scores.sizes)


LARGEST_SCORE = 1e150
"""Differences and sums of larger ones could overflow."""
