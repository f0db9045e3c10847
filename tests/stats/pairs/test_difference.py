"""The difference of two labels equals golden numbers and values by hand, or has a reason."""

from math import sqrt
from typing import Any

import numpy as np
import pytest
from comparison_cases import (
    Label,
    case_labels,
    label,
    name,
    two_labels,
    two_sample,
    unsorted_label,
)
from hypothesis import given
from hypothesis import strategies as st

from rlexp.stats.aggregate import Aggregate, Negative, Statistic, interquartile_mean, mean, median
from rlexp.stats.pairs.difference import (
    TOO_LITTLE_SPREAD,
    Difference,
    Spread,
    difference_interval,
    estimate_difference,
    estimate_metric_difference,
    spread,
    spreads_differ,
)
from rlexp.stats.resampling import Resampling
from rlexp.stats.task_scores import TaskScores, variance


@pytest.mark.parametrize(
    "case", [case for case in two_sample() if case["welch"]["p"] != "nan"], ids=name
)
def test_the_interval_is_that_of_welch(case: dict[str, Any]) -> None:
    """Degrees of freedom and ends equal the golden values of Welch's interval."""
    x, y = case_labels(case)
    difference, interval = estimate_difference(x, y), difference_interval(x, y)
    assert case["welch"]["df"] == pytest.approx(difference.degrees_of_freedom, rel=1e-12)
    assert case["welch"]["ci95"] == pytest.approx([interval.low, interval.high], rel=1e-10)


def test_an_interval_says_what_it_is() -> None:
    """An interval contains its level, its method and the runs of both labels."""
    interval = difference_interval(label([1.0, 2.0]), label([4.0, 7.0, 9.0]), level=0.9)
    assert ("Welch t", 0.9, 5, 1, 0, None, None) == (
        interval.method,
        interval.level,
        interval.n,
        interval.tasks,
        interval.repetitions,
        interval.seed,
        interval.reason,
    )


def test_tasks_are_averaged_and_their_variances_add_up() -> None:
    """By hand: the means have variances 1, 0, 4 and 1, so the difference has 6 / 2²."""
    x, y = label([0.0, 2.0], [5.0, 9.0]), label([4.0, 4.0], [2.0, 4.0])
    # Each side's variance is that of two runs, over two: (2, 0, 8, 2) / 2.
    assert Difference(
        value=(-3.0 + 4.0) / 2,
        standard_error=sqrt(6) / 2,
        degrees_of_freedom=6**2 / (1**2 + 0**2 + 4**2 + 1**2),
    ) == estimate_difference(x, y)
    assert "stratified Welch t" == difference_interval(x, y).method


@pytest.mark.parametrize(
    ("x", "y", "reason"),
    [
        ([[1.0]], [[2.0, 3.0]], "one run alone shows no spread"),
        ([[1.0, 2.0], [1.0, 2.0]], [[2.0, 3.0], [4.0]], "one run alone shows no spread"),
        ([[1.0, 1.0]], [[1.0, 1.0]], "within each task all runs are equal"),
        ([[0.1, 0.1, 0.1]], [[0.7, 0.7]], "within each task all runs are equal"),
        ([[0.0, 1e-200]], [[0.0, 1e-200]], TOO_LITTLE_SPREAD),
    ],
)
def test_without_spread_there_is_a_reason_and_no_interval(x: Label, y: Label, reason: str) -> None:
    """One run alone, or equal runs, have a reason instead of an interval."""
    difference, interval = (
        estimate_difference(label(*x), label(*y)),
        difference_interval(label(*x), label(*y)),
    )
    assert difference.reason is not None
    assert reason in difference.reason
    assert (None, None) == (difference.standard_error, difference.degrees_of_freedom)
    assert (None, None, difference.reason) == (interval.low, interval.high, interval.reason)
    assert spread(label(*x), label(*y)) == difference.reason


