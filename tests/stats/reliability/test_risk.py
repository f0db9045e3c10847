"""Risk: means of the worst outcomes by hand, by definition, and failures as shares."""

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
    """Of 1 … 21, the tenth lies at 3: the mean of 1, 2, 3, and of 19, 20, 21."""
    values = np.arange(1.0, 22.0)
    assert 2 == cvar(values, 0.1)
    assert 20 == cvar(values, 0.1, "upper")


def test_zero_has_no_sign() -> None:
    """A mean of zeros is 0, never -0, at either end."""
    assert [False, False] == [bool(np.signbit(cvar([0.0, 0.0], 0.05, t))) for t in TAILS]


def test_ties_at_the_quantile_all_count() -> None:
    """Three of four outcomes are the lowest."""
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
    """What is bad at one end is good at the other."""
    assert cvar(values) == -cvar(np.negative(values), tail="upper")


@given(outcomes, st.randoms(), st.sampled_from(["lower", "upper"]))
def test_the_order_of_the_outcomes_does_not_matter(
    values: list[float], random: Random, tail: Tail
) -> None:
    """The same number to the last bit."""
    assert cvar(values, tail=tail) == cvar(random.sample(values, len(values)), tail=tail)


def test_cvar_is_computed_along_the_last_axis() -> None:
    """Each row of outcomes gives its own CVaR."""
    values = np.random.default_rng(0).normal(size=(3, 2, 40))
    expected = [[float(cvar(row)) for row in rows] for rows in values]
    assert expected == cvar(values).tolist()


@pytest.mark.parametrize(("n", "expected"), [(1, 1), (20, 1), (21, 2), (40, 2), (41, 3)])
def test_few_outcomes_have_one_worst(n: int, expected: int) -> None:
    """The twentieth part of 20 or fewer is one; the count is that of the definition."""
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
    """A message of one line names the mistake."""
    with pytest.raises(ValueError, match=message):
        cvar(values, share)


def test_a_failure_rate_is_a_share_with_wilsons_interval() -> None:
    """Two of ten: 0.2, and (0.2 + z²/20 ± z √(0.016 + z²/400)) / (1 + z²/10)."""
    found = failure_rate(2, 10)
    expected = stats.binomtest(2, 10).proportion_ci(method="wilson")
    assert (0.2, 10, "Wilson") == (found.estimate, found.n, found.method)
    assert pytest.approx([expected.low, expected.high]) == [found.low, found.high]


def test_the_interval_of_a_failure_rate_of_0_is_wide() -> None:
    """If none of five runs fails, the true failure rate may still be above a third."""
    found = failure_rate(0, 5)
    assert 0 == found.low
    assert pytest.approx(0.4345, abs=1e-4) == found.high


@pytest.mark.parametrize(("failed", "n"), [(3, 2), (-1, 2), (0, 0)])
def test_failures_that_are_no_share_are_refused(failed: int, n: int) -> None:
    """More than all, fewer than none, or of no runs."""
    with pytest.raises(ValueError, match=f"{failed} failures of {n} runs are impossible"):
        failure_rate(failed, n)
