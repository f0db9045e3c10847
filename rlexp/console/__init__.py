"""The console: prints tables and lines, or JSON documents. No other package prints results."""

import os
import sys
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from itertools import chain
from typing import TYPE_CHECKING, Any

from rich.console import Console as RichConsole
from rich.text import Text

from rlexp.console.folding import WithoutTrailingSpaces, folded
from rlexp.console.formatting import finite, json_text
from rlexp.console.tables import ProgressLines, table_of
from rlexp.store.secrets import mask_known, secret_values
from rlexp.text import is_utf_8, safe_for_terminal

if TYPE_CHECKING:
    from rlexp.console.score_rows import ScoreRows
    from rlexp.engine.run_in_flight import Watcher
    from rlexp.engine.sweep_view import ReadSweepView
    from rlexp.reports.drawing.blocks import Block, LineFigure

WIDEST = 10_000
"""Width of output that is not a terminal, in characters."""


class _PipeSafeConsole(RichConsole):
    """A Rich console that discards output after its reader closed the pipe (`rlexp … | head`).

    The command continues, and its exit code stays the same.
    """

    def on_broken_pipe(self) -> None:
        """Discard all further output; Rich would exit with code 1."""
        self.quiet = True
        _discard_output()


def _write(text: str) -> None:
    try:
        sys.stdout.write(text)
        # Flushed at once: a closed pipe would otherwise be noticed only at exit.
        sys.stdout.flush()
    except BrokenPipeError:
        _discard_output()


def _write_json(value: object, indent: int | None) -> None:
    # An escaped character is the same JSON string, and every encoding can write it.
    only_ascii = not is_utf_8(sys.stdout.encoding)
    _write(json_text(finite(value), indent, only_ascii=only_ascii) + "\n")


def masked(text: str) -> str:
    """The text without secrets and control characters; an exception may quote any value."""
    return safe_for_terminal(mask_known(text, secret_values(os.environ)))


def _for_terminal(console: RichConsole, text: str) -> Sequence[str]:
    """The lines of a text, folded where the console is a terminal."""
    if not console.is_terminal:
        return [text]
    return [*chain.from_iterable(folded(line, console.width) for line in text.split("\n"))]


def _print_on_standard_error(text: str) -> None:
    console = RichConsole(stderr=True)
    print(*_for_terminal(console, text), sep="\n", file=sys.stderr)  # noqa: T201


def _discard_output() -> None:
    # Replacing the file descriptor also silences Python's flush of standard output at exit.
    null_device = os.open(os.devnull, os.O_WRONLY)
    os.dup2(null_device, sys.stdout.fileno())
    os.close(null_device)


