"""What the journals of one run hold that a tracker does not have yet."""

import re
from collections.abc import Iterable, Mapping
from itertools import chain, pairwise
from typing import Any

from rlexp.app.reading.provenance import provenance_of
from rlexp.errors import RecordError
from rlexp.records.events import Continued, Ending, Event, RunEnded, RunStarted
from rlexp.records.run import RunRecord, State
from rlexp.store.files import read_file, refuse_link
from rlexp.store.journal import events_of, follow
from rlexp.store.layout import AttemptPaths, RunPaths
from rlexp.store.runs import StoredAttempt, read_attempts, read_run, read_spec
from rlexp.trackers import Row
from rlexp.trackers.rows import merged, rows_of

STEP = re.compile(rb'^\{"event":"(?:measured|evaluated)"[^\n]*?"step":(\d+)', re.MULTILINE)
"""A line of a journal from which a row comes."""


class Feed:
    """Reads a run's journals as they grow.

    A row is ready when its step is over: when there is a later one, or the run has ended for good.
    So each step is given once, whole, however often it was trained: from a checkpoint a run goes
    on with the same numbers.
    """

    def __init__(self, paths: RunPaths) -> None:
        """Read what defines the run.

        Raises:
            RecordError: That is missing or damaged, or its folder is a link.
        """
        for folder in (paths.folder, paths.folder / "attempts"):
            refuse_link(folder)
        self.paths = paths
        self.spec = read_spec(paths)
        self.started: float | None = None
        self.begun = 1
        self._attempt = 0
        self._offset = 0
        self._ended = False
        self._rows: list[Row] = []

    @property
    def attempt(self) -> int:
        """The number of the newest attempt; 0 where there is none."""
        return self._attempt

    @property
    def newest(self) -> AttemptPaths:
        """The newest attempt."""
        return self.paths.attempt(self._attempt)

    def read(self, after: int) -> None:
        """Read what has been added, of steps beyond `after`.

        Raises:
            RecordError: A journal cannot be read, or lies behind a link.
        """
        attempts = self.paths.attempts()
        if not attempts:
            return
        if attempts[-1].number != self._attempt:
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
        if not self._attempt or not (self._ended or unended or self.newest.verdict.exists()):
            return None
        record = read_run(self.paths, self.spec).record
        if record.state is State.RUNNING or (record.state is State.LOST and not unended):
            return None
        return record

    def ready(self, record: RunRecord | None) -> list[Row]:
        """The rows that nothing can be added to, given how the run stands."""
        return list(self._rows if is_final(record) else self._rows[:-1])

    def _fold(self, attempts: list[AttemptPaths]) -> None:
        for attempt in attempts:
            refuse_link(attempt.folder)
        # The newest is followed: what comes while the others are read is not lost.
        lines, self._offset = _follow(attempts[-1], 0)
        newest = list(events_of(lines))
        earlier = read_attempts(self.paths, measurements=True)
        known = [a for a in earlier if a.paths.number < attempts[-1].number]
        events = [*(a.events for a in known), newest]
        record = RunRecord.fold(self.spec, events)
        final = [record.final] if record.final else []
        self._rows = rows_of([*record.measurements, *record.evaluations, *final])
        begun = (e.time for e in chain(*events) if isinstance(e, RunStarted))
        self._attempt, self.started = attempts[-1].number, next(begun, None)
        self.begun = _begun(known, attempts[-1], newest)
        self._ended = _has_end(newest)

    def _follow(self, attempts: list[AttemptPaths]) -> None:
        lines, offset = _follow(attempts[-1], self._offset)
        events = list(events_of(lines))
        if any(isinstance(event, RunStarted | Continued) for event in events):
            self._fold(attempts)
            return
        self._offset = offset
        self._rows = merged(self._rows, rows_of(events))
        self._ended = self._ended or _has_end(events)


def _follow(attempt: AttemptPaths, offset: int) -> tuple[list[bytes], int]:
    try:
        return follow(attempt.journal, offset)
    except OSError as error:
        raise RecordError(f"{attempt.journal} cannot be read: {error.strerror}") from error


def is_final(record: RunRecord | None) -> bool:
    """Whether nothing is to come at the step that was reached, unless the user asks for it."""
    return record is not None and not record.may_run()


def count_rows(paths: RunPaths, after: int) -> int:
    """About how many rows there are beyond a step, without reading them."""
    steps = set[int]()
    for attempt in paths.attempts():
        try:
            content = read_file(attempt.journal)
        except OSError:
            continue
        steps.update(int(found) for found in STEP.findall(content))
    return sum(step > after for step in steps)


def _begun(earlier: list[StoredAttempt], newest: AttemptPaths, events: list[Event]) -> int:
    """The attempt that began what counts.

    An attempt that begins at the first step repeats the numbers of the one before, unless that
    failed by itself, or the code or the packages are others by now.
    """
    begun = 1
    attempts = [*((a.paths, a.events) for a in earlier), (newest, events)]
    for (before, past), (attempt, own) in pairwise(attempts):
        if any(isinstance(event, Continued) for event in own):
            continue
        if _failed_by_itself(past) or _made_with(before) != _made_with(attempt):
            begun = attempt.number
    return begun


def _failed_by_itself(events: Iterable[Event]) -> bool:
    return any(
        isinstance(event, RunEnded)
        and event.ending is Ending.FAILED
        and event.failure is not None
        and not event.failure.of_the_machine
        for event in events
    )


def _made_with(attempt: AttemptPaths) -> tuple[Any, ...]:
    plain = provenance_of(attempt)
    code = plain.get("code")
    commit = code.get("commit") if isinstance(code, Mapping) else None
    try:
        patch = read_file(attempt.patch)
    except OSError:
        patch = b""
    return commit, patch, plain.get("packages"), plain.get("python")


def _has_end(events: list[Event]) -> bool:
    return any(isinstance(event, RunEnded) for event in events)
