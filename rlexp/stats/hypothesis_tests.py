"""Tests of whether two labels differ: Welch's, and Mann and Whitney's."""

from dataclasses import dataclass
from math import comb, sqrt

import numpy as np
from numpy.typing import NDArray

from rlexp.stats.difference import Pair, estimate_difference, tasks_of_both
from rlexp.stats.task_scores import TaskScores


@dataclass(frozen=True, slots=True, kw_only=True)
class SignificanceTest:
    """A two-sided test that both labels are the same, and what came of it.

    Attributes:
        method: Which test, and whether it is exact.
        p: The p-value, or nothing where `reason` says why not.
        statistic: In the sense of the method; it grows with the scores of the first label.
        smallest_p: No data of these numbers of runs can give a smaller p-value.
        degrees_of_freedom: Of a t test.
        repetitions: Random relabellings of a permutation test; 0 where nothing is random.
        seed: Of the relabellings, where they are random.
        reason: Why no test was possible, in words.
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
    """Welch's t test of equal means, whatever the variances.

    Welch 1947, "The generalization of 'Student's' problem when several different population
    variances are involved"; on several tasks, of the mean over tasks, with variances added up.

    Raises:
        ValueError: The labels cannot be compared (`tasks_of_both`).
    """
    from scipy.special import stdtr

    method = "Welch t test" if len(x.sizes) == 1 else "stratified Welch t test"
    found = estimate_difference(x, y)
    if found.standard_error is None:
        return SignificanceTest(method=method, p=None, statistic=None, reason=found.reason)
    statistic = found.value / found.standard_error
    return SignificanceTest(
        method=method,
        p=min(2 * float(stdtr(found.degrees_of_freedom, -abs(statistic))), 1.0),
        statistic=statistic,
        degrees_of_freedom=found.degrees_of_freedom,
    )


def mann_whitney_test(x: TaskScores, y: TaskScores) -> SignificanceTest:
    """The rank test of Mann and Whitney 1947 that no label tends to score higher.

    On one task the statistic is U of the first label, and the p-value is exact where a label has
    at most 8 runs and no two runs are tied; otherwise it is by the normal approximation, corrected
    for ties and continuity. On several tasks the statistic is the mean over tasks of U / (n k),
    standardised (a stratified rank test in the sense of van Elteren 1960), without a correction
    for continuity.

    Raises:
        ValueError: The labels cannot be compared (`tasks_of_both`).
    """
    pairs = tasks_of_both(x, y)
    return _ranks_of_one_task(pairs[0]) if len(pairs) == 1 else _ranks_of_tasks(pairs)


def _ranks_of_one_task(pair: Pair) -> SignificanceTest:
    a, b = pair
    pool = np.concatenate(pair)
    _, where, counts = np.unique(pool, return_inverse=True, return_counts=True)
    u = _wins(where[: len(a)], counts)
    exact = min(len(a), len(b)) <= 8 and len(counts) == len(pool)
    return SignificanceTest(
        method=f"Mann–Whitney U test ({'exact' if exact else 'asymptotic'})",
        p=min(_exact_p(pair) if exact else _normal_p(u, len(a), len(b), counts), 1.0),
        statistic=u,
        smallest_p=2 / comb(len(pool), len(a)) if exact else 0.0,
    )


def _exact_p(pair: Pair) -> float:
    from scipy.stats import mannwhitneyu

    return float(mannwhitneyu(*pair, method="exact").pvalue)


def _normal_p(u: float, n: int, k: int, counts: NDArray[np.intp]) -> float:
    """As `scipy.stats.mannwhitneyu`, which takes longer to check its arguments than to compute."""
    from scipy.special import ndtr

    total = n + k
    ties = float((counts.astype(np.float64) ** 3 - counts).sum()) / (total * (total - 1))
    deviation = sqrt(n * k / 12 * (total + 1 - ties))
    # Where all runs are equal there is no deviation, and nothing speaks for a difference.
    far = (max(u, n * k - u) - n * k / 2 - 0.5) / deviation if deviation > 0 else -np.inf
    return 2 * float(ndtr(-far))


def _wins(where: NDArray[np.intp], counts: NDArray[np.intp]) -> float:
    """U of the runs that stand there among the different scores of both labels."""
    midranks = np.cumsum(counts) - (counts - 1) / 2
    return float(midranks[where].sum()) - len(where) * (len(where) + 1) / 2


def _ranks_of_tasks(pairs: list[Pair]) -> SignificanceTest:
    from scipy.special import ndtr

    centred, variances = zip(*map(_rank_moments, pairs), strict=True)
    # Where every task is all ties there is no variance, and nothing speaks for a difference.
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
    _, where, counts = np.unique(np.concatenate(pair), return_inverse=True, return_counts=True)
    u = _wins(where[:n], counts)
    ties = float((counts.astype(np.float64) ** 3 - counts).sum()) / (total * (total - 1))
    # A whole number over another, so that swapping sides changes the sign and no bit.
    return (2 * u - n * k) / (2 * n * k), (total + 1 - ties) / (12 * n * k)