class Console:
    """Prints results to standard output, and remarks and errors to standard error."""

    def __init__(self, *, as_json: bool = False, quiet: bool = False) -> None:
        """With `as_json`, print JSON values to standard output and nothing else."""
        self.as_json = as_json
        self.quiet = quiet
        # With --json, progress goes to standard error, because standard output holds only JSON.
        self.out = _PipeSafeConsole(highlight=False, stderr=as_json)
        self.out.push_render_hook(WithoutTrailingSpaces())
        if not self.out.is_terminal:
            # A file or a pipe has no width, so lines must not be folded.
            self.out.width = WIDEST

    def line(self, text: str = "") -> None:
        """Print a line, on a terminal folded between words with the further lines indented.

        Markup is not interpreted, and control characters are replaced.
        """
        for part in _for_terminal(self.out, safe_for_terminal(text)):
            self.out.print(Text(part), soft_wrap=True)

    def text(self, text: str) -> None:
        """Print a long text unchanged, except that control characters are replaced."""
        _write(safe_for_terminal(text).rstrip("\n") + "\n")

    def json(self, value: object) -> None:
        """Print a JSON value to standard output."""
        _write_json(value, indent=1)

    def json_line(self, value: object) -> None:
        """Print a JSON value to standard output on one line."""
        _write_json(value, indent=None)

    def note(self, text: str) -> None:
        """Print a remark to standard error."""
        _print_on_standard_error(masked(text))

    def error(self, text: str) -> None:
        """Print an error to standard error, with secrets masked."""
        _print_on_standard_error(f"rlexp: {masked(text)}")

    def show(self, value: object, lines: Sequence[str]) -> None:
        """Print a result: its JSON value with `as_json`, else its lines."""
        if self.as_json:
            self.json(value)
        else:
            for line in lines:
                self.line(line)

    def blocks(self, blocks: "Iterable[Block]") -> None:
        """Print blocks of a report; with `as_json`, print nothing."""
        from rlexp.console.blocks import show_blocks

        if not self.as_json:
            show_blocks(self.out, blocks)

    def paragraph(self, text: str, style: str = "") -> None:
        """Print a paragraph, on a terminal folded between words; with `as_json`, print nothing."""
        from rlexp.console.blocks import paragraph

        if not self.as_json:
            paragraph(self.out, text, style)

    def scores(self, table: "ScoreRows", all_of_them: str) -> None:
        """Print a line with a small chart for each label; with `as_json`, print nothing.

        Args:
            table: The scores of the labels.
            all_of_them: The command that prints every label.
        """
        from rlexp.console.score_rows import show_scores

        if not self.as_json:
            show_scores(self.out, table, all_of_them)

    def plot(
        self, figure: "LineFigure", notes: Mapping[str, str], height: int | None = None
    ) -> None:
        """Print curves with their bands; with `as_json`, print nothing.

        Args:
            figure: The curves.
            notes: A text for each label in the legend.
            height: Rows of the axes; None for the usual number.
        """
        from rlexp.console.plots import HEIGHT, show_plot

        if not self.as_json:
            show_plot(self.out, figure, notes, height or HEIGHT)

    def table(self, rows: Sequence[Mapping[str, Any]], columns: Sequence[str]) -> None:
        """Print rows as a table of the given columns; with `as_json`, all fields of the rows."""
        if self.as_json:
            self.json(list(rows))
            return
        table, following = table_of(rows, columns, self.out)
        self.out.print(table)
        if following:
            _write(following)

    @contextmanager
    def watch(self, total: int) -> Iterator["Watcher"]:
        """Show the progress of runs: a live table on a terminal, else lines."""
        if self.out.is_terminal and not self.out.is_dumb_terminal and not self.quiet:
            from rlexp.console.tables import live_table

            with live_table(self.out, total) as live:
                yield live
        else:
            yield ProgressLines(self.line, total, quiet=self.quiet)

    @contextmanager
    def watch_sweep(self, view: "ReadSweepView") -> Iterator["Watcher"]:
        """Show the progress of a sweep: a live table on a terminal, else lines."""
        from rlexp.console.sweep import SweepLines, sweep_table

        if self.out.is_terminal and not self.out.is_dumb_terminal and not self.quiet:
            with sweep_table(self.out, view) as live:
                yield live
        else:
            yield SweepLines(self.line, view, quiet=self.quiet)

    def redraw(self, updates: Iterable[Sequence[str]]) -> None:
        """Show each update in place of the previous one.

        Without a terminal, an update is printed below the previous one if it differs.

        Args:
            updates: The lines of each update. The iterable waits between two updates.
        """
        if not self.out.is_terminal or self.out.is_dumb_terminal:
            before: list[str] = []
            for lines in updates:
                for line in lines if list(lines) != before else ():
                    self.line(line)
                before = list(lines)
            return
        from rich.live import Live

        with Live(console=self.out, auto_refresh=False) as live:
            for lines in updates:
                parts = (_for_terminal(self.out, safe_for_terminal(line)) for line in lines)
                live.update(Text("\n".join(chain.from_iterable(parts))), refresh=True)
