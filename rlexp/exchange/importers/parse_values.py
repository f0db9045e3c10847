"""Strict parsing of the numbers and names in files of other tools."""

import re
from collections.abc import Mapping
from typing import Any

from rlexp.exchange.importers.imported_study import malformed_error

LONGEST_NAME = 120
"""Characters of the longest label, task or run name."""
LARGEST_STEP = 1 << 53
"""Largest step: beyond 2**53 a float cannot represent every integer."""
_REAL = re.compile(
    r"[+-]?(\d+\.?\d*|\.\d+)([eE][+-]?\d{1,4})?|[+-]?(nan|inf|infinity)", re.ASCII | re.IGNORECASE
)
_SEED = re.compile(r"seed[_=-]?(\d{1,9})(?!\d)", re.ASCII | re.IGNORECASE)


def parse_number(value: Any, name: str, where: str, what: str) -> float:
    """A number, which may be NaN or infinite.

    Raises:
        MalformedError: The value is not a number.
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
        MalformedError: The value is not such a number, or larger than `LARGEST_STEP`.
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
    """A label, a task or a run name: printable, not empty, at most `LONGEST_NAME` characters.

    Raises:
        MalformedError: The value is not such a name.
    """
    text = value.strip() if isinstance(value, str) else ""
    if not text or not text.isprintable() or len(text) > LONGEST_NAME:
        raise malformed_error(
            name,
            where,
            f"{what} is {shortened_repr(value)}, and not a name of 1 to {LONGEST_NAME} letters",
        )
    return text


def shortened_repr(value: Any) -> str:
    """The repr of a value for an error message, shortened."""
    text = repr(value)
    return text if len(text) <= 60 else f"{text[:60]}…"


def seed_from_name(name: str) -> int | None:
    """The last seed in a path (`ppo/seed_3/monitor.csv`); None if the path names no seed."""
    matches = _SEED.findall(name)
    return int(matches[-1]) if matches else None


def details_as_text(values: Mapping[str, Any], most: int = 100) -> dict[str, str]:
    """The first `most` parameters by name as texts, shortened to 200 characters."""
    return {str(key)[:100]: str(value)[:200] for key, value in sorted(values.items())[:most]}
