"""The mean of the worst outcomes: conditional value at risk of a discrete distribution."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from rlexp.stats.reliability.risk import tail_mean

OUTCOMES = st.lists(st.floats(-1e6, 1e6), min_size=1, max_size=30)
SHARES = st.floats(0.001, 1.0)


@pytest.mark.parametrize(
    ("share", "expected"),
    [
        (0.1, 1.0),
        (0.2, 1.0),
        (0.3, 4 / 3),
        (0.4, 1.5),
        (0.5, 2.0),
        (1.0, 4.0),
    ],
)
def test_the_tail_mean_by_hand(share: float, expected: float) -> None:
    """By hand for 1, 2, 4, 5 and 8: at a share of 0.3, (0.2 · 1 + 0.1 · 2) / 0.3."""
    assert expected == pytest.approx(tail_mean([8.0, 2.0, 5.0, 1.0, 4.0], share), rel=1e-12)


@given(OUTCOMES, SHARES)
def test_the_tail_mean_lies_between_the_worst_outcome_and_the_mean(
    outcomes: list[float], share: float
) -> None:
    """For every share, the tail mean is between the worst outcome and the mean."""
    value, slack = tail_mean(outcomes, share), 1e-9 * max(1.0, *map(abs, outcomes))
    assert min(outcomes) - slack <= value <= np.mean(outcomes) + slack


@given(OUTCOMES, SHARES)
def test_the_tail_mean_is_the_maximum_of_rockafellar_and_uryasev(
    outcomes: list[float], share: float
) -> None:
    """The tail mean is the maximum over outcomes c of c − E[(c − x)⁺] / share."""
    x = np.array(outcomes)
    values = [c - np.maximum(c - x, 0).mean() / share for c in x]
    slack = 1e-9 * max(1.0, float(np.abs(x).max())) / share
    assert max(values) == pytest.approx(tail_mean(outcomes, share), abs=slack)


@given(OUTCOMES, SHARES, SHARES)
def test_a_larger_share_has_no_lower_tail_mean(
    outcomes: list[float], first: float, second: float
) -> None:
    """The tail mean does not decrease if the share increases."""
    low, high = sorted((first, second))
    slack = 1e-9 * max(1.0, *map(abs, outcomes))
    assert tail_mean(outcomes, low) <= tail_mean(outcomes, high) + slack


def test_equal_outcomes_are_their_own_tail() -> None:
    """The tail mean of equal outcomes is exactly their value, so that no spread appears."""
    assert 0.1 == tail_mean([0.1] * 7, 0.3)


@pytest.mark.parametrize(
    ("outcomes", "share"),
    [([], 0.1), ([1.0, float("nan")], 0.1), ([1.0], 0.0), ([1.0], 1.5)],
)
def test_invalid_outcomes_and_shares_are_refused(outcomes: list[float], share: float) -> None:
    """No outcomes, NaN, and shares that are not above 0 or exceed 1 are refused."""
    with pytest.raises(ValueError, match="must"):
        tail_mean(outcomes, share)
