"""A comparison has the results of every test's own module, and mirrors if the sides swap."""

from dataclasses import fields
from random import Random

import numpy as np
import pytest
from comparison_cases import (
    Label,
    family_of,
    label,
    two_labels,
    unsorted_label,
)
from hypothesis import given
from hypothesis import strategies as st

from rlexp.stats.aggregate import Negative, Statistic, interquartile_mean, mean, median
from rlexp.stats.interval import Interval
from rlexp.stats.pairs.comparison import (
    UNEQUAL_RUNS,
    UNEQUAL_SPREADS,
    PairwiseComparison,
    SignificanceTest,
    compare,
    effect_size,
    mann_whitney_test,
    welch_test,
)
from rlexp.stats.pairs.difference import (
    difference_interval,
    estimate_difference,
    estimate_metric_difference,
    spreads_differ,
)
from rlexp.stats.pairs.equivalence import equivalence_test
from rlexp.stats.pairs.pairwise_family import decide
from rlexp.stats.pairs.permutation import difference_of, permutation_distribution
from rlexp.stats.pairs.test_inversion import DifferenceTest, t_test
from rlexp.stats.resampling import Resampling
from rlexp.stats.task_scores import TaskScores

FEW = Resampling(seed=5, repetitions=200, level=0.9)
X, Y = label([1.0, 2.0, 4.0], [3.0, 5.0]), label([0.0, 1.0], [2.0, 2.5, 7.0])
STATISTICS = st.sampled_from([mean, interquartile_mean, median])


def compared(
    x: TaskScores,
    y: TaskScores,
    statistic: Statistic = mean,
    margin: float | None = 1.0,
    furthest: float | None = None,
) -> PairwiseComparison:
    """The comparison of two labels, without the interval of the difference."""
    needs_guard = x.sizes != y.sizes or spreads_differ(x, y, statistic)
    test = DifferenceTest(
        x=x,
        y=y,
        statistic=statistic,
        resampling=FEW,
        repetitions=FEW.repetitions,
        guard=estimate_metric_difference(x, y, statistic, FEW) if needs_guard else None,
    )
    distribution = permutation_distribution([x, y], statistic, FEW, FEW.repetitions)
    return compare(test, distribution, margin=margin, furthest=furthest)


def every_test(comparison: PairwiseComparison) -> list[SignificanceTest]:
    """All tests of a comparison."""
    return [
        comparison.permutation,
        comparison.deciding,
        comparison.welch,
        comparison.mann_whitney,
    ]


def test_a_comparison_has_every_part() -> None:
    """A comparison has all tests, with the level of the resampling and the margin."""
    distribution = permutation_distribution([X, Y], mean, FEW, 200)
    welch = welch_test(X, Y)
    permutation = SignificanceTest(
        method="permutation test (exact)",
        p=distribution.p,
        statistic=difference_of(X, Y, mean),
        smallest_p=1 / 100,
    )
    comparison = compared(X, Y)
    # By hand: the task means are 7/3 and 4, and 1/2 and 11.5/3.
    assert (7 / 3 - 0.5 + 4 - 11.5 / 3) / 2 == pytest.approx(permutation.statistic)
    assert comparison == PairwiseComparison(
        difference=Interval(
            estimate=difference_of(X, Y, mean),
            low=None,
            high=None,
            level=0.9,
            method="inverted permutation test",
            repetitions=0,
            n=10,
            tasks=2,
        ),
        mean_difference=difference_interval(X, Y, level=0.9),
        permutation=permutation,
        deciding=SignificanceTest(
            method="permutation test (exact) with Welch's test",
            p=max(distribution.p, t_test(estimate_difference(X, Y), 0.0)),
            statistic=permutation.statistic,
            smallest_p=1 / 100,
        ),
        welch=welch,
        mann_whitney=mann_whitney_test(X, Y),
        effect=effect_size(X, Y),
        equivalence=equivalence_test(estimate_difference(X, Y), 1.0),
        sizes=((3, 2), (2, 3)),
        guard=UNEQUAL_RUNS,
    )


def test_without_a_margin_there_is_no_equivalence() -> None:
    """Without a margin no test of equivalence is made."""
    assert compared(X, Y, margin=None).equivalence is None


def test_with_equal_numbers_of_runs_the_permutation_test_decides_about_means() -> None:
    """With equal numbers of runs on each task, no other test of means must agree."""
    comparison = compared(label([1.0, 2.0], [3.0, 4.0, 9.0]), label([5.0, 7.0], [1.0, 2.0, 3.0]))
    assert comparison.permutation == comparison.deciding
    assert comparison.guard is None
    assert UNEQUAL_RUNS == compared(X, Y).guard
    assert comparison.balanced
    assert not compared(X, Y).balanced


def test_with_unequal_spreads_welchs_test_must_agree_about_other_metrics() -> None:
    """Welch's test must agree if the spreads are 2 to 1 or more, and the metric is not the mean."""
    x, y = label(np.arange(7.0)), label(2 * np.arange(7.0))
    nearly = label(1.9 * np.arange(7.0))
    assert compared(x, y).guard is None
    assert compared(x, nearly, interquartile_mean).guard is None
    for both in ((x, y), (y, x)):
        guarded = compared(both[0], both[1], interquartile_mean)
        assert UNEQUAL_SPREADS == guarded.guard
        assert "permutation test (exact) with Welch's test" == guarded.deciding.method
        welch = t_test(estimate_metric_difference(x, y, interquartile_mean, FEW), 0.0)
        assert max(guarded.permutation.p or 0.0, welch) == guarded.deciding.p


