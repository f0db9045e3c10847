"""Centres of drawn scores, summed in whole numbers: any order of summation gives the same."""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from rlexp.stats.aggregate import pooled_order, run_weights
from rlexp.stats.compiled import Sums
from rlexp.stats.draws import Draws
from rlexp.stats.task_scores import TaskScores

Array = NDArray[np.float64]
Integers = NDArray[np.int64]

BITS = 61
"""Of a weighted score as a whole number, more than a float holds; sums of all stay below 2⁶³."""
TYPICAL = 2.0**20
"""As much larger than half of the others a score may be: 40 bits of these are kept."""
LEAST = 2.0**30
"""As much larger than any other: 30 bits are kept of each."""


def fits(scores: TaskScores) -> bool:
    """Whether scores, of shape (N,), are near enough in size for whole numbers of one unit.

    One far away sets the unit, in which the digits of all others would be lost.
    """
    size = np.abs(scores.values)
    some = size[size > 0]
    if not len(some):
        return True
    return bool(some.max() <= min(TYPICAL * np.median(some), LEAST * some.min()))


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
        middle = self._walked(draws) if self.compiled else self._sorted(draws)
        total, low, below, high, above = middle
        kept = total - self._parts(low, below) - self._parts(high, above)
        weight = int(self.weights.sum())
        return np.asarray(self.sums.scaled(kept) / ((weight - 2 * self.quarter) / weight))

    @property
    def quarter(self) -> int:
        """The weight that is cut at each end."""
        return int(self.weights.sum()) // 4

    def _parts(self, places: Integers, cut: Integers) -> Integers:
        """Contributions of what is cut of the runs at some places, of shape (rows,)."""
        shares = cut / self.weights.take(places)
        return np.rint(shares * self.sums.values.take(places)).astype(np.int64)

    def _walked(self, draws: Draws) -> Integers:
        found = np.empty((5, len(draws.words)), np.int64)
        sizes = np.asarray(draws.sizes, np.int64)
        assert self.compiled is not None
        self.compiled(
            draws.words, sizes, self.ranks, self.weights, self.sums.values, self.quarter, found
        )
        return found

    def _sorted(self, draws: Draws) -> Integers:
        """What `compiled.count_and_walk` writes, of shape (5, rows)."""
        ranks = self.ranks.take(draws.positions)
        ranks.sort(axis=-1)
        if len(set(draws.sizes)) > 1:
            return self._weighed(ranks)
        found = np.zeros((5, len(ranks)), np.int64)
        middle = ranks[:, self.quarter : len(self.weights) - self.quarter]
        found[0] = self.sums.values.take(middle).sum(axis=-1)
        return found

    def _weighed(self, ranks: NDArray[np.int32]) -> Integers:
        """The same of runs that weigh differently, of shape (rows, N), in their order."""
        weights = self.weights.take(ranks)
        above = np.cumsum(weights, axis=-1) - self.quarter
        below = self.weights.sum() - 2 * self.quarter - above + weights
        inside = (above > 0) & (below > 0)
        total = (self.sums.values.take(ranks) * inside).sum(axis=-1)
        rows = np.arange(len(ranks))
        low = (rows, inside.argmax(axis=-1))
        high = (rows, inside.shape[1] - 1 - inside[:, ::-1].argmax(axis=-1))
        cut = (weights - above)[low], (weights - below)[high]
        return np.stack([total, ranks[low], cut[0], ranks[high], cut[1]])
