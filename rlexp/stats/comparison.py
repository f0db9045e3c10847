"""One label against another: the difference, its interval, every test and every effect size."""

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
    """Three measures of the same difference, each positive (above ½) where the first is better.

    Attributes:
        cliffs_delta: From -1 to 1.
        vargha_delaney: The chance, from 0 to 1, that a run of the first beats one of the second.
        hedges_g: The difference in standard deviations, or nothing where `reason` says why not.
        reason: Why there is no g, in words.
    """

    cliffs_delta: float
    vargha_delaney: float
    hedges_g: float | None
    reason: str | None = None


def cliffs_delta(x: TaskScores, y: TaskScores) -> float:
    """How much more often a run of x beats one of y than loses to it; mean over tasks.

    Cliff 1993, "Dominance statistics": P(x > y) - P(x < y) over all pairs of runs of a task.

    Raises:
        ValueError: The labels cannot be compared (`tasks_of_both`).
    """
    return float(np.mean([_dominance(pair) for pair in tasks_of_both(x, y)]))


def vargha_delaney(x: TaskScores, y: TaskScores) -> float:
    """The chance that a run of x beats one of y, a tie counting half; mean over tasks.

    Vargha and Delaney 2000, "A critique and improvement of the CL common language effect size
    statistics of McGraw and Wong": A₁₂ = (1 + Cliff's delta) / 2. Over tasks it is the probability
    of improvement of Agarwal et al. 2021.

    Raises:
        ValueError: The labels cannot be compared (`tasks_of_both`).
    """
    return (1 + cliffs_delta(x, y)) / 2


def hedges_g(x: TaskScores, y: TaskScores) -> float | None:
    """The difference in pooled standard deviations, without the bias of few runs.

    Hedges 1981, "Distribution theory for Glass's estimator of effect size", with the exact
    correction Γ(f/2) / (√(f/2) Γ((f-1)/2)). The variance is pooled over both labels within tasks,
    and over tasks, with f degrees of freedom in all.

    Returns:
        Nothing where a task has one run of a label, or all runs of each task are equal.

    Raises:
        ValueError: The labels cannot be compared (`tasks_of_both`).
    """
    pairs = tasks_of_both(x, y)
    samples = list(chain.from_iterable(pairs))
    if no_spread(samples):
        return None
    freedom = sum(len(sample) - 1 for sample in samples)
    # By task first, so that swapping sides changes no bit.
    squares = sum((len(a) - 1) * variance(a) + (len(b) - 1) * variance(b) for a, b in pairs)
    if not squares > 0:
        return None
    return mean_difference(pairs) / sqrt(squares / freedom) * _correction(freedom)


def effect_size(x: TaskScores, y: TaskScores) -> EffectSize:
    """All measures of how far x is above y.

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
    return (wins - losses) / (len(a) * len(b))


def _correction(freedom: int) -> float:
    return exp(lgamma(freedom / 2) - lgamma((freedom - 1) / 2) - log(freedom / 2) / 2)


WELCH_TOO = "with unequal numbers of runs Welch's test must agree"


class PrimaryTest(StrEnum):
    """The one test whose p-value decides, declared before the scores are seen."""

    PERMUTATION = "permutation"
    WELCH = "welch"
    MANN_WHITNEY = "mann-whitney"


@dataclass(frozen=True, slots=True, kw_only=True)
class Comparison:
    """What the scores say about the first label against the second.

    Attributes:
        difference: First minus second, mean over tasks of the difference of task means, with its
            (stratified) Welch t interval of the level of the resampling.
        permutation: Permutation test of that difference.
        welch: (Stratified) Welch t test of that difference.
        mann_whitney: (Stratified) rank test.
        effect: Effect sizes.
        equivalence: Test that the difference lies within the margin, where one was declared.
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
        """Whether at least one task has two runs of each label: without them nothing is tested."""
        return any(min(both) > 1 for both in zip(*self.sizes, strict=True))

    @property
    def fewest(self) -> int:
        """Runs of the label and task that has the fewest."""
        return min(map(min, self.sizes))

    def test(self, primary: PrimaryTest) -> SignificanceTest:
        """The test of this name."""
        return {
            PrimaryTest.PERMUTATION: self.permutation,
            PrimaryTest.WELCH: self.welch,
            PrimaryTest.MANN_WHITNEY: self.mann_whitney,
        }[primary]

    def deciding(self, primary: PrimaryTest) -> SignificanceTest:
        """The test that decides: the primary one, and Welch's beside it where that is needed.

        Permuting the runs of labels that spread differently does not hold the level where their
        numbers differ: 28 % instead of 5 % where 5 runs stand against 20 that spread a fifth as
        much, and still 8 % with a studentised difference, where Welch's test has 5 %. There the
        p-value is the larger of both, so that a difference is found only where both
        find it, and wrongly no more often than by either.

        Returns:
            The test of this name; with unequal numbers of runs of the labels on a task, the
            permutation test with the larger p-value, or none where Welch's is not possible.
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
        """Above 0 where the primary test speaks for the first label, below 0 for the second."""
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
) -> Comparison:
    """Compare two labels on the tasks that both have.

    On several tasks pass normalised scores: the difference is a mean over tasks.

    Args:
        x: Scores of the first label.
        y: Of the second, on the same tasks in the same order; as many runs as there are.
        resampling: Seed and repetitions of the permutation test, and level of the interval.
        alpha: Level of the tests.
        margin: The largest difference that does not matter, in units of the scores.

    Raises:
        ValueError: The labels cannot be compared (`tasks_of_both`), alpha is no level, or the
            margin is not above 0.
    """
    return comparisons([(x, y)], resampling, alpha=alpha, margin=margin)[0]


def comparisons(
    pairs: Sequence[tuple[TaskScores, TaskScores]],
    resampling: Resampling,
    *,
    alpha: float = 0.05,
    margin: float | None = None,
    furthest: Sequence[float | None] | None = None,
) -> tuple[Comparison, ...]:
    """Compare every pair of labels, to the bit as alone; many take little longer than one.

    Args:
        pairs: As `compare` takes one.
        resampling: Of the permutation tests, and level of the intervals.
        alpha: Level of the tests.
        margin: The largest difference that does not matter, in units of the scores.
        furthest: The largest difference that is possible, of each pair, beyond which no interval
            goes; nothing where it is not known.

    Raises:
        ValueError: As `compare`.
    """
    check_levels(alpha)
    return tuple(
        Comparison(
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
    """The difference with its interval, neither end of it further than is possible."""
    least = None if furthest is None else -furthest
    return limited(difference_interval(x, y, level=level), least, furthest)
