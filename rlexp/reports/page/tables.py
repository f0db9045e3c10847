"""Tables of the page: the text of each cell, and the notes below the table."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from rlexp.metrics.estimate_text import (
    digits_of,
    ends,
    footnotes,
    full_text,
    possible,
    too_narrow,
)
from rlexp.reports.drawing.blocks import Table, TableColumn, Value
from rlexp.reports.drawing.palette import Style
from rlexp.stats.interval import Interval
from rlexp.text import format_number

LONG = 30
"""Number of rows above which a table scrolls in its box."""
NARROW = 2
"""Number of columns above which the rows of a table become blocks on a phone."""
SPACIOUS = 7
"""Number of columns above which a table has smaller letters, to fit on a laptop screen."""


@dataclass(frozen=True, slots=True, kw_only=True)
class TableCell:
    """A cell; `kind` is its CSS class.

    Kinds are `missing`, `yes`, `no`, `words`, `label`, `number`, `interval` and `estimate`. An
    `estimate` has no interval, and `ends` contains the reason.
    """

    kind: str
    text: str
    ends: str = ""
    tooltip: str = ""
    too_narrow: bool = False
    style: Style | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class DrawnTable:
    """A table prepared for the page; `numeric` says which columns are aligned as numbers."""

    table: Table
    rows: Sequence[Sequence[TableCell]]
    numeric: Sequence[bool]
    notes: Sequence[str]

    @property
    def long(self) -> bool:
        """Whether the table is so long that it scrolls."""
        return len(self.rows) > LONG

    @property
    def stacked(self) -> bool:
        """Whether the rows become blocks on a phone, because there are too many columns."""
        return len(self.table.columns) > NARROW

    @property
    def dense(self) -> bool:
        """Whether there are so many columns that smaller letters are needed on a laptop."""
        return len(self.table.columns) > SPACIOUS


def drawn_table(table: Table, styles: Mapping[str, Style]) -> DrawnTable:
    """Convert every value of a table into a cell."""
    intervals = [value for row in table.rows for value in row if isinstance(value, Interval)]
    return DrawnTable(
        table=table,
        rows=[
            [cell(value, column, styles) for value, column in zip(row, table.columns, strict=True)]
            for row in table.rows
        ],
        numeric=[
            not column.label and _numeric([row[k] for row in table.rows])
            for k, column in enumerate(table.columns)
        ],
        notes=(*((table.note,) if table.note else ()), *footnotes(intervals)),
    )


def cell(value: Value, column: TableColumn, styles: Mapping[str, Style]) -> TableCell:
    """The cell of a value in its column."""
    match value:
        case None:
            return TableCell(kind="missing", text="—")
        # Before the numbers, because bool is a subclass of int.
        case bool():
            return TableCell(kind="yes", text="yes") if value else TableCell(kind="no", text="no")
        case int() | float():
            whole = isinstance(value, int)
            return TableCell(
                kind="number", text=format_number(value, 0 if whole else column.digits)
            )
        case Interval():
            return _interval(value, column.digits)
        case _:
            style = styles.get(value) if column.label else None
            return TableCell(kind="label" if style else "words", text=value, style=style)


def _interval(interval: Interval, digits: int) -> TableCell:
    return TableCell(
        kind="interval" if possible(interval) else "estimate",
        text=format_number(interval.estimate, digits_of(interval, digits)),
        ends=ends(interval, digits),
        tooltip=full_text(interval, digits),
        too_narrow=too_narrow(interval),
    )


def _numeric(values: Sequence[Value]) -> bool:
    there = (value for value in values if value is not None)
    return bool(values) and all(
        isinstance(v, int | float | Interval) and not isinstance(v, bool) for v in there
    )
