"""Numbers of seeds planned from pilot scores, by power, by hand and by simulation."""

from math import sqrt

import numpy as np
import pytest
from comparison_cases import Label, label, two_labels
from hypothesis import given
from hypothesis import strategies as st

from rlexp.stats.pilot import FurtherSeeds, further_seeds, seeds_from_pilot
from rlexp.stats.power import seeds_for_power

PILOT = [-1.0, 0.0, 1.0, 2.0, 4.0, 6.0]
DEVIATION = float(np.std(PILOT, ddof=1))


def test_a_pilot_of_one_label_stands_for_both() -> None:
    """On one task the plan is the textbook's, for the difference in standard deviations."""
    plan = seeds_from_pilot(label(PILOT), difference=2.5)
    assert seeds_for_power(2.5 / DEVIATION) == plan.seeds
    assert DEVIATION == pytest.approx(plan.standard_deviation)
    assert (2.5, 0.05, 0.8, 0.95, None) == (
        plan.difference,
        plan.alpha,
        plan.power,
        plan.level,
        plan.reason,
    )


def test_the_uncertainty_of_the_pilot_is_stated() -> None:
    """The bounds of a plan follow from the chi-square interval of the pilot's variance."""
    plan = seeds_from_pilot(label(PILOT), difference=2.5)
    # Quantiles of chi-square with 5 degrees of freedom.
    low, high = DEVIATION * sqrt(5 / 12.832502), DEVIATION * sqrt(5 / 0.83121161)
    assert (low, high) == pytest.approx(
        (plan.standard_deviation_low, plan.standard_deviation_high), rel=1e-6
    )
    assert (seeds_for_power(2.5 / low), seeds_for_power(2.5 / high)) == (plan.low, plan.high)


def test_two_equal_labels_tell_no_more_than_their_spread() -> None:
    """A second label of equal variance narrows the uncertainty, and keeps the plan."""
    single_plan = seeds_from_pilot(label(PILOT), difference=-2.5)
    pair_plan = seeds_from_pilot(label(PILOT), label(PILOT), difference=2.5)
    assert single_plan.seeds == pair_plan.seeds
    assert single_plan.high is not None
    assert pair_plan.high is not None
    assert pair_plan.high < single_plan.high


def test_tasks_share_the_work() -> None:
    """Four equal tasks have the same standard deviation, and need a quarter of the seeds."""
    one_task = seeds_from_pilot(label(PILOT), difference=2.5)
    four_tasks = seeds_from_pilot(label(*[PILOT] * 4), difference=2.5)
    assert one_task.standard_deviation == pytest.approx(four_tasks.standard_deviation)
    assert (19, 5) == (one_task.seeds, four_tasks.seeds)


def test_a_planned_number_of_seeds_is_enough() -> None:
    """By simulation on two tasks of unequal spread: about 80% of 1,000 tests reject."""
    from scipy.special import stdtr

    generator = np.random.default_rng(8)
    pilot = [generator.normal(0, s, 2000) for s in (1.0, 3.0)]
    n = seeds_from_pilot(label(*pilot), difference=2.0).seeds
    assert n is not None
    draws = [generator.normal(0, s, (1000, 2, n)) for s in (1.0, 3.0)]
    value = sum(d[:, 0].mean(axis=1) - d[:, 1].mean(axis=1) + 2 for d in draws) / 2
    parts = np.array([d.var(axis=2, ddof=1) / n for d in draws])
    total = parts.sum(axis=(0, 2))
    freedom = total**2 / (parts**2 / (n - 1)).sum(axis=(0, 2))
    p = 2 * stdtr(freedom, -np.abs(value) / (np.sqrt(total) / 2))
    assert 0.76 <= float(np.mean(p <= 0.05)) <= 0.86


@pytest.mark.parametrize(
    ("pilot", "reason"),
    [([1.0], "one run alone shows no spread"), ([2.0, 2.0, 2.0], "all runs are equal")],
)
def test_a_pilot_without_spread_tells_nothing(pilot: list[float], reason: str) -> None:
    """A pilot without spread gives a reason instead of a number."""
    plan = seeds_from_pilot(label(pilot), difference=1.0)
    assert (None, None, None, None) == (
        plan.seeds,
        plan.low,
        plan.high,
        plan.standard_deviation,
    )
    assert reason in (plan.reason or "")


def test_a_plan_has_an_end() -> None:
    """Beyond the limit, the plan says only that more seeds are needed."""
    plan = seeds_from_pilot(label([0.0, 2.0]), difference=0.01)
    assert (None, None, "more than 100,000 seeds per label and task are needed") == (
        plan.seeds,
        plan.high,
        plan.reason,
    )


