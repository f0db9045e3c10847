"""Numbers and intervals in words, as a reader expects them in print."""

import math
from collections.abc import Iterable

from rlexp.stats.interval import Interval

SHORT_OF_NOMINAL = 0.90
"""Expected coverage below which an interval is marked as too narrow."""


def number(value: float, digits: int) -> str:
    """A number with a true minus and thousands apart (`−12,300.50`)."""
    if not math.isfinite(value):
        return "not a number" if math.isnan(value) else "∞" if value > 0 else "−∞"
    text = f"{value:,.{max(0, digits)}f}"
    negative = text.startswith("-") and any(c in "123456789" for c in text)
    return ("−" if negative else "") + text.lstrip("-")


def plain_value(value: str | float | bool | None, digits: int) -> str:
    """What stands in a table, but for intervals: `yes`, `—` for a missing value, `12,300`."""
    match value:
        case None:
            return "—"
        case bool():
            return "yes" if value else "no"
        case int():
            return number(value, 0)
        case float():
            return number(value, digits)
        case _:
            return value


def per_cent(share: float) -> str:
    """A share of one in per cent (`95 %`)."""
    return f"{100 * share:.3g} %"


def digits_for(span: float) -> int:
    """Digits after the point that tell values apart that spread over a span."""
    if not math.isfinite(span) or span <= 0:
        return 2
    return min(6, max(0, 1 - math.floor(math.log10(span / 2 or span))))


def possible(interval: Interval) -> bool:
    """Whether it has both ends."""
    return interval.low is not None and interval.high is not None


def ends(interval: Interval, digits: int) -> str:
    """The ends of an interval (`[0.79, 0.90]`), or that and why there is none."""
    if interval.low is None or interval.high is None:
        return f"no interval: {interval.reason}" if interval.reason else "no interval"
    return f"[{number(interval.low, digits)}, {number(interval.high, digits)}]"


def with_ends(interval: Interval, digits: int) -> str:
    """An estimate and its interval; or that there is none, and why, in parentheses."""
    own = ends(interval, digits)
    return f"{number(interval.estimate, digits)} {own if possible(interval) else f'({own})'}"


def too_narrow(interval: Interval) -> bool:
    """Whether it is known to hold the true value less often than a reader may believe."""
    return interval.coverage is not None and interval.coverage < SHORT_OF_NOMINAL


def made_how(interval: Interval) -> str:
    """Level, method, repetitions and seed of an interval that is possible."""
    words = [f"{per_cent(interval.level)} interval, method {interval.method}"]
    if interval.repetitions:
        words.append(f"{interval.repetitions:,} repetitions")
    if interval.seed is not None:
        words.append(f"seed {interval.seed}")
    return ", ".join(words)


def told(interval: Interval, digits: int) -> str:
    """Everything that there is to say of an interval, in lines."""
    lines = [with_ends(interval, digits)]
    if possible(interval):
        lines.append(made_how(interval))
    runs = "1 run" if interval.n == 1 else f"{interval.n:,} runs"
    lines.append(f"{runs} on {interval.tasks} tasks" if interval.tasks > 1 else runs)
    if interval.coverage is not None:
        lines.append(f"expected coverage {per_cent(interval.coverage)}")
    if possible(interval) and interval.reason:
        lines.append(interval.reason)
    return "\n".join(lines)


def footnotes(intervals: Iterable[Interval]) -> tuple[str, ...]:
    """What a table's intervals have in common, and what the mark beside some of them means."""
    every = list(intervals)
    how = tuple(dict.fromkeys(f"{made_how(i)}." for i in every if possible(i)))
    known = sorted({i.coverage for i in every if i.coverage is not None and too_narrow(i)})
    if not known:
        return how
    spread = " to ".join(dict.fromkeys(per_cent(c) for c in (known[0], known[-1])))
    return (*how, f"† Too narrow: its expected coverage is {spread}.")
