"""The loop for runs that remote workers execute: queues runs, submits jobs, watches run folders.

The result of a run is read from its folder only. What an executor reports about a job is a hint
which folder to read, because a cluster may report late, wrongly or not at all.
"""

from collections import deque
from collections.abc import Callable
from dataclasses import dataclass, field
from math import ceil

from rlexp.engine.jobs import Jobs
from rlexp.engine.loop import POLL
from rlexp.engine.run_in_flight import (
    AttemptSettings,
    ClaimRun,
    RunInFlight,
    Watcher,
    read_new_events,
    read_progress,
)
from rlexp.engine.source import RunList, Source
from rlexp.errors import ExecutorError
from rlexp.executors import Gone, RemoteSession
from rlexp.protocol.spec import RunSpec
from rlexp.records.events import Ending, Failure, RunEnded, StopRequest
from rlexp.records.run import RunRecord, State
from rlexp.store.layout import AttemptPaths, ExperimentPaths, RunPaths
from rlexp.store.ledger_writer import LedgerWriter
from rlexp.store.locks.lease import is_held
from rlexp.store.run_queue import RunOrder, is_queued, remove_order, write_order
from rlexp.store.runs import (
    is_taken,
    new_attempt,
    read_run,
    read_stop,
    request_stop,
    write_run,
    write_verdict,
)

LOOK_EVERY = 2.0
"""Seconds in which every dispatched run is looked at once, if there are not too many."""
LOOKS = 30
"""Most runs that one turn of the loop looks at, to spare the shared login node."""
DONE = frozenset({State.COMPLETED, State.PRUNED})
"""States of a run that needs no further attempt; no verdict is ever written for such a run."""
STOPPED = "the command that queued the run was stopped"


@dataclass(slots=True)
class DispatchedRun(RunInFlight):
    """A run that is queued for a worker, or executed by one.

    Attributes:
        job: The job that should execute the run, if known.
        taken_up: Whether an earlier command submitted this job.
        begun: Whether a worker has begun an attempt since the run was queued.
        sealed: Number of the attempt that this command has written to the ledger last.
    """

    job: str | None = None
    taken_up: bool = False
    begun: bool = False
    sealed: int = 0


