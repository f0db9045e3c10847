"""Numbers as words: how every surface prints them."""

import math

TASKS_ADDED = 6
"""Tasks whose numbers of runs are told one by one, at most."""


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


def runs_by_task(sizes: tuple[int, ...]) -> str:
    """How many runs each task has: `3`, `3 on each of 2 tasks`, `3 + 2`, `2 to 5 on 26 tasks`."""
    if len(sizes) == 1:
        return f"{sizes[0]:,}"
    if len(set(sizes)) == 1:
        return f"{sizes[0]:,} on each of {len(sizes)} tasks"
    if len(sizes) <= TASKS_ADDED:
        return " + ".join(f"{size:,}" for size in sizes)
    return f"{min(sizes):,} to {max(sizes):,} on {len(sizes)} tasks"
