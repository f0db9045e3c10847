"""The observer of the command line: shows progress, and prints remarks to standard error."""

import json
import sys
from collections.abc import Callable, Iterable
from contextlib import AbstractContextManager
from typing import TYPE_CHECKING, Any

from rlexp.app.results import Result, document
from rlexp.console import Console

if TYPE_CHECKING:
    from rlexp.app.plans import RunPlan, SweepOutline
    from rlexp.engine.run_in_flight import Watcher
    from rlexp.engine.sweep_view import ReadSweepView


class TerminalObserver:
    """Shows the progress of a use case on a console.

    With `--json`, plans are JSON lines on standard error, so that standard output carries only the
    result.
    """

    def __init__(self, console: Console, finished: Callable[[Any], None] | None = None) -> None:
        """Show progress on `console`; `finished` is called with each of several results."""
        self._console = console
        self._finished = finished

    def note(self, text: str) -> None:
        """Print a remark to standard error."""
        self._console.note(text)

    def error(self, text: str) -> None:
        """Print a failure to standard error."""
        self._console.error(text)

    def plan(self, plan: "RunPlan") -> None:
        """Show what is about to run."""
        from rlexp.cli.plans import run_plan_lines

        self._show(plan, run_plan_lines(plan))

    def sweep_plan(self, plan: "SweepOutline") -> None:
        """Show what a sweep is about to do."""
        from rlexp.cli.plans import sweep_plan_lines

        self._show(plan, sweep_plan_lines(plan))

    def finished(self, part: Result) -> None:
        """Show one of several results."""
        if self._finished is not None:
            self._finished(part)

    def watch(self, total: int) -> "AbstractContextManager[Watcher]":
        """Show the progress of runs."""
        return self._console.watch(total)

    def watch_sweep(self, view: "ReadSweepView") -> "AbstractContextManager[Watcher]":
        """Show the progress of a sweep."""
        return self._console.watch_sweep(view)

    def _show(self, plan: "RunPlan | SweepOutline", lines: Iterable[str]) -> None:
        if not self._console.as_json:
            for line in lines:
                self._console.line(line)
        elif not self._console.quiet:
            print(json.dumps({"plan": document(plan)}), file=sys.stderr)  # noqa: T201
