"""Rows of a table as text, where nothing needs to be folded: thousands at once."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from time import monotonic
from typing import TYPE_CHECKING, Any

from rich.cells import cell_len
from rich.console import Console
from rich.table import Table
from rich.text import Text

from rlexp.console.words import ending, progress
from rlexp.text import cell, printable

if TYPE_CHECKING:
    from rlexp.engine.running import Running
    from rlexp.records.run import RunRecord
from contextlib import contextmanager

from rich.console import Group
from rich.live import Live
from rich.markup import escape

from rlexp.text import duration

LARGEST = 30


class LiveTable:
    """Redraws what runs now; what has ended scrolls by above it."""

    def __init__(self, live: Live, console: Console, total: int) -> None:
        self._live = live
        self._console = console
        self._total = total
        self._ended = 0
        self._started = monotonic()
        self._steps_done = 0

    def update(self, running: "Sequence[Running]", waiting: int) -> None:
        """Redraw."""
        table = Table(box=None, pad_edge=False, header_style="dim")
        for name in ("run", "seed", "steps", "", "return", "steps/s", "left"):
            table.add_column(name, justify="left" if name in {"run", ""} else "right")
        now = monotonic()
        for one in list(running)[:LARGEST]:
            total = one.spec.budget["steps"]
            speed = one.step / max(now - one.since, 0.1)
            left = duration((total - one.step) / speed) if one.step else "—"
            table.add_row(
                escape(one.spec.name),
                str(one.spec.seed),
                f"{one.step:,}",
                progress(one).split(" ")[0],
                f"{one.last.mean:,.1f}" if one.last else "—",
                f"{speed:,.0f}" if one.step else "—",
                left if one.step < total else "evaluating",
            )
        self._live.update(Group(table, Text(self._bottom(running, waiting), style="dim")))

    def ended(self, record: "RunRecord", *, again: bool) -> None:
        """Print how a run ended, above the table."""
        self._ended += not again
        self._steps_done += record.spec.budget["steps"] if not again else 0
        self._console.print("  " + escape(ending(record, again=again)), soft_wrap=True)

    def _bottom(self, running: "Sequence[Running]", waiting: int) -> str:
        elapsed = monotonic() - self._started
        steps = self._steps_done + sum(one.step for one in running)
        text = f"{self._ended}/{self._total} done, {waiting} waiting, {duration(elapsed)}"
        if steps and running:
            each = running[0].spec.budget["steps"]
            left = max(self._total * each - steps, 0) * elapsed / steps
            text += f", about {duration(left)} left"
        return text


@contextmanager
def live_table(console: Console, total: int) -> Iterator[LiveTable]:
    """Show a live table as long as the context lasts."""
    with Live(console=console, refresh_per_second=4, transient=True) as live:
        yield LiveTable(live, console, total)


EVERY = 15.0
"""Seconds between lines of progress."""


class Lines:
    """Progress as plain lines."""

    def __init__(self, line: Callable[[str], None], total: int, *, quiet: bool) -> None:
        self._line = line
        self._total = total
        self._quiet = quiet
        self._ended = 0
        self._next = monotonic() + EVERY

    def update(self, running: "Sequence[Running]", waiting: int) -> None:
        """Print a line now and then."""
        if monotonic() < self._next or self._quiet:
            return
        self._next = monotonic() + EVERY
        steps = ", ".join(f"{r.spec.name} {progress(r)}" for r in running)
        self._line(f"  {self._ended}/{self._total} done, {waiting} waiting; {steps}")

    def ended(self, record: "RunRecord", *, again: bool) -> None:
        """Print how a run ended."""
        self._ended += not again
        if not self._quiet:
            self._line(f"  {ending(record, again=again)}")


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
