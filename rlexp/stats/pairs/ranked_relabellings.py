"""Tails of the permutation distributions of many pairs of labels on one task, computed together.

A relabelling gives the first label certain ranks of the sorted runs, whichever scores the runs have.
The difference of two means, medians or interquartile means is then a linear function of the sorted
runs, and so are the sums that a standard error needs. Products of matrices give all relabellings of
many pairs at once, with bounds of their rounding errors. They say which few relabellings decide a
p-value or a critical value. Only these are computed as `permutation_distribution` computes them, so
that the results have the same bits.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache
from math import ceil, inf

import numpy as np
from numpy.typing import NDArray

from rlexp.stats.aggregate import Aggregate, Negative, Statistic, aggregate_of, sorted_run_weights
from rlexp.stats.block_threads import run_blocks
from rlexp.stats.pairs.permutation import (
    EXACT_RELABELLINGS,
    TIE,
    Indices,
    Pair,
    PermutationDistribution,
    PermutationGroup,
    relabellings,
)
from rlexp.stats.resampling import Resampling

Array = NDArray[np.float64]

MOST_RUNS = 4_000
"""Most runs of a pair: the matrices of 999 relabellings take 64 MB."""
EPSILON = float(np.finfo(np.float64).eps)
SAFETY = 32
"""Factor by which the bounds exceed the first-order bounds of rounding errors."""


@dataclass(frozen=True, slots=True)
class PairQuestion:
    """A question about the permutation distribution of two labels on one task.

    Attributes:
        pair: The labels.
        alpha: The level of a critical value; None asks for the p-value.
    """

    pair: Pair
    alpha: float | None


def is_linear(pair: Pair, statistic: Statistic) -> bool:
    """Whether the relabellings of a pair are random, and its statistic is linear in sorted runs."""
    x, y = pair
    return (
        len(x.sizes) == len(y.sizes) == 1
        and min(x.n, y.n) > 1
        and x.n + y.n <= MOST_RUNS
        and _linear_aggregate(statistic) is not None
        and relabellings(x, y) > EXACT_RELABELLINGS
    )


def _linear_aggregate(statistic: Statistic) -> Aggregate | None:
    inner = statistic.statistic if isinstance(statistic, Negative) else statistic
    aggregate = aggregate_of(inner)
    return None if aggregate is None or aggregate.cap is not None else aggregate


def answers(
    questions: Sequence[PairQuestion],
    statistic: Statistic,
    resampling: Resampling,
    repetitions: int,
    threads: int,
) -> list[PermutationDistribution]:
    """Distributions that answer the questions as `permutation_distribution` would.

    Values that cannot matter for the answer are infinite in them.

    Args:
        questions: About pairs with the same numbers of runs, for which `is_linear` holds.
        statistic: The metric that is compared.
        resampling: Its seed draws the random relabellings.
        repetitions: Number of random relabellings.
        threads: Number of threads; the result does not depend on it.
    """
    groups = [PermutationGroup.of([question.pair]) for question in questions]
    aggregate = _linear_aggregate(statistic)
    assert aggregate is not None
    first, second = (label.sizes[0] for label in groups[0].labels)
    ranked = _ranked(aggregate, resampling, repetitions, (first, second))
    bounds = ranked.bounds(groups)

    def answer(position: int) -> PermutationDistribution:
        low, high = bounds.low[position], bounds.high[position]
        group, alpha = groups[position], questions[position].alpha
        observed = group.observed(statistic)
        chosen = (
            _around(low, high, observed) if alpha is None else _largest(low, high, observed, alpha)
        )
        orders = ranked.orders[chosen.exact]
        exact = group.values([orders], statistic)[0] if len(orders) else np.empty(0)
        values = np.concatenate(
            [np.full(chosen.below, -inf), exact, np.full(chosen.above, inf), [observed]]
        )
        return PermutationDistribution(observed, np.sort(values), repetitions)

    answered: dict[int, PermutationDistribution] = {}

    def fill(position: int) -> None:
        answered[position] = answer(position)

    run_blocks(fill, range(len(questions)), threads)
    return [answered[position] for position in range(len(questions))]


@dataclass(frozen=True, slots=True)
class _Chosen:
    """Which relabellings are computed exactly, and how many are surely below and above them."""

    exact: NDArray[np.intp]
    below: int
    above: int


def _around(low: Array, high: Array, observed: float) -> _Chosen:
    """The relabellings that may be on either side of the threshold of the p-value."""
    threshold = observed * (1 - TIE)
    above, below = low >= threshold, high < threshold
    return _Chosen(np.flatnonzero(~(above | below)), int(below.sum()), int(above.sum()))


def _largest(low: Array, high: Array, observed: float, alpha: float) -> _Chosen:
    """The relabellings that may have one of the largest values, or one that is equal to them."""
    length = len(low) + 1
    kept = length - ceil(length * (1 - alpha) - TIE)
    if kept <= 0:
        return _Chosen(np.empty(0, np.intp), len(low), 0)
    every = np.append(low, observed)
    # Values that differ by `TIE` count as equal, so that those slightly below matter too.
    least = np.partition(every, length - kept)[length - kept] * (1 - 4 * TIE)
    exact = np.flatnonzero(high >= least)
    return _Chosen(exact, len(low) - len(exact), 0)


@dataclass(frozen=True, slots=True)
class _Bounds:
    """Bounds of the statistic of every relabelling of every pair, of shape (pairs, relabellings)."""

    low: Array
    high: Array


@dataclass(frozen=True, slots=True)
class _RankedRelabellings:
    """Random relabellings of two labels on one task.

    Attributes:
        sizes: Runs of the labels.
        orders: The order of the pooled runs in each relabelling, of shape (relabellings, N).
        members: 1 for the ranks that the first label gets, else 0, of the same shape.
        differences: What each rank contributes to the difference of the metric, of the same shape.
    """

    sizes: tuple[int, int]
    orders: Indices
    members: Array
    differences: Array

    def bounds(self, groups: Sequence[PermutationGroup]) -> _Bounds:
        """Bounds of the values that `PermutationGroup.values` computes."""
        pools = np.stack([group.pools[0][0] for group in groups])
        # A common origin of the runs changes no difference, and keeps digits of the squares.
        centred = pools - pools.mean(axis=-1, keepdims=True)
        difference = np.abs(centred @ self.differences.T)
        square = self._squared_errors(centred)
        runs = pools.shape[-1]
        # A sum of N terms errs by at most N ε times the sum of their sizes (Higham 2002, 4.2).
        size = np.abs(pools).max(axis=-1, keepdims=True)
        spread = np.abs(centred).max(axis=-1, keepdims=True)
        error = SAFETY * runs * EPSILON * size
        error_of_square = SAFETY * runs * EPSILON * spread**2 / min(self.sizes) + error**2
        floor = np.array([[g.floor.difference[0, 0], g.floor.square[0, 0]] for g in groups])
        least, least_square = floor[:, :1], floor[:, 1:]
        smaller = square - error_of_square
        with np.errstate(divide="ignore", invalid="ignore"):
            low = (difference - error) / np.sqrt(square + error_of_square)
            high = (difference + error) / np.sqrt(np.maximum(smaller, 0))
        return _Bounds(
            np.where(difference - error <= least, 0.0, low),
            np.where(smaller <= least_square, inf, high),
        )

    def _squared_errors(self, centred: Array) -> Array:
        """Squared standard errors of the differences, of shape (pairs, relabellings)."""
        first, second = self.sizes
        sums, squares = centred @ self.members.T, centred**2 @ self.members.T
        total = centred.sum(axis=-1, keepdims=True)
        total_square = (centred**2).sum(axis=-1, keepdims=True)
        variance = (squares - sums**2 / first) / (first - 1)
        other = (total_square - squares - (total - sums) ** 2 / second) / (second - 1)
        return np.asarray(variance / first + other / second)


@lru_cache(maxsize=2)
def _ranked(
    aggregate: Aggregate, resampling: Resampling, repetitions: int, sizes: tuple[int, int]
) -> _RankedRelabellings:
    first, second = sizes
    orders = PermutationGroup.orders_of_one_task(resampling, repetitions, first + second)
    members, differences = (np.zeros(orders.shape) for _ in range(2))
    np.put_along_axis(members, orders[:, :first].astype(np.intp), 1.0, axis=1)
    for side, part, n in ((1, orders[:, :first], first), (-1, orders[:, first:], second)):
        ranks = np.sort(part, axis=1).astype(np.intp)
        weights = sorted_run_weights(aggregate, n)
        np.put_along_axis(differences, ranks, np.broadcast_to(side * weights, ranks.shape), axis=1)
    return _RankedRelabellings(sizes, orders, members, differences)
