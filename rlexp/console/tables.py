"""Tables of rows, and the progress of runs as a live table or as lines."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from time import monotonic
from typing import TYPE_CHECKING, Any

from rich.cells import cell_len
from rich.console import Console, Group
from rich.live import Live
from rich.markup import escape
from rich.table import Table
from rich.text import Text

from rlexp.console.folding import folded
from rlexp.console.formatting import ending, progress
from rlexp.console.progress import LEFT_ALIGNED, RunsDone, run_cells, run_columns
from rlexp.text import format_cell, safe_for_terminal

if TYPE_CHECKING:
    from rlexp.engine.run_in_flight import RunInFlight
    from rlexp.records.run import RunRecord


MOST_RUNS = 30
"""Most runs that the live table shows."""


class LiveTable:
    """A live table of active runs; ended runs are printed above it."""

    def __init__(self, live: Live, console: Console, total: int) -> None:
        self._live = live
        self._console = console
        self._done = RunsDone(total)

    def update(self, running: "Sequence[RunInFlight]", waiting: int) -> None:
        """Redraw the table."""
        table = Table(box=None, pad_edge=False, header_style="dim")
        for name in run_columns(running):
            table.add_column(name, justify="left" if name in LEFT_ALIGNED else "right")
        now = monotonic()
        for run in list(running)[:MOST_RUNS]:
            table.add_row(*map(escape, run_cells(run, now)))
        self._live.update(Group(table, Text(self._bottom(running, waiting), style="dim")))

    def ended(self, record: "RunRecord", *, again: bool) -> None:
        """Print above the table how a run ended."""
        self._done.add(record, again=again)
        self._print(ending(record, again=again))

    def _print(self, text: str) -> None:
        """Print a text above the table, folded between words."""
        for part in folded(f"  {text}", self._console.width):
            self._console.print(escape(part), soft_wrap=True)

    def _bottom(self, running: "Sequence[RunInFlight]", waiting: int) -> str:
        return self._done.line(running, waiting)


@contextmanager
def live_table(console: Console, total: int) -> Iterator[LiveTable]:
    """Show a live table while the context is open."""
    with Live(console=console, refresh_per_second=4, transient=True) as live:
        yield LiveTable(live, console, total)


SECONDS_BETWEEN_LINES = 15.0
"""Seconds between two lines of progress."""


class ProgressLines:
    """Prints the progress of runs as lines."""

    def __init__(self, line: Callable[[str], None], total: int, *, quiet: bool) -> None:
        self._line = line
        self._total = total
        self._quiet = quiet
        self._ended = 0
        self._next = monotonic() + SECONDS_BETWEEN_LINES

    def update(self, running: "Sequence[RunInFlight]", waiting: int) -> None:
        """Print a line with the progress of active runs every 15 s."""
        if monotonic() < self._next or self._quiet:
            return
        self._next = monotonic() + SECONDS_BETWEEN_LINES
        steps = ", ".join(f"{r.spec.name} {progress(r)}" for r in running)
        counts = f"{self._ended}/{self._total} done, {waiting} waiting"
        self._line(f"  {counts}; {steps}" if steps else f"  {counts}")

    def ended(self, record: "RunRecord", *, again: bool) -> None:
        """Print how a run ended."""
        self._ended += not again
        if not self._quiet:
            self._line(f"  {ending(record, again=again)}")


COLUMN_GAP = 2
"""Spaces between two columns."""


def table_of(
    rows: Sequence[Mapping[str, Any]], columns: Sequence[str], out: Console
) -> tuple[Table, str]:
    """A Rich table and text to print below it.

    If every row fits on one line, the table holds only the header and the text holds the rows;
    otherwise the table holds the rows and the text is empty.

    Args:
        rows: The rows, by column name.
        columns: The columns to show, in order.
        out: The console that prints the table; its width decides whether rows are folded.
    """
    # Rich needs seconds to lay out thousands of rows; joined strings need milliseconds.
    right = [all(isinstance(r.get(c), int | float | None) for r in rows) for c in columns]
    cells = [[safe_for_terminal(format_cell(row.get(c)), "") for c in columns] for row in rows]
    widths = [max(map(_width, column)) for column in zip(columns, *cells, strict=True)]
    fits = sum(widths) + COLUMN_GAP * (len(widths) - 1) <= out.width
    fits_unfolded = fits and all(text == text.strip() for row in cells for text in row)
    table = Table(box=None, pad_edge=False, header_style="bold")
    for position, (column, numbers, width) in enumerate(
        zip(columns, right, widths, strict=True), 1
    ):
        # Spaces after the last text of a line only make it longer.
        padded = numbers or position < len(columns)
        table.add_column(
            column,
            justify="right" if numbers else "left",
            overflow="fold",
            min_width=width if fits_unfolded and padded else None,
        )
    if fits_unfolded:
        return table, "".join(_lines(cells, right, widths))
    for row in cells:
        table.add_row(*(Text(text) for text in row))
    return table, ""


def _lines(
    cells: Sequence[Sequence[str]], right: Sequence[bool], widths: Sequence[int]
) -> Iterator[str]:
    separator = " " * COLUMN_GAP
    for row in cells:
        padded = (
            _padded(text, width, right=numbers)
            for text, numbers, width in zip(row, right, widths, strict=True)
        )
        yield separator.join(padded).rstrip(" ") + "\n"


def _padded(text: str, width: int, *, right: bool) -> str:
    missing = " " * (width - _width(text))
    return missing + text if right else text + missing


def _width(text: str) -> int:
    # Rich's cell_len is slow, and an ASCII character is always one cell wide.
    return len(text) if text.isascii() else cell_len(text)
