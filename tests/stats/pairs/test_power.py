"""Power of the comparison is how often its verdicts are decided, and agrees with t tests."""

from itertools import combinations
from math import ceil
from typing import Any

import numpy as np
import pytest
from comparison_cases import golden, label
from in_full import IN_FULL

from rlexp.stats.aggregate import Statistic, interquartile_mean, mean
from rlexp.stats.pairs.closed_testing import closed_p_values, group_distributions
from rlexp.stats.pairs.power import (
    COLLAPSED,
    MOST_SEEDS,
    ComparisonPlan,
    Shape,
    check_levels,
    detectable_effect,
    fewest_seeds,
    power,
    seeds_for_power,
)
from rlexp.stats.resampling import Resampling

MEANS = ComparisonPlan(statistic=mean)


@pytest.mark.parametrize(
    "case", [c for c in golden()["power_t_two_sided_equal_n"] if 5 < c["n"] <= 40], ids=str
)
def test_two_labels_have_the_power_of_a_t_test(case: dict[str, Any]) -> None:
    """For means of two labels, power equals that of statsmodels' t test to within 5 points."""
    plan = ComparisonPlan(statistic=mean, alpha=case["alpha"])
    assert case["power_t"] == pytest.approx(power(plan, case["d"], case["n"]), abs=0.05)


@pytest.mark.parametrize("case", golden()["n_for_power"], ids=str)
def test_two_labels_need_the_seeds_of_a_t_test(case: dict[str, Any]) -> None:
    """For means of two labels, the seeds are those of statsmodels to within a tenth."""
    plan = ComparisonPlan(statistic=mean, alpha=case["alpha"])
    seeds = seeds_for_power(plan, case["d"], case["power"])
    assert ceil(case["n"]) == pytest.approx(seeds, rel=0.1, abs=1)


@pytest.mark.parametrize("labels", [2, 3, 5])
def test_three_seeds_find_nothing(labels: int) -> None:
    """Three seeds have power 0, because their smallest p-value is 0.1, and four seeds have more."""
    plan = ComparisonPlan(labels=labels)
    assert 0 == power(plan, 1e6, 3)
    assert detectable_effect(plan, 3) is None
    assert 1 == power(plan, 1e6, 4)
    assert detectable_effect(plan, 4) is not None


def test_the_detectable_effect_is_found_with_the_power() -> None:
    """The detectable effect has the requested power, and a tenth less has a smaller one."""
    for chance in (0.5, 0.8, 0.9):
        effect = detectable_effect(MEANS, 8, chance)
        assert effect is not None
        assert chance <= power(MEANS, effect, 8) <= chance + 0.03
        assert power(MEANS, 0.9 * effect, 8) < chance


def test_power_grows_with_seeds_and_effect() -> None:
    """Power grows with the number of seeds and with the effect."""
    plan = ComparisonPlan(labels=3)
    by_effect = [power(plan, effect, 8) for effect in (0.5, 1.0, 1.5, 2.0, 3.0)]
    by_seeds = [power(plan, 1.2, n) for n in (4, 6, 10, 20, 40, 80)]
    assert by_effect == sorted(by_effect)
    assert by_seeds == sorted(by_seeds)


def test_more_labels_need_more_seeds() -> None:
    """More labels in a family need more seeds for the same effect, also beyond seven labels."""
    seeds = [seeds_for_power(ComparisonPlan(labels=labels), 1.5) for labels in (2, 3, 5, 7, 20)]
    assert seeds == sorted(seeds)
    assert seeds[0] < seeds[-1]


def test_more_tasks_need_fewer_seeds() -> None:
    """The same effect on four tasks needs fewer seeds of each than on one task."""
    several = ComparisonPlan(tasks=4, statistic=mean)
    assert seeds_for_power(several, 1.0) < seeds_for_power(MEANS, 1.0)


