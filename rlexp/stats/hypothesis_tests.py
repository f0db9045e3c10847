"""Tests of whether two labels differ: Welch, Mann–Whitney, and permutation of the labels."""

from dataclasses import dataclass
from functools import reduce
from math import comb, prod, sqrt

import numpy as np
from numpy.typing import NDArray

from rlexp.stats.difference import Pair, estimate_difference, mean_difference, tasks_of_both
from rlexp.stats.resampling import Resampling
from rlexp.stats.task_scores import TaskScores

EXACT_RELABELLINGS = 50_000
"""With more of them, a permutation test draws at random instead of looking at each."""


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
    from scipy.stats import mannwhitneyu

    a, b = pair
    pool = np.concatenate(pair)
    exact = min(len(a), len(b)) <= 8 and len(np.unique(pool)) == len(pool)
    statistic, p = mannwhitneyu(a, b, method="exact" if exact else "asymptotic")
    return SignificanceTest(
        method=f"Mann–Whitney U test ({'exact' if exact else 'asymptotic'})",
        p=min(float(p), 1.0),
        statistic=float(statistic),
        smallest_p=2 / comb(len(pool), len(a)) if exact else 0.0,
    )


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
    midranks = np.cumsum(counts) - (counts - 1) / 2
    u = float(midranks[where[:n]].sum()) - n * (n + 1) / 2
    ties = float((counts.astype(np.float64) ** 3 - counts).sum()) / (total * (total - 1))
    # A whole number over another, so that swapping sides changes the sign and no bit.
    return (2 * u - n * k) / (2 * n * k), (total + 1 - ties) / (12 * n * k)


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
    observed = mean_difference(tasks_of_both(x, y))
    # The higher side first, so that swapping sides looks at the same relabellings.
    swapped = observed < 0 or (observed == 0 and x.sizes > y.sizes)
    pairs = tasks_of_both(y, x) if swapped else tasks_of_both(x, y)
    exact = relabellings(x, y) <= EXACT_RELABELLINGS
    differences = _every_difference(pairs) if exact else _random_differences(pairs, resampling)
    # Sums in another order differ in their last bits: what is as extreme must count as such.
    slack = 1e-11 * float(np.mean([_range(pair) for pair in pairs]))
    extreme = int((differences >= abs(observed) - slack).sum()) + (not exact)
    p = min(2 * extreme / (len(differences) + (not exact)), 1.0)
    return SignificanceTest(
        method=f"permutation test ({'exact' if exact else 'Monte Carlo'})",
        p=p if abs(observed) > slack else 1.0,
        statistic=observed,
        smallest_p=smallest_permutation_p(x, y, resampling),
        repetitions=0 if exact else resampling.repetitions,
        seed=None if exact else resampling.seed,
    )


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
    sums = [np.zeros(1), *[np.empty(0)] * n]
    for score in pool:
        longer = [np.concatenate((sums[i + 1], sums[i] + score)) for i in range(n)]
        sums = [sums[0], *longer]
    return sums[n]


def _random_differences(pairs: list[Pair], resampling: Resampling) -> NDArray[np.float64]:
    """The statistic of random relabellings, of shape (repetitions,)."""
    total = np.zeros(resampling.repetitions)
    for task, pair in enumerate(pairs):
        pool, n = _pool(pair), len(pair[0])
        sums = _random_sums(pool, n, resampling.repetitions, resampling.generator(task))
        total += _differences(sums, pool, n)
    return total / len(pairs)


def _random_sums(
    pool: NDArray[np.float64], n: int, repetitions: int, generator: np.random.Generator
) -> NDArray[np.float64]:
    """Sums of n runs drawn without replacement (Knuth, TAOCP 2, 3.4.2, algorithm S)."""
    sums, wanted = np.zeros(repetitions), np.full(repetitions, float(n))
    for left, score in zip(range(len(pool), 0, -1), pool, strict=True):
        chosen = generator.random(repetitions) * left < wanted
        sums += chosen * score
        wanted -= chosen
    return sums
