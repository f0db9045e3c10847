"""The scores of one label by task: runs × tasks, with as many runs as each task has."""

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise

import numpy as np
from numpy.typing import ArrayLike, NDArray

LARGEST_SCORE = 1e150
"""Differences and sums of larger ones could overflow."""


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