def test_equal_scores_differ_by_exactly_nothing() -> None:
    """Rounding in the mean of scores of 0.1 does not look like a difference."""
    assert 0.0 == estimate_difference(label([0.1] * 3), label([0.1] * 4)).value
    assert 0.0 == variance(np.full(3, 0.1))


@given(two_labels(), st.randoms())
def test_the_order_of_the_runs_does_not_matter(both: tuple[Label, Label], random: Any) -> None:
    """Runs in another order give the same difference to the last bit."""
    shuffled = [[random.sample(task, len(task)) for task in side] for side in both]
    expected = estimate_difference(*map(unsorted_label, both))
    assert expected == estimate_difference(*map(unsorted_label, shuffled))


@given(two_labels())
def test_swapping_sides_mirrors_the_difference(both: tuple[Label, Label]) -> None:
    """Swapping the labels changes only the sign."""
    x, y = (label(*side) for side in both)
    forward, swapped = estimate_difference(x, y), estimate_difference(y, x)
    assert (forward.value, forward.standard_error, forward.degrees_of_freedom, forward.reason) == (
        -swapped.value,
        swapped.standard_error,
        swapped.degrees_of_freedom,
        swapped.reason,
    )


@given(two_labels(2))
def test_degrees_of_freedom_have_bounds(both: tuple[Label, Label]) -> None:
    """Degrees of freedom are between those of the smallest sample and those of all samples."""
    difference = estimate_difference(*(label(*side) for side in both))
    runs = [len(task) for side in both for task in side]
    if difference.degrees_of_freedom is not None:
        low, high = min(runs) - 1, sum(runs) - len(runs)
        assert low * (1 - 1e-12) <= difference.degrees_of_freedom <= high * (1 + 1e-12)


def test_the_spread_of_a_pilot_stands_for_both_sides() -> None:
    """By hand: variances 2 and 8 give 2 (2 + 8) / 2² per seed and 2 · 10² / 68 groups."""
    pilot_spread = spread(label([0.0, 2.0], [5.0, 9.0]))
    assert isinstance(pilot_spread, Spread)
    assert (5.0, 200 / 68, 100 / 68) == pytest.approx(
        (pilot_spread.variance, pilot_spread.groups, pilot_spread.degrees_of_freedom)
    )


def test_the_spread_of_a_pair_is_its_standard_error() -> None:
    """The spread of a pair is its squared standard error, times the seeds per side."""
    x, y = label([0.0, 2.0, 3.0], [5.0, 9.0, 1.0]), label([4.0, 4.0, 8.0], [2.0, 4.0, 3.0])
    pair_spread, expected = spread(x, y), estimate_difference(x, y)
    assert isinstance(pair_spread, Spread)
    assert expected.standard_error == pytest.approx(sqrt(pair_spread.variance / 3))
    assert expected.degrees_of_freedom == pytest.approx(pair_spread.groups * 2)
    assert expected.degrees_of_freedom == pytest.approx(pair_spread.degrees_of_freedom)


@pytest.mark.parametrize(
    ("x", "y", "message"),
    [
        (label([1.0]), label([1.0], [2.0]), "1 tasks cannot be compared with 2"),
        (TaskScores(np.ones((2, 3)), (3,)), label([1.0]), "not batches"),
        (TaskScores(np.array([1.0, np.nan]), (2,)), label([1.0]), "leave out failed runs"),
        (TaskScores(np.array([1e120]), (1,)), label([1.0]), "up to 1e100"),
    ],
)
def test_labels_that_cannot_be_compared_are_refused(
    x: TaskScores, y: TaskScores, message: str
) -> None:
    """A message of one line says what to do."""
    with pytest.raises(ValueError, match=message) as caught:
        estimate_difference(x, y)
    assert 1 == len(str(caught.value).splitlines())


