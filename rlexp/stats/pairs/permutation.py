"""Permutation tests of whether several labels have the same distribution of scores.

The runs of each task are assigned to the labels anew ("relabelled"). The statistic is the largest
studentised difference of a metric between two of the labels. If all labels have the same
distribution of scores, every relabelling is equally likely, so that the test is exact (Fisher
1935, "The Design of Experiments"). Studentising keeps the level approximately if only the
distributions' spreads differ (Janssen 1997; Chung and Romano 2013, "Exact and asymptotically robust
permutation tests"), and keeps one noisy label from hiding a difference between two others.
"""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import lru_cache
from itertools import combinations
from math import ceil, comb, inf, prod
from typing import Any

import numpy as np
from numpy.typing import NDArray

from rlexp.stats.aggregate import Statistic
from rlexp.stats.resampling import Resampling
from rlexp.stats.task_scores import TaskScores

Array = NDArray[np.float64]
Indices = NDArray[np.intp]
Pair = tuple[TaskScores, TaskScores]

EXACT_RELABELLINGS = 50_000
"""Largest number of relabellings of two labels that are enumerated; beyond it they are random."""
MOST_RANDOM = 9_999
"""Largest number of random relabellings: a p-value of 0.05 then has a standard error of 0.002."""
FEWEST_RANDOM = 999
"""Smallest number of random relabellings, however many runs there are."""
CELLS = 20_000_000
"""Runs that all random relabellings of a family assign together, at most."""
BLOCK = 2**20
"""Runs that are assigned at a time."""
CACHED = 2**16
"""Runs whose statistic is computed at a time: their scores fit into the cache of a processor core."""
TIE = 1e-9
"""Relative difference up to which two statistics count as equal.

Relabellings with equal statistics are summed in different orders and differ in their last bits.
"""


@dataclass(frozen=True, slots=True)
class PermutationDistribution:
    """The statistic of some labels, and its values over relabellings of their runs.

    Attributes:
        observed: The largest studentised difference between two of the labels, 0 or more.
        values: Its values over relabellings, ascending; all of them, or random ones and the
            observed one (Phipson and Smyth 2010, "Permutation p-values should never be zero").
        random: Number of random relabellings; 0 if all were enumerated.
    """

    observed: float
    values: Array
    random: int

    def tail(self, statistic: float) -> float:
        """Fraction of the relabellings whose statistic is at least this large."""
        threshold = statistic * (1 - TIE)
        # One division: 1 − 19/20 would be above 0.05 in its last bit.
        return (len(self.values) - int(np.searchsorted(self.values, threshold))) / len(self.values)

    def critical(self, alpha: float) -> float:
        """The smallest statistic with a p-value of at most alpha; infinite if there is none."""
        # The tail of the value at position i is 1 − i / length.
        position = ceil(len(self.values) * (1 - alpha) - TIE)
        while position < len(self.values) and self.tail(self.values[position]) > alpha:
            position += 1
        return float(self.values[position]) if position < len(self.values) else inf

    @property
    def p(self) -> float:
        """The p-value of the hypothesis that all labels have the same distribution."""
        return self.tail(self.observed)


def relabellings(x: TaskScores, y: TaskScores) -> int:
    """Number of ways to assign the runs of each task to two labels."""
    return prod(comb(n + k, n) for n, k in zip(x.sizes, y.sizes, strict=True))


