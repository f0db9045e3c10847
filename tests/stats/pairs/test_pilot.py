"""Numbers of seeds and detectable differences, planned from the scores of a pilot."""

from math import sqrt

import numpy as np
import pytest
from comparison_cases import Label, label, two_labels
from hypothesis import given

from rlexp.stats.aggregate import mean
from rlexp.stats.pairs.pilot import detectable_differences, seeds_from_pilot
from rlexp.stats.pairs.power import ComparisonPlan, detectable_effect, seeds_for_power
from rlexp.stats.pairs.reach import DetectableDifferences

PILOT = [-1.0, 0.0, 1.0, 2.0, 4.0, 6.0]
DEVIATION = float(np.std(PILOT, ddof=1))
PLAN = ComparisonPlan(statistic=mean, samples=500)


def test_a_pilot_of_one_label_stands_for_both() -> None:
    """The plan is that of the difference in standard deviations of the pilot."""
    needed = seeds_from_pilot(label(PILOT), difference=2.5, plan=PLAN)
    assert seeds_for_power(PLAN, 2.5 / DEVIATION) == needed.seeds
    assert DEVIATION == pytest.approx(needed.standard_deviation)
    assert (2.5, 0.05, 0.8, 0.95, None) == (
        needed.difference,
        needed.alpha,
        needed.power,
        needed.level,
        needed.reason,
    )


def test_the_uncertainty_of_the_pilot_is_stated() -> None:
    """The bounds of a plan follow from the chi-square interval of the pilot's variance."""
    needed = seeds_from_pilot(label(PILOT), difference=2.5, plan=PLAN)
    # Quantiles of chi-square with 5 degrees of freedom.
    low, high = DEVIATION * sqrt(5 / 12.832502), DEVIATION * sqrt(5 / 0.83121161)
    assert (low, high) == pytest.approx(
        (needed.standard_deviation_low, needed.standard_deviation_high), rel=1e-6
    )
    expected = (seeds_for_power(PLAN, 2.5 / low), seeds_for_power(PLAN, 2.5 / high))
    assert expected == (needed.low, needed.high)


def test_two_equal_labels_tell_no_more_than_their_spread() -> None:
    """A second label of equal variance narrows the uncertainty, and keeps the plan."""
    single = seeds_from_pilot(label(PILOT), difference=-2.5, plan=PLAN)
    both = seeds_from_pilot(label(PILOT), label(PILOT), difference=2.5, plan=PLAN)
    assert single.seeds == both.seeds
    assert single.high is not None
    assert both.high is not None
    assert both.high < single.high


def test_a_pilot_without_spread_has_a_reason() -> None:
    """A pilot whose runs are equal, or that has one run, gives no number but a reason."""
    for scores in ([1.0], [2.0, 2.0]):
        needed = seeds_from_pilot(label(scores), difference=1.0, plan=PLAN)
        assert needed.seeds is None
        assert (needed.reason or "").startswith("the pilot shows no spread: ")


@pytest.mark.parametrize("difference", [0.0, float("nan"), float("inf")])
def test_a_difference_must_be_finite_and_not_0(difference: float) -> None:
    """A difference of 0, NaN or infinity is refused."""
    with pytest.raises(ValueError, match="must be a finite number other than 0"):
        seeds_from_pilot(label(PILOT), difference=difference, plan=PLAN)


def test_three_pilots_are_refused() -> None:
    """A pilot of three labels is refused."""
    with pytest.raises(ValueError, match="one or two labels, not 3"):
        seeds_from_pilot(*[label(PILOT)] * 3, difference=1.0, plan=PLAN)


def test_what_could_be_found_is_in_units_of_the_scores() -> None:
    """The detectable differences are detectable effects times the spread of both labels."""
    x, y = label([10 * score for score in PILOT]), label([10 * score for score in PILOT])
    result = detectable_differences(x, y, plan=PLAN, floor=4)
    expected = [10 * DEVIATION * (detectable_effect(PLAN, n) or 0) for n in (6, 12)]
    assert (6, 12) == result.seeds
    assert expected == pytest.approx(list(result.differences))
    first, second = (f"{float(f'{difference:.2g}'):g}" for difference in expected)
    assert (
        f"with 6 seeds a difference of about {first} is found with 80 % power; "
        f"with 12 seeds: about {second}"
    ) == result.text


def test_below_the_floor_nothing_is_found() -> None:
    """With three seeds the text says so, and adds what the fewest useful seeds find."""
    result = detectable_differences(label([1.0, 2, 3]), label([2.0, 3, 5]), plan=PLAN, floor=4)
    assert ((3, 4, 8), None) == (result.seeds, result.differences[0])
    assert result.text.startswith("with 3 seeds no difference is found with 80 % power; with 4 ")


def test_no_difference_beyond_the_largest_possible_is_found() -> None:
    """A difference that the bounds of the task exclude counts as none."""
    x, y = label(PILOT), label([score + 1 for score in PILOT])
    free = detectable_differences(x, y, plan=PLAN, floor=4)
    now, later = free.differences
    assert now is not None
    assert later is not None
    bounded = detectable_differences(x, y, plan=PLAN, floor=4, furthest=(now + later) / 2)
    assert (None, later) == bounded.differences
    assert bounded.text.startswith("with 6 seeds no difference is found")


def test_one_label_stands_for_two_with_its_spread() -> None:
    """One label gives the differences of two labels with the same scores."""
    alone = detectable_differences(label(PILOT), plan=PLAN, floor=4)
    both = detectable_differences(label(PILOT), label(PILOT), plan=PLAN, floor=4)
    assert both == alone


def test_without_spread_what_could_be_found_is_not_known() -> None:
    """Labels without spread have a reason instead of numbers, with the seeds that are needed."""
    alone = detectable_differences(label([1.0]), label([2.0]), plan=PLAN, floor=4)
    assert ((), ()) == (alone.seeds, alone.differences)
    assert alone.text.startswith("what could be found is not known: one run alone")
    assert alone.text.endswith("; at least 4 seeds per label and task are needed")
    equal = detectable_differences(label([1.0] * 5), label([1.0] * 5), plan=PLAN, floor=4)
    assert DetectableDifferences(text=equal.text) == equal
    assert "needed" not in equal.text


@given(two_labels())
def test_every_pair_has_a_text(both: tuple[Label, Label]) -> None:
    """Every pair of labels has a sentence without NaN, in either order of the labels."""
    x, y = (label(*side) for side in both)
    plan = ComparisonPlan(statistic=mean, samples=50, tasks=len(x.sizes))
    forward, swapped = (
        detectable_differences(a, b, plan=plan, floor=4) for a, b in ((x, y), (y, x))
    )
    assert forward == swapped
    assert forward.text
    assert "nan" not in forward.text
