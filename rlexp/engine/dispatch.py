"""The loop of runs that workers elsewhere execute: gives orders, starts jobs, watches the folders.

What a run came to stands in its folder; what an executor says of a job is a hint where to look.
"""

from collections import deque
from collections.abc import Callable
from dataclasses import dataclass, field
from math import ceil

from rlexp.engine.jobs import Jobs
from rlexp.engine.loop import POLL
from rlexp.engine.running import Claimer, Orders, Running, Watcher, read_news, read_progress
from rlexp.engine.source import Listed, Source
from rlexp.errors import ExecutorError
from rlexp.executors import Gone, RemoteSession
from rlexp.protocol.spec import RunSpec
from rlexp.records.events import Ending, Failure, RunEnded, StopRequest
from rlexp.records.run import RunRecord, State
from rlexp.store.layout import AttemptPaths, ExperimentPaths, RunPaths
from rlexp.store.lease import is_held
from rlexp.store.orders import Order, is_ordered, withdraw, write_order
from rlexp.store.runs import (
    new_attempt,
    read_run,
    read_stop,
    request_stop,
    write_run,
    write_verdict,
)
from rlexp.store.sealing import Seals

LOOK_EVERY = 2.0
"""Seconds in which every run that is out is looked at once, if there are not too many."""
LOOKS = 30
"""Runs that are looked at in one turn of the loop, at most: a login node is for others too."""
STOPPED = "the command that asked for it was stopped"


@dataclass(slots=True)
class Out(Running):
    """A run that some worker has or will have.

    Attributes:
        job: The job that is to execute it, where one is known.
        begun: Whether an attempt is known that is an answer to the order.
        asked: Whether its attempt was to end already when the order was given.
    """

    job: str | None = None
    begun: bool = False
    asked: bool = False


