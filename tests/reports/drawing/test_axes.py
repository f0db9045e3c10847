"""Axes of the page: ends, positions and ticks."""

import math

import pytest
from hypothesis import assume, example, given
from hypothesis import strategies as st

from rlexp.reports.drawing.axes import AxisScale, linear_ticks, scale, tick_step, tick_texts
from rlexp.reports.drawing.blocks import Axis

AXIS = Axis(title="score")
LOG = Axis(title="steps", log=True)
finite = st.floats(-1e9, 1e9)
any_float = st.floats(allow_nan=False, allow_infinity=False)
positive = st.floats(min_value=0, exclude_min=True, allow_infinity=False)


@pytest.mark.parametrize(
    ("step", "expected"),
    [(1.0, 1.0), (1.4, 1.0), (1.5, 2.0), (3.0, 2.0), (3.2, 5.0), (7.0, 5.0), (7.2, 10.0)],
)
def test_steps_are_one_two_or_five(step: float, expected: float) -> None:
    """The step is the nearest by ratio of 1, 2 or 5 times a power of ten."""
    assert expected == tick_step(step)
    assert expected / 1000 == pytest.approx(tick_step(step / 1000))
    assert tick_step(5e-324) > 0


@pytest.mark.parametrize(
    ("low", "high", "expected"),
    [
        (0, 100_000, ["0", "20k", "40k", "60k", "80k", "100k"]),
        (0, 1000, ["0", "200", "400", "600", "800", "1000"]),
        (0, 2e6, ["0", "0.5M", "1.0M", "1.5M", "2.0M"]),
        (-220, -180, ["−220", "−210", "−200", "−190", "−180"]),
        (-0.02, 1.0, ["0", "0.2", "0.4", "0.6", "0.8", "1.0"]),
        (0, 3e9, ["0", "0.5G", "1.0G", "1.5G", "2.0G", "2.5G", "3.0G"]),
        (0, 4e-5, ["0", "1e−05", "2e−05", "3e−05", "4e−05"]),
    ],
)
def test_ticks_are_round_and_short(low: float, high: float, expected: list[str]) -> None:
    """Ticks use units such as k, and the digits that the step needs."""
    assert expected == [tick.text for tick in AxisScale(low, high).ticks(5)]


def test_ticks_of_many_decades_are_powers_of_ten() -> None:
    """Each power of ten has its own unit, at equal distances."""
    ticks = AxisScale(1, 1e6, log=True).ticks(4)
    assert ["1", "100", "10k", "1M"] == [tick.text for tick in ticks]
    assert [0, 33.333, 66.667, 100] == [tick.at for tick in ticks]
    ticks = AxisScale(2e-6, 0.05, log=True).ticks(4)
    assert ["0.0001", "0.01"] == [tick.text for tick in ticks]


def test_ticks_within_a_decade_are_one_two_five() -> None:
    """A logarithmic axis within a decade has several ticks."""
    assert ["10", "20", "50", "100"] == [t.text for t in AxisScale(10, 100, log=True).ticks(5)]
    assert ["2.2", "2.4", "2.6", "2.8"] == [t.text for t in AxisScale(2.1, 2.9, log=True).ticks(5)]


@given(finite, finite, st.integers(3, 8))
def test_ticks_are_few_rising_and_inside(low: float, high: float, count: int) -> None:
    """An axis has about as many ticks as requested.

    Steps of 2 and 5 are 2.5 times apart, so the nearest is at most √2.5 times too large or small.
    """
    assume(high - low > 1e-6 * max(1.0, abs(low), abs(high)))
    ticks = AxisScale(low, high).ticks(count)
    assert count / 2.5**0.5 - 1.001 <= len(ticks) <= 2.5**0.5 * count + 1.001
    assert sorted({tick.at for tick in ticks}) == [tick.at for tick in ticks]
    assert all(-1e-3 <= tick.at <= 100.001 for tick in ticks)
    assert len(ticks) == len({tick.text for tick in ticks})


@given(any_float, any_float, st.integers(3, 8), st.sampled_from([0.0, 0.05, 0.3]))
@example(0.0, 5e-324, 5, 0.05)
@example(-1.7e308, 1.7e308, 3, 0.3)
@example(1.0, 1.0000000000000002, 5, 0.05)
@example(0.0, 1e-299, 5, 0.05)
def test_every_two_numbers_have_an_axis(a: float, b: float, count: int, padding: float) -> None:
    """Two different numbers have positions on an axis whose ticks rise and have different texts."""
    check_axis(scale(AXIS, [a, b], padding), [a, b], count)
    check_axis(scale(Axis(title="score", low=a, high=b), [a, b], padding), [a, b], count)


