"""A family of pairs of labels, with p-values adjusted for multiple comparisons."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from enum import StrEnum
from functools import cached_property
from math import ceil

import numpy as np
from numpy.typing import ArrayLike, NDArray

from rlexp.stats.aggregate import Statistic, capped, without_cap
from rlexp.stats.block_threads import worthwhile_threads
from rlexp.stats.interval import limited
from rlexp.stats.pairs.closed_testing import (
    Pair,
    closed_p_values,
    group_distributions,
    stretch_p_values,
)
from rlexp.stats.pairs.comparison import PairwiseComparison, compare
from rlexp.stats.pairs.difference import estimate_metric_difference, spreads_differ
from rlexp.stats.pairs.permutation import (
    FEWEST_RANDOM,
    PermutationDistribution,
    pair_distributions,
    random_relabellings,
)
from rlexp.stats.pairs.ranked_relabellings import PairQuestion, answers, is_linear
from rlexp.stats.pairs.reach import Correction, correction_of, smallest_adjusted_p
from rlexp.stats.pairs.test_inversion import (
    TOGETHER_FROM,
    DifferenceTest,
    Ends,
    IntervalQuestion,
    intervals_of,
)
from rlexp.stats.resampling import Resampling
from rlexp.stats.task_scores import TaskScores


def holm(p_values: ArrayLike) -> NDArray[np.float64]:
    """Step-down adjustment that controls the family-wise error rate under any dependence.

    Holm 1979, "A simple sequentially rejective multiple test procedure": the i-th smallest of k
    p-values is multiplied by k - i + 1, and adjusted p-values keep the order of the p-values.

    Args:
        p_values: Of shape (k,).

    Returns:
        Adjusted p-values in the given order, of shape (k,), at most 1.

    Raises:
        ValueError: A value is not a probability.
    """
    p = _checked(p_values)
    order = np.argsort(p, kind="stable")
    steps = np.maximum.accumulate(p[order] * np.arange(len(p), 0, -1))
    return _restored(steps, order)


def _checked(p_values: ArrayLike) -> NDArray[np.float64]:
    p = np.asarray(p_values, dtype=np.float64)
    if p.ndim != 1 or not ((p >= 0) & (p <= 1)).all():
        raise ValueError(
            "p-values must be a list of numbers from 0 to 1: "
            "leave out a test that was not possible, or give it p = 1"
        )
    return p


def _restored(steps: NDArray[np.float64], order: NDArray[np.intp]) -> NDArray[np.float64]:
    adjusted = np.empty_like(steps)
    adjusted[order] = np.minimum(steps, 1)
    return adjusted


class Verdict(StrEnum):
    """Decision about the first label of a pair, against the second."""

    BETTER = "better"
    WORSE = "worse"
    EQUIVALENT = "equivalent"
    UNDECIDED = "undecided"


@dataclass(frozen=True, slots=True, kw_only=True)
class FamilyMember:
    """One pair of a family, with its adjusted p-values.

    Attributes:
        comparison: All tests and effect sizes of the pair.
        correction: How the p-value of the deciding test is adjusted.
        pairs: Number of pairs of the family.
        labels: Number of labels of the family.
        alpha: Family-wise level.
        adjusted_p: Adjusted p-value of the deciding test; None if the test was not possible.
        adjusted_smallest_p: Smallest adjusted p-value that the numbers of runs allow.
        adjusted_equivalence_p: p-value of the test of equivalence, adjusted by Holm; None if no
            margin was declared or the test was not possible.
    """

    comparison: PairwiseComparison
    correction: Correction
    pairs: int
    labels: int
    alpha: float
    adjusted_p: float | None
    adjusted_smallest_p: float
    adjusted_equivalence_p: float | None

    @property
    def different(self) -> bool:
        """Whether the deciding test rejects equality."""
        return self.adjusted_p is not None and self.adjusted_p <= self.alpha

    @property
    def out_of_reach(self) -> bool:
        """Whether the numbers of runs are too small for any scores to show a difference."""
        return self.adjusted_smallest_p > self.alpha

    @property
    def verdict(self) -> Verdict:
        """The decision on the pair; equivalence takes precedence over a difference."""
        # A difference within the margin can be significant and still too small to matter.
        if self.adjusted_equivalence_p is not None and self.adjusted_equivalence_p <= self.alpha:
            return Verdict.EQUIVALENT
        if not self.different or self.comparison.difference.estimate == 0:
            return Verdict.UNDECIDED
        return Verdict.BETTER if self.comparison.difference.estimate > 0 else Verdict.WORSE


# Without slots: the number of labels is computed once.
@dataclass(frozen=True, kw_only=True)
class Family:
    """Pairs of labels that are decided together.

    Attributes:
        pairs: Scores of the first and the second label of each pair.
        members: Numbers of both labels of each pair, if the pairs are all pairs of labels on the
            same tasks; None if pairs are compared on different tasks.
        statistic: The metric that is compared.
        resampling: Seed and repetitions of random relabellings, and level of intervals of means.
        alpha: Family-wise level.
        margin: The largest difference that does not matter, in units of the scores.
        furthest: The largest possible difference of each pair; None where it is not known.
        intervals: Whether differences get the interval that inverts their test. It takes most of
            the time and changes no verdict.
    """

    pairs: Sequence[tuple[TaskScores, TaskScores]]
    members: Sequence[Pair] | None
    statistic: Statistic
    resampling: Resampling
    alpha: float = 0.05
    margin: float | None = None
    furthest: Sequence[float | None] | None = None
    intervals: bool = True

    @cached_property
    def labels(self) -> int:
        """Number of labels; two for a single pair."""
        return max(map(max, self.members)) + 1 if self.members else 2

    @property
    def correction(self) -> Correction:
        """How p-values are adjusted."""
        if len(self.pairs) > 1 and self.members is None:
            return Correction.HOLM
        return correction_of(self.labels)

    def scores(self) -> list[TaskScores]:
        """Scores of each label."""
        assert self.members is not None
        by_number = {
            number: scores
            for numbers, pair in zip(self.members, self.pairs, strict=True)
            for number, scores in zip(numbers, pair, strict=True)
        }
        return [by_number[number] for number in sorted(by_number)]

    def largest_differences(self) -> Sequence[float | None]:
        """The largest possible difference of each pair; None where it is not known."""
        return self.furthest or [None] * len(self.pairs)

    def without_cap(self) -> "Family":
        """The same family with capped scores and a metric without a cap, which moves with them."""
        statistic, cap = without_cap(self.statistic)
        if cap is None:
            return self
        pairs = [(capped(x, cap), capped(y, cap)) for x, y in self.pairs]
        return replace(self, pairs=pairs, statistic=statistic)


def decide(family: Family) -> list[FamilyMember]:
    """The pairs of a family, with adjusted p-values and, if asked for, intervals that agree.

    A pair that cannot be tested has no p-value, and counts in the adjustment as a pair with p = 1.

    Raises:
        ValueError: Labels of a pair cannot be compared (`tasks_of_both`), or the margin is not
            above 0.
    """
    family = family.without_cap()
    distributions, repetitions = _distributions(family)
    tests = [_test(family, x, y, repetitions) for x, y in family.pairs]
    furthest = family.largest_differences()
    compared = [
        compare(test, distribution, margin=family.margin, furthest=far)
        for test, distribution, far in zip(
            tests, _of_pairs(family, distributions), furthest, strict=True
        )
    ]
    adjusted = _adjusted(family, compared, distributions)
    within = _by_holm([c.equivalence.p if c.equivalence else None for c in compared])
    members = [
        FamilyMember(
            comparison=comparison,
            correction=family.correction,
            pairs=len(compared),
            labels=family.labels,
            alpha=family.alpha,
            adjusted_p=p,
            adjusted_smallest_p=_floor(family, comparison),
            adjusted_equivalence_p=equivalence_p,
        )
        for comparison, p, equivalence_p in zip(compared, adjusted, within, strict=True)
    ]
    if not family.intervals:
        return members
    return _with_intervals(members, tests, furthest)


def _test(family: Family, x: TaskScores, y: TaskScores, repetitions: int) -> DifferenceTest:
    statistic, resampling = family.statistic, family.resampling
    # A permutation test alone does not keep its level there.
    needs_guard = x.sizes != y.sizes or spreads_differ(x, y, statistic)
    guard = estimate_metric_difference(x, y, statistic, resampling) if needs_guard else None
    return DifferenceTest(
        x=x,
        y=y,
        statistic=statistic,
        resampling=resampling,
        repetitions=repetitions,
        guard=guard,
    )


Distributions = Mapping[tuple[int, ...], PermutationDistribution]


def _distributions(family: Family) -> tuple[Distributions, int]:
    """Distributions by numbers of the labels (of pairs without numbers: by position)."""
    if family.correction is Correction.CLOSED:
        return group_distributions(family.scores(), family.statistic, family.resampling)
    runs = sum(x.n + y.n for x, y in family.pairs)
    least = 2 * ceil(len(family.pairs) / family.alpha)
    if family.correction is Correction.STRETCHES:
        least = ceil(family.labels / family.alpha)
    repetitions = random_relabellings(runs, family.resampling, least)
    distributions = _tested_together(family, repetitions)
    others = [position for position in range(len(family.pairs)) if position not in distributions]
    pairs = [family.pairs[position] for position in others]
    computed = pair_distributions(pairs, family.statistic, family.resampling, repetitions)
    distributions |= dict(zip(others, computed, strict=True))
    return {(position,): distributions[position] for position in range(len(family.pairs))}, (
        repetitions
    )


def _tested_together(family: Family, repetitions: int) -> dict[int, PermutationDistribution]:
    """The distributions of many pairs with the same numbers of runs, by their positions.

    They have the p-values of `pair_distributions`; other values are missing in them.
    """
    alike: dict[tuple[tuple[int, ...], ...], list[int]] = {}
    for position, (x, y) in enumerate(family.pairs):
        if is_linear((x, y), family.statistic):
            alike.setdefault((x.sizes, y.sizes), []).append(position)
    distributions: dict[int, PermutationDistribution] = {}
    for positions in alike.values():
        if len(positions) >= TOGETHER_FROM:
            pairs = [family.pairs[position] for position in positions]
            threads = worthwhile_threads(repetitions * sum(x.n + y.n for x, y in pairs))
            questions = [PairQuestion(pair, alpha=None) for pair in pairs]
            tested = answers(questions, family.statistic, family.resampling, repetitions, threads)
            distributions |= zip(positions, tested, strict=True)
    return distributions


def _of_pairs(family: Family, distributions: Distributions) -> list[PermutationDistribution]:
    if family.correction is Correction.CLOSED and family.members:
        return [distributions[tuple(sorted(pair))] for pair in family.members]
    return list(distributions.values())


def _adjusted(
    family: Family, compared: Sequence[PairwiseComparison], distributions: Distributions
) -> list[float | None]:
    """p-values of the deciding tests, adjusted by the family's correction."""
    p_values = [c.deciding.p if c.replicated else None for c in compared]
    if family.correction in {Correction.NONE, Correction.HOLM} or family.members is None:
        return _by_holm(p_values)
    pairs = [(min(pair), max(pair)) for pair in family.members]
    counted = {pair: 1.0 if p is None else p for pair, p in zip(pairs, p_values, strict=True)}
    if family.correction is Correction.CLOSED:
        adjusted = closed_p_values(distributions, counted)
    else:
        adjusted = stretch_p_values(family.scores(), family.statistic, family.resampling, counted)
    if not all(c.balanced for c in compared):
        # The permutation tests of three labels or more have no guard: Holm's adjustment of the
        # guarded p-values takes its place.
        guarded = _by_holm([counted[pair] for pair in pairs])
        adjusted = {
            pair: max(adjusted[pair], p or 0) for pair, p in zip(pairs, guarded, strict=True)
        }
    return [None if p is None else adjusted[pair] for pair, p in zip(pairs, p_values, strict=True)]


