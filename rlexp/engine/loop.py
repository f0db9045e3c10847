"""The loop that closes the gap: submits runs, watches them, judges those that died silently."""

import struct
from collections import deque
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from signal import SIGKILL
from typing import Any, Protocol

from rlexp.engine.source import Source
from rlexp.executors import DISK_FULL, Executor, Exit, Job, Session
from rlexp.protocol.spec import RunSpec
from rlexp.records.events import Continued, Ending, Evaluated, Failure, RunEnded
from rlexp.records.run import RunRecord, State
from rlexp.store.journal import events_of, follow
from rlexp.store.layout import AttemptPaths, ExperimentPaths
from rlexp.store.runs import new_attempt, read_run, request_stop, write_run, write_verdict
from rlexp.store.sealing import Seals

PROGRESS = struct.Struct("<qq")
"""What a progress file holds: environment steps, and heartbeats of any kind."""
POLL = 0.2
OVERTIME = 60.0
"""Seconds after its time limit in which a run can still say itself that its time is up."""


@dataclass(slots=True)
class Running:
    """A run while its process lives."""

    spec: RunSpec
    attempt: AttemptPaths
    since: float
    step: int = 0
    beats: int = -1
    beat_at: float = 0.0
    offset: int = 0
    evaluations: list[Evaluated] = field(default_factory=list)
    ends_early: bool = False
    killed_as: Failure | None = None
    stopped: bool = False

    @property
    def last(self) -> Evaluated | None:
        """Its last evaluation during training."""
        return self.evaluations[-1] if self.evaluations else None

    def has_reached(self, rung: int | None) -> bool:
        """Whether this attempt has the evaluation that the run is judged by.

        After a crash the next attempt has to come to it again: it is part of the record.
        """
        return rung is None or (self.last is not None and self.last.step >= rung)


@dataclass(frozen=True, slots=True, kw_only=True)
class Orders:
    """What the attempts are asked for besides their runs."""

    settings: Mapping[str, Any]
    provenance: Mapping[str, Any]
    patch: str
    timeout: float | None


class Watcher(Protocol):
    """Told how things stand, several times a second; shows it."""

    def update(self, running: Sequence[Running], waiting: int) -> None:
        """What runs now, and how many runs wait."""
        ...

    def ended(self, record: RunRecord, *, again: bool) -> None:
        """A run's attempt ended; `again` says whether another follows."""
        ...


