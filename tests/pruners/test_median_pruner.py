"""The median pruner."""

from math import inf, nan

import pytest
from pruning_points import point, stopped_at

from rlexp.pruners.median import MedianPruner

MEDIAN = MedianPruner(startup_trials=3, warm_up=0.0)


@pytest.mark.parametrize(
    ("peers", "value", "pruned"),
    [
        ([1.0, 2.0, 3.0], 1.9, True),
        ([1.0, 2.0, 3.0], 2.0, False),
        ([1.0, 2.0, 3.0, 4.0], 2.4, True),
        ([1.0, 2.0, 3.0, 4.0], 2.5, False),
        ([-3.0, -2.0, -1.0], -2.5, True),
        ([5.0, 5.0, 5.0], 5.0, False),
    ],
)
def test_below_the_median_a_trial_ends(peers: list[float], value: float, pruned: bool) -> None:
    """A trial at the median continues; for an even number of peers it is the midpoint."""
    assert pruned == bool(MEDIAN.prunes(point(value, peers)))


def test_pruner_needs_earlier_trials() -> None:
    """With two of three required peers, no trial ends."""
    assert MEDIAN.prunes(point(0.0, [1.0, 2.0])) is None
    assert MEDIAN.prunes(point(0.0, [1.0, 2.0, 3.0]))


def test_pruner_waits_for_the_warm_up() -> None:
    """The warm-up applies to each run, also to that of the second seed."""
    slow = MedianPruner(startup_trials=1, warm_up=0.5)
    late = [500, 600, 700, 800, 900, 1000]
    assert late == stopped_at(slow, 0.0, [1.0])
    assert late == stopped_at(slow, 0.0, [1.0], position=1)


def test_reason_names_the_comparison() -> None:
    """The reason has the value, the step, the median and the number of peers."""
    expected = "its value 0.5 at 2,000 steps is below the median 2 of 3 earlier trials"
    result = MEDIAN.prunes(point(0.5, [1.0, 2.0, 3.0], step=2_000, steps=10_000))
    assert expected == result


@pytest.mark.parametrize("odd", [nan, inf, -inf])
def test_values_that_are_not_finite_are_worst(odd: float) -> None:
    """Such a trial ends if most peers are finite, and never ends another trial."""
    assert MEDIAN.prunes(point(odd, [1.0, 2.0, 3.0]))
    assert MEDIAN.prunes(point(-9.0, [odd, odd, 3.0])) is None
    assert MEDIAN.prunes(point(odd, [odd, odd, odd])) is None


def test_huge_values_do_not_overflow() -> None:
    """The median of two values of 1e308 is 1e308."""
    assert MEDIAN.prunes(point(1e308, [1e308] * 4)) is None
