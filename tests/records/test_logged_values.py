"""The standard deviation of returns has the bits of the statistics module."""

import math
import statistics

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from rlexp.records.events import Evaluated
from rlexp.records.logged_values import logged_values

RETURNS = st.lists(st.floats(allow_nan=False, allow_infinity=False), min_size=1, max_size=12)


@given(RETURNS | st.lists(st.integers(-500, 500).map(float), min_size=1))
@example([5e-324, 0.0])
@example([1e-170, 3e-170])
@example([7.0])
@example([1e200, -1e200])
def test_the_deviation_is_that_of_the_statistics_module(returns: list[float]) -> None:
    """The deviation is the root of the exact mean of squares, rounded once."""
    event = Evaluated(time=0.0, step=1, returns=tuple(returns), lengths=(), seconds=0.0)
    if not math.isfinite(event.mean):
        return
    try:
        expected = statistics.pstdev(returns, event.mean)
    except (AttributeError, OverflowError) as error:
        # Squares that overflow have no mean.
        with pytest.raises(type(error)):
            dict(logged_values(event))
        return
    assert dict(logged_values(event))["eval/std_reward"] == expected
