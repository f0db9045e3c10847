"""Comparison of two labels: the difference with its interval, all tests and all effect sizes."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from enum import StrEnum
from itertools import chain
from math import exp, lgamma, log, sqrt

import numpy as np

from rlexp.stats.difference import (
    TOO_LITTLE_SPREAD,
    Pair,
    difference_interval,
    mean_difference,
    no_spread,
    tasks_of_both,
    variance,
)
from rlexp.stats.equivalence import EquivalenceTest, equivalence_test
from rlexp.stats.hypothesis_tests import (
    SignificanceTest,
    mann_whitney_test,
    welch_test,
)
from rlexp.stats.interval import Interval, limited
from rlexp.stats.permutation import permutation_tests
from rlexp.stats.power import check_levels
from rlexp.stats.resampling import Resampling
from rlexp.stats.task_scores import TaskScores


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
    pairs = tasks_of_both(x, y)
    samples = list(chain.from_iterable(pairs))
    if no_spread(samples):
        return None
    freedom = sum(len(sample) - 1 for sample in samples)
    # Sum both labels of a task first: swapping the labels then changes no bit.
    squares = sum((len(a) - 1) * variance(a) + (len(b) - 1) * variance(b) for a, b in pairs)
    if not squares > 0:
        return None
    return mean_difference(pairs) / sqrt(squares / freedom) * _correction(freedom)


def effect_size(x: TaskScores, y: TaskScores) -> EffectSize:
    """All effect sizes of x against y.

    Raises:
        ValueError: The labels cannot be compared (`tasks_of_both`).
    """
    g = hedges_g(x, y)
    samples = list(chain.from_iterable(tasks_of_both(x, y)))
    return EffectSize(
        cliffs_delta=cliffs_delta(x, y),
        vargha_delaney=vargha_delaney(x, y),
        hedges_g=g,
        reason=None if g is not None else no_spread(samples) or TOO_LITTLE_SPREAD,
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


WELCH_TOO = "with unequal numbers of runs Welch's test must agree"


class PrimaryTest(StrEnum):
    """The one test whose p-value decides, declared before the scores are seen."""

    PERMUTATION = "permutation"
    WELCH = "welch"
    MANN_WHITNEY = "mann-whitney"


@dataclass(frozen=True, slots=True, kw_only=True)
class PairwiseComparison:
    """All statistics of the first label against the second.

    Attributes:
        difference: First minus second: mean over tasks of the difference of the task means, with
            its (stratified) Welch t interval at the level of the resampling.
        permutation: Permutation test of that difference.
        welch: (Stratified) Welch t test of that difference.
        mann_whitney: (Stratified) rank test.
        effect: Effect sizes.
        equivalence: Test that the difference is within the margin, if a margin was declared.
        sizes: Runs of each task, of the first label and of the second.
        alpha: Level of the tests.
    """

    difference: Interval
    permutation: SignificanceTest
    welch: SignificanceTest
    mann_whitney: SignificanceTest
    effect: EffectSize
    equivalence: EquivalenceTest | None
    sizes: tuple[tuple[int, ...], tuple[int, ...]]
    alpha: float

    @property
    def replicated(self) -> bool:
        """Whether at least one task has two runs of each label, as every test requires."""
        return any(min(both) > 1 for both in zip(*self.sizes, strict=True))

    @property
    def fewest(self) -> int:
        """Smallest number of runs of a label on a task."""
        return min(map(min, self.sizes))

    def test(self, primary: PrimaryTest) -> SignificanceTest:
        """The result of the named test."""
        return {
            PrimaryTest.PERMUTATION: self.permutation,
            PrimaryTest.WELCH: self.welch,
            PrimaryTest.MANN_WHITNEY: self.mann_whitney,
        }[primary]

    def deciding(self, primary: PrimaryTest) -> SignificanceTest:
        """The test that decides: the primary test, in some cases together with Welch's test.

        A permutation test does not keep its level if both the variances and the numbers of runs
        differ: for 5 runs against 20 with a fifth of the standard deviation, its error rate is
        28 % instead of 5 %. A studentised difference would still have 8 %, Welch's test has 5 %.
        In this case the larger p-value of the two tests decides: a difference is significant only
        if both tests agree, so that the error rate is at most that of either test.

        Returns:
            The result of the named test. For the permutation test with unequal numbers of runs:
            the result with the larger p-value, or without one if Welch's test is not possible.
        """
        test = self.test(primary)
        if primary is not PrimaryTest.PERMUTATION or self.sizes[0] == self.sizes[1]:
            return test
        both = test.p, self.welch.p
        return replace(
            test,
            method=f"{test.method} with {self.welch.method}",
            p=None if None in both else max(p for p in both if p is not None),
            reason=None if self.welch.reason is None else f"{WELCH_TOO}: {self.welch.reason}",
        )

    def direction(self, primary: PrimaryTest) -> float:
        """A number above 0 if the primary test favours the first label, below 0 if the second."""
        if primary is PrimaryTest.MANN_WHITNEY:
            return self.effect.cliffs_delta
        return self.difference.estimate


def compare(
    x: TaskScores,
    y: TaskScores,
    resampling: Resampling,
    *,
    alpha: float = 0.05,
    margin: float | None = None,
) -> PairwiseComparison:
    """Compare two labels on the tasks that both have.

    On several tasks pass normalised scores: the difference is a mean over tasks.

    Args:
        x: Scores of the first label.
        y: Scores of the second label, on the same tasks in the same order.
        resampling: Seed and repetitions of the permutation test, and level of the interval.
        alpha: Level of the tests.
        margin: The largest difference that does not matter, in units of the scores.

    Raises:
        ValueError: The labels cannot be compared (`tasks_of_both`), alpha is not between 0 and 1,
            or the margin is not above 0.
    """
    return comparisons([(x, y)], resampling, alpha=alpha, margin=margin)[0]


def comparisons(
    pairs: Sequence[tuple[TaskScores, TaskScores]],
    resampling: Resampling,
    *,
    alpha: float = 0.05,
    margin: float | None = None,
    furthest: Sequence[float | None] | None = None,
) -> tuple[PairwiseComparison, ...]:
    """Compare every pair of labels, with the same numbers as `compare` gives for each pair.

    The pairs share their random relabellings, so that many pairs take little longer than one.

    Args:
        pairs: Scores of the first and the second label of each pair.
        resampling: Seed and repetitions of the permutation tests, and level of the intervals.
        alpha: Level of the tests.
        margin: The largest difference that does not matter, in units of the scores.
        furthest: The largest possible difference of each pair, at which intervals are cut; None
            where it is not known.

    Raises:
        ValueError: As in `compare`.
    """
    check_levels(alpha)
    return tuple(
        PairwiseComparison(
            difference=_difference(x, y, resampling.level, far),
            permutation=permutation,
            welch=welch_test(x, y),
            mann_whitney=mann_whitney_test(x, y),
            effect=effect_size(x, y),
            equivalence=None if margin is None else equivalence_test(x, y, margin),
            sizes=(x.sizes, y.sizes),
            alpha=alpha,
        )
        for (x, y), permutation, far in zip(
            pairs,
            permutation_tests(pairs, resampling),
            furthest or [None] * len(pairs),
            strict=True,
        )
    )


def _difference(x: TaskScores, y: TaskScores, level: float, furthest: float | None) -> Interval:
    """The difference with its interval, cut to the possible differences."""
    least = None if furthest is None else -furthest
    return limited(difference_interval(x, y, level=level), least, furthest)
