"""What a use case reports while it works, to whoever called it."""

from collections.abc import Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager
from typing import Protocol

from rlexp.app.plans import RunPlan, SweepOutline
from rlexp.app.results import Result
from rlexp.engine.running import Running, Watcher
from rlexp.engine.sweep_view import View
from rlexp.records.run import RunRecord


class Observer(Protocol):
    """Receives the progress of a use case: a terminal, a notebook, a log, or nobody.

    The result of a use case never passes through it. All methods may be called from another
    thread than the one that called the use case.
    """

    def note(self, text: str) -> None:
        """A remark that the user should read, although nothing has failed."""
        ...

    def error(self, text: str) -> None:
        """Something failed, and the use case goes on or ends early."""
        ...

    def plan(self, plan: RunPlan) -> None:
        """What is about to run."""
        ...

    def sweep_plan(self, plan: SweepOutline) -> None:
        """What a sweep is about to do."""
        ...

    def finished(self, part: Result) -> None:
        """One of several results is there; the result of the use case holds all of them."""
        ...

    def watch(self, total: int) -> AbstractContextManager[Watcher]:
        """Open what receives the progress of `total` runs."""
        ...

    def watch_sweep(self, view: View) -> AbstractContextManager[Watcher]:
        """Open what receives the progress of a sweep; `view` returns where the sweep stands."""
        ...


class Silent:
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
        yield Unwatched()

    @contextmanager
    def watch_sweep(self, view: View) -> Iterator[Watcher]:
        """Ignore the progress of a sweep."""
        del view
        yield Unwatched()


class Unwatched:
    """A watcher that ignores every run."""

    def update(self, running: Sequence[Running], waiting: int) -> None:
        """Ignore what runs now."""

    def ended(self, record: RunRecord, *, again: bool) -> None:
        """Ignore how a run ended."""