@given(two_labels())
def test_the_difference_of_the_metric_mean_needs_no_bootstrap(both: tuple[Label, Label]) -> None:
    """For the mean, the difference of the metric has Welch's standard error."""
    x, y = (label(*side) for side in both)
    expected = estimate_difference(x, y)
    result = estimate_metric_difference(x, y, mean, Resampling())
    assert expected.value == pytest.approx(result.value, abs=1e-12)
    assert (expected.standard_error, expected.degrees_of_freedom, expected.reason) == (
        result.standard_error,
        result.degrees_of_freedom,
        result.reason,
    )


def test_the_standard_error_of_a_metric_is_that_of_its_bootstrap() -> None:
    """Of minus the mean, which is no known aggregate, resamples give Welch's error within 6 %."""
    generator = np.random.default_rng(1)
    x, y = label(generator.normal(1, 1, 12)), label(generator.normal(0, 3, 8))
    welch = estimate_difference(x, y)
    result = estimate_metric_difference(x, y, Negative(mean), Resampling(seed=2))
    assert -welch.value == pytest.approx(result.value)
    assert welch.degrees_of_freedom == result.degrees_of_freedom
    # A standard deviation of 2,000 values has a relative standard error of 1.6 %.
    assert welch.standard_error == pytest.approx(result.standard_error, rel=0.06)


def test_the_difference_of_interquartile_means_by_hand() -> None:
    """By hand: the middle two of four runs are 2 and 3, and 12 and 14."""
    x, y = label([0.0, 2.0, 3.0, 50.0]), label([-90.0, 12.0, 14.0, 99.0])
    assert -10.5 == estimate_metric_difference(x, y, interquartile_mean, Resampling()).value


@pytest.mark.parametrize("statistic", [mean, interquartile_mean, median, Negative(median)])
def test_swapping_sides_mirrors_the_difference_of_a_metric(statistic: Statistic) -> None:
    """Swapping the labels changes only the sign of the difference of a metric."""
    generator = np.random.default_rng(3)
    x, y = label(*generator.normal(size=(2, 7))), label(*generator.normal(size=(2, 9)))
    forward, swapped = (
        estimate_metric_difference(a, b, statistic, Resampling()) for a, b in ((x, y), (y, x))
    )
    assert (forward.value, forward.standard_error) == (-swapped.value, swapped.standard_error)
    assert forward.degrees_of_freedom == pytest.approx(swapped.degrees_of_freedom)


def test_equal_middles_have_too_little_spread() -> None:
    """A metric that is the same in every resample has a reason instead of a standard error."""
    x, y = label([0.0, 1.0]), label([0.0, 1.0, 2.0])
    below = Negative(Aggregate("mean", cap=-5.0))
    result = estimate_metric_difference(x, y, below, Resampling())
    assert (None, TOO_LITTLE_SPREAD) == (result.standard_error, result.reason)


SEVEN = [0.0, 1.0, 2.0, 3.0, 4.0, 5.0, 6.0]


@pytest.mark.parametrize(
    ("x", "y", "expected"),
    [
        ([SEVEN], [[2 * score for score in SEVEN]], True),
        ([SEVEN], [[1.9 * score for score in SEVEN]], False),
        ([SEVEN[:6]], [[2 * score for score in SEVEN[:6]]], False),
        ([[5.0] * 7], [[*[0.0] * 6, 1e-6]], True),
        ([[5.0] * 7], [[7.0] * 7], False),
        ([[0.0, 1.0] * 2, [0.0, 9.0] * 2], [[0.0, 9.0] * 2, [0.0, 1.0] * 2], False),
        ([[1.0]], [[2.0]], False),
    ],
)
def test_spreads_differ_from_two_to_one(x: Label, y: Label, expected: bool) -> None:
    """Of seven runs or more, standard errors of 2 to 1 differ, for metrics other than the mean."""
    for a, b in ((label(*x), label(*y)), (label(*y), label(*x))):
        assert expected is spreads_differ(a, b, interquartile_mean)
        assert not spreads_differ(a, b, mean)
