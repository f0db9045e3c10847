"""Axes: where a value stands on them, and which ticks they have."""

import math
from collections.abc import Iterable
from dataclasses import dataclass

from rlexp.reports.blocks import Axis

UNITS = ((1e9, "G"), (1e6, "M"), (1e3, "k"))
DECADE = (1, 2, 5)
NEAREST = ((1, 2**0.5), (2, 10**0.5), (5, 50**0.5))


@dataclass(frozen=True, slots=True)
class Tick:
    """A tick: `at` is its place on the axis in per cent."""

    at: float
    text: str


@dataclass(frozen=True, slots=True)
class Scale:
    """An axis between two different ends; both are positive where it is logarithmic."""

    low: float
    high: float
    log: bool = False

    def at(self, value: float | None) -> float | None:
        """Where a value stands: 0 at the low end, 1 at the high; nothing where it has no place."""
        if value is None or not math.isfinite(value) or (self.log and value <= 0):
            return None
        low, high, value = (self._inner(v) for v in (self.low, self.high, value))
        return (value - low) / (high - low)

    def ticks(self, count: int) -> list[Tick]:
        """About so many round values, in order; the script draws the same after a zoom."""
        values = (self._decades(count) if self.log else None) or linear(self.low, self.high, count)
        texts = tick_texts(values)
        return [
            Tick(round(100 * place, 3), text)
            for value, text in zip(values, texts, strict=True)
            if (place := self.at(value)) is not None
        ]

    def _inner(self, value: float) -> float:
        return math.log10(value) if self.log else value

    def _decades(self, count: int) -> list[float] | None:
        first, last = math.floor(math.log10(self.low)), math.ceil(math.log10(self.high))
        every = max(1, math.ceil((last - first) / count))
        factors = DECADE if last - first <= 2 else (1,)
        values = [f * 10.0**k for k in range(first, last + 1, every) for f in factors]
        inside = [v for v in values if self.low * (1 - 1e-9) <= v <= self.high * (1 + 1e-9)]
        return inside if len(inside) > 1 else None


def linear(low: float, high: float, count: int) -> list[float]:
    """Multiples of 1, 2 or 5 times a power of ten between two ends, about so many."""
    step = tick_step((high - low) / count)
    first, last = math.ceil(low / step - 1e-9), math.floor(high / step + 1e-9)
    return [k * step for k in range(first, last + 1)]


def tick_step(wanted: float) -> float:
    """The nearest, by ratio, of 1, 2 or 5 times a power of ten."""
    power = 10.0 ** math.floor(math.log10(wanted))
    factor = next((f for f, below in NEAREST if wanted / power < below), 10)
    return factor * power


def tick_texts(values: list[float]) -> list[str]:
    """What stands at the ticks: of one unit and with as many digits as they need.

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
        return f"{value:.2g}".replace("-", "−")
    digits = max(0, -math.floor(math.log10(step / unit) + 1e-9))
    return f"{value / unit:.{digits}f}{sign}".replace("-", "−")


def scale(axis: Axis, values: Iterable[float | None], padding: float = 0.0) -> Scale | None:
    """The axis with the ends that it names, or else those of the values.

    Args:
        axis: Its ends win where they can be shown.
        values: What is to be shown; what is no number, or has no logarithm, is left out.
        padding: Share of the values' span that is left free beyond them, but not beyond zero.

    Returns:
        Nothing where there is no value.
    """
    shown = [v for v in values if v is not None and math.isfinite(v) and (v > 0 or not axis.log)]
    if not shown:
        return None
    low, high = _padded(min(shown), max(shown), padding, axis.log)
    low, high = _end(axis.low, low, axis.log), _end(axis.high, high, axis.log)
    if low >= high:
        low, high = _padded(min(shown), max(shown), padding, axis.log)
    return Scale(low, high, axis.log)


def _end(named: float | None, seen: float, log: bool) -> float:
    if named is None or not math.isfinite(named) or (log and named <= 0):
        return seen
    return named


def _padded(low: float, high: float, padding: float, log: bool) -> tuple[float, float]:
    if log:
        factor = (high / low) ** padding if high > low else 2.0
        return low / factor, high * factor
    if low == high:
        return low - (0.1 * abs(low) or 0.5), high + (0.1 * abs(high) or 0.5)
    room = padding * (high - low)
    return (0.0 if 0 <= low < room else low - room), (0.0 if -room < high <= 0 else high + room)
