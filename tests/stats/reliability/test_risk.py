"""Risk: means of the worst outcomes, and rates of failures."""

from random import Random

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import stats

from rlexp.stats.reliability.risk import Tail, cvar, failure_rate, worst_count

TAILS: tuple[Tail, ...] = ("lower", "upper")
outcomes = st.lists(st.integers(-50, 50).map(float), min_size=1, max_size=60)


def test_the_worst_tenth_by_hand() -> None:
    """By hand for 1 … 21: the worst tenth is 1, 2, 3, or 19, 20, 21 at the upper end."""
    values = np.arange(1.0, 22.0)
    assert 2 == cvar(values, 0.1)
    assert 20 == cvar(values, 0.1, "upper")


def test_zero_has_no_sign() -> None:
    """A mean of zeros is 0, never -0, at either end."""
    assert [False, False] == [bool(np.signbit(cvar([0.0, 0.0], 0.05, t))) for t in TAILS]


def test_ties_at_the_quantile_all_count() -> None:
    """All outcomes that equal the quantile count, here three of four."""
    assert 1 == cvar([1.0, 1.0, 1.0, 9.0])
    assert 1.25 == cvar([1.0, 1.0, 1.0, 2.0], 1 - 1e-12) == cvar([1.0, 1.0, 1.0, 2.0], 1.0)


@given(outcomes, st.sampled_from([0.05, 0.1, 0.25, 0.5, 1.0]))
def test_cvar_is_the_mean_at_or_below_the_interpolated_quantile(
    values: list[float], share: float
) -> None:
    """CVaR equals the mean of the outcomes up to SciPy's interpolated quantile."""
    quantile = stats.scoreatpercentile(values, 100 * share)
    expected = np.mean([value for value in values if value <= quantile + 1e-9])
    assert pytest.approx(expected) == cvar(values, share)


@given(outcomes)
def test_the_upper_tail_mirrors_the_lower(values: list[float]) -> None:
    """The lower CVaR is the negated upper CVaR of negated outcomes."""
    assert cvar(values) == -cvar(np.negative(values), tail="upper")


@given(outcomes, st.randoms(), st.sampled_from(["lower", "upper"]))
def test_the_order_of_the_outcomes_does_not_matter(
    values: list[float], random: Random, tail: Tail
) -> None:
    """Outcomes in another order have the same CVaR to the last bit."""
    assert cvar(values, tail=tail) == cvar(random.sample(values, len(values)), tail=tail)


def test_cvar_is_computed_along_the_last_axis() -> None:
    """Each row of outcomes gives its own CVaR."""
    values = np.random.default_rng(0).normal(size=(3, 2, 40))
    expected = [[float(cvar(row)) for row in rows] for rows in values]
    assert expected == cvar(values).tolist()


@pytest.mark.parametrize(("n", "expected"), [(1, 1), (20, 1), (21, 2), (40, 2), (41, 3)])
def test_few_outcomes_have_one_worst(n: int, expected: int) -> None:
    """CVaR is the mean of the worst twentieth, which is one outcome of 20 or fewer."""
    assert expected == worst_count(n)
    values = np.arange(float(n))
    assert np.mean(values[:expected]) == cvar(values)


@pytest.mark.parametrize(
    ("values", "share", "message"),
    [
        ([], 0.05, "there is no outcome: a risk needs at least one"),
        ([1, float("nan")], 0.05, "an outcome must be a finite number: leave out failed runs"),
        ([1], 0, "the share must be above 0 and at most 1, not 0"),
        ([1], 1.5, "the share must be above 0 and at most 1, not 1.5"),
    ],
)
def test_invalid_outcomes_and_shares_are_refused(
    values: list[float], share: float, message: str
) -> None:
    """No outcomes, NaN, and shares outside of 0 to 1 are refused with the mistake."""
    with pytest.raises(ValueError, match=message):
        cvar(values, share)


def test_a_failure_rate_is_a_share_with_wilsons_interval() -> None:
    """Two failures of ten runs have a rate of 0.2, with SciPy's Wilson interval."""
    rate = failure_rate(2, 10)
    expected = stats.binomtest(2, 10).proportion_ci(method="wilson")
    assert (0.2, 10, "Wilson") == (rate.estimate, rate.n, rate.method)
    assert pytest.approx([expected.low, expected.high]) == [rate.low, rate.high]


def test_the_interval_of_a_failure_rate_of_0_is_wide() -> None:
    """If none of five runs fails, the true failure rate may still be above a third."""
    rate = failure_rate(0, 5)
    assert 0 == rate.low
    assert pytest.approx(0.4345, abs=1e-4) == rate.high


@pytest.mark.parametrize(("failed", "n"), [(3, 2), (-1, 2), (0, 0)])
def test_failures_that_are_no_share_are_refused(failed: int, n: int) -> None:
    """More failures than runs, fewer than 0, and no runs are refused."""
    with pytest.raises(ValueError, match=f"{failed} failures of {n} runs are impossible"):
        failure_rate(failed, n)
