"""Axes of figures: scales, positions of values, and ticks."""

import math
import sys
from collections.abc import Iterable
from dataclasses import dataclass

from rlexp.reports.drawing.blocks import Axis

UNITS = ((1e9, "G"), (1e6, "M"), (1e3, "k"))
DECADE = (1, 2, 5)
NEAREST = ((1, 2**0.5), (2, 10**0.5), (5, 50**0.5))
LARGEST = sys.float_info.max
SMALLEST = 5e-324
"""The smallest positive (subnormal) number."""
RESOLUTION = 1e-12
"""Values that differ by less than this share of the largest one have the same position."""
INTERVAL_PADDING = 0.05
"""Share of an axis of intervals that stays free beyond the values, on the page and in the terminal."""
NARROWEST = 1e-300
"""Minimal length of an axis: floating-point numbers have too few digits below it."""


@dataclass(frozen=True, slots=True)
class Tick:
    """A tick; `at` is its position on the axis in per cent."""

    at: float
    text: str


@dataclass(frozen=True, slots=True)
class AxisScale:
    """Scale of an axis between two different ends, both positive if it is logarithmic."""

    low: float
    high: float
    log: bool = False

    def at(self, value: float | None) -> float | None:
        """Position of a value: 0 at the low end, 1 at the high end; `None` if it has none."""
        if value is None or not math.isfinite(value) or (self.log and value <= 0):
            return None
        low, high, value = (self._inner(v) for v in (self.low, self.high, value))
        # The span of two huge numbers of opposite signs overflows; a quarter of it does not.
        if math.isinf(high - low) or math.isinf(value - low):
            low, high, value = low / 4, high / 4, value / 4
        return (value - low) / (high - low)

    def ticks(self, count: int) -> list[Tick]:
        """About `count` round values in order; the script of the page computes the same ones."""
        values = (self._decades(count) if self.log else None) or linear_ticks(
            self.low, self.high, count
        )
        texts = tick_texts(values)
        return [
            Tick(round(100 * position, 3), text)
            for value, text in zip(values, texts, strict=True)
            if (position := self.at(value)) is not None
        ]

    def _inner(self, value: float) -> float:
        return math.log10(value) if self.log else value

    def _decades(self, count: int) -> list[float] | None:
        first, last = math.floor(math.log10(self.low)), math.ceil(math.log10(self.high))
        every = max(1, math.ceil((last - first) / count))
        factors = DECADE if last - first <= 2 else (1,)
        powers = [_power_of_ten(k) for k in range(first, last + 1, every)]
        values = [f * power for power in powers for f in factors]
        # The tolerance keeps an end that is a power of ten up to rounding.
        low, high = self.low * (1 - 1e-9), min(self.high * (1 + 1e-9), LARGEST)
        inside = [v for v in values if v > 0 and low <= v <= high]
        return inside if len(inside) > 1 else None


def linear_ticks(low: float, high: float, count: int) -> list[float]:
    """About `count` multiples of 1, 2 or 5 times a power of ten between two ends."""
    # Halves first: high - low overflows for huge ends of opposite signs.
    step = tick_step((high / 2 - low / 2) / count * 2)
    # The tolerance keeps an end that is a multiple of the step up to rounding.
    first, last = math.ceil(low / step - 1e-9), math.floor(high / step + 1e-9)
    # Multiples of the step: repeated addition would collect rounding errors.
    return [k * step for k in range(first, last + 1)]


def tick_step(size: float) -> float:
    """The nearest step by ratio: 1, 2 or 5 times a power of ten that is not subnormal."""
    # Subnormal numbers have too few digits for distinct ticks.
    power = 10.0 ** max(math.floor(math.log10(size)), sys.float_info.min_10_exp)
    factor = next((f for f, below in NEAREST if size / power < below), 10)
    return factor * power


def tick_texts(values: list[float]) -> list[str]:
    """Texts of the ticks, in one unit and with the digits that distinguish them.

    On an axis of powers of ten each tick has its own unit.
    """
    if len(values) < 2 or 0 < 50 * values[0] < values[-1]:
        return [_text(v, abs(v), abs(v)) for v in values]
    most = max(abs(v) for v in values)
    return [_text(v, most, values[1] - values[0]) for v in values]


def _text(value: float, most: float, step: float) -> str:
    unit, sign = next(((u, s) for u, s in UNITS if most >= 10 * u or most >= u >= 1e6), (1.0, ""))
    if value == 0:
        return "0"
    if most < 1e-3 or most >= 1e13:
        digits = max(2, 1 + math.ceil(math.log10(most) - math.log10(step)))
        return f"{value:.{digits}g}".replace("-", "−")
    # The logarithm of a power of ten may be a bit below the whole number.
    digits = max(0, -math.floor(math.log10(step / unit) + 1e-9))
    return f"{value / unit:.{digits}f}{sign}".replace("-", "−")


def scale(axis: Axis, values: Iterable[float | None], padding: float = 0.0) -> AxisScale | None:
    """Scale with the ends of the axis where it names them, else those of the values.

    Args:
        axis: Its ends take precedence where a scale can show them.
        values: Values to show; without a finite number, or a logarithm, they are left out.
        padding: Share of the span of the values that stays free beyond them, but not beyond zero.

    Returns:
        `None` where there is no value.
    """
    shown = [v for v in values if v is not None and math.isfinite(v) and (v > 0 or not axis.log)]
    if not shown:
        return None
    low, high = _padded(min(shown), max(shown), padding, axis.log)
    low, high = _end(axis.low, low, axis.log), _end(axis.high, high, axis.log)
    if _is_narrow(low, high, axis.log):
        low, high = _padded(min(shown), max(shown), padding, axis.log)
    return AxisScale(low, high, axis.log)


def _end(named: float | None, seen: float, log: bool) -> float:
    if named is None or not math.isfinite(named) or (log and named <= 0):
        return seen
    return named


def _padded(low: float, high: float, padding: float, log: bool) -> tuple[float, float]:
    low, high = _framed(low, high, padding, log)
    return max(low, -LARGEST), min(high, LARGEST)


def _framed(low: float, high: float, padding: float, log: bool) -> tuple[float, float]:
    size = max(abs(low), abs(high))
    equal = _is_narrow(low, high, log)
    if log:
        # On a logarithmic axis, equal factors are equal distances.
        factor = 2.0 if equal else (high / low) ** padding
        return max(low / factor, SMALLEST), max(high * factor, 100 * NARROWEST)
    if equal:
        room = 0.1 * size if size > NARROWEST else 0.5
        return low - room, high + room
    # Not `padding * (high - low)`, because the difference may overflow.
    room = padding * high - padding * low
    return (0.0 if 0 <= low < room else low - room), (0.0 if -room < high <= 0 else high + room)


def _is_narrow(low: float, high: float, log: bool) -> bool:
    """Whether the two ends are too close together for an axis."""
    if log:
        return high < NARROWEST or math.log10(high) - math.log10(low) <= RESOLUTION
    return high / 2 - low / 2 <= max(RESOLUTION / 2 * max(abs(low), abs(high)), NARROWEST / 2)


def _power_of_ten(exponent: int) -> float:
    # A float raises OverflowError for a power beyond its range instead of returning infinity.
    return 10.0**exponent if exponent <= sys.float_info.max_10_exp else math.inf
