"""Text for people: numbers, times, sizes and lists in words, and text that is safe to print.

The functions are shared by the console, reports, trackers and error messages, so that a value reads
the same everywhere.
"""

import codecs
import json
import math
import re
import unicodedata
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from datetime import datetime
from itertools import groupby
from typing import Any

SCORE_RULE_TEXTS = {
    "final": "mean return of the final policy",
    "auc": "mean height of the evaluation curve",
    "last_window": "mean return in the last tenth of training",
}
"""The rules by which a run is scored, in words; any other score is the mean of a measure."""


def score_rule(score: str, quantity: str = "return", *, lower_is_better: bool = False) -> str:
    """The rule by which a run is scored, in words.

    Args:
        score: `final`, `auc`, `last_window`, or the name of a measure.
        quantity: What is measured: `return`, or the name of a measure or an imported metric.
        lower_is_better: Whether the score is declared as minimised.
    """
    rule = SCORE_RULE_TEXTS.get(score, "mean return of the final policy").replace(
        "return", quantity
    )
    return f"{rule}, lower is better" if lower_is_better else rule


# Numbers


HUGE = 1e12
"""Numbers from here on are written in powers of ten, unless they are counts."""
TINY = 1e-3
"""Numbers below are written in powers of ten where they need more than `MOST_DECIMALS`."""
MOST_DECIMALS = 6
"""Most digits after the decimal point of a number that is not written in powers of ten."""

SIGNIFICANT = 4
"""Most digits of a number that is written in powers of ten."""
LEAST_P = 1e-4
"""P-values below this are not written as numbers."""
LEAST_SHARE = 1e-4
"""Shares below this, but above 0, are not written as numbers."""


def format_number(value: float, digits: int) -> str:
    """A number with a minus sign (U+2212) and a thousands separator (`−12,300.50`).

    A huge number, and a tiny one that needs more than `MOST_DECIMALS`, is written in powers of ten
    (`1.2e−300`, `−3.142e150`). A whole number (`int`) is a count, and always written in full.

    Args:
        value: The number.
        digits: Digits after the decimal point, as `decimals_for_span` computes them.
    """
    if not math.isfinite(value):
        return "not a number" if math.isnan(value) else "∞" if value > 0 else "−∞"
    text = _positional_or_power(value, max(0, digits))
    # A negative number that rounds to zero is written without a sign.
    negative = text.startswith("-") and any(c in "123456789" for c in text)
    return ("−" if negative else "") + text.lstrip("-").replace("-", "−")


def _positional_or_power(value: float, digits: int) -> str:
    if abs(value) >= HUGE and not isinstance(value, int):
        return _in_powers_of_ten(value)
    if digits <= MOST_DECIMALS or abs(value) >= TINY:
        return f"{value:,.{min(digits, MOST_DECIMALS)}f}"
    places = digits + (math.floor(math.log10(abs(value))) if value else -digits - 1)
    # Below the digits that tell values apart, a number is zero.
    return _in_powers_of_ten(value, min(places, SIGNIFICANT - 1)) if places >= 0 else "0"


def _in_powers_of_ten(value: float, places: int | None = None) -> str:
    """A number as `1.234e150`, with `places` decimals, or without zeros at their end."""
    mantissa, exponent = f"{value:.{SIGNIFICANT - 1 if places is None else places}e}".split("e")
    if places is None:
        mantissa = mantissa.rstrip("0").rstrip(".")
    return f"{mantissa}e{int(exponent)}"


def decimals_for_span(span: float, largest: float = 0.0) -> int:
    """Decimal places that distinguish values spread over a span.

    With more than `MOST_DECIMALS` of them, `format_number` writes tiny numbers in powers of ten.

    Args:
        span: Distance of the largest value from the smallest one.
        largest: Largest magnitude of the values. It decides where there is no span, and two
            decimals would show the values as zero.
    """
    if not math.isfinite(span) or span <= 0:
        is_shown_as_zero = largest > 0 and round(largest, 2) == 0
        return decimals_for_span(largest) if is_shown_as_zero else 2
    # Halving the smallest positive number gives 0, which has no logarithm.
    return max(0, 1 - math.floor(math.log10(span / 2 or span)))


def decimals_for_values(values: Iterable[float]) -> int:
    """Decimal places for unrelated numbers: two, or more where two would show a number as zero."""
    return max((decimals_for_span(0.0, abs(value)) for value in values), default=2)


def format_score(value: float, digits: int = 2, separator: str = ",") -> str:
    """A number without a known spread (`-12,300.50`), as the console shows scores and returns.

    A number that is huge, or that `digits` decimals would show as zero, has up to four significant
    digits instead (`0.001`, `1.234e-5`, `3.142e150`).
    """
    is_shown_as_zero = value != 0 and abs(value) < 1 and round(value, digits) == 0
    if HUGE <= abs(value) < math.inf or (is_shown_as_zero and abs(value) < TINY):
        return _in_powers_of_ten(value)
    if is_shown_as_zero:
        return f"{value:.{SIGNIFICANT}g}"
    # Adding zero removes the sign of a negative zero.
    return f"{value + 0.0:{separator}.{digits}f}"