def _floor(family: Family, comparison: PairwiseComparison) -> float:
    """The smallest adjusted p-value that a pair with these numbers of runs can have."""
    p = comparison.deciding.smallest_p if comparison.replicated else 1.0
    return smallest_adjusted_p(p, family.correction, len(family.pairs), family.labels)


def _with_intervals(
    members: Sequence[FamilyMember],
    tests: Sequence[DifferenceTest],
    furthest: Sequence[float | None],
) -> list[FamilyMember]:
    """The pairs with their intervals, computed together: no pair changes a bit of another one."""
    questions = {
        position: question
        for position, (member, test) in enumerate(zip(members, tests, strict=True))
        if (question := _question(member, test)) is not None
    }
    drawn_runs = FEWEST_RANDOM * sum(test.x.n + test.y.n for test in tests)
    computed = intervals_of(list(questions.values()), worthwhile_threads(drawn_runs))
    ends = dict(zip(questions, computed, strict=True))
    return [
        _with_interval(member, questions.get(position), ends.get(position), far)
        for position, (member, far) in enumerate(zip(members, furthest, strict=True))
    ]


def _question(member: FamilyMember, test: DifferenceTest) -> IntervalQuestion | None:
    """The question for the interval that inverts a test at its adjusted level, if there is one."""
    p, adjusted = member.comparison.deciding.p, member.adjusted_p
    if p is None or adjusted is None or member.out_of_reach:
        return None
    # At this level the test of the pair alone rejects if and only if the family rejects.
    alpha = member.alpha * (p / adjusted if adjusted > p else 1.0)
    if p > test.smallest_p > alpha:
        # A smaller level would exclude nothing; at this one, 0 is not excluded either.
        alpha = test.smallest_p
    return IntervalQuestion(test, alpha, rejected=adjusted <= member.alpha)


