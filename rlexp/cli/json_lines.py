"""An observer that writes one JSON object a line: the log of a worker, for machines."""

from collections.abc import Iterator
from contextlib import contextmanager

from rlexp.app.observer import Silent, Unwatched
from rlexp.console import Console
from rlexp.engine.running import Watcher
from rlexp.records.run import RunRecord


class JsonLines(Silent, Unwatched):
    """Writes remarks, failures and how runs end; everything else is left out."""

    def __init__(self, console: Console) -> None:
        """Write to standard output, by `console`."""
        self._console = console

    def note(self, text: str) -> None:
        """Write a remark."""
        self._console.json_line({"event": "note", "text": text})

    def error(self, text: str) -> None:
        """Write a failure."""
        self._console.json_line({"event": "error", "text": text})

    @contextmanager
    def watch(self, total: int) -> Iterator[Watcher]:
        """Write how runs end."""
        del total
        yield self

    def ended(self, record: RunRecord, *, again: bool) -> None:
        """Write how an attempt at a run ended."""
        self._console.json_line(
            {
                "event": "run_ended",
                "run": record.spec.name,
                "state": str(record.state),
                "score": record.score,
                "failure": None if record.failure is None else str(record.failure),
                "reason": record.reason,
                "again": again,
            }
        )
