"""The only module that prints: tables and lines for people, JSON for machines."""

import json
import os
import shlex
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, Protocol

from rich.console import Console as RichConsole
from rich.text import Text

from rlexp.console.lines import Lines
from rlexp.console.plans import run_plan_lines
from rlexp.console.tables import table_of
from rlexp.console.words import SCORES, finite, json_text, printable
from rlexp.reports.past import Past
from rlexp.store.secrets import mask_known, secret_values

if TYPE_CHECKING:
    from rlexp.console.sweep import View
    from rlexp.engine.running import Running
    from rlexp.records.run import RunRecord
    from rlexp.reports.blocks import Block

WIDEST = 10_000
"""Columns of a table that no terminal shows."""
MOST_SCORES = 50
"""Scores of a configuration that are printed one by one."""


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

    def plan(self, plan: Mapping[str, Any]) -> None:
        """Show what is about to run."""
        if self.as_json:
            if not self.quiet:
                print(json.dumps({"plan": plan}), file=sys.stderr)  # noqa: T201
            return
        for line in run_plan_lines(plan):
            self.line(line)

    def sweep_plan(self, plan: Mapping[str, Any]) -> None:
        """Show what a sweep is about to do."""
        from rlexp.console.sweep import plan_lines

        if not self.as_json:
            for line in plan_lines(plan):
                self.line(line)
        elif not self.quiet:
            print(json.dumps({"plan": plan}), file=sys.stderr)  # noqa: T201

    @contextmanager
    def watch(self, total: int) -> Iterator[Watching]:
        """Show runs while they run: a live table on a terminal, lines elsewhere."""
        if self.out.is_terminal and not self.out.is_dumb_terminal and not self.quiet:
            from rlexp.console.live import live_table

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

    def redraw(
        self, lines: Callable[[], tuple[Sequence[str], bool]], pause: Callable[[], None]
    ) -> None:
        """Show lines again and again until they are the last ones.

        Args:
            lines: The lines, and whether others will follow.
            pause: Waits between two looks.
        """
        if not self.out.is_terminal or self.out.is_dumb_terminal:
            before: list[str] = []
            follow = True
            while follow:
                shown, follow = lines()
                for line in shown if list(shown) != before else ():
                    self.line(line)
                before = list(shown)
                if follow:
                    pause()
            return
        from rich.live import Live

        with Live(console=self.out, auto_refresh=False) as live:
            follow = True
            while follow:
                shown, follow = lines()
                live.update(Text("\n".join(map(printable, shown))), refresh=True)
                if follow:
                    pause()

    def summary(self, summary: Mapping[str, Any]) -> None:
        """Show where an experiment stands."""
        if self.as_json:
            self.json(summary)
            return
        if summary.get("ran") == 0:
            self.line(
                f"{summary['experiment']}: nothing to run, every run that was asked for has ended"
            )
        for one in summary["cells"]:
            self._cell(one, summary)
        troubled = [r for r in summary["runs"] if r["state"] not in {"completed", "planned"}]
        for run in troubled:
            reason = f": {run['reason']}" if run["reason"] else ""
            kind = f" ({run['failure']})" if run["failure"] else ""
            self.line(f"  {run['run']} {run['state']}{kind} at step {run['step']:,}{reason}")
        for told in Past.from_plain(summary["past"]).sentences():
            self.line(f"  {told}")
        self.line(f"Records: {summary['folder']}")
        for step in summary.get("next", ()):
            self.line(f"To {step['why']}: {step['command']}")

    def _cell(self, one: Mapping[str, Any], summary: Mapping[str, Any]) -> None:
        phase, scores = summary["phase"], one["scores"]
        self.line()
        self.line(f"{one['label']} on {one['task']}, {phase} seeds, score: {SCORES[one['score']]}")
        if len(scores) > MOST_SCORES:
            low, high = min(scores.values()), max(scores.values())
            every = shlex.join(["rlexp", "ls", summary["experiment"]])
            self.line(
                f"  {len(scores):,} scores from {low:.2f} to {high:.2f}; to see each: {every}"
            )
        else:
            for seed, score in scores.items():
                self.line(f"  seed {seed:<4} {score:10.2f}")
        self.line(f"  {one['in_words']}")
        lost = [
            f"{one[key]} {word}"
            for key, word in (("failed", "failed"), ("missing", "missing"))
            if one[key]
        ]
        told = f"n = {one['n']} of {one['planned']} runs"
        if lost:
            worst = one["counted_as_worst"]
            told += (
                f" ({', '.join(lost)}{f', {worst} counted as the worst score' if worst else ''})"
            )
        self.line(f"  {told}")
        if one["threshold"] is not None and one["scores"]:
            reached = sum(s >= one["threshold"] for s in one["scores"].values())
            self.line(
                f"  {reached} of {len(one['scores'])} reached the task's threshold of {one['threshold']:g}"
            )