@pytest.mark.parametrize("difference", [0.0, float("nan"), float("inf")])
def test_a_difference_worth_finding_is_a_number(difference: float) -> None:
    """A difference of 0, NaN or infinity is refused."""
    with pytest.raises(ValueError, match="the difference must be a finite number other than 0"):
        seeds_from_pilot(label(PILOT), difference=difference)


def test_a_pilot_has_one_label_or_two() -> None:
    """A pilot of three labels, or of none, is refused."""
    with pytest.raises(ValueError, match="one or two labels, not 3"):
        seeds_from_pilot(*[label(PILOT)] * 3, difference=1.0)
    with pytest.raises(ValueError, match="one or two labels, not 0"):
        seeds_from_pilot(difference=1.0)


def test_further_seeds_find_the_observed_difference() -> None:
    """By hand: the total is the plan for 1.5 / √2, of which two seeds exist."""
    plan = further_seeds(label([0.0, 2.0]), label([1.5, 3.5]))
    total = seeds_for_power(1.5 / sqrt(2))
    assert (
        FurtherSeeds(
            seeds=total - 2,
            total=total,
            reason=f"about {total - 2} further seeds per label and task ({total} in total) "
            "would detect it, "
            "if the true difference is the observed one",
        )
        == plan
    )


def test_a_margin_may_decide_earlier() -> None:
    """Fewer seeds show that a small difference is within the margin than detect it."""
    x, y = label(PILOT), label([score + 0.1 for score in PILOT])
    without_margin, with_margin = further_seeds(x, y), further_seeds(x, y, margin=2.0)
    assert without_margin.seeds is None
    assert with_margin.seeds is not None
    assert "show that the difference is within the margin" in with_margin.reason


def test_a_difference_beyond_the_margin_can_only_be_detected() -> None:
    """No number of seeds shows that a difference beyond the margin is within it."""
    for shift in (2, 20):
        x, y = label(PILOT), label([score + shift for score in PILOT])
        assert further_seeds(x, y) == further_seeds(x, y, margin=1.5)


def test_no_difference_needs_more_seeds_than_the_limit() -> None:
    """For a difference of 0, the reason says that more seeds than the limit are needed."""
    plan = further_seeds(label(PILOT), label(PILOT), limit=50)
    assert (None, None) == (plan.seeds, plan.total)
    assert plan.reason.startswith("more than 50 further seeds per label and task would be needed")


def test_at_least_one_more_is_needed() -> None:
    """At least one further seed is suggested, even if the existing seeds have enough power."""
    plan = further_seeds(label([0.0, 1.0, 2.0]), label([10.0, 11.0, 12.0]))
    assert (1, 4) == (plan.seeds, plan.total)
    assert plan.reason.startswith("about 1 further seed per label")
    plan_of_six = further_seeds(label([0.0, 1.0, 2.0]), label([10.0, 11.0, 12.0]), at_least=6)
    assert (3, 6) == (plan_of_six.seeds, plan_of_six.total)


def test_without_spread_only_the_least_is_known() -> None:
    """Without spread, the reason names the fewest seeds with which a test can decide."""
    plan = further_seeds(label([1.0]), label([2.0]), at_least=4)
    assert (None, None) == (plan.seeds, plan.total)
    assert "one run alone shows no spread" in plan.reason
    assert plan.reason.endswith("at least 4 per label and task are needed")


@given(two_labels(), st.one_of(st.none(), st.floats(0.1, 20)))
def test_swapping_sides_changes_no_plan(both: tuple[Label, Label], margin: float | None) -> None:
    """Swapping the labels changes no number of seeds."""
    x, y = (label(*side) for side in both)
    assert further_seeds(x, y, margin=margin) == further_seeds(y, x, margin=margin)


def test_further_seeds_to_equivalence_are_enough() -> None:
    """By hand 2 (1.645 + 1.282)² / 0.15² seeds; about 80 % of 300 pairs are then equivalent."""
    from rlexp.stats.equivalence import equivalence_test

    generator = np.random.default_rng(9)
    x = generator.normal(size=400)
    x -= x.mean()
    n = further_seeds(label(x), label(x), margin=0.15).total
    assert n is not None
    assert 761 * x.var(ddof=1) == pytest.approx(n, rel=0.005)
    draws = generator.normal(size=(300, 2, n)) * x.std(ddof=1)
    equivalent_pairs = sum(
        (equivalence_test(label(a), label(b), 0.15).p or 1.0) <= 0.05 for a, b in draws
    )
    assert 0.72 <= equivalent_pairs / 300 <= 0.88