def _with_interval(
    member: FamilyMember,
    question: IntervalQuestion | None,
    ends: Ends | None,
    furthest: float | None,
) -> FamilyMember:
    """The pair with its interval, or with the reason why there is none."""
    comparison = member.comparison
    if comparison.deciding.p is None or member.adjusted_p is None:
        difference = replace(
            comparison.difference,
            reason=comparison.deciding.reason or comparison.mean_difference.reason,
        )
    elif question is None or ends is None:
        difference = replace(
            comparison.difference,
            reason=f"the smallest possible p-value, {member.adjusted_smallest_p:.3g}, is above "
            f"{member.alpha:g}: no difference can be excluded",
        )
    else:
        low, high = (None, None) if isinstance(ends, str) else ends
        difference = replace(
            comparison.difference,
            low=low,
            high=high,
            level=1 - question.alpha,
            repetitions=comparison.permutation.repetitions,
            seed=comparison.permutation.seed,
            reason=ends if isinstance(ends, str) else None,
        )
    least = None if furthest is None else -furthest
    shown = replace(comparison, difference=limited(difference, least, furthest))
    return replace(member, comparison=shown)


def _by_holm(p_values: Sequence[float | None]) -> list[float | None]:
    """p-values adjusted by Holm; a missing p-value counts as 1 and stays missing."""
    adjusted = holm([1.0 if p is None else p for p in p_values])
    return [None if p is None else float(a) for p, a in zip(p_values, adjusted, strict=True)]