@pytest.mark.parametrize(
    ("x", "y", "replicated"),
    [
        ([[1.0]], [[1.0]], False),
        ([[1.0]], [[1.0, 2.0]], False),
        ([[1.0], [1.0, 2.0]], [[1.0, 2.0], [3.0]], False),
        ([[1.0], [1.0, 2.0]], [[1.0], [3.0, 4.0]], True),
        ([[1.0, 2.0]], [[1.0, 2.0, 3.0]], True),
    ],
)
def test_two_runs_of_a_task_are_replicated(x: Label, y: Label, replicated: bool) -> None:
    """A comparison is replicated if a task has two runs or more of both labels."""
    assert replicated is compared(label(*x), label(*y)).replicated


def test_the_difference_is_that_of_the_metric() -> None:
    """The estimate is the difference of the declared metric; that of the means stands beside it."""
    x, y = label([0.0, 5.0, 5.0, 6.0]), label([3.0, 4.0, 4.0, 25.0])
    comparison = compared(x, y, interquartile_mean)
    assert (1.0, -5.0) == (comparison.difference.estimate, comparison.mean_difference.estimate)
    assert 1.0 == comparison.permutation.statistic
    assert -1.0 == compared(x, y, Negative(interquartile_mean)).difference.estimate


@pytest.mark.parametrize("value", [0.1, 1e6 / 3, -7.7])
@pytest.mark.parametrize("statistic", [mean, interquartile_mean, median])
def test_equal_scores_differ_by_exactly_nothing(value: float, statistic: Statistic) -> None:
    """Rounding in the metric of equal scores does not look like a difference."""
    x, y = label([value] * 3, [value] * 5), label([value] * 7, [value] * 6)
    assert 0.0 == compared(x, y, statistic).difference.estimate


def test_the_interval_of_the_means_is_cut_at_the_largest_difference() -> None:
    """The interval of the means ends at the largest possible difference."""
    x, y = label([0.0, 9.0, 5.0]), label([1.0, 8.0, 6.0])
    interval = compared(x, y, furthest=3.0).mean_difference
    assert (-3.0, 3.0) == (interval.low, interval.high)


@given(two_labels(), STATISTICS, st.randoms())
def test_the_order_of_the_runs_does_not_matter(
    both: tuple[Label, Label], statistic: Statistic, random: Random
) -> None:
    """Runs in another order give the same comparison to the last bit."""
    x, y = map(unsorted_label, both)
    v, w = (unsorted_label([random.sample(task, len(task)) for task in side]) for side in both)
    assert compared(x, y, statistic) == compared(v, w, statistic)


@given(two_labels(), STATISTICS)
def test_swapping_sides_mirrors_everything(
    both: tuple[Label, Label], statistic: Statistic
) -> None:
    """Swapping the labels changes the sign of differences, and changes no p-value."""
    x, y = (label(*side) for side in both)
    forward, swapped = compared(x, y, statistic), compared(y, x, statistic)
    assert forward.difference.estimate == -swapped.difference.estimate
    assert forward.mean_difference.estimate == -swapped.mean_difference.estimate
    if forward.mean_difference.low is not None and swapped.mean_difference.high is not None:
        assert forward.mean_difference.low == -swapped.mean_difference.high
    assert forward.effect.cliffs_delta == -swapped.effect.cliffs_delta
    assert forward.sizes == swapped.sizes[::-1]
    assert [test.p for test in every_test(forward)] == [test.p for test in every_test(swapped)]
    assert forward.equivalence is not None
    assert swapped.equivalence is not None
    assert forward.equivalence.p == swapped.equivalence.p


@given(two_labels(), STATISTICS)
def test_no_number_is_nan(both: tuple[Label, Label], statistic: Statistic) -> None:
    """A value that cannot be computed is missing with a reason, and is never NaN."""
    comparison = compared(label(*both[0]), label(*both[1]), statistic)
    for part in (
        comparison.difference,
        comparison.mean_difference,
        *every_test(comparison),
        comparison.effect,
        comparison.equivalence,
    ):
        assert part is not None
        values = [getattr(part, field.name) for field in fields(part)]
        assert all(np.isfinite(value) for value in values if isinstance(value, float))
    for test in every_test(comparison):
        assert (test.p is None) == (test.reason is not None)


@given(two_labels(2), STATISTICS)
def test_a_decided_comparison_has_an_interval_or_a_reason(
    both: tuple[Label, Label], statistic: Statistic
) -> None:
    """Beside both ends or a reason there is nothing: no half interval, no NaN."""
    runs = [len(task) for side in both for task in side]
    labels = [label(*side) for side in both]
    if sum(runs) <= 12:
        interval = decide(family_of(labels, statistic))[0].comparison.difference
        assert (interval.low is None) == (interval.high is None) == (interval.reason is not None)
        numbers = [interval.estimate, interval.low or 0.0, interval.high or 0.0]
        assert np.isfinite(numbers).all()


def test_the_largest_scores_can_be_compared() -> None:
    """Scores up to 1e100 are compared without overflow."""
    x, y = label([1e100, 9e99, 8e99, 7e99]), label([-1e100, -9e99, -8e99, -7e99])
    (member,) = decide(family_of([x, y]))
    assert 2 / 70 == pytest.approx(member.adjusted_p)
    assert member.comparison.difference.low is not None
