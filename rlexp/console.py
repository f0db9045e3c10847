"""The only module that prints: tables and lines for people, JSON for machines."""

import json
import sys
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from time import monotonic
from typing import TYPE_CHECKING, Any, Protocol

from rich.console import Console as RichConsole
from rich.markup import escape
from rich.table import Table

if TYPE_CHECKING:
    from rlexp.engine.loop import Running
    from rlexp.records.run import RunRecord

EVERY = 15.0
"""Seconds between lines of progress where there is no terminal."""


class Watching(Protocol):
    """What a loop tells while it runs; see `rlexp.engine.loop.Watcher`."""

    def update(self, running: "Sequence[Running]", waiting: int) -> None:
        """What runs now, and how many runs wait."""
        ...

    def ended(self, record: "RunRecord", *, again: bool) -> None:
        """A run's attempt ended."""
        ...


class Console:
    """Writes results to standard output, and everything else to standard error."""

    def __init__(self, *, as_json: bool = False, quiet: bool = False) -> None:
        """With `as_json`, standard output carries one JSON value and nothing else."""
        self.as_json = as_json
        self.quiet = quiet
        self.out = RichConsole(highlight=False, stderr=as_json)

    def line(self, text: str = "") -> None:
        """Print a line, its markup unread."""
        self.out.print(escape(text), soft_wrap=True)

    def json(self, value: Any) -> None:
        """Print a JSON value to standard output."""
        sys.stdout.write(json.dumps(value, indent=1, ensure_ascii=False) + "\n")

    def error(self, text: str) -> None:
        """Print a user's mistake to standard error."""
        print(f"rlexp: {printable(text)}", file=sys.stderr)  # noqa: T201

    def show(self, value: Any, lines: Sequence[str]) -> None:
        """Show a result: its JSON for machines, lines for people."""
        if self.as_json:
            self.json(value)
        else:
            for line in lines:
                self.line(line)

    def table(self, rows: Sequence[Mapping[str, Any]], columns: Sequence[str]) -> None:
        """Show rows under columns; as JSON, the rows whole."""
        if self.as_json:
            self.json(list(rows))
            return
        table = Table(box=None, pad_edge=False, header_style="bold")
        for column in columns:
            numbers = all(isinstance(r.get(column), int | float | None) for r in rows)
            table.add_column(column, justify="right" if numbers else "left", overflow="fold")
        for row in rows:
            table.add_row(*(escape(cell(row.get(column))) for column in columns))
        self.out.print(table)

    def plan(self, plan: Mapping[str, Any]) -> None:
        """Show what is about to run."""
        if self.as_json:
            if not plan.get("quiet"):
                print(json.dumps({"plan": plan}), file=sys.stderr)  # noqa: T201
            return
        each = " or ".join(f"{steps:,}" for steps in plan["steps_per_run"])
        done = f", {plan['done']} done already" if plan["done"] else ""
        failed = (
            f", {plan['failed']} failed for good (--retry tries again)" if plan["failed"] else ""
        )
        self.line(f"{plan['experiment']} · {plan['phase']} phase{done}{failed}")
        if not plan["runs"]:
            self.line("  nothing to run")
            return
        guess = "estimated" if plan["measured"] else "roughly"
        self.line(
            f"  {plan['runs']} runs × {each} environment steps"
            f" · {plan['workers']} workers × {plan['threads']} threads"
            f" · {guess} {duration(plan['seconds'])}, {size(plan['bytes'])}"
            f" · {plan['code']}",
        )

    @contextmanager
    def watch(self, total: int, slots: int) -> Iterator[Watching]:
        """Show runs while they run: a live table on a terminal, lines elsewhere."""
        del slots
        if self.out.is_terminal and not self.out.is_dumb_terminal and not self.quiet:
            from rlexp.live import live_table

            with live_table(self.out, total) as live:
                yield live
        else:
            yield Lines(self, total)

    def summary(self, summary: Mapping[str, Any]) -> None:
        """Show where an experiment stands."""
        if self.as_json:
            self.json(summary)
            return
        if not summary["ran"]:
            self.line(
                f"{summary['experiment']}: nothing to run, every run that was asked for has ended"
            )
        for one in summary["cells"]:
            self._cell(one, summary["phase"])
        troubled = [r for r in summary["runs"] if r["state"] not in {"completed", "planned"}]
        for run in troubled:
            reason = f": {run['reason']}" if run["reason"] else ""
            kind = f" ({run['failure']})" if run["failure"] else ""
            self.line(f"  {run['run']} {run['state']}{kind} at step {run['step']:,}{reason}")
        self.line(f"Records: {summary['folder']}")
        for step in summary["next"]:
            self.line(f"To {step['why']}: {step['command']}")

    def _cell(self, one: Mapping[str, Any], phase: str) -> None:
        self.line()
        self.line(f"{one['label']} on {one['task']}, {phase} seeds, score: {SCORES[one['score']]}")
        for seed, score in one["scores"].items():
            self.line(f"  seed {seed:<4} {score:10.2f}")
        self.line(f"  {interval(one['iqm'])}")
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


