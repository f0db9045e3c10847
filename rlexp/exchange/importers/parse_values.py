"""Numbers and names as files of others hold them, read strictly."""

import re
from collections.abc import Mapping
from typing import Any

from rlexp.exchange.importers.study import malformed_error

LONGEST_NAME = 120
"""Characters of a label, a task or a run's name."""
LARGEST_STEP = 1 << 53
"""Steps that a run may have: beyond that not every whole number is exact."""
_REAL = re.compile(
    r"[+-]?(\d+\.?\d*|\.\d+)([eE][+-]?\d{1,4})?|[+-]?(nan|inf|infinity)", re.ASCII | re.IGNORECASE
)
_SEED = re.compile(r"seed[_=-]?(\d{1,9})(?!\d)", re.ASCII | re.IGNORECASE)


def parse_number(value: Any, name: str, where: str, what: str) -> float:
    """A number, which may be NaN or infinite.

    Raises:
        MalformedError: It is none.
    """
    if isinstance(value, str) and len(value) < 400 and _REAL.fullmatch(value.strip()):
        return float(value)
    if isinstance(value, int | float) and not isinstance(value, bool):
        try:
            return float(value)
        except OverflowError:
            pass
    raise malformed_error(name, where, f"{what} is {shortened_repr(value)}, and not a number")


def parse_whole_number(value: Any, name: str, where: str, what: str) -> int:
    """A whole number from 0 on (`100`, `1e5`).

    Raises:
        MalformedError: It is none, or larger than any count of steps.
    """
    if isinstance(value, str) and value.strip().isdecimal() and len(value) < 20:
        number: float = int(value)
    else:
        number = parse_number(value, name, where, what)
    if not 0 <= number <= LARGEST_STEP or number != int(number):
        raise malformed_error(
            name, where, f"{what} is {shortened_repr(value)}, and not a whole number from 0 on"
        )
    return int(number)


def parse_name(value: Any, name: str, where: str, what: str) -> str:
    """A label, a task or a name: printable, not empty, and not long.

    Raises:
        MalformedError: It is not.
    """
    text = value.strip() if isinstance(value, str) else ""
    if not text or not text.isprintable() or len(text) > LONGEST_NAME:
        raise malformed_error(
            name,
            where,
            f"{what} is {shortened_repr(value)}, and not a name of 1 to {LONGEST_NAME} letters",
        )
    return text


def required_name(value: str | None, name: str, option: str) -> str:
    """A label or a task, of a source that may not name it.

    Raises:
        MalformedError: It does not, and the user did not either.
    """
    if value is None:
        raise malformed_error(name, "", f"nothing in it names a {option}: give --{option}")
    return parse_name(value, name, "", option)


def shortened_repr(value: Any) -> str:
    """A value in an error, shortened."""
    text = repr(value)
    return text if len(text) <= 60 else f"{text[:60]}…"


def seed_from_name(name: str) -> int | None:
    """The seed that a path names (`ppo/seed_3/monitor.csv`), the last one if it names several."""
    found = _SEED.findall(name)
    return int(found[-1]) if found else None


def details_as_text(values: Mapping[str, Any], most: int = 100) -> dict[str, str]:
    """Parameters worth keeping, as text: the first so many, none of them long."""
    return {str(key)[:100]: str(value)[:200] for key, value in sorted(values.items())[:most]}
