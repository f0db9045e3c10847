"""Conditions on values (`score>400`): what `--where` accepts, and the order of values."""

import json
import operator
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from fnmatch import fnmatchcase
from typing import Any

from rlexp.errors import ConfigError

# Operators of two characters come first: `>` alone would match the beginning of `>=`.
CONDITION = re.compile(
    # A parameter of another tool may have spaces in its name.
    r"(?P<name>[^=!~<>]+?)\s*(?P<operator>!=|>=|<=|=|~|>|<)\s*(?P<value>.*)",
    re.DOTALL,
)
COMPARISONS: Mapping[str, Callable[[Any, Any], bool]] = {
    ">": operator.gt,
    ">=": operator.ge,
    "<": operator.lt,
    "<=": operator.le,
}
NONE = ("", "none", "null", "—")
"""Values of a condition that stand for a missing value."""


@dataclass(frozen=True, slots=True)
class Condition:
    """A comparison of a column, of a key of the configuration or of a parameter, with a value."""

    name: str
    operator: str
    value: str

    def __str__(self) -> str:
        """The condition as one word."""
        return f"{self.name}{self.operator}{self.value}"

    def holds(self, values: Sequence[Any]) -> bool:
        """Whether one of several values fulfils the condition; `!=` must hold for all of them.

        No value counts as one missing value. A missing value fulfils neither `<` nor `>`.
        """
        present = values or (None,)
        if self.operator == "!=":
            return not any(_equal(value, self.value) for value in present)
        return any(self._holds(value) for value in present)

    def _holds(self, value: object) -> bool:
        if self.operator in COMPARISONS:
            return is_number(value) and COMPARISONS[self.operator](value, number_in(self.value))
        if self.operator == "~":
            return value is not None and self.value.lower() in setting_text(value).lower()
        return _equal(value, self.value)

    def holds_for_text(self, present: str) -> bool:
        """Whether a text fulfils the condition; a text that is a number is compared as one, too."""
        try:
            return self.holds([float(present), present])
        except ValueError:
            return self.holds([present])

    def check_kind(self, *, numbers: bool) -> None:
        """Refuse `<` and `>` on text.

        Args:
            numbers: Whether the column holds numbers.

        Raises:
            ConfigError: The column holds text, and the condition needs numbers.
        """
        if self.operator in COMPARISONS and not numbers:
            raise ConfigError(
                f"--where {self}: {self.name} holds text; compare it with =, != or ~"
            )


def read_conditions(texts: Iterable[str]) -> list[Condition]:
    """Parse conditions such as `score>400`.

    Raises:
        ConfigError: A text cannot be parsed, or `<` or `>` is followed by no number.
    """
    conditions = []
    for text in texts:
        match = CONDITION.fullmatch(text.strip())
        if match is None:
            raise ConfigError(
                f"--where {text!r} is not a condition; write NAME=VALUE, with =, !=, ~ "
                "(contains), or >, >=, <, <= for numbers",
                code="wrong_type",
                key="--where",
            )
        condition = Condition(*match.group("name", "operator", "value"))
        if condition.operator in COMPARISONS and number_in(condition.value) is None:
            raise ConfigError(f"--where {condition}: {condition.value!r} is not a number")
        conditions.append(condition)
    return conditions


def setting_text(value: object) -> str:
    """A value as conditions compare it: lists and truth values as in the configuration."""
    if isinstance(value, str):
        return value
    if value is None or isinstance(value, bool | list | tuple | Mapping):
        return json.dumps(value, ensure_ascii=False)
    return str(value)


def number_in(text: str) -> float | None:
    """The number that a text is, with or without thousands separators; None if it is none."""
    try:
        # Tables print numbers with commas, and users copy them from there.
        return float(text.replace(",", ""))
    except ValueError:
        return None


def is_number(value: object) -> bool:
    """Whether a value is a number; true and false are none."""
    return isinstance(value, int | float) and not isinstance(value, bool)


def is_missing(value: object) -> bool:
    """Whether a value is missing: null, or no number."""
    return value is None or value != value  # noqa: PLR0124 (NaN has no place in an order)


def order_key(value: object) -> tuple[bool, Any]:
    """The key by which present values are sorted: numbers by size, and after them text."""
    return (False, value) if is_number(value) else (True, setting_text(value))


def _equal(present: object, value: str) -> bool:
    if present is None:
        return value.lower() in NONE
    number = number_in(value)
    if is_number(present) and number is not None:
        return bool(present == number)
    if isinstance(present, bool):
        return setting_text(present) == value.lower()
    text = setting_text(present)
    return text == value or (bool({"*", "?"} & set(value)) and _matches(text, value))


def _matches(text: str, pattern: str) -> bool:
    # Lists contain brackets, which would otherwise be a set of characters.
    return fnmatchcase(text, pattern.replace("[", "[[]"))
