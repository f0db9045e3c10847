"""The progress of `rlexp worker --json`: one JSON object per line."""

from collections.abc import Iterator
from contextlib import contextmanager

from rlexp.app.observer import SilentObserver, SilentWatcher
from rlexp.console import Console
from rlexp.engine.run_in_flight import Watcher
from rlexp.records.run import RunRecord


class JsonLines(SilentObserver, SilentWatcher):
    """Prints remarks, errors and the ends of runs as JSON lines; ignores everything else."""

    def __init__(self, console: Console) -> None:
        """Print to standard output of `console`."""
        self._console = console

    def note(self, text: str) -> None:
        """Print a remark."""
        self._console.json_line({"event": "note", "text": text})

    def error(self, text: str) -> None:
        """Print an error."""
        self._console.json_line({"event": "error", "text": text})

    @contextmanager
    def watch(self, total: int) -> Iterator[Watcher]:
        """Print the end of every run."""
        del total
        yield self

    def ended(self, record: RunRecord, *, again: bool) -> None:
        """Print the end of an attempt at a run."""
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