def test_the_iqm_of_normal_scores_needs_more_seeds_than_the_mean() -> None:
    """For normal scores the IQM loses power, because it gives less weight to the outer runs."""
    assert seeds_for_power(ComparisonPlan(), 1.0) > seeds_for_power(MEANS, 1.0)


def decided_share(
    labels: int, n: int, effect: float, statistic: Statistic, shape: Shape, samples: int
) -> float:
    """Share of families in which the verdict on the first pair is decided."""
    generator = np.random.default_rng([labels, n])
    pairs, few, count = list(combinations(range(labels), 2)), Resampling(repetitions=499), 0
    for _ in range(samples):
        values = generator.standard_normal((labels, n))
        if shape == "bimodal":
            values = values / 10 - (generator.random(values.shape) < COLLAPSED)
            values /= np.sqrt(0.01 + COLLAPSED * (1 - COLLAPSED))
        values[0] += effect
        distributions, _ = group_distributions([label(row) for row in values], statistic, few)
        adjusted = closed_p_values(distributions, {pair: distributions[pair].p for pair in pairs})
        count += adjusted[0, 1] <= 0.05
    return count / samples


@pytest.mark.parametrize("shape", ["normal", "bimodal"])
@pytest.mark.parametrize(("labels", "effect"), [(2, 2.4), (2, 1.6), (3, 2.4), (5, 2.8)])
@pytest.mark.parametrize("statistic", [mean, interquartile_mean])
def test_a_promise_of_80_percent_is_kept(
    labels: int, effect: float, statistic: Statistic, shape: Shape
) -> None:
    """Verdicts on simulated runs are decided as often as the plan says."""
    if not IN_FULL and (labels > 2 or shape == "bimodal"):
        pytest.skip("simulates for a minute: RLEXP_ALL_TESTS=1")
    plan = ComparisonPlan(labels=labels, statistic=statistic, shape=shape)
    seeds = seeds_for_power(plan, effect)
    samples = 400 if IN_FULL else 100
    share = decided_share(labels, seeds, effect, statistic, shape, samples)
    promised = power(plan, effect, seeds)
    assert promised == pytest.approx(share, abs=0.05 + 3 * (0.16 / samples) ** 0.5)


@pytest.mark.parametrize(("high", "expected"), [(10, 7), (7, 7), (6, None), (2, None)])
def test_the_fewest_seeds_are_searched_up_to_a_limit(high: int, expected: int | None) -> None:
    """The search returns None if the limit is not enough."""
    assert expected == fewest_seeds(lambda n: n >= 7, 3, high)


@pytest.mark.parametrize("expected", range(3, 40))
def test_the_fewest_seeds_are_the_first_that_are_enough(expected: int) -> None:
    """The search finds every number between its ends."""
    assert expected == fewest_seeds(lambda n: n >= expected, 3, 50)


def test_impossible_plans_are_refused() -> None:
    """A plan with one seed, with one label, or for a difference of 0, is refused with advice."""
    with pytest.raises(ValueError, match="2 seeds per label or more"):
        power(MEANS, 1.0, 1)
    with pytest.raises(ValueError, match="two labels or more"):
        ComparisonPlan(labels=1)
    with pytest.raises(ValueError, match=f"up to {MOST_SEEDS:,} detects an effect of 0"):
        seeds_for_power(MEANS, 0.0)


@pytest.mark.parametrize(
    ("alpha", "power", "message"),
    [
        (0.0, None, "alpha = 0 is out of range"),
        (1.0, None, "alpha = 1 is out of range"),
        (float("nan"), None, "alpha = nan is out of range"),
        (0.05, 1.0, "power = 1 must lie between"),
        (0.05, 0.05, "power = 0.05 must lie between"),
    ],
)
def test_levels_are_checked(alpha: float, power: float | None, message: str) -> None:
    """A level or power out of range is refused with a message."""
    with pytest.raises(ValueError, match=message):
        check_levels(alpha, power)
