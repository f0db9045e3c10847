"""Test of whether two labels differ, by dealing out their runs anew."""

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
"""Scores, of shape (N,), and how many of them are drawn."""

BLOCK = 2**22
"""Random numbers that are held at once."""


@dataclass(frozen=True, slots=True)
class _Alike:
    """Samples of the same sizes.

    Attributes:
        rows: Their places among all samples, of shape (P,).
        whole: Their scores in whole numbers, of shape (P, N).
        exponents: Powers of two that one of each stands for, of shape (P, 1).
        wanted: How many are still to be drawn in each repetition, of shape (repetitions,).
        sums: Of those that were drawn, of shape (P, repetitions).
    """

    rows: list[int]
    whole: Array
    exponents: NDArray[np.intc]
    wanted: Array
    sums: Array

    @classmethod
    def of(cls, rows: list[int], samples: Sequence[Sample], repetitions: int) -> "_Alike":
        scores = np.stack([samples[row][0] for row in rows])
        # Any sum of whole numbers below 2⁵³ is exact, in whatever order a machine adds up.
        exponents = np.frexp(scores.shape[1] * np.abs(scores).max(axis=1, keepdims=True))[1] - 53
        whole = np.rint(np.ldexp(scores, -exponents))
        wanted = np.full(repetitions, float(samples[rows[0]][1]))
        return cls(rows, whole, exponents, wanted, np.zeros((len(rows), repetitions)))

    def draw(self, first: int, uniform: Array) -> None:
        """Add up those of the scores from the first on that are drawn.

        Args:
            first: Scores that had their turn.
            uniform: Random numbers for each of the next ones, of shape (scores, repetitions).
        """
        n = self.whole.shape[1]
        chosen = np.empty((max(0, min(len(uniform), n - first)), uniform.shape[1]))
        for row, (left, numbers) in enumerate(zip(range(n - first, 0, -1), uniform, strict=False)):
            np.less(numbers * left, self.wanted, out=chosen[row], casting="unsafe")
            self.wanted[:] -= chosen[row]
        self.sums[:] += self.whole[:, first : first + len(chosen)] @ chosen