SCORES = {
    "final": "mean return of the final policy",
    "auc": "mean height of the evaluation curve",
    "last_window": "mean return in the last tenth of training",
}


class Lines:
    """Progress as plain lines."""

    def __init__(self, console: Console, total: int) -> None:
        self._console = console
        self._total = total
        self._ended = 0
        self._next = monotonic() + EVERY

    def update(self, running: "Sequence[Running]", waiting: int) -> None:
        """Print a line now and then."""
        if monotonic() < self._next or self._console.quiet:
            return
        self._next = monotonic() + EVERY
        steps = ", ".join(f"{r.spec.name} {progress(r)}" for r in running)
        self._console.line(f"  {self._ended}/{self._total} done, {waiting} waiting; {steps}")

    def ended(self, record: "RunRecord", *, again: bool) -> None:
        """Print how a run ended."""
        self._ended += not again
        if not self._console.quiet:
            self._console.line(f"  {ending(record, again=again)}")


def progress(running: "Running") -> str:
    """Steps of a run, and its last evaluation."""
    total = running.spec.budget["steps"]
    last = f" return {running.last.mean:.1f}" if running.last else ""
    return f"{min(running.step / total, 1):.0%}{last}"


def ending(record: "RunRecord", *, again: bool) -> str:
    """How a run ended, on one line."""
    score = f", score {record.score:.2f}" if record.score is not None else ""
    kind = f" ({record.failure})" if record.failure else ""
    reason = f": {record.reason}" if record.reason else ""
    more = "; trying again" if again else ""
    return f"{record.spec.name} {record.state}{kind}{score}{reason}{more}"


def interval(iqm: Mapping[str, Any] | None) -> str:
    """An aggregate with everything that belongs to it."""
    if iqm is None:
        return "IQM —, no run has a score"
    if iqm["low"] is None:
        return f"IQM {iqm['estimate']:.2f} (n = {iqm['n']}: no interval is possible)"
    return (
        f"IQM {iqm['estimate']:.2f}, {iqm['level']:.0%} interval "
        f"[{iqm['low']:.2f}, {iqm['high']:.2f}] ({iqm['method']}, "
        f"{iqm['repetitions']:,} resamples, seed {iqm['seed']}, n = {iqm['n']})"
    )


def cell(value: Any) -> str:
    """A value in a table."""
    if value is None:
        return "—"
    if isinstance(value, float):
        return f"{value:,.2f}"
    return f"{value:,}" if isinstance(value, int) else str(value)


def printable(text: str) -> str:
    """Text without the control characters that a terminal would obey."""
    return "".join(
        c if c.isprintable() or c == "\n" else "\N{REPLACEMENT CHARACTER}" for c in text
    )


def duration(seconds: float) -> str:
    """Seconds in words (`3 min 10 s`)."""
    whole = round(seconds)
    if whole < 60:
        return f"{whole} s"
    if whole < 3600:
        return f"{whole // 60} min {whole % 60} s"
    return f"{whole // 3600} h {whole % 3600 // 60} min"


def size(count: int) -> str:
    """Bytes in words (`38 MB`)."""
    value = float(count)
    for unit in ("B", "kB", "MB", "GB"):
        if value < 1000:
            return f"{value:.0f} {unit}"
        value /= 1000
    return f"{value:.1f} TB"
