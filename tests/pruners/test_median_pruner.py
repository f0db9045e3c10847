"""The median rule."""

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
    """At the median it goes on; an even number of peers has one between two of them."""
    assert pruned == bool(MEDIAN.prunes(point(value, peers)))


def test_it_takes_some_trials() -> None:
    """With two of three peers it says nothing."""
    assert MEDIAN.prunes(point(0.0, [1.0, 2.0])) is None
    assert MEDIAN.prunes(point(0.0, [1.0, 2.0, 3.0]))


def test_it_waits_until_a_run_is_warm() -> None:
    """Each run: the second seed has to warm up again."""
    slow = MedianPruner(startup_trials=1, warm_up=0.5)
    late = [500, 600, 700, 800, 900, 1000]
    assert late == stopped_at(slow, 0.0, [1.0])
    assert late == stopped_at(slow, 0.0, [1.0], position=1)


def test_it_says_what_it_compared() -> None:
    """Value, step, median and number of peers."""
    expected = "its value 0.5 at 2,000 steps is below the median 2 of 3 earlier trials"
    found = MEDIAN.prunes(point(0.5, [1.0, 2.0, 3.0], step=2_000, steps=10_000))
    assert expected == found


@pytest.mark.parametrize("odd", [nan, inf, -inf])
def test_what_is_no_number_is_worst(odd: float) -> None:
    """A trial without a number ends where most have one; as a peer it makes nobody end."""
    assert MEDIAN.prunes(point(odd, [1.0, 2.0, 3.0]))
    assert MEDIAN.prunes(point(-9.0, [odd, odd, 3.0])) is None
    assert MEDIAN.prunes(point(odd, [odd, odd, odd])) is None


def test_great_numbers_do_not_overflow() -> None:
    """The middle between two of 1e308 is one of them."""
    assert MEDIAN.prunes(point(1e308, [1e308] * 4)) is None