def random_sums(
    samples: Sequence[Sample], repetitions: int, generator: np.random.Generator
) -> Array:
    """Sums of scores drawn without replacement (Knuth, TAOCP 2, 3.4.2, algorithm S).

    Every sample is drawn from by the same random numbers, as it is when it is alone: samples of
    the same sizes have the same places drawn. Scores are rounded to a share of N / 2⁵³ of the
    largest.

    Args:
        samples: P of them.
        repetitions: How often to draw.
        generator: Gives a random number for each score and repetition, scores outermost.

    Returns:
        Of shape (P, repetitions).
    """
    sizes: dict[tuple[int, int], list[int]] = {}
    for row, (scores, wanted) in enumerate(samples):
        sizes.setdefault((len(scores), wanted), []).append(row)
    groups = [_Alike.of(rows, samples, repetitions) for rows in sizes.values()]
    longest, step = max(n for n, _ in sizes), max(1, BLOCK // repetitions)
    for first in range(0, longest, step):
        uniform = generator.random((min(step, longest - first), repetitions))
        for group in groups:
            group.draw(first, uniform)
    found = np.empty((len(samples), repetitions))
    for group in groups:
        found[group.rows] = np.ldexp(group.sums, group.exponents)
    return found


EXACT_RELABELLINGS = 50_000
"""With more of them, a permutation test draws at random instead of looking at each."""

AT_ONCE = 2**22
"""Random relabellings that are held at once, of all pairs, which bounds memory."""


@dataclass(frozen=True, slots=True)
class _Observed:
    """Two labels, the higher one first.

    Attributes:
        difference: Of the mean over tasks, at least 0.
        tasks: Scores of both on each task.
        exact: Whether every relabelling is looked at.
    """

    difference: float
    tasks: list[Pair]
    exact: bool

    @property
    def slack(self) -> float:
        """Sums in another order differ in their last bits: what is as extreme must count as such."""
        return 1e-11 * float(np.mean([_range(pair) for pair in self.tasks]))

    def extreme(self, differences: NDArray[np.float64]) -> int:
        """How many differences are at least as large."""
        return int((differences >= self.difference - self.slack).sum())


def relabellings(x: TaskScores, y: TaskScores) -> int:
    """In how many ways the runs of each task can be dealt out to both labels."""
    return prod(comb(n + k, n) for n, k in zip(x.sizes, y.sizes, strict=True))


def smallest_permutation_p(x: TaskScores, y: TaskScores, resampling: Resampling) -> float:
    """No scores of these numbers of runs can give a permutation test a smaller p-value."""
    count = relabellings(x, y)
    return 2 / (count if count <= EXACT_RELABELLINGS else resampling.repetitions + 1)


def permutation_test(x: TaskScores, y: TaskScores, resampling: Resampling) -> SignificanceTest:
    """Test of the difference by dealing out the runs of each task anew to both labels.

    Fisher 1935, "The Design of Experiments"; the statistic is the mean over tasks of the
    difference of the task means. All relabellings are looked at where they are at most 50,000;
    otherwise `resampling.repetitions` random ones, and the observed one counts as one more
    (Phipson and Smyth 2010, "Permutation p-values should never be zero"). The p-value is twice
    that of the tail on the side of the observed difference, and 1 where none was observed: it is
    that of two one-sided tests at half the level each, so that neither side is wrongly found
    higher more often. With as many runs of both labels it is the share of larger absolute
    differences.

    The level is exact where both labels have the same distribution. Where only their means are
    equal it is not: 28 % instead of 5 % with 5 runs against 20 that spread a fifth as much, 8 %
    with 5 against 5 (normal scores). `Comparison.deciding` says what is done about that.

    Raises:
        ValueError: The labels cannot be compared (`tasks_of_both`).
    """
    return permutation_tests([(x, y)], resampling)[0]


def permutation_tests(
    labels: Sequence[tuple[TaskScores, TaskScores]], resampling: Resampling
) -> tuple[SignificanceTest, ...]:
    """The permutation test of every pair of labels, to the bit the same as alone.

    Pairs share what is drawn (`random_sums`), which takes most of the time.

    Raises:
        ValueError: The labels of a pair cannot be compared (`tasks_of_both`).
    """
    observed = [_observed(x, y) for x, y in labels]
    drawn = _random_shares([own for own in observed if not own.exact], resampling)
    shares = [_exact_share(own) if own.exact else next(drawn) for own in observed]
    return tuple(
        _test(x, y, own, share, resampling)
        for (x, y), own, share in zip(labels, observed, shares, strict=True)
    )


def _observed(x: TaskScores, y: TaskScores) -> _Observed:
    difference = mean_difference(tasks_of_both(x, y))
    # The higher side first, so that swapping sides looks at the same relabellings.
    swapped = difference < 0 or (difference == 0 and x.sizes > y.sizes)
    tasks = tasks_of_both(y, x) if swapped else tasks_of_both(x, y)
    return _Observed(abs(difference), tasks, relabellings(x, y) <= EXACT_RELABELLINGS)


def _test(
    x: TaskScores, y: TaskScores, own: _Observed, share: float, resampling: Resampling
) -> SignificanceTest:
    return SignificanceTest(
        method=f"permutation test ({'exact' if own.exact else 'Monte Carlo'})",
        p=min(2 * share, 1.0) if own.difference > own.slack else 1.0,
        statistic=mean_difference(tasks_of_both(x, y)),
        smallest_p=smallest_permutation_p(x, y, resampling),
        repetitions=0 if own.exact else resampling.repetitions,
        seed=None if own.exact else resampling.seed,
    )


def _exact_share(own: _Observed) -> float:
    """The share of relabellings that are as extreme."""
    differences = _every_difference(own.tasks)
    return own.extreme(differences) / len(differences)


def _random_shares(observed: Sequence[_Observed], resampling: Resampling) -> Iterator[float]:
    """The same of those drawn, for each pair; what was observed counts as one more."""
    step = max(1, AT_ONCE // resampling.repetitions)
    for first in range(0, len(observed), step):
        several = observed[first : first + step]
        drawn = _random_differences([own.tasks for own in several], resampling)
        for own, differences in zip(several, drawn, strict=True):
            yield (own.extreme(differences) + 1) / (len(differences) + 1)


def _range(pair: Pair) -> float:
    a, b = pair
    return float(max(a[-1], b[-1]) - min(a[0], b[0]))


def _pool(pair: Pair) -> NDArray[np.float64]:
    """The runs of both, sorted and centred, of shape (n + k,)."""
    pool = np.sort(np.concatenate(pair))
    return np.asarray(pool - np.median(pool))


def _differences(
    sums: NDArray[np.float64], pool: NDArray[np.float64], n: int
) -> NDArray[np.float64]:
    """Differences of the means where the first n of the pool's runs sum to these."""
    k = len(pool) - n
    return np.asarray(sums / n - (pool.sum() - sums) / k)


def _every_difference(pairs: list[Pair]) -> NDArray[np.float64]:
    """The statistic of every relabelling, of shape (relabellings,)."""
    pools = [(_pool(pair), len(pair[0])) for pair in pairs]
    by_task = [_differences(_every_sum(pool, n), pool, n) for pool, n in pools]
    return np.asarray(reduce(np.add.outer, by_task)).ravel() / len(pairs)


def _every_sum(pool: NDArray[np.float64], n: int) -> NDArray[np.float64]:
    """Sums of every n of the pool's runs, of shape (C(len(pool), n),)."""
    if 2 * n > len(pool):
        # Of the fewer that are left out: there are far more choices of a half than of either.
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
        own = [row for row, pairs in enumerate(labels) if len(pairs) > task]
        pools = [(_pool(labels[row][task]), len(labels[row][task][0])) for row in own]
        found = random_sums(pools, resampling.repetitions, resampling.generator(task))
        for row, sums, (pool, n) in zip(own, found, pools, strict=True):
            total[row] += _differences(sums, pool, n)
    return np.asarray(total / np.array([[len(pairs)] for pairs in labels]))