@dataclass(slots=True)
class Loop:
    """Executes runs until none is left, or the user stops it."""

    experiment: ExperimentPaths
    executor: Executor
    session: Session
    orders: Orders
    watcher: Watcher
    asked_to_stop: Callable[[], bool]
    monotonic: Callable[[], float]
    now: Callable[[], float]
    running: dict[str, Running] = field(default_factory=dict)
    again: deque[RunSpec] = field(default_factory=deque)
    stopped_at: float | None = None
    disk_error: OSError | None = None
    seals: Seals = field(init=False)

    def __post_init__(self) -> None:
        """Prepare the ledger, in which every attempt is entered that ends."""
        self.seals = Seals(self.experiment)

    def close_gap(self, source: Source) -> None:
        """Execute the runs; each ends with a verdict in its folder, whatever happens to it."""
        self.seals.enter_late()
        self._submit(source)
        while self.running:
            for ended in self.session.poll(POLL):
                self._judge(ended, source)
            for running in self.running.values():
                self._watch(running, source)
            self._end_early(source)
            self._obey()
            self.watcher.update(list(self.running.values()), len(self.again) + source.waiting)
            self._submit(source)

    def abandon(self) -> None:
        """Record the runs whose processes were ended with the session as interrupted."""
        for running in self.running.values():
            running.stopped = True
            if read_run(self.experiment.run(running.spec.name), running.spec).record.ended is None:
                ended = Exit(str(running.attempt.folder), None, SIGKILL)
                write_verdict(running.attempt, self._verdict(running, ended))
            self.seals.enter(self.experiment.run(running.spec.name), running.attempt.number)
        self.running.clear()

    def _may_submit(self) -> bool:
        return self.disk_error is None and not self.asked_to_stop()

    def _submit(self, source: Source) -> None:
        while len(self.running) < self.session.slots and self._may_submit():
            try:
                spec = self.again.popleft() if self.again else source.take()
                if spec is None:
                    return
                paths = self.experiment.run(spec.name)
                write_run(paths, spec)
                attempt = new_attempt(
                    paths,
                    self.orders.settings,
                    self.orders.provenance,
                    self.orders.patch,
                )
            except OSError as error:
                # What runs may still finish; nothing new is begun that cannot be recorded.
                self.disk_error = error
                return
            running = Running(spec, attempt, since=self.monotonic())
            self.running[str(attempt.folder)] = running
            words = (str(paths.folder), str(attempt.number))
            self.session.submit(Job(str(attempt.folder), words, attempt.log))
            # The first waits for the server, which takes nothing off its time.
            running.since = running.beat_at = self.monotonic()

    def _watch(self, running: Running, source: Source) -> None:
        step, beats = read_progress(running.attempt.progress)
        now = self.monotonic()
        if beats != running.beats:
            running.step, running.beats, running.beat_at = step, beats, now
        lines, running.offset = follow(running.attempt.journal, running.offset)
        for event in events_of(lines):
            if isinstance(event, Evaluated) and not event.final:
                running.evaluations.append(event)
            elif isinstance(event, Continued):
                # What the run had shown before is part of its record again.
                paths = self.experiment.run(running.spec.name)
                record = read_run(paths, running.spec).record
                running.evaluations = [e for e in record.evaluations if e.step <= event.step]
        if running.last is not None:
            source.evaluated(running.spec, running.evaluations)
        overdue = self.orders.timeout is not None and (
            now - running.since > self.orders.timeout + OVERTIME
        )
        if running.killed_as is None and (
            overdue or now - running.beat_at > self.executor.hang_timeout
        ):
            running.killed_as = Failure.TIMEOUT if overdue else Failure.HUNG
            self.session.kill(str(running.attempt.folder))

    def _end_early(self, source: Source) -> None:
        """Ask the runs to end that are not worth their remaining steps."""
        for running in self.running.values():
            request = None if running.ends_early else source.stopping(running.spec)
            if request is not None and running.has_reached(request.rung):
                running.ends_early = True
                request_stop(self.experiment.run(running.spec.name), request)

    def _obey(self) -> None:
        if not self.asked_to_stop():
            return
        if self.stopped_at is None:
            self.stopped_at = self.monotonic()
            for running in self.running.values():
                running.stopped = True
            self.session.stop()
        if self.monotonic() - self.stopped_at > self.executor.grace:
            for key in self.running:
                self.session.kill(key)

    def _judge(self, ended: Exit, source: Source) -> None:
        running = self.running.pop(ended.key)
        paths = self.experiment.run(running.spec.name)
        record = read_run(paths, running.spec).record
        if record.state in {State.RUNNING, State.LOST, State.PLANNED}:
            try:
                write_verdict(running.attempt, self._verdict(running, ended))
            except OSError as error:
                self.disk_error = error
            record = read_run(paths, running.spec).record
        self.seals.enter(paths, running.attempt.number)
        if record.failure is Failure.DISK:
            self.disk_error = OSError(f"{paths.folder.name}: {record.reason}")
        again = record.state is State.FAILED and record.may_run() and self._may_submit()
        if again:
            self.again.append(running.spec)
        self.watcher.ended(record, again=again)
        if not record.may_run():
            source.ended(record)

    def _verdict(self, running: Running, ended: Exit) -> RunEnded:
        """What to say of a run whose process is gone without a word."""
        failure, reason = running.killed_as, str(ended)
        if ended.code == DISK_FULL:
            failure, reason = Failure.DISK, "the disk is full"
        match failure:
            case Failure.HUNG:
                reason = f"no progress for {self.executor.hang_timeout:g} s"
            case Failure.TIMEOUT:
                reason = f"not done after {self.orders.timeout:g} s"
            case None if running.stopped:
                pass
            case None:
                failure = Failure.OUT_OF_MEMORY if ended.out_of_memory else Failure.CRASHED
        return RunEnded(
            time=self.now(),
            step=max(running.step, 0),
            ending=Ending.INTERRUPTED if failure is None else Ending.FAILED,
            seconds=self.monotonic() - running.since,
            failure=failure,
            reason=reason,
        )


def read_progress(path: Path) -> tuple[int, int]:
    """Environment steps and heartbeats of a run; (0, -1) before its first sign of life."""
    try:
        content = path.read_bytes()
        step, beats = PROGRESS.unpack(content)
    except (OSError, struct.error):
        return 0, -1
    return step, beats
