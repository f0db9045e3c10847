"""The loop that closes the gap: submits runs, watches them, judges those that died silently."""

import struct
from collections import deque
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from errno import ENOSPC
from os import strerror
from pathlib import Path
from signal import SIGKILL
from typing import Any, Protocol

from rlexp.executors import DISK_FULL, Executor, Exit, Job, Session
from rlexp.protocol.spec import RunSpec
from rlexp.records.events import Ending, Evaluated, Failure, RunEnded
from rlexp.records.run import RunRecord, State
from rlexp.store.journal import events_of, follow
from rlexp.store.layout import AttemptPaths, ExperimentPaths
from rlexp.store.runs import new_attempt, read_run, write_verdict

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
    last: Evaluated | None = None
    killed_as: Failure | None = None
    stopped: bool = False


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
    waiting: deque[RunSpec] = field(default_factory=deque)
    stopped_at: float | None = None
    disk_error: OSError | None = None

    def close_gap(self, missing: Sequence[RunSpec]) -> None:
        """Execute the runs; each ends with a verdict in its folder, whatever happens to it."""
        self.waiting.extend(missing)
        while self.running or (self.waiting and self._may_submit()):
            self._submit()
            for ended in self.session.poll(POLL):
                self._judge(ended)
            for running in self.running.values():
                self._watch(running)
            self._obey()
            self.watcher.update(list(self.running.values()), len(self.waiting))

    def abandon(self) -> None:
        """Record the runs whose processes were ended with the session as interrupted."""
        for running in self.running.values():
            running.stopped = True
            if read_run(self.experiment.run(running.spec.name), running.spec).record.ended is None:
                ended = Exit(str(running.attempt.folder), None, SIGKILL)
                write_verdict(running.attempt, self._verdict(running, ended))
        self.running.clear()

    def _may_submit(self) -> bool:
        return self.disk_error is None and not self.asked_to_stop()

    def _submit(self) -> None:
        while self.waiting and len(self.running) < self.session.slots and self._may_submit():
            spec = self.waiting.popleft()
            paths = self.experiment.run(spec.name)
            try:
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

    def _watch(self, running: Running) -> None:
        step, beats = read_progress(running.attempt.progress)
        now = self.monotonic()
        if beats != running.beats:
            running.step, running.beats, running.beat_at = step, beats, now
        lines, running.offset = follow(running.attempt.journal, running.offset)
        for event in events_of(lines):
            if isinstance(event, Evaluated):
                running.last = event
        overdue = self.orders.timeout is not None and (
            now - running.since > self.orders.timeout + OVERTIME
        )
        if running.killed_as is None and (
            overdue or now - running.beat_at > self.executor.hang_timeout
        ):
            running.killed_as = Failure.TIMEOUT if overdue else Failure.HUNG
            self.session.kill(str(running.attempt.folder))

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

    def _judge(self, ended: Exit) -> None:
        running = self.running.pop(ended.key)
        paths = self.experiment.run(running.spec.name)
        record = read_run(paths, running.spec).record
        if record.state in {State.RUNNING, State.LOST, State.PLANNED}:
            try:
                write_verdict(running.attempt, self._verdict(running, ended))
            except OSError as error:
                self.disk_error = error
            record = read_run(paths, running.spec).record
        if record.failure is Failure.DISK:
            self.disk_error = OSError(ENOSPC, strerror(ENOSPC), str(paths.folder))
        again = record.state is State.FAILED and record.may_run() and self._may_submit()
        if again:
            self.waiting.append(running.spec)
        self.watcher.ended(record, again=again)

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