def format_roughly(value: float) -> str:
    """A number with two digits: as many as a standard deviation of few runs deserves."""
    return f"{float(f'{value:.2g}'):g}"


def format_p_value(p: float) -> str:
    """A p-value with three significant digits (`p = 0.0317`, `p < 0.0001`)."""
    return f"p < {LEAST_P:.4f}" if p < LEAST_P else f"p = {p:.3g}"


def format_percentage(share: float) -> str:
    """A share between 0 and 1 in per cent (`95 %`); one below 1 never becomes 100 %."""
    if 0 < share < LEAST_SHARE:
        return f"< {100 * LEAST_SHARE:g} %"
    # Near 1, three digits would hide what a level of 98.75 % or 99.96 % says.
    digits = 3 if share < 0.98 else 4
    while digits < 15 and share < 1 and float(f"{100 * share:.{digits}g}") == 100:
        digits += 1
    return f"{100 * share:.{digits}g} %"


def format_value(value: str | float | bool | None, digits: int) -> str:
    """The text of a table cell without an interval: `yes`, `—` for a missing value, `12,300`."""
    match value:
        case None:
            return "—"
        case bool():
            return "yes" if value else "no"
        case int():
            return format_number(value, 0)
        case float():
            return format_number(value, digits)
        case _:
            return value


def name_with_value(name: str, value: float) -> str:
    """A name and its value, without digits that say nothing (`threshold 475`)."""
    digits = 0 if float(value).is_integer() else decimals_for_span(abs(value))
    return f"{name} {format_number(value, digits)}"


def format_cell(value: Any) -> str:
    """The text of a cell in a console table; usual numbers have two decimal places."""
    if value is None:
        return "—"
    if isinstance(value, float):
        return format_score(value)
    return f"{value:,}" if isinstance(value, int) else str(value)


MOST_VALUES = 5
"""Values of a schedule that are shown on a line."""


def format_parameters(parameters: Mapping[str, Any]) -> str:
    """Hyperparameters on one line (`gamma=0.958 learning_rate=0.00124`).

    A key is shortened to its last part where no other key ends with this part. A number has up to
    four significant digits.
    """
    short = [key.rpartition(".")[2] for key in parameters]
    return " ".join(
        f"{name if short.count(name) == 1 else key}={format_parameter(value)}"
        for name, (key, value) in zip(short, parameters.items(), strict=True)
    )


def format_parameter(value: Any) -> str:
    """A hyperparameter on one line; a schedule as its values in their order (`0.99→0.95`)."""
    if isinstance(value, float) and math.isfinite(value):
        return f"{value:.{SIGNIFICANT}g}"
    if isinstance(value, Mapping) and value.get("shape") == "steps":
        # A schedule: its values in their order, and how many are left out.
        values = [format_parameter(each) for each in value["values"]]
        shown = (
            values if len(values) <= MOST_VALUES else [*values[: MOST_VALUES - 2], "…", values[-1]]
        )
        return "→".join(shown)
    return value if isinstance(value, str) else json.dumps(value, separators=(",", ":"))


# Times and sizes


def format_time(time: float | None) -> str | None:
    """Seconds since 1970 as local time (`2026-07-01 12:30:05`)."""
    if time is None:
        return None
    try:
        return datetime.fromtimestamp(time).astimezone().strftime("%Y-%m-%d %H:%M:%S")
    except (ValueError, OverflowError, OSError):
        return f"{time:g} s after 1970"


def format_age(seconds: float) -> str:
    """The time since an event in one unit (`5 min ago`)."""
    for unit, length in (("d", 86400), ("h", 3600), ("min", 60)):
        if seconds >= length:
            return f"{seconds // length:.0f} {unit} ago"
    return f"{max(seconds, 0):.0f} s ago"


def format_duration(seconds: float) -> str:
    """A duration in at most two units (`3 min 10 s`)."""
    whole = round(seconds)
    if whole < 60:
        return f"{whole} s"
    if whole < 3600:
        return f"{whole // 60} min {whole % 60} s"
    return f"{whole // 3600} h {whole % 3600 // 60} min"


def format_bytes(count: int) -> str:
    """A number of bytes in a readable unit (`38 MB`, `1.2 GB`)."""
    value = float(count)
    for unit in ("B", "kB", "MB", "GB"):
        # 9.95 and above would be rounded to `10.0`.
        if value < 9.95:
            return f"{value:.1f}".removesuffix(".0") + f" {unit}"
        if value < 1000:
            return f"{value:.0f} {unit}"
        value /= 1000
    return f"{value:.1f} TB"


# Lists


def format_count(count: int, noun: str) -> str:
    """A count with its noun (`1 run`, `3,000 runs`); the plural is the noun with an s."""
    return f"{count:,} {noun}" if count == 1 else f"{count:,} {noun}s"


