"""Progress as plain lines, where there is no terminal."""

from collections.abc import Callable, Sequence
from time import monotonic
from typing import TYPE_CHECKING

from rlexp.console.words import ending, progress

if TYPE_CHECKING:
    from rlexp.engine.running import Running
    from rlexp.records.run import RunRecord

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
