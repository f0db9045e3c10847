"""The live table of a terminal."""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from time import monotonic
from typing import TYPE_CHECKING

from rich.console import Console, Group
from rich.live import Live
from rich.markup import escape
from rich.table import Table
from rich.text import Text

from rlexp.console.words import ending, progress
from rlexp.text import duration

if TYPE_CHECKING:
    from rlexp.engine.running import Running
    from rlexp.records.run import RunRecord

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
