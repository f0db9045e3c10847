"""Prints blocks of a report on a terminal."""

from collections.abc import Iterable, Iterator, Sequence

from rich.cells import cell_len
from rich.console import Console as RichConsole
from rich.table import Table as RichTable
from rich.text import Text as RichText

from rlexp.console.folding import INDENT, folded
from rlexp.metrics.estimate_text import (
    digits_of,
    ends,
    footnotes,
    no_interval,
    possible,
    too_narrow,
)
from rlexp.reports.drawing.blocks import Block, Callout, Table, TableColumn, Text, Tone, Value
from rlexp.stats.interval import Interval
from rlexp.text import format_number, format_value, safe_for_terminal

STYLES = {Tone.GOOD: "green", Tone.NOTE: "", Tone.WARNING: "yellow", Tone.PROBLEM: "red"}
SIGNS = {Tone.GOOD: "", Tone.NOTE: "", Tone.WARNING: "Warning: ", Tone.PROBLEM: "Problem: "}
GAP = 2
"""Spaces between columns."""
LONGEST_UNFOLDED = 20
"""Width of a text cell, in characters, above which its words may be folded to several lines."""

MOST_ROWS = 200
"""Rows of a table that are printed: a report and `--json` have them all."""

Rows = Sequence[Sequence[str]]


def show_blocks(out: RichConsole, blocks: Iterable[Block]) -> None:
    """Print tables, notices and paragraphs; figures are left out."""
    shown = [block for block in blocks if isinstance(block, Table | Callout | Text)]
    # Each block is paired with the one before it; the first tuple is longer by one.
    for before, block in zip((None, *shown), shown, strict=False):
        if before is not None and (isinstance(block, Table) or type(block) is not type(before)):
            out.print()
        match block:
            case Table():
                _table(out, block)
            case Callout():
                paragraph(out, f"{SIGNS[block.tone]}{block.text}", STYLES[block.tone], INDENT)
            case Text():
                paragraph(out, block.text)


def paragraph(out: RichConsole, text: str, style: str = "", indent: str = "") -> None:
    """Print a paragraph; a terminal folds it between words, and a pipe gets one line.

    With `indent`, the further lines are indented, so that the start of each notice is visible.
    """
    shown = safe_for_terminal(text)
    for line in folded(shown, out.width, indent) if out.is_terminal else [shown]:
        out.print(RichText(line, style), soft_wrap=True)


def _table(out: RichConsole, block: Table) -> None:
    paragraph(out, block.title, "bold")
    titles = [safe_for_terminal(column.title) for column in block.columns]
    rows = [
        [
            safe_for_terminal(cell(value, column))
            for value, column in zip(row, block.columns, strict=True)
        ]
        for row in block.rows[:MOST_ROWS]
    ]
    numeric = [_numeric([row[i] for row in block.rows]) for i in range(len(titles))]
    widths = _widths(titles, rows, numeric, out.width)
    if widths:
        out.print(_across(titles, rows, numeric, widths))
    else:
        for position, part in enumerate(_down(titles, rows, numeric, out.width)):
            if position:
                out.print()
            out.print(part)
    if left_out := len(block.rows) - len(rows):
        paragraph(out, f"{left_out:,} more rows are not printed here; add --json for all rows.")
    for note in _notes(block):
        paragraph(out, note, "dim")


def _numeric(values: Sequence[Value]) -> bool:
    return all(v is None or isinstance(v, int | float | Interval) for v in values)


def _widths(
    titles: Sequence[str], rows: Rows, numeric: Sequence[bool], width: int
) -> list[int] | None:
    """Column widths that fit side by side with every number on one line; None if none fit."""
    widths, least = [], []
    for i, title in enumerate(titles):
        cells = [cell_len(row[i]) for row in rows]
        word = max(map(cell_len, title.split()), default=0)
        widths.append(max([cell_len(title), *cells]))
        least.append(max([word, *(n if numeric[i] else min(n, LONGEST_UNFOLDED) for n in cells)]))
    room = width - GAP * (len(titles) - 1)
    if sum(least) > room:
        return None
    # Narrow the widest column that may still be narrowed, one character at a time.
    while sum(widths) > room:
        widest = max((i for i, n in enumerate(widths) if n > least[i]), key=lambda i: widths[i])
        widths[widest] -= 1
    return widths


def _across(
    titles: Sequence[str], rows: Rows, numeric: Sequence[bool], widths: Sequence[int]
) -> RichTable:
    """The table with one line per row."""
    table = RichTable(box=None, pad_edge=False, header_style="dim")
    for title, number_, width in zip(titles, numeric, widths, strict=True):
        table.add_column(
            RichText(title),
            justify="right" if number_ else "left",
            width=width,
            overflow="fold",
        )
    for row in rows:
        table.add_row(*map(RichText, row))
    return table


def _down(
    titles: Sequence[str], rows: Rows, numeric: Sequence[bool], width: int
) -> Iterator[RichTable]:
    """The table transposed: one column per row, as many side by side as the terminal is wide."""
    numbers = (
        cell_len(row[i]) for row in rows for i, is_number in enumerate(numeric) if is_number
    )
    room = width - GAP - max(numbers, default=0)
    side = max(min(max(map(cell_len, titles)), width // 3, room), 1)
    most = width - side - GAP
    waiting = list(rows) or [["—"] * len(titles)]
    while waiting:
        widths: list[int] = []
        for row in waiting:
            widths.append(min(max(map(cell_len, row)), most))
            # At least one column is printed, however narrow the terminal: the loop must end.
            if sum(widths) + GAP * (len(widths) - 1) > most and len(widths) > 1:
                widths.pop()
                break
        part, waiting = waiting[: len(widths)], waiting[len(widths) :]
        table = RichTable(box=None, pad_edge=False, show_header=False)
        table.add_column(style="dim", width=side, overflow="fold")
        for column_width in widths:
            table.add_column(width=column_width, overflow="fold")
        for i, title in enumerate(titles):
            table.add_row(RichText(title), *(RichText(row[i]) for row in part))
        yield table


def cell(value: Value, column: TableColumn) -> str:
    """The text of a table cell: an estimate with its interval, or `—` for a missing value."""
    if isinstance(value, Interval):
        return _interval(value, column.digits)
    return format_value(value, column.digits)


def _interval(value: Interval, digits: int) -> str:
    shown = format_number(value.estimate, digits_of(value, digits))
    if not possible(value):
        return f"{shown} [—]"
    return f"{shown} {ends(value, digits)}{'†' if too_narrow(value) else ''}"


def _notes(block: Table) -> Sequence[str]:
    intervals = [v for row in block.rows for v in row if isinstance(v, Interval)]
    impossible = dict.fromkeys(no_interval(i) for i in intervals if not possible(i) and i.reason)
    reasons = [f"[—] {reason[:1].upper()}{reason[1:]}." for reason in impossible]
    return [*filter(None, [block.note]), *footnotes(intervals), *reasons]
