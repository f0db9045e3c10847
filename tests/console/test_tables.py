"""Long tables are printed as Rich prints them, without spaces at the ends of lines."""

from io import StringIO
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from rich.console import Console
from rich.table import Table
from rich.text import Text

from rlexp.console.tables import table_of
from rlexp.text import format_cell, safe_for_terminal

WORDS = (
    "",
    "a b",
    " lead",
    "trail ",
    "日本語",
    "e\u0301",
    "\x1b[31m",
    "a\nb",
    "[bold]x",
    "x" * 30,
)
values = st.none() | st.integers() | st.floats() | st.sampled_from(WORDS) | st.text(max_size=9)
COLUMNS = ("run", "a longer heading", "n")


def by_rich(rows: list[dict[str, Any]], out: Console) -> None:
    """Print the table with every cell laid out by Rich."""
    table = Table(box=None, pad_edge=False, header_style="bold")
    for column in COLUMNS:
        numbers = all(isinstance(r[column], int | float | None) for r in rows)
        table.add_column(column, justify="right" if numbers else "left", overflow="fold")
    for row in rows:
        table.add_row(
            *(Text(safe_for_terminal(format_cell(row[column]), "")) for column in COLUMNS)
        )
    out.print(table)


def console(width: int, *, terminal: bool) -> Console:
    """A console that writes to memory."""
    return Console(highlight=False, file=StringIO(), force_terminal=terminal, width=width)


@pytest.mark.parametrize("terminal", [True, False])
@given(st.lists(st.fixed_dictionaries(dict.fromkeys(COLUMNS, values)), max_size=5), st.data())
def test_rows_as_text_equal_those_of_rich(
    terminal: bool, rows: list[dict[str, Any]], data: st.DataObject
) -> None:
    """The lines are the same for any cells and any width of the terminal, but for their end."""
    width = data.draw(st.sampled_from([20, 60, 10_000]))
    expected, result = (console(width, terminal=terminal) for _ in range(2))
    by_rich(rows, expected)
    table, following = table_of(rows, COLUMNS, result)
    result.print(table)
    result.file.write(following)
    assert unpadded(result) == unpadded(expected)


def unpadded(out: Console) -> list[str]:
    """The printed lines without styles and without spaces at their ends."""
    printed = Text.from_ansi(out.file.getvalue()).plain  # type: ignore[attr-defined]
    return [line.rstrip(" ") for line in printed.split("\n")]


def test_a_long_last_column_does_not_widen_the_other_rows() -> None:
    """A row ends with its last text, however long the last cell of another row is."""
    rows = [{"run": "a", "n": "short"}, {"run": "b", "n": "x" * 500}]
    out = console(10_000, terminal=False)
    table, following = table_of(rows, ("run", "n"), out)
    out.print(table)
    printed = out.file.getvalue() + following  # type: ignore[attr-defined]
    assert ["run  n", "a    short", "b    " + "x" * 500] == printed.splitlines()


def test_rows_that_fit_are_text() -> None:
    """If no row is folded, Rich lays out only the header."""
    rows = [dict.fromkeys(COLUMNS, number) for number in range(9)]
    table, following = table_of(rows, COLUMNS, console(80, terminal=False))
    assert (table.row_count, following.count("\n")) == (0, 9)