@given(positive, positive, st.integers(3, 8), st.sampled_from([0.0, 0.05, 0.3]))
@example(5e-324, 5e-324, 5, 0.05)
@example(5e-324, 1.7976931348623157e308, 5, 0.05)
@example(1.7976931348623157e308, 1.7976931348623157e308, 5, 0.05)
@example(1.0, 1.0000000000000002, 5, 0.05)
def test_every_two_positive_numbers_have_a_logarithmic_axis(
    a: float, b: float, count: int, padding: float
) -> None:
    """Two positive numbers have positions on a logarithmic axis with different tick texts."""
    check_axis(scale(LOG, [a, b], padding), [a, b], count)
    axis = Axis(title="steps", log=True, low=a, high=b)
    check_axis(scale(axis, [a, b], padding), [a, b], count)


def check_axis(axis_scale: AxisScale | None, values: list[float], count: int) -> None:
    """Check that values lie between the ends, and ticks rise and have different texts."""
    assert axis_scale is not None
    assert math.isfinite(axis_scale.low)
    assert math.isfinite(axis_scale.high)
    positions = [axis_scale.at(value) for value in values]
    assert all(place is not None and -1e-9 <= place <= 1 + 1e-9 for place in positions)
    ticks = axis_scale.ticks(count)
    assert 1 <= len(ticks) <= 4 * count
    assert sorted({tick.at for tick in ticks}) == [tick.at for tick in ticks]
    assert all(-1e-3 <= tick.at <= 100.001 for tick in ticks)
    assert len(ticks) == len({tick.text for tick in ticks})


def test_no_tick_has_no_text() -> None:
    """No tick gives no text, and a single tick has its number as text."""
    assert [] == tick_texts([])
    assert ["5"] == tick_texts([5.0])
    assert [0.0, 0.5, 1.0] == linear_ticks(0, 1, 2)


def test_positions_are_shares_of_the_axis() -> None:
    """A position is the share of the length or of the logarithmic length, or `None`."""
    assert 0.25 == AxisScale(0, 4).at(1)
    assert 0.5 == AxisScale(1, 100, log=True).at(10)
    assert [None] * 3 == [AxisScale(0, 1).at(v) for v in (None, math.nan, math.inf)]
    assert None is AxisScale(1, 100, log=True).at(0)
    assert [0, 1] == [AxisScale(0, 5e-324).at(v) for v in (0, 5e-324)]
    assert [0, 0.5, 1] == [AxisScale(-1.7e308, 1.7e308).at(v) for v in (-1.7e308, 0, 1.7e308)]


def test_the_axis_has_a_margin_around_the_values() -> None:
    """The axis has a margin that does not cross zero."""
    assert AxisScale(9.9, 11.1) == scale(AXIS, [10.0, 11.0, None, math.nan], padding=0.1)
    assert AxisScale(0, 10.95) == scale(AXIS, [0.5, 10.0], padding=0.1)


def test_ends_of_the_axis_take_precedence() -> None:
    """Declared ends replace the ends of the values where the scale can show them."""
    assert AxisScale(0, 1) == scale(Axis(title="share", low=0, high=1), [0.4, 0.6], padding=0.1)
    assert AxisScale(0.4, 0.6) == scale(Axis(title="share", low=1, high=0), [0.4, 0.6])
    assert AxisScale(2, 8, log=True) == scale(Axis(title="t", low=0, log=True), [2, 8, -1])


def test_equal_values_have_room() -> None:
    """A constant is in the middle of an axis with positive length."""
    for value, axis in ((-200.0, AXIS), (0.0, AXIS), (1e6, AXIS), (7.0, LOG)):
        axis_scale = scale(axis, [value, value])
        assert axis_scale is not None
        assert axis_scale.low < value < axis_scale.high
        assert 0.5 == pytest.approx(axis_scale.at(value))


def test_no_value_has_no_axis() -> None:
    """Missing values and values without a logarithm have no axis."""
    assert None is scale(AXIS, [None, math.nan, math.inf])
    assert None is scale(LOG, [0.0, -1.0])
