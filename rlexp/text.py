"""Numbers, times and sizes as words, and text that is safe on a terminal."""

import json
import math
import re
import unicodedata
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from datetime import datetime
from itertools import groupby
from typing import Any

NOWHERE = frozenset({"Cc", "Cs"})
"""Categories of characters without a glyph and without a place in a file: controls, surrogates."""

TURNING = frozenset("\u202a\u202b\u202c\u202d\u202e\u2066\u2067\u2068\u2069")
"""Characters that turn the text behind them around, so that it reads as what it is not."""

SPACES = frozenset({"Zs", "Zl", "Zp"})


def visible(text: str) -> str:
    """A text without characters that control what is shown: a space or � stands for each."""
    return "".join(map(_visible, text))


def one_line(text: str) -> str:
    """A visible text without line breaks, and with one space between words."""
    return " ".join(visible(text).split())


def spelled(text: str, known: Callable[[str], bool]) -> str:
    """A text whose unknown characters are given by their numbers (`[U+1F916]`).

    What is told apart by such characters stays so, where a box in place of each would not do.
    """
    runs = ((has, "".join(run)) for has, run in groupby(text, known))
    return "".join(run if has else f"[{_numbers(run)}]" for has, run in runs)


def elided(text: str, length: int) -> str:
    """A text of at most so many characters: what is too much in its middle is left out."""
    if len(text) <= length:
        return text
    tail = length // 3
    return f"{text[: length - tail - 1]}…{text[len(text) - tail :]}"


def _numbers(characters: str) -> str:
    return " ".join(f"U+{ord(c):04X}" for c in characters)


def _visible(character: str) -> str:
    category = unicodedata.category(character)
    if category in SPACES or character in "\t\n\r\v\f":
        return " "
    return "�" if category in NOWHERE or character in TURNING else character


def counted(number: int, thing: str) -> str:
    """A number of things (`1 run`, `3,000 runs`)."""
    return f"{number:,} {thing}" if number == 1 else f"{number:,} {thing}s"


def listed(names: Iterable[str]) -> str:
    """Names in a sentence (`a, b and c`), in the order given."""
    own = list(names)
    return " and ".join([", ".join(own[:-1]), own[-1]]) if len(own) > 1 else "".join(own)


def shortened(names: Sequence[str], most: int = 10) -> str:
    """Names in a sentence, and how many more there are (`a, b and 7 more`)."""
    if len(names) <= most:
        return listed(names)
    return f"{', '.join(names[:most])} and {len(names) - most} more"


def numbers(values: Iterable[int]) -> str:
    """Whole numbers, successive ones by their ends (`0–4, 7`)."""
    told: list[list[int]] = []
    for value in sorted(set(values)):
        if told and value == told[-1][-1] + 1:
            told[-1] = [told[-1][0], value]
        else:
            told.append([value])
    return ", ".join("–".join(map(str, ends)) for ends in told)


SCORES = {
    "final": "mean return of the final policy",
    "auc": "mean height of the evaluation curve",
    "last_window": "mean return in the last tenth of training",
}


def cell(value: Any) -> str:
    """A value in a table."""
    if value is None:
        return "—"
    if isinstance(value, float):
        return f"{value:,.2f}"
    return f"{value:,}" if isinstance(value, int) else str(value)


def printable(text: str, kept: str = "\n\t") -> str:
    """Text without the control characters that a terminal would obey; those `kept` stay."""
    if text.isprintable():
        return text
    return "".join(
        c if c.isprintable() or c in kept else "\N{REPLACEMENT CHARACTER}" for c in text
    )


def outline(value: Any) -> str:
    """JSON values as YAML, one leaf a line."""
    return "\n".join(_outline(value, ""))


def _outline(value: Any, indent: str) -> Iterator[str]:
    pairs: list[tuple[str, Any]]
    if isinstance(value, Mapping):
        pairs = [(f"{_scalar(str(key))}:", item) for key, item in value.items()]
    else:
        pairs = [("-", item) for item in value]
    for head, item in pairs:
        nested = isinstance(item, Mapping) or (
            isinstance(item, list | tuple) and any(isinstance(i, Mapping) for i in item)
        )
        if nested and item:
            yield f"{indent}{head}"
            yield from _outline(item, f"{indent}  ")
        else:
            yield f"{indent}{head} {_scalar(item)}"


def _scalar(value: Any) -> str:
    if isinstance(value, str) and _PLAIN.fullmatch(value) and value not in _WORDS:
        return value
    return json.dumps(value, ensure_ascii=False)


_PLAIN = re.compile(r"[A-Za-z_/][\w./+@()-]*( [\w./+@()-]+)*", re.ASCII)
_WORDS = frozenset({"null", "true", "false", "yes", "no", "on", "off", "y", "n"})


def moment(time: float | None) -> str | None:
    """Seconds since 1970 as local time (`2026-07-01 12:30:05`)."""
    if time is None:
        return None
    try:
        return datetime.fromtimestamp(time).astimezone().strftime("%Y-%m-%d %H:%M:%S")
    except (ValueError, OverflowError, OSError):
        return f"{time:g} s after 1970"


def ago(seconds: float) -> str:
    """How long ago, roughly (`5 min ago`)."""
    for unit, length in (("d", 86400), ("h", 3600), ("min", 60)):
        if seconds >= length:
            return f"{seconds // length:.0f} {unit} ago"
    return f"{max(seconds, 0):.0f} s ago"


def duration(seconds: float) -> str:
    """Seconds in words (`3 min 10 s`)."""
    whole = round(seconds)
    if whole < 60:
        return f"{whole} s"
    if whole < 3600:
        return f"{whole // 60} min {whole % 60} s"
    return f"{whole // 3600} h {whole % 3600 // 60} min"


def size(count: int) -> str:
    """Bytes in words (`38 MB`, `1.2 GB`)."""
    value = float(count)
    for unit in ("B", "kB", "MB", "GB"):
        if value < 9.95:
            return f"{value:.1f}".removesuffix(".0") + f" {unit}"
        if value < 1000:
            return f"{value:.0f} {unit}"
        value /= 1000
    return f"{value:.1f} TB"


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
