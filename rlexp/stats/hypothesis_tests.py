"""Tests of whether two labels differ: Welch's t test and the Mann–Whitney test."""

from dataclasses import dataclass
from functools import lru_cache
from math import comb, sqrt

import numpy as np
from numpy.typing import NDArray

from rlexp.stats.difference import Difference, Pair, estimate_difference, tasks_of_both
from rlexp.stats.task_scores import TaskScores


@dataclass(frozen=True, slots=True, kw_only=True)
class SignificanceTest:
    """Result of a two-sided test of the null hypothesis that both labels are equal.

    Attributes:
        method: Name of the test, with `exact` or the approximation.
        p: The p-value; None if no test was possible.
        statistic: Test statistic; it increases with the scores of the first label.
        smallest_p: Smallest p-value that any data with these numbers of runs can have.
        degrees_of_freedom: Of a t test.
        repetitions: Random relabellings of a permutation test; 0 if nothing is random.
        seed: Seed of the random relabellings.
        reason: Why no test was possible.
    """

    method: str
    p: float | None
    statistic: float | None
    smallest_p: float = 0.0
    degrees_of_freedom: float | None = None
    repetitions: int = 0
    seed: int | None = None
    reason: str | None = None


def welch_test(x: TaskScores, y: TaskScores) -> SignificanceTest:
    """Welch's t test of equal means, which allows unequal variances.

    Welch 1947, "The generalization of 'Student's' problem when several different population
    variances are involved". On several tasks it tests the mean over tasks; the variances of the
    tasks add up.

    Raises:
        ValueError: The labels cannot be compared (`tasks_of_both`).
    """
    return welch_test_of(estimate_difference(x, y), len(x.sizes))


def welch_test_of(difference: Difference, tasks: int) -> SignificanceTest:
    """Welch's t test of a difference of means on so many tasks."""
    from scipy.special import stdtr

    method = "Welch t test" if tasks == 1 else "stratified Welch t test"
    if difference.standard_error is None:
        return SignificanceTest(method=method, p=None, statistic=None, reason=difference.reason)
    statistic = difference.value / difference.standard_error
    return SignificanceTest(
        method=method,
        # The lower tail of −|t| keeps the digits of a tiny p-value, which 1 − F(|t|) would lose.
        p=min(2 * float(stdtr(difference.degrees_of_freedom, -abs(statistic))), 1.0),
        statistic=statistic,
        degrees_of_freedom=difference.degrees_of_freedom,
    )


def mann_whitney_test(x: TaskScores, y: TaskScores) -> SignificanceTest:
    """The Mann–Whitney test (1947) of the hypothesis that neither label tends to score higher.

    On one task the statistic is U of the first label. The p-value is exact if a label has at most
    8 runs and no two runs are tied; otherwise it uses the normal approximation, corrected for
    ties and continuity. On several tasks the statistic is the standardised mean over tasks of
    U / (n k), a stratified rank test in the sense of van Elteren 1960, without continuity
    correction.

    Raises:
        ValueError: The labels cannot be compared (`tasks_of_both`).
    """
    pairs = tasks_of_both(x, y)
    return _ranks_of_one_task(pairs[0]) if len(pairs) == 1 else _ranks_of_tasks(pairs)


def _ranks_of_one_task(pair: Pair) -> SignificanceTest:
    n, k = map(len, pair)
    u = _wins(pair)
    pool = np.sort(np.concatenate(pair))
    # SciPy's `mannwhitneyu` applies the same rule with method="auto".
    exact = min(n, k) <= 8 and bool((pool[1:] > pool[:-1]).all())
    return SignificanceTest(
        method=f"Mann–Whitney U test ({'exact' if exact else 'asymptotic'})",
        # Twice the tail of a central U is above 1.
        p=min(2 * _exact_tail(u, n, k) if exact else _normal_p(u, pool, n, k), 1.0),
        statistic=u,
        smallest_p=2 / comb(n + k, n) if exact else 0.0,
    )


def _exact_tail(u: float, n: int, k: int) -> float:
    """Probability of a U at least as far from the middle on the same side, without ties."""
    counts = _counts_of_u(*sorted((n, k)))
    return sum(counts[max(int(u), n * k - int(u)) :]) / comb(n + k, n)


# SciPy has these counts, too, but importing its statistics takes longer than a whole comparison.
@lru_cache(maxsize=64)
def _counts_of_u(n: int, k: int) -> list[int]:
    """Number of orders of n and k runs with each value of U, from 0 to n k.

    The counts are the coefficients of the Gaussian binomial coefficient, the product over i of
    (1 − q^(k + i)) / (1 − q^i) for i = 1 … n (Mann and Whitney 1947).
    """
    counts = [1] + [0] * (n * k)
    for i in range(1, n + 1):
        for u in range(n * k, k + i - 1, -1):
            counts[u] -= counts[u - k - i]
        for u in range(i, n * k + 1):
            counts[u] += counts[u - i]
    return counts


def _normal_p(u: float, pool: NDArray[np.float64], n: int, k: int) -> float:
    """Two-sided p-value by the normal approximation, equal to `scipy.stats.mannwhitneyu`."""
    # SciPy's function needs more time to check its arguments than to compute.
    from scipy.special import ndtr

    _, counts = np.unique(pool, return_counts=True)
    total = n + k
    ties = float((counts.astype(np.float64) ** 3 - counts).sum()) / (total * (total - 1))
    deviation = sqrt(n * k / 12 * (total + 1 - ties))
    # If all runs are equal, the deviation is 0 and the p-value must be 1.
    far = (max(u, n * k - u) - n * k / 2 - 0.5) / deviation if deviation > 0 else -np.inf
    return 2 * float(ndtr(-far))


def _wins(pair: Pair) -> float:
    """The statistic U of the first label: pairs of runs that it wins; a tied pair counts half."""
    a, b = pair
    # Two integers: swapping the labels changes no bit.
    return float(np.searchsorted(b, a).sum() + np.searchsorted(b, a, side="right").sum()) / 2


def _ranks_of_tasks(pairs: list[Pair]) -> SignificanceTest:
    from scipy.special import ndtr

    centred, variances = zip(*map(_rank_moments, pairs), strict=True)
    # If all runs of each task are tied, the variance is 0 and the p-value must be 1.
    statistic = sum(centred) / sqrt(sum(variances)) if sum(variances) > 0 else 0.0
    return SignificanceTest(
        method="stratified Mann–Whitney test (asymptotic)",
        p=min(2 * float(ndtr(-abs(statistic))), 1.0),
        statistic=statistic,
    )


def _rank_moments(pair: Pair) -> tuple[float, float]:
    """U / (n k) - ½, and its variance under the null hypothesis, corrected for ties."""
    n, k = map(len, pair)
    total = n + k
    u = _wins(pair)
    _, counts = np.unique(np.concatenate(pair), return_counts=True)
    ties = float((counts.astype(np.float64) ** 3 - counts).sum()) / (total * (total - 1))
    # A quotient of two integers: swapping the labels changes the sign and no bit.
    return (2 * u - n * k) / (2 * n * k), (total + 1 - ties) / (12 * n * k)
