"""What the journals of one run hold that a tracker does not have yet."""

from itertools import chain

from rlexp.records.events import Continued, Event, RunEnded, RunStarted
from rlexp.records.run import RunRecord, State
from rlexp.store.journal import events_of, follow, read_journal
from rlexp.store.layout import AttemptPaths, RunPaths
from rlexp.store.runs import read_run, read_spec
from rlexp.trackers import Row
from rlexp.trackers.rows import merged, rows_of

FINAL = frozenset({State.COMPLETED, State.FAILED, State.PRUNED})
"""States of which nothing is to come at the step that was reached."""


class Feed:
    """Reads a run's journals as they grow.

    A row is ready when its step is over: when there is a later one, or the run has ended. So each
    step is given once, whole, however often it was trained: from a checkpoint a run goes on with
    the same numbers.
    """

    def __init__(self, paths: RunPaths) -> None:
        """Read what defines the run.

        Raises:
            RecordError: That is missing or damaged.
        """
        self.paths = paths
        self.spec = read_spec(paths)
        self.started: float | None = None
        self._attempt = 0
        self._offset = 0
        self._ended = False
        self._rows: list[Row] = []

    @property
    def attempt(self) -> int:
        """The number of the newest attempt; 0 where there is none."""
        return self._attempt

    def read(self, after: int) -> None:
        """Read what has been added, of steps beyond `after`."""
        attempts = self.paths.attempts()
        if not attempts:
            return
        newest = attempts[-1]
        if newest.number != self._attempt:
            self._fold(attempts)
        else:
            self._follow(attempts)
        self._rows = [row for row in self._rows if row.step > after]

    def again(self, after: int) -> None:
        """Read everything anew: a service has less than it was thought to have."""
        self._attempt = 0
        self.read(after)

    def stand(self, *, unended: bool) -> RunRecord | None:
        """The run's record, if it has ended; with `unended`, one that died without a word too."""
        if not self._attempt or not (
            self._ended or unended or self.paths.attempt(self._attempt).verdict.exists()
        ):
            return None
        record = read_run(self.paths, self.spec).record
        if record.state is State.RUNNING or (record.state is State.LOST and not unended):
            return None
        return record

    def ready(self, record: RunRecord | None) -> list[Row]:
        """The rows that nothing can be added to, given how the run stands."""
        whole = record is not None and record.state in FINAL
        return list(self._rows if whole else self._rows[:-1])

    @property
    def waiting(self) -> int:
        """How many rows there are that were not taken."""
        return len(self._rows)

    def _fold(self, attempts: list[AttemptPaths]) -> None:
        earlier = [read_journal(attempt.journal).events for attempt in attempts[:-1]]
        lines, self._offset = follow(attempts[-1].journal, 0)
        events = list(events_of(lines))
        record = RunRecord.fold(self.spec, [*earlier, events])
        final = [record.final] if record.final else []
        self._rows = rows_of([*record.measurements, *record.evaluations, *final])
        begun = (e.time for e in (*chain(*earlier), *events) if isinstance(e, RunStarted))
        self._attempt, self.started = attempts[-1].number, next(begun, None)
        self._ended = _has_end(events)

    def _follow(self, attempts: list[AttemptPaths]) -> None:
        lines, offset = follow(attempts[-1].journal, self._offset)
        events = list(events_of(lines))
        if any(isinstance(event, RunStarted | Continued) for event in events):
            self._fold(attempts)
            return
        self._offset = offset
        self._rows = merged(self._rows, rows_of(events))
        self._ended = self._ended or _has_end(events)


def _has_end(events: list[Event]) -> bool:
    return any(isinstance(event, RunEnded) for event in events)
