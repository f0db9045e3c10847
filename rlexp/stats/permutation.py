"""Permutation test of whether two labels differ, exact or by random relabellings."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import reduce
from math import comb, prod

import numpy as np
from numpy.typing import NDArray

from rlexp.stats.difference import Pair, mean_difference, tasks_of_both
from rlexp.stats.hypothesis_tests import SignificanceTest
from rlexp.stats.resampling import Resampling
from rlexp.stats.task_scores import TaskScores

Array = NDArray[np.float64]
Sample = tuple[Array, int]
"""Scores of shape (N,), and how many of them are drawn without replacement."""

BLOCK = 2**22
"""Random numbers in memory at a time."""


@dataclass(frozen=True, slots=True)
class _EqualSizeSamples:
    """Samples with equal numbers of scores and of draws, which share their random draws.

    Attributes:
        rows: Index of each of the P samples among all samples.
        integers: Scores as integers (stored as floats), of shape (P, N).
        exponents: Binary exponent of the unit of each sample's integers, of shape (P, 1).
        remaining: Scores still to be drawn in each repetition, of shape (repetitions,).
        sums: Sums of the drawn integers, of shape (P, repetitions).
    """

    rows: list[int]
    integers: Array
    exponents: NDArray[np.intc]
    remaining: Array
    sums: Array

    @classmethod
    def of(
        cls, rows: list[int], samples: Sequence[Sample], repetitions: int
    ) -> "_EqualSizeSamples":
        scores = np.stack([samples[row][0] for row in rows])
        # Floats hold integers below 2⁵³ exactly: the sum of N such integers is exact in any order,
        # so that BLAS libraries and numbers of threads cannot change a bit of a p-value.
        exponents = np.frexp(scores.shape[1] * np.abs(scores).max(axis=1, keepdims=True))[1] - 53
        integers = np.rint(np.ldexp(scores, -exponents))
        remaining = np.full(repetitions, float(samples[rows[0]][1]))
        return cls(rows, integers, exponents, remaining, np.zeros((len(rows), repetitions)))

    def draw(self, first: int, uniform: Array) -> None:
        """Decide which of the next scores are drawn, and add them to the sums.

        Args:
            first: Number of scores that were decided before.
            uniform: Random numbers for the next scores, of shape (scores, repetitions).
        """
        n = self.integers.shape[1]
        chosen = np.empty((max(0, min(len(uniform), n - first)), uniform.shape[1]))
        for row, (left, numbers) in enumerate(zip(range(n - first, 0, -1), uniform, strict=False)):
            # Algorithm S: a score is drawn with probability remaining / left.
            np.less(numbers * left, self.remaining, out=chosen[row], casting="unsafe")
            self.remaining[:] -= chosen[row]
        self.sums[:] += self.integers[:, first : first + len(chosen)] @ chosen


def random_sums(
    samples: Sequence[Sample], repetitions: int, generator: np.random.Generator
) -> Array:
    """Sums of scores drawn without replacement (Knuth, TAOCP 2, 3.4.2, algorithm S).

    All samples use the same random numbers, the same as if each were drawn alone: samples of
    equal sizes have the same positions drawn. Scores are rounded to a fraction N / 2⁵³ of the
    largest.

    Args:
        samples: The P samples.
        repetitions: Number of draws.
        generator: Gives one random number for each score and repetition, scores outermost.

    Returns:
        Of shape (P, repetitions).
    """
    sizes: dict[tuple[int, int], list[int]] = {}
    for row, (scores, drawn) in enumerate(samples):
        sizes.setdefault((len(scores), drawn), []).append(row)
    groups = [_EqualSizeSamples.of(rows, samples, repetitions) for rows in sizes.values()]
    longest, step = max(n for n, _ in sizes), max(1, BLOCK // repetitions)
    for first in range(0, longest, step):
        uniform = generator.random((min(step, longest - first), repetitions))
        for group in groups:
            group.draw(first, uniform)
    sums = np.empty((len(samples), repetitions))
    for group in groups:
        sums[group.rows] = np.ldexp(group.sums, group.exponents)
    return sums


EXACT_RELABELLINGS = 50_000
"""Largest number of relabellings that are enumerated; beyond it they are drawn at random."""

AT_ONCE = 2**22
"""Random relabellings of all pairs in memory at a time."""


@dataclass(frozen=True, slots=True)
class _ObservedDifference:
    """The observed difference of two labels, the higher label first.

    Attributes:
        difference: Mean over tasks of the difference of the task means, at least 0.
        tasks: Scores of both labels on each task.
        exact: Whether all relabellings are enumerated.
    """

    difference: float
    tasks: list[Pair]
    exact: bool

    @property
    def slack(self) -> float:
        """Rounding error below which two differences count as equal."""
        # Relabellings with equal differences are summed in different orders and differ in their
        # last bits. Without the slack, ties with the observed difference could be missed.
        return 1e-11 * float(np.mean([_range(pair) for pair in self.tasks]))

    def extreme(self, differences: NDArray[np.float64]) -> int:
        """Number of differences that are at least as large as the observed one."""
        return int((differences >= self.difference - self.slack).sum())


def relabellings(x: TaskScores, y: TaskScores) -> int:
    """Number of ways to assign the runs of each task to both labels."""
    return prod(comb(n + k, n) for n, k in zip(x.sizes, y.sizes, strict=True))


def smallest_permutation_p(x: TaskScores, y: TaskScores, resampling: Resampling) -> float:
    """Smallest p-value that a permutation test can have with these numbers of runs."""
    count = relabellings(x, y)
    return 2 / (count if count <= EXACT_RELABELLINGS else resampling.repetitions + 1)


def permutation_test(x: TaskScores, y: TaskScores, resampling: Resampling) -> SignificanceTest:
    """Permutation test of the difference: the runs of each task are reassigned to both labels.

    Fisher 1935, "The Design of Experiments". The statistic is the mean over tasks of the
    difference of the task means. Up to 50,000 relabellings are enumerated; otherwise
    `resampling.repetitions` are drawn at random, and the observed one is added to them (Phipson
    and Smyth 2010, "Permutation p-values should never be zero"). The p-value is twice that of the
    tail on the side of the observed difference, and 1 if the difference is 0. This is the p-value
    of two one-sided tests at half the level each, so that the error is equal on both sides. With
    equal numbers of runs it is the fraction of relabellings with a larger absolute difference.

    The level is exact if both labels have the same distribution. If only their means are equal,
    it is not: for normal scores it is 28 % instead of 5 % with 5 runs against 20 with a fifth of
    the standard deviation, and 8 % with 5 against 5. See
    `PairwiseComparison.deciding`.

    Raises:
        ValueError: The labels cannot be compared (`tasks_of_both`).
    """
    return permutation_tests([(x, y)], resampling)[0]


def permutation_tests(
    labels: Sequence[tuple[TaskScores, TaskScores]], resampling: Resampling
) -> tuple[SignificanceTest, ...]:
    """The permutation test of every pair of labels, equal to the bit to each pair's own test.

    The pairs share their random draws (`random_sums`), because drawing takes most of the time.

    Raises:
        ValueError: The labels of a pair cannot be compared (`tasks_of_both`).
    """
    observed = [_observed(x, y) for x, y in labels]
    drawn = _random_shares([pair for pair in observed if not pair.exact], resampling)
    shares = [_exact_share(pair) if pair.exact else next(drawn) for pair in observed]
    return tuple(
        _test(x, y, pair, share, resampling)
        for (x, y), pair, share in zip(labels, observed, shares, strict=True)
    )


def _observed(x: TaskScores, y: TaskScores) -> _ObservedDifference:
    difference = mean_difference(tasks_of_both(x, y))
    # The higher label comes first, so that (x, y) and (y, x) give the same p-value.
    swapped = difference < 0 or (difference == 0 and x.sizes > y.sizes)
    tasks = tasks_of_both(y, x) if swapped else tasks_of_both(x, y)
    exact = relabellings(x, y) <= EXACT_RELABELLINGS
    return _ObservedDifference(abs(difference), tasks, exact)


def _test(
    x: TaskScores,
    y: TaskScores,
    observed: _ObservedDifference,
    share: float,
    resampling: Resampling,
) -> SignificanceTest:
    return SignificanceTest(
        method=f"permutation test ({'exact' if observed.exact else 'Monte Carlo'})",
        p=min(2 * share, 1.0) if observed.difference > observed.slack else 1.0,
        statistic=mean_difference(tasks_of_both(x, y)),
        smallest_p=smallest_permutation_p(x, y, resampling),
        repetitions=0 if observed.exact else resampling.repetitions,
        seed=None if observed.exact else resampling.seed,
    )


def _exact_share(observed: _ObservedDifference) -> float:
    """Fraction of all relabellings that are at least as extreme as the observed one."""
    differences = _every_difference(observed.tasks)
    return observed.extreme(differences) / len(differences)


def _random_shares(
    observed: Sequence[_ObservedDifference], resampling: Resampling
) -> Iterator[float]:
    """For each pair, the fraction of random relabellings that are at least as extreme.

    The observed relabelling counts as one of them, so that no fraction is 0.
    """
    step = max(1, AT_ONCE // resampling.repetitions)
    for first in range(0, len(observed), step):
        several = observed[first : first + step]
        drawn = _random_differences([pair.tasks for pair in several], resampling)
        for pair, differences in zip(several, drawn, strict=True):
            yield (pair.extreme(differences) + 1) / (len(differences) + 1)


def _range(pair: Pair) -> float:
    a, b = pair
    return float(max(a[-1], b[-1]) - min(a[0], b[0]))


def _pool(pair: Pair) -> NDArray[np.float64]:
    """The runs of both labels, sorted and centred, of shape (n + k,)."""
    # Centring keeps digits of scores with a large common offset; differences do not change.
    pool = np.sort(np.concatenate(pair))
    return np.asarray(pool - np.median(pool))


def _differences(
    sums: NDArray[np.float64], pool: NDArray[np.float64], n: int
) -> NDArray[np.float64]:
    """Differences of the means if n runs of the pool have these sums and are the first label's."""
    k = len(pool) - n
    return np.asarray(sums / n - (pool.sum() - sums) / k)