def random_relabellings(runs: int, resampling: Resampling, least: int = 0) -> int:
    """Number of random relabellings of a family of hypotheses.

    Args:
        runs: Number of runs of all hypotheses; a run counts once for each hypothesis.
        resampling: Its repetitions are the upper limit.
        least: Relabellings without which no pair of the family could be decided.
    """
    affordable = min(MOST_RANDOM, max(FEWEST_RANDOM, CELLS // max(runs, 1)))
    return min(resampling.repetitions, max(affordable, least))


def smallest_p(x: TaskScores, y: TaskScores, repetitions: int) -> float:
    """Smallest p-value of a permutation test of two labels with these numbers of runs.

    With equal numbers of runs, a relabelling and its mirror image have the same statistic.
    """
    count = relabellings(x, y)
    if count > EXACT_RELABELLINGS:
        return 1 / (repetitions + 1)
    return (2 if x.sizes == y.sizes else 1) / count


def permutation_distribution(
    labels: Sequence[TaskScores],
    statistic: Statistic,
    resampling: Resampling,
    repetitions: int = MOST_RANDOM,
) -> PermutationDistribution:
    """The largest studentised difference between labels, over relabellings of their runs.

    Args:
        labels: Scores of two labels or more, of shape (N_l,) each, on the same tasks.
        statistic: The metric that is compared; a batch of scores (…, N_l) has values (…).
        resampling: Its seed draws the random relabellings.
        repetitions: Number of random relabellings, if there are too many to enumerate.
    """
    if len(labels) == 2 and relabellings(*labels) <= EXACT_RELABELLINGS:
        return _exact_distributions([(labels[0], labels[1])], statistic)[0]
    batch = PermutationGroup.of([labels])
    observed = _largest_difference(batch.labels, statistic, batch.floor)[0]
    values = [batch.values(block, statistic)[0] for block in batch.drawn(resampling, repetitions)]
    return PermutationDistribution(
        float(observed[0]), np.sort(np.concatenate([*values, observed])), repetitions
    )


def pair_distributions(
    pairs: Sequence[Pair],
    statistic: Statistic,
    resampling: Resampling,
    repetitions: int = MOST_RANDOM,
) -> list[PermutationDistribution]:
    """The distribution of each pair of labels, as `permutation_distribution` gives it.

    Pairs with the same few relabellings are computed together, which is much faster.
    """
    distributions: dict[int, PermutationDistribution] = {}
    for positions in _alike(pairs):
        x, y = pairs[positions[0]]
        count = relabellings(x, y)
        together = max(1, BLOCK // (count * (x.n + y.n)))
        for first in range(0, len(positions), together):
            part = positions[first : first + together]
            chosen = [pairs[position] for position in part]
            if count <= EXACT_RELABELLINGS:
                computed = _exact_distributions(chosen, statistic)
            else:
                computed = [
                    permutation_distribution(pair, statistic, resampling, repetitions)
                    for pair in chosen
                ]
            distributions.update(zip(part, computed, strict=True))
    return [distributions[position] for position in range(len(pairs))]


def _alike(pairs: Sequence[Pair]) -> Iterable[list[int]]:
    """Positions of pairs with the same numbers of runs."""
    positions: dict[tuple[tuple[int, ...], ...], list[int]] = {}
    for position, (x, y) in enumerate(pairs):
        positions.setdefault((x.sizes, y.sizes), []).append(position)
    return positions.values()


def _exact_distributions(
    pairs: Sequence[Pair], statistic: Statistic
) -> list[PermutationDistribution]:
    """The distributions of pairs with the same numbers of runs, over all relabellings."""
    batch = PermutationGroup.of(pairs)
    observed = _largest_difference(batch.labels, statistic, batch.floor)[:, 0]
    values = np.concatenate(
        [batch.values(block, statistic) for block in batch.enumerated()], axis=-1
    )
    values.sort(axis=-1)
    return [
        PermutationDistribution(float(largest), row, 0)
        for largest, row in zip(observed, values, strict=True)
    ]


def difference_of(x: TaskScores, y: TaskScores, statistic: Statistic) -> float:
    """The metric of x minus that of y; exactly 0 if all scores are equal."""
    # Equal runs in another order must give the same bits.
    values = [np.concatenate(label.sorted_tasks) for label in (x, y)]
    # A common origin near the scores keeps digits that a large offset would cost.
    origin = min(float(label.min()) for label in values)
    if x.sizes == y.sizes:
        first, second = statistic(TaskScores(np.stack(values) - origin, x.sizes))
    else:
        first = statistic(TaskScores(values[0] - origin, x.sizes))
        second = statistic(TaskScores(values[1] - origin, y.sizes))
    return float(first - second)


def moved(scores: TaskScores, shift: float) -> TaskScores:
    """The scores, each plus `shift`."""
    return TaskScores(scores.values + shift, scores.sizes)


@dataclass(frozen=True, slots=True)
class RoundingFloor:
    """The size below which differences and standard errors are rounding errors, and are taken as 0.

    Attributes:
        difference: Largest such difference of each family, of shape (families, 1).
        square: Largest such squared standard error, of the same shape.
    """

    difference: Array
    square: Array

    @classmethod
    def of(cls, labels: Sequence[TaskScores]) -> "RoundingFloor":
        """The rounding errors of families of labels, of shape (families, 1, N_l) each."""
        values = np.concatenate([label.values for label in labels], axis=-1)
        size = np.maximum(np.abs(values).max(axis=-1) * 1e-4, np.ptp(values, axis=-1))
        return cls(1e-11 * size, (1e-10 * size) ** 2)


@dataclass(frozen=True, slots=True)
class PermutationGroup:
    """Families of labels whose numbers of runs are alike.

    Attributes:
        labels: Scores of each label in every family, of shape (families, 1, N_l), sorted.
        pools: The runs of all labels on each task, of shape (families, N), sorted.
        floor: Rounding errors of each family.
    """

    labels: list[TaskScores]
    pools: list[Array]
    floor: RoundingFloor

    @classmethod
    def of(cls, families: Sequence[Sequence[TaskScores]]) -> "PermutationGroup":
        """Families whose labels have the same numbers of runs."""
        # The order of the runs and of the labels must not change a bit: both are sorted.
        ordered = [sorted(family, key=lambda label: label.sizes) for family in families]
        labels = [
            TaskScores(np.stack([scores.values for scores in label])[:, None], label[0].sizes)
            for label in zip(*ordered, strict=True)
        ]
        for label in labels:
            for task in label.by_task():
                task.sort(axis=-1)
        by_label = [label.by_task() for label in labels]
        pools = [
            np.sort(np.concatenate(runs, axis=-1)[:, 0], axis=-1)
            for runs in zip(*by_label, strict=True)
        ]
        return cls(labels, pools, RoundingFloor.of(labels))

    def values(self, block: Sequence[Indices], statistic: Statistic) -> Array:
        """The statistic of relabellings, of shape (families, relabellings)."""
        runs = sum(pool.size for pool in self.pools)
        # Every row has its own statistic, so that parts of a block change no bit.
        rows = max(1, CACHED // runs)
        parts = [
            self._values_of_part([order[first : first + rows] for order in block], statistic)
            for first in range(0, len(block[0]), rows)
        ]
        return np.concatenate(parts, axis=-1)

    def _values_of_part(self, part: Sequence[Indices], statistic: Statistic) -> Array:
        starts = np.cumsum([(0,) * len(part), *(label.sizes for label in self.labels)], axis=0)
        relabelled = [
            TaskScores(
                np.concatenate(
                    [
                        np.take(pool, order[:, low:high], axis=-1)
                        for pool, order, low, high in zip(
                            self.pools, part, starts[number], starts[number + 1], strict=True
                        )
                    ],
                    axis=-1,
                ),
                label.sizes,
            )
            for number, label in enumerate(self.labels)
        ]
        return _largest_difference(relabelled, statistic, self.floor)

    def enumerated(self) -> Iterator[list[Indices]]:
        """Every relabelling of two labels: for each task the order of its pool, (rows, N)."""
        sizes = (label.sizes for label in self.labels)
        orders = [every_order(n, k) for n, k in zip(*sizes, strict=True)]
        counts = [len(order) for order in orders]
        rows = max(1, BLOCK // sum(order.shape[1] for order in orders))
        total = prod(counts)
        for first in range(0, total, rows):
            chosen = np.unravel_index(np.arange(first, min(first + rows, total)), counts)
            yield [order[index] for order, index in zip(orders, chosen, strict=True)]

    def observed(self, statistic: Statistic) -> float:
        """The statistic of the labels as they are; of one family."""
        return float(_largest_difference(self.labels, statistic, self.floor)[0, 0])

    @staticmethod
    def orders_of_one_task(resampling: Resampling, repetitions: int, runs: int) -> Indices:
        """The random orders of `drawn` for a pool on one task, of shape (repetitions, runs)."""
        blocks = _blocks_of_orders(resampling, repetitions, (runs,))
        return np.concatenate([orders for (orders,) in blocks])

    def drawn(self, resampling: Resampling, repetitions: int) -> Iterator[list[Indices]]:
        """Random orders of each task's pool, in blocks."""
        totals = tuple(pool.shape[-1] for pool in self.pools)
        return _blocks_of_orders(resampling, repetitions, totals)


def _blocks_of_orders(
    resampling: Resampling, repetitions: int, totals: tuple[int, ...]
) -> Iterator[list[Indices]]:
    """Random orders of pools with these numbers of runs, in blocks."""
    rows = max(1, BLOCK // sum(totals))
    for first in range(0, repetitions, rows):
        count = min(rows, repetitions - first)
        yield _random_orders(resampling, first // rows, totals, count)


def _largest_difference(
    labels: Sequence[TaskScores], statistic: Statistic, floor: RoundingFloor
) -> Array:
    """The largest |difference| of two labels, in standard errors, of shape (…)."""
    centres = [np.asarray(statistic(label)) for label in labels]
    squares = [squared_error(label) for label in labels]
    largest = np.zeros_like(centres[0])
    for a, b in combinations(range(len(labels)), 2):
        difference = np.abs(centres[a] - centres[b])
        square = squares[a] + squares[b]
        with np.errstate(divide="ignore", invalid="ignore"):
            ratio = difference / np.sqrt(np.where(square <= floor.square, 0.0, square))
        # Without this, labels with equal scores would have the ratio 0 / 0.
        largest = np.maximum(largest, np.where(difference <= floor.difference, 0.0, ratio))
    return largest


def squared_error(scores: TaskScores) -> Array:
    """Squared standard error of the mean over tasks of the task means, of shape (…)."""
    variances = [
        task.var(axis=-1, ddof=1) / task.shape[-1]
        for task in scores.by_task()
        if task.shape[-1] > 1
    ]
    total = np.sum(variances, axis=0) if variances else np.zeros(scores.values.shape[:-1])
    return np.asarray(total / len(scores.sizes) ** 2)


@lru_cache(maxsize=16)
def every_order(n: int, k: int) -> Indices:
    """Every choice of n among n + k positions, followed by the other positions."""
    chosen = np.array(list(combinations(range(n + k), n)), dtype=np.intp)
    others = np.ones((len(chosen), n + k), dtype=bool)
    np.put_along_axis(others, chosen, values=False, axis=1)
    return np.concatenate([chosen, np.nonzero(others)[1].reshape(len(chosen), k)], axis=1)


# Groups of equally many labels, and all differences of an interval, share their random orders.
@lru_cache(maxsize=32)
def _random_orders(
    resampling: Resampling, block: int, totals: tuple[int, ...], count: int
) -> list[Indices]:
    orders: list[Any] = []
    for task, n in enumerate(totals):
        # The argsort of random numbers is a uniformly random order.
        random = resampling.generator(task, block).random((count, n), dtype=np.float32)
        small = np.uint16 if n < 2**16 else np.intp
        orders.append(np.argsort(random, axis=1).astype(small))
    return orders
