"""Which rows of a listing are wanted, and in what order."""

import operator
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from rlexp.errors import ConfigError

Row = Mapping[str, Any]
"""One row of a listing, by column."""
CONDITION = re.compile(
    r"\s*(?P<column>\w+)\s*(?P<operator>!=|>=|<=|=|~|>|<)\s*(?P<value>.*)", re.DOTALL
)
ORDERS: Mapping[str, Callable[[Any, Any], bool]] = {
    ">": operator.gt,
    ">=": operator.ge,
    "<": operator.lt,
    "<=": operator.le,
}
NONE = ("", "none", "null", "—")
"""How a condition names a value that is missing."""


@dataclass(frozen=True, slots=True)
class Condition:
    """A column compared with a value."""

    column: str
    operator: str
    value: str

    def holds(self, row: Row) -> bool:
        """Whether the row fulfils the condition; a missing value is neither more nor less."""
        found = row[self.column]
        if self.operator in ORDERS:
            return found is not None and ORDERS[self.operator](found, float(self.value))
        if self.operator == "~":
            return found is not None and self.value.lower() in str(found).lower()
        return _equal(found, self.value) is (self.operator == "=")


def read_conditions(
    texts: Iterable[str], numbers: Sequence[str], words: Sequence[str]
) -> list[Condition]:
    """Read conditions such as `score>400`, of columns that hold numbers and those that hold words.

    Raises:
        ConfigError: One is no condition, names no column, or compares words by size.
    """
    conditions = []
    for text in texts:
        found = CONDITION.fullmatch(text)
        if found is None:
            raise ConfigError(
                f"--where {text!r} is no condition; write COLUMN=VALUE, or !=, ~ (contains), "
                ">, >=, <, <= for numbers",
                code="wrong_type",
                key="--where",
            )
        condition = Condition(*found.group("column", "operator", "value"))
        check_column(condition.column, (*numbers, *words), "--where")
        if condition.operator in ORDERS:
            _check_order(condition, numbers)
        conditions.append(condition)
    return conditions


def check_column(name: str, columns: Sequence[str], option: str) -> None:
    """Refuse a column that there is not.

    Raises:
        ConfigError: Names the columns there are.
    """
    if name not in columns:
        raise ConfigError.unknown(
            f"{option}: there is no column {name!r}", name, columns, key=option
        )


def order_rows(rows: Iterable[Row], sort: str | None, columns: Sequence[str]) -> list[Row]:
    """Sort by a column, downwards for `-column`; missing values stand last either way.

    Raises:
        ConfigError: There is no such column.
    """
    if sort is None:
        return list(rows)
    column, down = sort.removeprefix("-"), sort.startswith("-")
    check_column(column, columns, "--sort")
    every = list(rows)
    present = [row for row in every if not _missing(row[column])]
    absent = [row for row in every if _missing(row[column])]
    return sorted(present, key=lambda row: row[column], reverse=down) + absent


def _missing(value: Any) -> bool:
    return value is None or value != value  # noqa: PLR0124 (NaN has no place in an order)


def _check_order(condition: Condition, numbers: Sequence[str]) -> None:
    text = f"--where {condition.column}{condition.operator}{condition.value}"
    if condition.column not in numbers:
        raise ConfigError(f"{text}: {condition.column} holds words; compare it with =, != or ~")
    if _number(condition.value) is None:
        raise ConfigError(f"{text}: {condition.value!r} is no number")


def _equal(found: Any, value: str) -> bool:
    if found is None:
        return value.lower() in NONE
    number = _number(value)
    if isinstance(found, int | float) and number is not None:
        return found == number
    return str(found) == value


def _number(text: str) -> float | None:
    try:
        return float(text.replace(",", ""))
    except ValueError:
        return None