@dataclass(slots=True)
class Dispatch:
    """Queues runs for workers until no run is left, or the user stops the command.

    Attributes:
        jobs: Submits jobs for the queued runs.
        grace: Seconds that jobs get to end themselves.
        orders: Returns the settings of a run's attempts.
        command: The command that the user typed.
        claim: Takes the claim of a run; see `Loop`.
        left: Whether the jobs should go on without this command.
        detach: Whether to queue all runs at once and leave.
        out: The dispatched runs, by name.
        rounds: Names of the dispatched runs, in the order of the next looks at them.
        again: Runs to be queued again.
        stopped_at: When the user stopped the command.
        disk_error: The error after which no further run is queued.
        seals: Writes ended attempts to the ledger.
    """

    experiment: ExperimentPaths
    session: RemoteSession
    jobs: Jobs
    grace: float
    orders: Callable[[RunSpec], AttemptSettings]
    command: tuple[str, ...]
    claim: ClaimRun
    watcher: Watcher
    asked_to_stop: Callable[[], bool]
    left: Callable[[], bool]
    monotonic: Callable[[], float]
    now: Callable[[], float]
    detach: bool = False
    out: dict[str, DispatchedRun] = field(default_factory=dict)
    rounds: deque[str] = field(default_factory=deque)
    again: deque[RunSpec] = field(default_factory=deque)
    stopped_at: float | None = None
    disk_error: OSError | None = None
    seals: LedgerWriter = field(init=False)

    def __post_init__(self) -> None:
        """Prepare the writer of the ledger."""
        self.seals = LedgerWriter(self.experiment)

    def close_gap(self, source: Source) -> None:
        """Supervise the runs until they end, or leave them to their workers."""
        self.seals.enter_late()
        self.jobs.take_up()
        self._submit(source)
        while self.out and not self._is_left():
            for gone in self.session.poll(POLL):
                self._job_lost(gone, source)
            self.jobs.report_problems(o.job for o in self.out.values() if not o.begun)
            self._look_at_some(source)
            self._end_early(source)
            self._obey()
            running = [out for out in self.out.values() if out.begun]
            waiting = len(self.out) - len(running) + len(self.again) + source.waiting
            self.watcher.update(running, waiting)
            self._submit(source)
        if self.out and self._is_left():
            self.session.leave()

    def abandon(self) -> None:
        """End the remaining runs; does nothing where the jobs go on without the command."""
        if not self.out or self._is_left():
            return
        # The queue first: otherwise a worker that is still alive would take the next run.
        for name in self.out:
            remove_order(self.experiment, name)
        self.session.kill()
        for name in list(self.out):
            self._record_end(name, "its job was ended with the command", interrupted=True)
        self.out.clear()

    def _may_submit(self) -> bool:
        return self.disk_error is None and not self.asked_to_stop() and not self.left()

    def _is_left(self) -> bool:
        return self.left() or (self.detach and self.disk_error is None)

    def _has_slot(self) -> bool:
        return self.detach or len(self.out) < self.session.slots

    def _submit(self, source: Source) -> None:
        try:
            while self._has_slot() and self._may_submit():
                spec = self.again.popleft() if self.again else source.take()
                if spec is None:
                    break
                self._queue(spec, source)
        except OSError as error:
            self.disk_error = error
        if self._may_submit():
            self._send()

    def _queue(self, spec: RunSpec, source: Source) -> None:
        name, paths, orders = spec.name, self.experiment.run(spec.name), self.orders(spec)
        write_run(paths, spec)
        record = read_run(paths, spec).record
        if record.state in DONE:
            # A worker has finished the run since this command planned it.
            self.seals.enter(paths, None)
            self.watcher.ended(record, again=False)
            source.ended(record)
            return
        # A running attempt answers the order, also before its first event; an ended one does not.
        # State and number come from one reading, because a worker may begin an attempt between two.
        is_living = record.state is State.RUNNING and not _is_asked_to_end(paths)
        # An attempt that is about to end does not answer the order: a further one is needed.
        after = record.attempts - is_living
        order = RunOrder(after=after, settings=orders.settings, command=self.command)
        write_order(self.experiment, name, order)
        job, since = self.jobs.enter(name), self.monotonic()
        attempt = paths.attempt(after)
        self.out[name] = DispatchedRun(
            spec, attempt, since=since, job=job, taken_up=job is not None
        )
        self.rounds.append(name)

    def _send(self) -> None:
        try:
            sent = self.jobs.send()
        except ExecutorError:
            for name in list(self.jobs.unsent):
                self._drop(name)
            raise
        for run, job in sent.items():
            self.out[run].job = job

    def _job_lost(self, gone: Gone, source: Source) -> None:
        """Read the state of the runs whose job no longer exists."""
        for name in [n for n, out in self.out.items() if out.job == gone.key]:
            self.out[name].job = None
            self._resolve(name, source, gone.reason)

    def _look_at_some(self, source: Source) -> None:
        """Look at some of the runs in turn, so that each is looked at every few seconds."""
        for _ in range(min(ceil(len(self.rounds) * POLL / LOOK_EVERY), LOOKS)):
            name = self.rounds.popleft()
            # A run that has ended leaves `out` at once, and this queue at its next turn only.
            if name not in self.out:
                continue
            self.rounds.append(name)
            self._look(self.out[name], source)

    def _look(self, out: DispatchedRun, source: Source) -> None:
        """Read a run's new events and progress, and act if it has ended or lost its worker."""
        name, paths = out.spec.name, self.experiment.run(out.spec.name)
        self._follow_attempt(out, paths)
        # A dead process writes no end event; another process writes the verdict in its place.
        is_over = out.begun and (
            read_new_events(self.experiment, out) or out.attempt.verdict.exists()
        )
        if out.begun:
            # A progress file that cannot be read counts as 0 steps, which must not undo progress.
            out.step = max(read_progress(out.attempt.progress)[0], out.step)
        if out.last is not None:
            source.evaluated(out.spec, out.evaluations)
        if isinstance(source, RunList):
            # Only a search needs the earlier evaluations, and the runs may be thousands.
            del out.evaluations[:-1]
        if self.stopped_at is not None:
            self._ask_to_stop(out)
        if (is_over or self._is_carried_out(out, paths)) and self._is_over(out, paths):
            self._finish(name, source)
        elif (out.job is None and name not in self.jobs.unsent) or self.stopped_at is not None:
            self._resolve(name, source, "its worker is gone")

    def _is_carried_out(self, out: DispatchedRun, paths: RunPaths) -> bool:
        """Whether a worker has removed the order although no new attempt was seen.

        A worker does so when the attempt that it had begun before the order answers it; no further
        attempt follows then.
        """
        return (
            not out.begun
            and not is_queued(self.experiment, out.spec.name)
            and not is_held(paths.claim)
        )

    def _follow_attempt(self, out: DispatchedRun, paths: RunPaths) -> None:
        """Switch to the run's last attempt, if there is a newer one."""
        attempts = paths.attempts()
        if attempts and attempts[-1].number > out.attempt.number:
            out.attempt, out.offset, out.evaluations = attempts[-1], 0, []
            out.ends_early, out.step, out.since = False, 0, self.monotonic()
            out.first_step = 0
            out.begun = True

    def _resolve(self, name: str, source: Source, reason: str) -> None:
        """Finish an ended run, or queue an unfinished run again whose worker is gone."""
        out, paths = self.out[name], self.experiment.run(name)
        # A worker may live although its job is gone for the executor: claim and lease decide.
        if is_taken(paths):
            return
        # Read again now that no worker can write: the attempt may have ended since the last look.
        self._follow_attempt(out, paths)
        if out.begun and self._is_over(out, paths):
            self._finish(name, source)
            return
        if self.asked_to_stop():
            self._record_end(name, reason, interrupted=True)
            self._drop(name)
            return
        record = self._record_end(name, reason, interrupted=False)
        if record is None:
            return
        is_answered = out.begun or record.state in DONE
        if record.may_run() or not is_answered:
            self._drop(name)
            self.watcher.ended(record, again=True)
            self.again.append(out.spec)
        else:
            self._finish(name, source)

    def _record_end(self, name: str, reason: str, *, interrupted: bool) -> RunRecord | None:
        """Write a verdict for an attempt that ended without one.

        Returns:
            The run's record; None if another process holds the run, or the disk failed.
        """
        out, paths = self.out[name], self.experiment.run(name)
        claim = self.claim(paths, lambda: None)
        if claim is None:
            return None
        try:
            # Read again under the claim: another worker may have executed the run before.
            self._follow_attempt(out, paths)
            record = read_run(paths, out.spec).record
            if self._needs_verdict(out, record, interrupted):
                write_verdict(self._attempt(out, paths), self._verdict(out, reason, interrupted))
                record = read_run(paths, out.spec).record
            self._seal(out, paths)
        except OSError as error:
            self.disk_error = error
            return None
        finally:
            claim.release()
        return record

    def _needs_verdict(self, out: DispatchedRun, record: RunRecord, interrupted: bool) -> bool:
        """Whether a run whose worker is gone has an attempt without an end, or has none."""
        if out.begun or record.state in DONE:
            return record.state in {State.RUNNING, State.LOST, State.PLANNED}
        # The job of an earlier command may have ended an attempt before this command began.
        return not interrupted and not out.taken_up

    def _attempt(self, out: DispatchedRun, paths: RunPaths) -> AttemptPaths:
        """The attempt that gets a verdict; created for a job that died before it began one."""
        # Without an attempt, a job that always dies at its start would be submitted for ever.
        if not out.begun:
            orders = self.orders(out.spec)
            out.attempt = new_attempt(paths, orders.settings, orders.provenance, orders.patch)
            out.begun = True
        return out.attempt

    def _verdict(self, out: DispatchedRun, reason: str, interrupted: bool) -> RunEnded:
        return RunEnded(
            time=self.now(),
            step=out.step,
            ending=Ending.INTERRUPTED if interrupted else Ending.FAILED,
            seconds=self.monotonic() - out.since,
            failure=None if interrupted else Failure.CRASHED,
            reason=reason,
        )

    def _is_over(self, out: DispatchedRun, paths: RunPaths) -> bool:
        """Whether a run has ended and this command makes no further attempt."""
        record = read_run(paths, out.spec).record
        return not record.may_run() or is_cancelled(paths, record)

    def _finish(self, name: str, source: Source) -> None:
        """Record that a run has ended and remove it from the queue."""
        out, paths = self.out[name], self.experiment.run(name)
        record = read_run(paths, out.spec).record
        self._seal(out, paths)
        self._drop(name)
        self.watcher.ended(record, again=False)
        if not record.may_run():
            source.ended(record)

    def _seal(self, out: DispatchedRun, paths: RunPaths) -> None:
        """Write the run's attempt to the ledger, once only: a second entry would mean a repeat."""
        number = out.attempt.number if out.begun else None
        if number is None or number != out.sealed:
            self.seals.enter(paths, number)
            out.sealed = number or 0

    def _drop(self, name: str) -> None:
        remove_order(self.experiment, name)
        del self.out[name]
        self.jobs.forget(name)

    def _end_early(self, source: Source) -> None:
        """Ask the runs of pruned trials to end."""
        for out in self.out.values():
            request = None if out.ends_early or not out.begun else source.stopping(out.spec)
            if request is not None and out.has_reached(request.rung):
                out.ends_early = True
                request_stop(self.experiment.run(out.spec.name), request)

    def _ask_to_stop(self, out: DispatchedRun) -> None:
        """Ask a run to end if a worker executes it."""
        paths = self.experiment.run(out.spec.name)
        # Repeated until the attempt is seen: a new attempt removes older stop requests.
        if not out.stopped and is_held(paths.claim) and paths.attempts():
            request_stop(paths, StopRequest(Ending.INTERRUPTED, STOPPED))
            out.stopped = out.begun

    def _obey(self) -> None:
        if not self.asked_to_stop() or self._is_left():
            return
        if self.stopped_at is None:
            self.stopped_at = self.monotonic()
            for name, out in self.out.items():
                remove_order(self.experiment, name)
                self._ask_to_stop(out)
            self.session.stop()
        if self.monotonic() - self.stopped_at > self.grace:
            self.abandon()


def is_cancelled(paths: RunPaths, record: RunRecord) -> bool:
    """Whether a run was interrupted by a request in its folder, and not by a signal."""
    return record.state is State.INTERRUPTED and _is_asked_to_end(paths)


def _is_asked_to_end(paths: RunPaths) -> bool:
    return paths.stop.exists() and read_stop(paths).ending is Ending.INTERRUPTED
