"""The only module that prints: tables and lines for people, JSON for machines."""

import os
import sys
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, Protocol

from rich.console import Console as RichConsole
from rich.text import Text

from rlexp.console.tables import Lines, table_of
from rlexp.console.words import finite, json_text
from rlexp.store.secrets import mask_known, secret_values
from rlexp.text import printable

if TYPE_CHECKING:
    from rlexp.engine.running import Running
    from rlexp.engine.sweep_view import View
    from rlexp.records.run import RunRecord
    from rlexp.reports.drawing.blocks import Block

WIDEST = 10_000
"""Columns of a table that no terminal shows."""


class Watching(Protocol):
    """What a loop tells while it runs; see `rlexp.engine.running.Watcher`."""

    def update(self, running: "Sequence[Running]", waiting: int) -> None:
        """What runs now, and how many runs wait."""
        ...

    def ended(self, record: "RunRecord", *, again: bool) -> None:
        """A run's attempt ended."""
        ...


class _Unstoppable(RichConsole):
    """Falls silent when nobody reads on (`rlexp … | head`): what runs goes on, and its code stays."""

    def on_broken_pipe(self) -> None:
        """Let what is still to be said go nowhere."""
        self.quiet = True
        _silence_output()


def _write(text: str) -> None:
    try:
        sys.stdout.write(text)
        sys.stdout.flush()
    except BrokenPipeError:
        _silence_output()


def _masked(text: str) -> str:
    """What may quote an exception, and with it anything, without secrets and control characters."""
    return printable(mask_known(text, secret_values(os.environ)))


def _silence_output() -> None:
    nowhere = os.open(os.devnull, os.O_WRONLY)
    os.dup2(nowhere, sys.stdout.fileno())
    os.close(nowhere)


class Console:
    """Writes results to standard output, and everything else to standard error."""

    def __init__(self, *, as_json: bool = False, quiet: bool = False) -> None:
        """With `as_json`, standard output carries one JSON value and nothing else."""
        self.as_json = as_json
        self.quiet = quiet
        self.out = _Unstoppable(highlight=False, stderr=as_json)
        if not self.out.is_terminal:
            # A file or a pipe has no edge to fold at.
            self.out.width = WIDEST

    def line(self, text: str = "") -> None:
        """Print a line, its markup unread and its control characters harmless."""
        self.out.print(Text(printable(text)), soft_wrap=True)

    def text(self, text: str) -> None:
        """Print text of any length as it is, but for its control characters."""
        _write(printable(text).rstrip("\n") + "\n")

    def json(self, value: Any) -> None:
        """Print a JSON value to standard output."""
        _write(json_text(finite(value)) + "\n")

    def json_line(self, value: Any) -> None:
        """Print a JSON value to standard output on one line, of which others follow."""
        _write(json_text(finite(value), indent=None) + "\n")

    def note(self, text: str) -> None:
        """Print a remark to standard error."""
        print(_masked(text), file=sys.stderr)  # noqa: T201

    def error(self, text: str) -> None:
        """Print a user's mistake to standard error."""
        print(f"rlexp: {_masked(text)}", file=sys.stderr)  # noqa: T201

    def show(self, value: Any, lines: Sequence[str]) -> None:
        """Show a result: its JSON for machines, lines for people."""
        if self.as_json:
            self.json(value)
        else:
            for line in lines:
                self.line(line)

    def blocks(self, blocks: "Iterable[Block]") -> None:
        """Show blocks of a report to people; machines get its numbers as JSON."""
        from rlexp.console.blocks import show_blocks

        if not self.as_json:
            show_blocks(self.out, blocks)

    def table(self, rows: Sequence[Mapping[str, Any]], columns: Sequence[str]) -> None:
        """Show rows under columns; as JSON, the rows whole."""
        if self.as_json:
            self.json(list(rows))
            return
        table, following = table_of(rows, columns, self.out)
        self.out.print(table)
        if following:
            _write(following)

    @contextmanager
    def watch(self, total: int) -> Iterator[Watching]:
        """Show runs while they run: a live table on a terminal, lines elsewhere."""
        if self.out.is_terminal and not self.out.is_dumb_terminal and not self.quiet:
            from rlexp.console.tables import live_table

            with live_table(self.out, total) as live:
                yield live
        else:
            yield Lines(self.line, total, quiet=self.quiet)

    @contextmanager
    def watch_sweep(self, view: "View") -> Iterator[Watching]:
        """Show a sweep while it goes on."""
        from rlexp.console.sweep import SweepLines, sweep_table

        if self.out.is_terminal and not self.out.is_dumb_terminal and not self.quiet:
            with sweep_table(self.out, view) as live:
                yield live
        else:
            yield SweepLines(self.line, view, quiet=self.quiet)

    def redraw(self, looks: Iterable[Sequence[str]]) -> None:
        """Show lines in the place of the lines before them, until there are no more.

        Where there is no terminal, lines are printed below the lines before them if they differ.

        Args:
            looks: The lines of each look; whoever makes them waits between two looks.
        """
        if not self.out.is_terminal or self.out.is_dumb_terminal:
            before: list[str] = []
            for lines in looks:
                for line in lines if list(lines) != before else ():
                    self.line(line)
                before = list(lines)
            return
        from rich.live import Live

        with Live(console=self.out, auto_refresh=False) as live:
            for lines in looks:
                live.update(Text("\n".join(map(printable, lines))), refresh=True)