def join_names(names: Iterable[str]) -> str:
    """Names joined for a sentence in their order (`a, b and c`)."""
    items = list(names)
    return " and ".join([", ".join(items[:-1]), items[-1]]) if len(items) > 1 else "".join(items)


def join_first_names(names: Sequence[str], most: int = 10) -> str:
    """The first names joined for a sentence, and the number of others (`a, b and 7 more`)."""
    if len(names) <= most:
        return join_names(names)
    return f"{', '.join(names[:most])} and {len(names) - most} more"


def format_ranges(values: Iterable[int]) -> str:
    """Whole numbers with consecutive ones as ranges (`0–4, 7`)."""
    ranges: list[list[int]] = []
    for value in sorted(set(values)):
        if ranges and value == ranges[-1][-1] + 1:
            ranges[-1] = [ranges[-1][0], value]
        else:
            ranges.append([value])
    return ", ".join("–".join(map(str, ends)) for ends in ranges)


MOST_LISTED_TASKS = 6
"""Largest number of tasks whose numbers of runs are listed one by one."""


def format_runs_by_task(sizes: tuple[int, ...]) -> str:
    """How many runs each task has: `3`, `3 on each of 2 tasks`, `3 + 2`, `2 to 5 on 26 tasks`."""
    if len(sizes) == 1:
        return f"{sizes[0]:,}"
    if len(set(sizes)) == 1:
        return f"{sizes[0]:,} on each of {len(sizes)} tasks"
    if len(sizes) <= MOST_LISTED_TASKS:
        return " + ".join(f"{runs:,}" for runs in sizes)
    return f"{min(sizes):,} to {max(sizes):,} on {len(sizes)} tasks"


# Safe and short text

UNPRINTABLE_CATEGORIES = frozenset({"Cc", "Cs"})
"""Unicode categories of characters that are never shown: control characters and surrogates."""

DIRECTION_CONTROLS = frozenset("\u202a\u202b\u202c\u202d\u202e\u2066\u2067\u2068\u2069")
"""Characters that reverse the direction of the text after them, and so can disguise it."""

SPACE_CATEGORIES = frozenset({"Zs", "Zl", "Zp"})
"""Unicode categories of spaces and separators."""


def without_control_characters(text: str) -> str:
    """The text with every control character replaced, by a space or by �."""
    return "".join(map(_visible, text))


def _visible(character: str) -> str:
    category = unicodedata.category(character)
    if category in SPACE_CATEGORIES or character in "\t\n\r\v\f":
        return " "
    return (
        "�" if category in UNPRINTABLE_CATEGORIES or character in DIRECTION_CONTROLS else character
    )


def one_line(text: str) -> str:
    """The visible text on one line, with single spaces between words."""
    return " ".join(without_control_characters(text).split())


def is_utf_8(encoding: str | None) -> bool:
    """Whether an encoding writes every character; None is that of a text that is kept in memory."""
    return encoding is None or codecs.lookup(encoding).name == "utf-8"


def safe_for_terminal(text: str, kept: str = "\n\t") -> str:
    """The text without control characters that a terminal would obey, except those in `kept`."""
    if text.isprintable():
        return text
    return "".join(
        c if c.isprintable() or c in kept else "\N{REPLACEMENT CHARACTER}" for c in text
    )


def first_sentence(text: str) -> tuple[str, str]:
    """The first sentence of a text, with its full stop, and the rest, which may be empty.

    A sentence may begin with a label in small letters, so any character may follow the space.
    """
    first, *rest = re.split(r"(?<=[.?!]) ", text, maxsplit=1)
    return first, "".join(rest)


def spell_missing_characters(text: str, is_available: Callable[[str], bool]) -> str:
    """The text with unavailable characters as code points (`[U+1F916]`).

    Names that differ only in such characters stay different, unlike with one replacement character.
    """
    runs = ((available, "".join(run)) for available, run in groupby(text, is_available))
    return "".join(run if available else f"[{_code_points(run)}]" for available, run in runs)


def _code_points(characters: str) -> str:
    return " ".join(f"U+{ord(c):04X}" for c in characters)


def shorten_middle(text: str, length: int) -> str:
    """The text shortened to `length` characters, with … in place of its middle."""
    if len(text) <= length:
        return text
    tail = length // 3
    return f"{text[: length - tail - 1]}…{text[len(text) - tail :]}"


# JSON values as YAML


def as_yaml(value: Any) -> str:
    """JSON values as YAML, with one leaf on each line."""
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
    # JSON is valid YAML; only texts that YAML reads as themselves are written without quotes.
    if isinstance(value, str) and _UNQUOTED.fullmatch(value) and value not in _YAML_WORDS:
        return value
    return json.dumps(value, ensure_ascii=False)


_UNQUOTED = re.compile(r"[A-Za-z_/][\w./+@()-]*( [\w./+@()-]+)*", re.ASCII)
_YAML_WORDS = frozenset({"null", "true", "false", "yes", "no", "on", "off", "y", "n"})
"""Texts that YAML would read as null or as a boolean."""