@dataclass(slots=True)
class Dispatch:
    """Gives orders until no run is left, or the user stops it.

    Attributes:
        jobs: Are submitted for what is ordered.
        grace: Seconds that jobs get to end themselves.
        orders: What the attempts of a run are asked for.
        command: What the user typed.
        claim: See `Loop`.
        left: Whether the jobs are to go on without this command.
        detach: Whether to give all orders at once and leave.
    """

    experiment: ExperimentPaths
    session: RemoteSession
    jobs: Jobs
    grace: float
    orders: Callable[[RunSpec], Orders]
    command: tuple[str, ...]
    claim: Claimer
    watcher: Watcher
    asked_to_stop: Callable[[], bool]
    left: Callable[[], bool]
    monotonic: Callable[[], float]
    now: Callable[[], float]
    detach: bool = False
    out: dict[str, Out] = field(default_factory=dict)
    rounds: deque[str] = field(default_factory=deque)
    again: deque[RunSpec] = field(default_factory=deque)
    stopped_at: float | None = None
    disk_error: OSError | None = None
    seals: Seals = field(init=False)

    def __post_init__(self) -> None:
        """Prepare the ledger, in which every attempt is entered that ends."""
        self.seals = Seals(self.experiment)

    def close_gap(self, source: Source) -> None:
        """See the runs through, or leave them to their workers."""
        self.seals.enter_late()
        self.jobs.take_up()
        self._submit(source)
        while self.out and not self._is_left():
            for gone in self.session.poll(POLL):
                self._lose(gone, source)
            self.jobs.tell_what_is_wrong(o.job for o in self.out.values() if not o.begun)
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
        """End what is still out; nothing where the jobs were left."""
        if not self.out or self._is_left():
            return
        for name in self.out:
            withdraw(self.experiment, name)
        self.session.kill()
        for name in list(self.out):
            self._bury(name, "its job was ended with the command", interrupted=True)
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
                self._order(spec, source)
        except OSError as error:
            self.disk_error = error
        if self._may_submit():
            self._send()

    def _order(self, spec: RunSpec, source: Source) -> None:
        name, paths, orders = spec.name, self.experiment.run(spec.name), self.orders(spec)
        write_run(paths, spec)
        record = read_run(paths, spec).record
        if record.state in {State.COMPLETED, State.PRUNED}:
            # A worker came to its end with it since this command looked.
            self.watcher.ended(record, again=False)
            source.ended(record)
            return
        # What runs now answers the order; what has ended does not. State and number are those of
        # one reading: a worker may begin an attempt at any moment.
        after = record.attempts - (record.state is State.RUNNING)
        asked = record.state is State.RUNNING and _is_asked_to_end(paths)
        order = Order(after=after + asked, settings=orders.settings, command=self.command)
        write_order(self.experiment, name, order)
        job, since = self.jobs.enter(name), self.monotonic()
        attempt = paths.attempt(after)
        self.out[name] = Out(spec, attempt, since=since, job=job, asked=asked)
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

    def _lose(self, gone: Gone, source: Source) -> None:
        """Find out what became of the runs of a job that is no longer there."""
        for name in [n for n, out in self.out.items() if out.job == gone.key]:
            self.out[name].job = None
            self._settle(name, source, gone.reason)

    def _look_at_some(self, source: Source) -> None:
        """Look at a share of the runs, so that each is looked at every few seconds."""
        for _ in range(min(ceil(len(self.rounds) * POLL / LOOK_EVERY), LOOKS)):
            name = self.rounds.popleft()
            if name not in self.out:
                continue
            self.rounds.append(name)
            self._look(self.out[name], source)

    def _look(self, out: Out, source: Source) -> None:
        name, paths = out.spec.name, self.experiment.run(out.spec.name)
        self._follow_attempt(out, paths)
        is_over = out.begun and (read_news(self.experiment, out) or out.attempt.verdict.exists())
        if out.begun:
            out.step = max(read_progress(out.attempt.progress)[0], out.step)
        if out.last is not None:
            source.evaluated(out.spec, out.evaluations)
        if isinstance(source, Listed):
            # Nobody asks for those before, and the runs may be thousands.
            del out.evaluations[:-1]
        if self.stopped_at is not None:
            self._ask_to_stop(out)
        if (is_over or self._is_carried_out(out, paths)) and self._is_over(out, paths):
            self._finish(name, source)
        elif (out.job is None and name not in self.jobs.unsent) or self.stopped_at is not None:
            self._settle(name, source, "its worker is gone")

    def _is_carried_out(self, out: Out, paths: RunPaths) -> bool:
        """Whether a worker answered the order by an attempt that it began before it saw it.

        It withdraws the order then, and no further attempt follows.
        """
        return (
            not out.begun
            and not is_ordered(self.experiment, out.spec.name)
            and not is_held(paths.claim)
        )

    def _follow_attempt(self, out: Out, paths: RunPaths) -> None:
        """Go over to the run's last attempt."""
        attempts = paths.attempts()
        if attempts and attempts[-1].number > out.attempt.number:
            out.attempt, out.offset, out.evaluations = attempts[-1], 0, []
            out.ends_early, out.step, out.since = False, 0, self.monotonic()
            out.begun, out.asked = True, False

    def _settle(self, name: str, source: Source, reason: str) -> None:
        """Send a run out again that nobody is at any more and that has not come to its end."""
        out, paths = self.out[name], self.experiment.run(name)
        if is_held(paths.claim):
            return
        self._follow_attempt(out, paths)
        if out.begun and self._is_over(out, paths):
            self._finish(name, source)
            return
        if self.asked_to_stop():
            self._bury(name, reason, interrupted=True)
            self._drop(name)
            return
        record = self._bury(name, reason, interrupted=False)
        if record is None:
            return
        if record.may_run():
            self._drop(name)
            self.watcher.ended(record, again=True)
            self.again.append(out.spec)
        else:
            self._finish(name, source)

    def _bury(self, name: str, reason: str, *, interrupted: bool) -> RunRecord | None:
        """Say how a run's last attempt ended, if nobody did; its record, if nobody holds it."""
        out, paths = self.out[name], self.experiment.run(name)
        held = self.claim(paths, lambda: None)
        if held is None:
            return None
        try:
            self._follow_attempt(out, paths)
            record = read_run(paths, out.spec).record
            open_ended = record.state in {State.RUNNING, State.LOST, State.PLANNED}
            if (out.begun and open_ended) or (not out.begun and not interrupted):
                write_verdict(self._attempt(out, paths), self._verdict(out, reason, interrupted))
                record = read_run(paths, out.spec).record
            if out.begun:
                self.seals.enter(paths, out.attempt.number)
        except OSError as error:
            self.disk_error = error
            return None
        finally:
            held.release()
        return record

    def _attempt(self, out: Out, paths: RunPaths) -> AttemptPaths:
        """The attempt to say something of; a job that is gone before it began counts as one."""
        if not out.begun:
            orders = self.orders(out.spec)
            out.attempt = new_attempt(paths, orders.settings, orders.provenance, orders.patch)
            out.begun = True
        return out.attempt

    def _verdict(self, out: Out, reason: str, interrupted: bool) -> RunEnded:
        return RunEnded(
            time=self.now(),
            step=out.step,
            ending=Ending.INTERRUPTED if interrupted else Ending.FAILED,
            seconds=self.monotonic() - out.since,
            failure=None if interrupted else Failure.CRASHED,
            reason=reason,
        )

    def _is_over(self, out: Out, paths: RunPaths) -> bool:
        """Whether a run has come to an end that nothing follows while this command lasts."""
        record = read_run(paths, out.spec).record
        return not record.may_run() or (is_cancelled(paths, record) and not out.asked)

    def _finish(self, name: str, source: Source) -> None:
        """A run is over for good, or until the user wants it again."""
        out, paths = self.out[name], self.experiment.run(name)
        record = read_run(paths, out.spec).record
        self.seals.enter(paths, out.attempt.number)
        self._drop(name)
        self.watcher.ended(record, again=False)
        if not record.may_run():
            source.ended(record)

    def _drop(self, name: str) -> None:
        withdraw(self.experiment, name)
        del self.out[name]
        self.jobs.forget(name)

    def _end_early(self, source: Source) -> None:
        """Ask the runs to end that are not worth their remaining steps."""
        for out in self.out.values():
            request = None if out.ends_early or not out.begun else source.stopping(out.spec)
            if request is not None and out.has_reached(request.rung):
                out.ends_early = True
                request_stop(self.experiment.run(out.spec.name), request)

    def _ask_to_stop(self, out: Out) -> None:
        """Ask a run to end that somebody is at; it may just have begun."""
        paths = self.experiment.run(out.spec.name)
        if not out.stopped and is_held(paths.claim) and paths.attempts():
            request_stop(paths, StopRequest(Ending.INTERRUPTED, STOPPED))
            out.stopped = out.begun

    def _obey(self) -> None:
        if not self.asked_to_stop() or self._is_left():
            return
        if self.stopped_at is None:
            self.stopped_at = self.monotonic()
            for name, out in self.out.items():
                withdraw(self.experiment, name)
                self._ask_to_stop(out)
            self.session.stop()
        if self.monotonic() - self.stopped_at > self.grace:
            self.abandon()


def is_cancelled(paths: RunPaths, record: RunRecord) -> bool:
    """Whether a run was interrupted because somebody asked that of it, and not of its process."""
    return record.state is State.INTERRUPTED and _is_asked_to_end(paths)


def _is_asked_to_end(paths: RunPaths) -> bool:
    return paths.stop.exists() and read_stop(paths).ending is Ending.INTERRUPTED
