"""Observers: objects that receive the progress of a use case from its caller."""

from collections.abc import Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager
from typing import Protocol

from rlexp.app.plans import RunPlan, SweepOutline
from rlexp.app.results import Result
from rlexp.engine.run_in_flight import RunInFlight, Watcher
from rlexp.engine.sweep_view import ReadSweepView
from rlexp.records.run import RunRecord


class Observer(Protocol):
    """Receives the progress of a use case and shows it on a terminal, in a notebook or in a log.

    A use case returns its result; the observer does not receive it. All methods may be called
    from another thread than the one that called the use case.
    """

    def note(self, text: str) -> None:
        """Receive a remark for the user; nothing has failed."""
        ...

    def error(self, text: str) -> None:
        """Receive the message of a failure; the use case continues or ends early."""
        ...

    def plan(self, plan: RunPlan) -> None:
        """Receive the plan of the runs that are about to start."""
        ...

    def sweep_plan(self, plan: SweepOutline) -> None:
        """Receive the plan of a sweep that is about to start."""
        ...

    def finished(self, part: Result) -> None:
        """Receive one of several results; the result of the use case holds all of them."""
        ...

    def watch(self, total: int) -> AbstractContextManager[Watcher]:
        """Open a watcher that receives the progress of `total` runs."""
        ...

    def watch_sweep(self, view: ReadSweepView) -> AbstractContextManager[Watcher]:
        """Open a watcher of a sweep; `view` returns the present state of the sweep."""
        ...


class SilentObserver:
    """An observer that shows nothing."""

    def note(self, text: str) -> None:
        """Ignore a remark."""

    def error(self, text: str) -> None:
        """Ignore a failure: the result of the use case holds it."""

    def plan(self, plan: RunPlan) -> None:
        """Ignore a plan."""

    def sweep_plan(self, plan: SweepOutline) -> None:
        """Ignore the plan of a sweep."""

    def finished(self, part: Result) -> None:
        """Ignore one of several results."""

    @contextmanager
    def watch(self, total: int) -> Iterator[Watcher]:
        """Ignore the progress of runs."""
        del total
        yield SilentWatcher()

    @contextmanager
    def watch_sweep(self, view: ReadSweepView) -> Iterator[Watcher]:
        """Ignore the progress of a sweep."""
        del view
        yield SilentWatcher()


class SilentWatcher:
    """A watcher that ignores every run."""

    def update(self, running: Sequence[RunInFlight], waiting: int) -> None:
        """Ignore the active runs."""

    def ended(self, record: RunRecord, *, again: bool) -> None:
        """Ignore the end of a run."""
