"""Comparison of two labels: the difference of a metric, all tests and all effect sizes.

The tests are Welch's t test, the Mann–Whitney test and a permutation test.
"""

from dataclasses import dataclass, replace
from functools import lru_cache
from math import comb, exp, lgamma, log, sqrt

import numpy as np
from numpy.typing import NDArray

from rlexp.stats.interval import Interval, limited
from rlexp.stats.pairs.difference import (
    TOO_LITTLE_SPREAD,
    Difference,
    Pair,
    estimate_difference,
    estimate_metric_difference,
    t_interval,
    tasks_of_both,
)
from rlexp.stats.pairs.equivalence import EquivalenceTest, equivalence_test
from rlexp.stats.pairs.permutation import PermutationDistribution
from rlexp.stats.pairs.test_inversion import DifferenceTest, t_test
from rlexp.stats.task_scores import TaskScores

UNEQUAL_RUNS = "with unequal numbers of runs Welch's test must agree"
UNEQUAL_SPREADS = "with unequal spreads Welch's test must agree"


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


@dataclass(frozen=True, slots=True, kw_only=True)
class EffectSize:
    """Three effect sizes of one difference, larger where the first label is better.

    Attributes:
        cliffs_delta: From -1 to 1; 0 means no difference.
        vargha_delaney: Probability that a run of the first label beats a run of the second; ½
            means no difference.
        hedges_g: Difference in standard deviations; None if it cannot be computed.
        reason: Why there is no g.
    """

    cliffs_delta: float
    vargha_delaney: float
    hedges_g: float | None
    reason: str | None = None


def cliffs_delta(x: TaskScores, y: TaskScores) -> float:
    """Cliff's delta: P(x > y) - P(x < y) over all pairs of runs of a task, mean over tasks.

    Cliff 1993, "Dominance statistics: Ordinal analyses to answer ordinal questions".

    Raises:
        ValueError: The labels cannot be compared (`tasks_of_both`).
    """
    return float(np.mean([_dominance(pair) for pair in tasks_of_both(x, y)]))


def vargha_delaney(x: TaskScores, y: TaskScores) -> float:
    """Probability that a run of x beats a run of y; a tie counts half; mean over tasks.

    Vargha and Delaney 2000, "A critique and improvement of the CL common language effect size
    statistics of McGraw and Wong": A₁₂ = (1 + Cliff's delta) / 2. The mean over tasks is the
    probability of improvement of Agarwal et al. 2021.

    Raises:
        ValueError: The labels cannot be compared (`tasks_of_both`).
    """
    return (1 + cliffs_delta(x, y)) / 2


def hedges_g(x: TaskScores, y: TaskScores) -> float | None:
    """Hedges' g: the difference in pooled standard deviations, corrected for small samples.

    Hedges 1981, "Distribution theory for Glass's estimator of effect size", with the exact
    correction Γ(f/2) / (√(f/2) Γ((f-1)/2)). The variance is pooled over labels and tasks, with f
    degrees of freedom in total.

    Returns:
        None if a label has one run on a task, or if all runs of each task are equal.

    Raises:
        ValueError: The labels cannot be compared (`tasks_of_both`).
    """
    means = estimate_difference(x, y)
    return None if means.standard_error is None else _standardised(means, x, y)


def _standardised(means: Difference, x: TaskScores, y: TaskScores) -> float | None:
    """Hedges' g of labels whose difference has a standard error."""
    tasks = list(zip(x.sizes, x.variances, y.sizes, y.variances, strict=True))
    freedom = sum(n + k - 2 for n, _, k, _ in tasks)
    # Sum both labels of a task first: swapping the labels then changes no bit.
    squares = sum((n - 1) * v + (k - 1) * w for n, v, k, w in tasks)
    return means.value / sqrt(squares / freedom) * _correction(freedom) if squares > 0 else None


def effect_size(x: TaskScores, y: TaskScores) -> EffectSize:
    """All effect sizes of x against y.

    Raises:
        ValueError: The labels cannot be compared (`tasks_of_both`).
    """
    return _effect_size(estimate_difference(x, y), x, y)


def _effect_size(means: Difference, x: TaskScores, y: TaskScores) -> EffectSize:
    g = None if means.standard_error is None else _standardised(means, x, y)
    delta = cliffs_delta(x, y)
    return EffectSize(
        cliffs_delta=delta,
        vargha_delaney=(1 + delta) / 2,
        hedges_g=g,
        reason=None if g is not None else means.reason or TOO_LITTLE_SPREAD,
    )


def _dominance(pair: Pair) -> float:
    a, b = pair
    wins = int(np.searchsorted(b, a, side="left").sum())
    losses = int(np.searchsorted(a, b, side="left").sum())
    # A quotient of two integers: swapping the labels changes the sign and no bit.
    return (wins - losses) / (len(a) * len(b))


def _correction(freedom: int) -> float:
    # Γ itself overflows a float for arguments above 171.
    return exp(lgamma(freedom / 2) - lgamma((freedom - 1) / 2) - log(freedom / 2) / 2)


