"""The median pruner."""

from math import inf, nan

import pytest
from pruning_points import point, stopped_at

from rlexp.pruners.median import MedianPruner

MEDIAN = MedianPruner(startup_trials=3, warm_up=0.0)


@pytest.mark.parametrize(
    ("peers", "value", "is_pruned"),
    [
        ([1.0, 2.0, 3.0], 1.9, True),
        ([1.0, 2.0, 3.0], 2.0, False),
        ([1.0, 2.0, 3.0, 4.0], 2.4, True),
        ([1.0, 2.0, 3.0, 4.0], 2.5, False),
        ([-3.0, -2.0, -1.0], -2.5, True),
        ([5.0, 5.0, 5.0], 5.0, False),
    ],
)
def test_below_the_median_a_trial_ends(peers: list[float], value: float, is_pruned: bool) -> None:
    """A trial below the median of its peers ends; a trial at the median continues."""
    assert is_pruned == bool(MEDIAN.prunes(point(value, peers)))


def test_pruner_needs_earlier_trials() -> None:
    """With two of three required peers, no trial ends."""
    assert MEDIAN.prunes(point(0.0, [1.0, 2.0])) is None
    assert MEDIAN.prunes(point(0.0, [1.0, 2.0, 3.0]))


def test_pruner_waits_for_the_warm_up() -> None:
    """The warm-up applies to each run, also to the run of the second seed."""
    slow_pruner = MedianPruner(startup_trials=1, warm_up=0.5)
    late_steps = [500, 600, 700, 800, 900, 1000]
    assert late_steps == stopped_at(slow_pruner, 0.0, [1.0])
    assert late_steps == stopped_at(slow_pruner, 0.0, [1.0], position=1)


def test_reason_names_the_comparison() -> None:
    """The reason for pruning has the value, the step, the median and the number of peers."""
    expected = "its value 0.5 at 2,000 steps is below the median 2 of 3 earlier trials"
    result = MEDIAN.prunes(point(0.5, [1.0, 2.0, 3.0], step=2_000, steps=10_000))
    assert expected == result


@pytest.mark.parametrize("odd_value", [nan, inf, -inf])
def test_values_that_are_not_finite_are_worst(odd_value: float) -> None:
    """A trial with a value that is not finite ends among finite peers, and ends no other."""
    assert MEDIAN.prunes(point(odd_value, [1.0, 2.0, 3.0]))
    assert MEDIAN.prunes(point(-9.0, [odd_value, odd_value, 3.0])) is None
    assert MEDIAN.prunes(point(odd_value, [odd_value, odd_value, odd_value])) is None


def test_huge_values_do_not_overflow() -> None:
    """The median of two values of 1e308 is 1e308."""
    assert MEDIAN.prunes(point(1e308, [1e308] * 4)) is None
