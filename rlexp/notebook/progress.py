"""The observer of a notebook: shows plans, progress and remarks in the output of the cell."""

from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from time import monotonic

from rlexp.app.plans import RunPlan, SweepOutline
from rlexp.app.results import Result
from rlexp.cli.plans import run_plan_lines, sweep_plan_lines
from rlexp.console.formatting import ending
from rlexp.console.progress import RunsDone, run_cells, run_columns
from rlexp.console.sweep import shown_by_trial, status_line, trial_line
from rlexp.engine.run_in_flight import RunInFlight, Watcher
from rlexp.engine.sweep_view import ReadSweepView
from rlexp.notebook.html_console import HtmlConsole
from rlexp.notebook.kernel import CellOutput
from rlexp.notebook.results import result_html
from rlexp.records.run import RunRecord, State

UPDATE_EVERY = 0.5
"""Seconds between two updates of the display."""
MOST_RUNS = 10
"""Most running runs that the display shows."""
MOST_ENDED = 5
"""Most ended runs or trials that the display shows, the last ones."""
MOST_FAILED = 10
"""Most failures that stay in the output, the first ones."""


class NotebookObserver:
    """Shows the progress of a call in the output of its cell."""

    def note(self, text: str) -> None:
        """Show a remark."""
        console = HtmlConsole()
        console.note(text)
        CellOutput().show(console.html, text)

    def error(self, text: str) -> None:
        """Show a failure."""
        console = HtmlConsole()
        console.error(text)
        CellOutput().show(console.html, text)

    def plan(self, plan: RunPlan) -> None:
        """Show what is about to run."""
        _show_lines(CellOutput(), run_plan_lines(plan))

    def sweep_plan(self, plan: SweepOutline) -> None:
        """Show what a sweep is about to do."""
        _show_lines(CellOutput(), sweep_plan_lines(plan))

    def finished(self, part: Result) -> None:
        """Show one of several results."""
        CellOutput().show(result_html(part), repr(part))

    @contextmanager
    def watch(self, total: int) -> Iterator[Watcher]:
        """Show the progress of runs, and at the end how many of them ended."""
        done = RunsDone(total)
        display = ProgressDisplay(CellOutput(), done.line)
        try:
            yield RunDisplay(display, done)
        finally:
            display.finish()

    @contextmanager
    def watch_sweep(self, view: ReadSweepView) -> Iterator[Watcher]:
        """Show the progress of a sweep, and at the end its state."""
        display = ProgressDisplay(CellOutput(), lambda *_: status_line(view().status()))
        try:
            yield SweepDisplay(display, view)
        finally:
            display.finish()


class ProgressDisplay:
    """A display of ended runs, running runs and a line of progress, which is replaced in place.

    Its size is limited, so that a notebook with many runs stays small.
    """

    def __init__(
        self,
        output: CellOutput,
        line: Callable[[Sequence[RunInFlight], int], str],
        clock: Callable[[], float] = monotonic,
    ) -> None:
        """Show in `output`; `line` makes a line from running runs and the number of waiting ones."""
        self._output = output
        self._line = line
        self._clock = clock
        self._next = 0.0
        self._ended: list[str] = []
        self._failed: list[str] = []

    def add(self, line: str, *, failed: bool = False) -> None:
        """Add how a run or trial ended; failures stay."""
        kept = self._failed if failed else self._ended
        kept.append(line)
        del self._ended[:-MOST_ENDED]

    def update(self, running: Sequence[RunInFlight], waiting: int) -> None:
        """Redraw the display, at most twice a second."""
        if self._clock() < self._next:
            return
        self._next = self._clock() + UPDATE_EVERY
        self._show([*self._failures(), *self._ended, self._line(running, waiting)], running)

    def finish(self) -> None:
        """Leave a line of progress and the failures."""
        self._show([*self._failures(), self._line((), 0)], ())

    def _failures(self) -> list[str]:
        more = len(self._failed) - MOST_FAILED
        return [*self._failed[:MOST_FAILED], *([f"and {more} more failures"] if more > 0 else [])]

    def _show(self, lines: Sequence[str], running: Sequence[RunInFlight]) -> None:
        now, columns = monotonic(), run_columns(running)
        rows = [
            dict(zip(columns, run_cells(run, now), strict=True))
            for run in list(running)[:MOST_RUNS]
        ]
        console = HtmlConsole()
        for line in lines:
            console.line(line)
        if rows:
            console.table(rows, columns)
        self._output.show(console.html, "\n".join(lines))


class RunDisplay:
    """A watcher of runs."""

    def __init__(self, display: ProgressDisplay, done: RunsDone) -> None:
        self._display = display
        self._done = done

    def update(self, running: Sequence[RunInFlight], waiting: int) -> None:
        """Show the active runs."""
        self._display.update(running, waiting)

    def ended(self, record: RunRecord, *, again: bool) -> None:
        """Show how a run ended."""
        self._done.add(record, again=again)
        failed = record.state is not State.COMPLETED
        self._display.add(ending(record, again=again), failed=failed)


class SweepDisplay:
    """A watcher of a sweep."""

    def __init__(self, display: ProgressDisplay, view: ReadSweepView) -> None:
        self._display = display
        self._view = view
        self._shown_trials = {trial.number for trial in view().ended}

    def update(self, running: Sequence[RunInFlight], waiting: int) -> None:
        """Show newly ended trials and the active runs."""
        for trial in self._view().ended:
            if trial.number not in self._shown_trials:
                self._shown_trials.add(trial.number)
                self._display.add(trial_line(trial))
        self._display.update(running, waiting)

    def ended(self, record: RunRecord, *, again: bool) -> None:
        """Show how a run ended, unless the line of its trial shows it."""
        if again or not shown_by_trial(record):
            failed = record.state is not State.COMPLETED
            self._display.add(ending(record, again=again), failed=failed)


def _show_lines(output: CellOutput, lines: Iterable[str]) -> None:
    shown = [*lines]
    console = HtmlConsole()
    for line in shown:
        console.line(line)
    output.show(console.html, "\n".join(shown))