@dataclass(frozen=True, slots=True, kw_only=True)
class PairwiseComparison:
    """All statistics of the first label against the second.

    Attributes:
        difference: The metric of the first label minus that of the second; once the family is
            decided, with the interval that inverts the deciding test at its adjusted level.
        mean_difference: Mean over tasks of the difference of the task means, with its (stratified)
            Welch t interval at the level of the resampling.
        permutation: Permutation test of the difference of the metric.
        deciding: The test that decides: the permutation test, and with unequal numbers of runs
            also Welch's test of the same difference.
        welch: (Stratified) Welch t test of the means.
        mann_whitney: (Stratified) rank test.
        effect: Effect sizes.
        equivalence: Test that the difference is within the margin, if a margin was declared.
        sizes: Runs of each task, of the first label and of the second.
        guard: Why Welch's test must agree with the permutation test; None where it need not.
    """

    difference: Interval
    mean_difference: Interval
    permutation: SignificanceTest
    deciding: SignificanceTest
    welch: SignificanceTest
    mann_whitney: SignificanceTest
    effect: EffectSize
    equivalence: EquivalenceTest | None
    sizes: tuple[tuple[int, ...], tuple[int, ...]]
    guard: str | None = None

    @property
    def replicated(self) -> bool:
        """Whether at least one task has two runs of each label, as every test requires."""
        return any(min(both) > 1 for both in zip(*self.sizes, strict=True))

    @property
    def balanced(self) -> bool:
        """Whether both labels have the same numbers of runs."""
        return self.sizes[0] == self.sizes[1]


def compare(
    test: DifferenceTest,
    distribution: PermutationDistribution,
    *,
    margin: float | None = None,
    furthest: float | None = None,
) -> PairwiseComparison:
    """Compare two labels on the tasks that both have, without the interval of the difference.

    On several tasks pass normalised scores: the difference is a mean over tasks.

    Args:
        test: The test of the pair.
        distribution: The permutation distribution of the pair.
        margin: The largest difference that does not matter, in units of the scores.
        furthest: The largest possible difference, at which intervals are cut; None if unknown.

    Raises:
        ValueError: The labels cannot be compared (`tasks_of_both`), or the margin is not above 0.
    """
    x, y, level = test.x, test.y, test.resampling.level
    least = None if furthest is None else -furthest
    guard = None
    if test.guard is not None:
        guard = UNEQUAL_SPREADS if x.sizes == y.sizes else UNEQUAL_RUNS
    permutation, means = _permutation_test(test, distribution), estimate_difference(x, y)
    return PairwiseComparison(
        difference=_without_interval(test),
        mean_difference=limited(t_interval(means, x, y, level), least, furthest),
        permutation=permutation,
        deciding=_guarded(permutation, test.guard, guard) if test.guard and guard else permutation,
        welch=welch_test_of(means, len(x.sizes)),
        mann_whitney=mann_whitney_test(x, y),
        effect=_effect_size(means, x, y),
        equivalence=None if margin is None else _equivalence(test, margin),
        sizes=(x.sizes, y.sizes),
        guard=guard,
    )


def _equivalence(test: DifferenceTest, margin: float) -> EquivalenceTest:
    difference = test.guard or estimate_metric_difference(
        test.x, test.y, test.statistic, test.resampling
    )
    return equivalence_test(difference, margin)


def _permutation_test(
    test: DifferenceTest, distribution: PermutationDistribution
) -> SignificanceTest:
    return SignificanceTest(
        method=f"permutation test ({'Monte Carlo' if distribution.random else 'exact'})",
        p=distribution.p,
        statistic=test.estimate,
        smallest_p=test.smallest_p,
        repetitions=distribution.random,
        seed=test.resampling.seed if distribution.random else None,
    )


def _guarded(
    permutation: SignificanceTest, difference: Difference, guard: str
) -> SignificanceTest:
    """The permutation test, with the p-value of Welch's test where that is larger.

    A permutation test does not keep its level if both the variances and the numbers of runs
    differ: for 5 runs against 20 with a fifth of the standard deviation, its error rate is 28 %
    instead of 5 %, and 8 % with a studentised difference. A difference is significant only if
    both tests agree, so that the error rate is at most that of either test.

    A permutation test of interquartile means has the same fault with equal numbers of runs: with
    spreads of 3 to 1 it errs in 14 % of cases with 20 normal scores each, and in 23 % with bimodal
    ones, for more runs do not help. With Welch's test both are at most 6 %.
    """
    reason = difference.reason and f"{guard}: {difference.reason}"
    p = None if reason else max(permutation.p or 0.0, t_test(difference, 0.0))
    return replace(
        permutation, method=f"{permutation.method} with Welch's test", p=p, reason=reason
    )


def _without_interval(test: DifferenceTest) -> Interval:
    return Interval(
        estimate=test.estimate,
        low=None,
        high=None,
        level=test.resampling.level,
        method="inverted permutation test",
        repetitions=0,
        n=test.x.n + test.y.n,
        tasks=len(test.x.sizes),
    )


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
