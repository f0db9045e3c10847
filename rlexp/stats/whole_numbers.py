"""Centres of drawn scores, summed in whole numbers: any order of summation gives the same."""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from rlexp.stats.aggregate import middle_half, pooled_order, run_weights
from rlexp.stats.compiled import Sums
from rlexp.stats.draws import Draws
from rlexp.stats.task_scores import TaskScores

Array = NDArray[np.float64]
Integers = NDArray[np.int64]

BITS = 61
"""Of a weighted score as a whole number, more than a float holds; sums of all stay below 2⁶³."""


@dataclass(frozen=True, slots=True)
class TaskSums:
    """Scores, each weighted by 1/(m n_j), as whole numbers of a tiny unit.

    Attributes:
        values: Of shape (N,), task by task.
        exponent: The unit is 2 to this power.
    """

    values: Integers
    exponent: int

    @classmethod
    def of(cls, scores: TaskScores) -> "TaskSums":
        """Round the weighted scores, of shape (N,)."""
        runs_beside = len(scores.sizes) * np.repeat(scores.sizes, scores.sizes)
        exponent = int(np.frexp(np.abs(scores.values).max())[1]) - BITS
        values = np.rint(np.ldexp(scores.values / runs_beside, -exponent))
        return cls(values.astype(np.int64), exponent)

    def mean(self, draws: Draws) -> Array:
        """Mean of the tasks' means, of shape (rows,)."""
        return self.scaled(self.values.take(draws.positions).sum(axis=-1))

    def median(self, draws: Draws) -> Array:
        """Median of the tasks' means, of shape (rows,)."""
        sums = np.add.reduceat(self.values.take(draws.positions), draws.starts, axis=-1)
        return np.asarray(np.median(self.scaled(sums), axis=-1) * len(draws.sizes))

    def scaled(self, sums: Integers) -> Array:
        """Sums in the unit of the scores."""
        return np.asarray(np.ldexp(sums.astype(np.float64), self.exponent))


@dataclass(frozen=True, slots=True)
class PooledRuns:
    """Runs of all tasks in the order of their scores, for interquartile means.

    Attributes:
        ranks: Of shape (N,), task by task: the place of each run in that order.
        weights: Of shape (N,), in that order: whole numbers.
        sums: Weighted scores, in that order.
        compiled: What sums them, where that pays.
    """

    ranks: NDArray[np.int32]
    weights: Integers
    sums: TaskSums
    compiled: Sums | None

    @classmethod
    def of(cls, scores: TaskScores, compiled: Sums | None) -> "PooledRuns":
        """Sort scores of shape (N,), once for all repetitions."""
        weights = run_weights(scores.sizes)
        order = pooled_order(scores.values, weights)
        ranks = np.argsort(order).astype(np.int32)
        sums = TaskSums.of(scores)
        return cls(ranks, weights[order], TaskSums(sums.values[order], sums.exponent), compiled)

    def interquartile_mean(self, draws: Draws) -> Array:
        """Interquartile mean of all runs, of shape (rows,)."""
        total, weight = self._walked(draws) if self.compiled else self._sorted(draws)
        return np.asarray(self.sums.scaled(total) / (weight / self.weights.sum()))

    def _walked(self, draws: Draws) -> Integers:
        found = np.empty((2, len(draws.words)), np.int64)
        sizes = np.asarray(draws.sizes, np.int64)
        quarter = int(self.weights.sum()) // 4
        assert self.compiled is not None
        self.compiled(
            draws.words, sizes, self.ranks, self.weights, self.sums.values, quarter, found
        )
        return found

    def _sorted(self, draws: Draws) -> tuple[Integers, Integers]:
        """Contributions and weights of the middle half, each of shape (rows,)."""
        ranks = self.ranks.take(draws.positions)
        ranks.sort(axis=-1)
        if len(set(draws.sizes)) == 1:
            cut = len(self.weights) // 4
            middle = ranks[:, cut : len(self.weights) - cut]
            return self.sums.values.take(middle).sum(axis=-1), self.weights[:1] * middle.shape[1]
        weights = self.weights.take(ranks)
        kept = middle_half(weights)
        return (self.sums.values.take(ranks) * kept).sum(axis=-1), (weights * kept).sum(axis=-1)
