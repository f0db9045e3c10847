"""Power equals golden numbers, its own inverse and simulations."""

from math import ceil
from typing import Any

import numpy as np
import pytest
from comparison_cases import golden, label
from hypothesis import given
from hypothesis import strategies as st

from rlexp.stats.hypothesis_tests import welch_test
from rlexp.stats.power import (
    check_levels,
    detectable_effect,
    fewest_seeds,
    power,
    seeds_for_power,
    t_test_power,
)


@pytest.mark.parametrize("case", golden()["power_t_two_sided_equal_n"], ids=str)
def test_power_is_the_golden_one(case: dict[str, Any]) -> None:
    """Power equals golden values of statsmodels."""
    result = power(case["d"], case["n"], alpha=case["alpha"])
    assert case["power_t"] == pytest.approx(result, abs=1e-12)


@pytest.mark.parametrize("case", golden()["n_for_power"], ids=str)
def test_seeds_are_the_golden_ones(case: dict[str, Any]) -> None:
    """Numbers of seeds equal golden values, rounded up."""
    assert ceil(case["n"]) == seeds_for_power(case["d"], power=case["power"], alpha=case["alpha"])


@pytest.mark.parametrize("case", golden()["mde"], ids=str)
def test_the_detectable_effect_is_the_golden_one(case: dict[str, Any]) -> None:
    """Detectable effects equal golden values within the precision of the golden search."""
    effect = detectable_effect(case["n"], power=case["power"], alpha=case["alpha"])
    assert case["d"] == pytest.approx(effect, rel=3e-6)


@pytest.mark.parametrize(("effect", "n"), [(0.5, 64), (0.8, 26), (1.0, 17), (1.5, 9), (2.0, 6)])
def test_known_numbers_of_seeds(effect: float, n: int) -> None:
    """Power 0.8 at level 0.05 needs n seeds for an effect of either sign; n - 1 are too few."""
    assert n == seeds_for_power(effect) == seeds_for_power(-effect)
    assert power(effect, n - 1) < 0.8 <= power(effect, n)


@given(st.floats(0.05, 5), st.integers(2, 500), st.sampled_from([0.001, 0.05, 0.2]))
def test_power_grows(effect: float, n: int, alpha: float) -> None:
    """Power increases with seeds, effect and alpha, and is never below alpha."""
    base = power(effect, n, alpha=alpha)
    assert alpha <= base + 1e-12
    assert base <= power(effect, n + 1, alpha=alpha) + 1e-12
    assert base <= power(effect * 1.1, n, alpha=alpha) + 1e-12
    assert base <= power(effect, n, alpha=alpha * 1.1) + 1e-12


@given(st.integers(2, 300), st.floats(0.1, 0.99))
def test_the_detectable_effect_is_detected(n: int, target: float) -> None:
    """The detectable effect has exactly the requested power."""
    assert target == pytest.approx(power(detectable_effect(n, power=target), n), abs=1e-9)


@pytest.mark.parametrize("effect", [1e9, -1e300, 1e-12])
def test_extremes_are_numbers(effect: float) -> None:
    """Extreme arguments give finite numbers without overflow."""
    assert (1.0 if abs(effect) > 1 else 0.05) == pytest.approx(power(effect, 3))


def test_power_is_how_often_a_test_rejects() -> None:
    """Power is the share of tests that reject, in 1,000 simulated pairs of 8 runs."""
    generator = np.random.default_rng(6)
    pairs = [(generator.normal(1, 1, 8), generator.normal(0, 1, 8)) for _ in range(1000)]
    rejection_rate = (
        sum((welch_test(label(a), label(b)).p or 1.0) <= 0.05 for a, b in pairs) / 1000
    )
    assert power(1.0, 8) == pytest.approx(rejection_rate, abs=0.05)


def test_degrees_of_freedom_may_be_fractional() -> None:
    """Power is defined for fractional degrees of freedom, as of Welch's test."""
    assert t_test_power(2.0, 4) < t_test_power(2.0, 4.5) < t_test_power(2.0, 5)


@pytest.mark.parametrize("degrees_of_freedom", [1.0, 1.2, 4.0, 610.0, 1e5, 1e9])
@pytest.mark.parametrize("alpha", [0.2, 0.05, 1e-5])
def test_power_never_falls_with_the_difference(degrees_of_freedom: float, alpha: float) -> None:
    """Power does not decrease, even where SciPy's noncentral t is NaN."""
    powers = [
        t_test_power(distance, degrees_of_freedom, alpha=alpha)
        for distance in np.geomspace(1e-3, 1e7, 40)
    ]
    assert (np.diff(powers) >= -1e-9).all()


@pytest.mark.parametrize(("high", "expected"), [(10, 7), (7, 7), (6, None), (2, None)])
def test_the_fewest_seeds_are_searched_up_to_a_limit(high: int, expected: int | None) -> None:
    """The search returns None if the limit is not enough."""
    assert expected == fewest_seeds(lambda n: n >= 7, 3, high)


def test_impossible_plans_are_refused() -> None:
    """A plan with one seed, or for a difference of 0, is refused with advice."""
    with pytest.raises(ValueError, match="n = 2 seeds per label or more"):
        power(1.0, 1)
    with pytest.raises(ValueError, match="n = 2 seeds per label or more"):
        detectable_effect(1)
    with pytest.raises(ValueError, match="smallest difference that matters"):
        seeds_for_power(0.0)


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