def _every_difference(pairs: list[Pair]) -> NDArray[np.float64]:
    """The statistic of every relabelling, of shape (relabellings,)."""
    pools = [(_pool(pair), len(pair[0])) for pair in pairs]
    by_task = [_differences(_every_sum(pool, n), pool, n) for pool, n in pools]
    return np.asarray(reduce(np.add.outer, by_task)).ravel() / len(pairs)


def _every_sum(pool: NDArray[np.float64], n: int) -> NDArray[np.float64]:
    """Sums of all subsets of n runs of the pool, of shape (C(len(pool), n),)."""
    if 2 * n > len(pool):
        # Sum the smaller complement: the recursion below builds all smaller subsets on its way.
        return np.asarray(pool.sum() - _every_sum(pool, len(pool) - n))
    sums = [np.zeros(1), *[np.empty(0)] * n]
    for score in pool:
        longer = [np.concatenate((sums[i + 1], sums[i] + score)) for i in range(n)]
        sums = [sums[0], *longer]
    return sums[n]


def _random_differences(
    labels: Sequence[list[Pair]], resampling: Resampling
) -> NDArray[np.float64]:
    """The statistic of random relabellings, of shape (pairs of labels, repetitions)."""
    total = np.zeros((len(labels), resampling.repetitions))
    for task in range(max(map(len, labels))):
        rows = [row for row, pairs in enumerate(labels) if len(pairs) > task]
        pools = [(_pool(labels[row][task]), len(labels[row][task][0])) for row in rows]
        drawn = random_sums(pools, resampling.repetitions, resampling.generator(task))
        for row, sums, (pool, n) in zip(rows, drawn, pools, strict=True):
            total[row] += _differences(sums, pool, n)
    return np.asarray(total / np.array([[len(pairs)] for pairs in labels]))
