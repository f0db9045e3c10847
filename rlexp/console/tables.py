"""Rows of a table as text, where nothing needs to be folded: thousands at once."""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from rich.cells import cell_len
from rich.console import Console
from rich.table import Table
from rich.text import Text

from rlexp.text import cell, printable

BETWEEN = 2
"""Spaces between two columns."""


def table_of(
    rows: Sequence[Mapping[str, Any]], columns: Sequence[str], out: Console
) -> tuple[Table, str]:
    """A table, and text of its rows that follows it; the text is empty where the table has them.

    Args:
        rows: Its rows.
        columns: Those that are shown.
        out: Where it is shown: lines that are longer than it is wide are folded.
    """
    right = [all(isinstance(r.get(c), int | float | None) for r in rows) for c in columns]
    cells = [[printable(cell(row.get(c)), "") for c in columns] for row in rows]
    widths = [max(map(_width, own)) for own in zip(columns, *cells, strict=True)]
    fits = sum(widths) + BETWEEN * (len(widths) - 1) <= out.width
    plain = fits and all(text == text.strip() for row in cells for text in row)
    table = Table(box=None, pad_edge=False, header_style="bold")
    for column, numbers, width in zip(columns, right, widths, strict=True):
        table.add_column(
            column,
            justify="right" if numbers else "left",
            overflow="fold",
            min_width=width if plain else None,
        )
    if plain:
        return table, "".join(_lines(cells, right, widths))
    for row in cells:
        table.add_row(*(Text(text) for text in row))
    return table, ""


def _lines(
    cells: Sequence[Sequence[str]], right: Sequence[bool], widths: Sequence[int]
) -> Iterator[str]:
    between = " " * BETWEEN
    for row in cells:
        padded = (
            _padded(text, width, right=numbers)
            for text, numbers, width in zip(row, right, widths, strict=True)
        )
        yield between.join(padded) + "\n"


def _padded(text: str, width: int, *, right: bool) -> str:
    missing = " " * (width - _width(text))
    return missing + text if right else text + missing


def _width(text: str) -> int:
    return len(text) if text.isascii() else cell_len(text)
