"""The loop for runs on this machine: submits runs, supervises them, records silent deaths."""

from collections import deque
from collections.abc import Callable
from dataclasses import dataclass, field
from signal import SIGKILL

from rlexp.engine.run_in_flight import (
    AttemptSettings,
    ClaimRun,
    RunInFlight,
    Watcher,
    read_new_events,
    read_progress,
)
from rlexp.engine.source import Source
from rlexp.executors import DISK_FULL, IN_USE, Executor, Exit, Job, Session
from rlexp.protocol.budget import overtime_text
from rlexp.protocol.spec import RunSpec
from rlexp.records.events import Ending, Failure, RunEnded, StopRequest
from rlexp.records.run import State
from rlexp.store.layout import ExperimentPaths
from rlexp.store.ledger_writer import LedgerWriter
from rlexp.store.locks.lease import Lease
from rlexp.store.runs import (
    CANCELLED,
    new_attempt,
    other_user,
    read_run,
    request_stop,
    write_run,
    write_verdict,
)

POLL = 0.2
LOOK_EVERY = 1.0
"""Seconds between two looks at the runs that other processes hold."""
OVERTIME = 60.0
"""Seconds after its time limit in which a run can still end itself and record the reason."""


@dataclass(slots=True)
class Loop:
    """Executes runs until none is left, or the user stops the command.

    Attributes:
        orders: Returns the settings of a run's attempts.
        claim: Takes the claim of a run, which this loop holds through all attempts of the run.
        note: Receives a remark for the user.
        seals: Writes ended attempts to the ledger; None where another process writes it.
        is_wanted: Whether a run is still to be executed; asked once per attempt.
        passes_by: Whether to skip runs that other processes hold, instead of waiting for them.
        running: Runs with a live process, by the folder of their attempt.
        claims: The claims that this loop holds, by the name of the run.
        elsewhere: Runs that other processes hold.
        waited_for: Names of runs that processes of ended commands still execute; whether the user
            knows it.
        fenced: Names of runs whose claim another process has taken over.
        again: Runs to be attempted next.
        alone: Names of runs that failed: each is tried again in a process of its own.
        stopped_at: When the user stopped the command.
        looked_at: When the runs in `elsewhere` were last looked at.
        disk_error: The error after which no further run is started.
    """

    experiment: ExperimentPaths
    executor: Executor
    session: Session
    orders: Callable[[RunSpec], AttemptSettings]
    claim: ClaimRun
    watcher: Watcher
    asked_to_stop: Callable[[], bool]
    monotonic: Callable[[], float]
    now: Callable[[], float]
    note: Callable[[str], None]
    seals: LedgerWriter | None = None
    is_wanted: Callable[[RunSpec], bool] = lambda _: True
    passes_by: bool = False
    running: dict[str, RunInFlight] = field(default_factory=dict)
    claims: dict[str, Lease] = field(default_factory=dict)
    elsewhere: deque[RunSpec] = field(default_factory=deque)
    waited_for: dict[str, bool] = field(default_factory=dict)
    fenced: set[str] = field(default_factory=set)
    again: deque[RunSpec] = field(default_factory=deque)
    alone: set[str] = field(default_factory=set)
    stopped_at: float | None = None
    looked_at: float = 0.0
    disk_error: OSError | None = None

    def close_gap(self, source: Source) -> None:
        """Execute the runs; however a run ends, its folder holds an end event or a verdict."""
        if self.seals is not None:
            self.seals.enter_late()
        self._submit(source)
        while self.running or (self.elsewhere and self._may_submit()):
            for ended in self.session.poll(POLL):
                self._judge(ended, source)
            for running in self.running.values():
                self._watch(running, source)
            self._end_early(source)
            self._obey()
            waiting = len(self.again) + len(self.elsewhere) + source.waiting
            self.watcher.update(list(self.running.values()), waiting)
            self._look_elsewhere()
            self._submit(source)

    def abandon(self) -> None:
        """Record the runs whose processes ended with the session as interrupted."""
        for running in self.running.values():
            running.stopped = True
            # A process may have recorded its end before it ended with the session.
            if read_run(self.experiment.run(running.spec.name), running.spec).record.ended is None:
                ended = Exit(str(running.attempt.folder), None, SIGKILL)
                write_verdict(running.attempt, self._verdict(running, ended))
            self._seal(running)
        self.running.clear()
        for name in list(self.claims):
            self._release(name)

    def _may_submit(self) -> bool:
        return self.disk_error is None and not self.asked_to_stop()

    def _submit(self, source: Source) -> None:
        while len(self.running) < self.session.slots and self._may_submit():
            try:
                spec = self.again.popleft() if self.again else source.take()
                if spec is None:
                    return
                if self._claimed(spec, source) and self._session_has_started(spec):
                    self._start(spec)
            except OSError as error:
                # Running runs may still finish; a new run is not started, as it could not be recorded.
                self.disk_error = error
                return

    def _session_has_started(self, spec: RunSpec) -> bool:
        """Wait for the session; returns False, and gives the run back, if the user stops meanwhile."""
        while self.session.is_starting and self._may_submit():
            self.session.poll(POLL)
        if not self._may_submit():
            self._release(spec.name)
            return False
        return True

    def _claimed(self, spec: RunSpec, source: Source) -> bool:
        """Claim a run; returns False where another process holds the run or has completed it."""
        paths = self.experiment.run(spec.name)
        if spec.name in self.claims:
            return True
        write_run(paths, spec)
        claim = self.claim(paths, lambda: self.fenced.add(spec.name))
        if claim is None:
            if not self.passes_by:
                self.elsewhere.append(spec)
            return False
        self.claims[spec.name] = claim
        # Read under the claim: its former holder may have completed the run since it was planned.
        record = read_run(paths, spec).record
        if record.state in {State.COMPLETED, State.PRUNED}:
            self._release(spec.name)
            self.watcher.ended(record, again=False)
            source.ended(record)
            return False
        return not self._waits_for_process(spec)

    def _waits_for_process(self, spec: RunSpec) -> bool:
        """Whether a process without a command still executes a run, which then has to wait."""
        process = other_user(self.experiment.run(spec.name))
        if process is None:
            return False
        self._release(spec.name)
        if not self.passes_by:
            self.elsewhere.append(spec)
        # A process that is about to end is gone at the second look.
        if self.waited_for.get(spec.name) is False:
            self.note(
                f"run {spec.name} waits for {process}, which still executes it; "
                "end that process if it hangs"
            )
        self.waited_for[spec.name] = spec.name in self.waited_for
        return True

    def _look_elsewhere(self) -> None:
        """Try again, once a second, to claim one of the runs that other processes hold."""
        if self.elsewhere and self.monotonic() - self.looked_at > LOOK_EVERY:
            self.looked_at = self.monotonic()
            self.again.append(self.elsewhere.popleft())

    def _release(self, name: str) -> None:
        claim = self.claims.pop(name, None)
        if claim is not None:
            claim.release()

    def _seal(self, running: RunInFlight) -> None:
        if self.seals is not None:
            self.seals.enter(self.experiment.run(running.spec.name), running.attempt.number)

    def _start(self, spec: RunSpec) -> None:
        paths, orders = self.experiment.run(spec.name), self.orders(spec)
        attempt = new_attempt(paths, orders.settings, orders.provenance, orders.patch)
        # `new_attempt` has removed the stop request of a cancellation before this line. A later
        # cancellation leaves a stop request that the process reads.
        if not self.is_wanted(spec):
            request_stop(paths, StopRequest(Ending.INTERRUPTED, CANCELLED))
        running = RunInFlight(spec, attempt, since=self.monotonic(), timeout=orders.timeout)
        self.running[str(attempt.folder)] = running
        arguments = (str(paths.folder), str(attempt.number))
        in_turn = spec.compiled and spec.name not in self.alone
        self.session.submit(Job(str(attempt.folder), arguments, attempt.log, in_turn))
        # After `submit`: the first job waits for the server's imports, which must not count
        # against the time limit of the run.
        running.since = running.beat_at = self.monotonic()

    def _watch(self, running: RunInFlight, source: Source) -> None:
        """Read a run's progress and new events; kill it if it hangs or exceeds its time limit."""
        step, beats = read_progress(running.attempt.progress)
        now = self.monotonic()
        # Heartbeats are compared, not steps: a long evaluation takes no environment steps.
        if beats != running.beats:
            running.step, running.beats, running.beat_at = step, beats, now
        read_new_events(self.experiment, running)
        if running.last is not None:
            source.evaluated(running.spec, running.evaluations)
        overdue = running.timeout is not None and (
            now - running.since > running.timeout + OVERTIME
        )
        if running.spec.name in self.fenced:
            # Another process has the claim: this attempt must not write beside the next one.
            self.session.kill(str(running.attempt.folder))
        if running.killed_as is None and (
            overdue or now - running.beat_at > self._hang_timeout(running.spec)
        ):
            running.killed_as = Failure.TIMEOUT if overdue else Failure.HUNG
            self.session.kill(str(running.attempt.folder))

    def _hang_timeout(self, spec: RunSpec) -> float:
        """Seconds without a heartbeat after which a run counts as hung."""
        return self.executor.hang_timeout if spec.hang_timeout is None else spec.hang_timeout

    def _end_early(self, source: Source) -> None:
        """Ask the runs of pruned trials to end."""
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
        """Record how a run ended whose process is gone, and decide whether to try it again."""
        running = self.running.pop(ended.key)
        paths = self.experiment.run(running.spec.name)
        if running.spec.name in self.fenced:
            # The process that took over the run records its outcome.
            self.fenced.discard(running.spec.name)
            self._release(running.spec.name)
            if not self.passes_by:
                self.elsewhere.append(running.spec)
            return
        record = read_run(paths, running.spec).record
        # These are the states of a run whose last attempt has no recorded end.
        if record.state in {State.RUNNING, State.LOST, State.PLANNED}:
            try:
                write_verdict(running.attempt, self._verdict(running, ended))
            except OSError as error:
                self.disk_error = error
            record = read_run(paths, running.spec).record
        self._seal(running)
        # Further runs would fail on the same disk, so no run is started any more.
        if record.failure is Failure.DISK:
            self.disk_error = OSError(f"{paths.folder.name}: {record.reason}")
        if ended.code == IN_USE and not self.passes_by:
            self.elsewhere.append(running.spec)
        again = record.state is State.FAILED and record.may_run() and self._may_submit()
        if again:
            self.alone.add(running.spec.name)
            self.again.append(running.spec)
        else:
            self._release(running.spec.name)
        self.watcher.ended(record, again=again)
        if not record.may_run():
            source.ended(record)

    def _verdict(self, running: RunInFlight, ended: Exit) -> RunEnded:
        """The verdict of a run whose process ended without recording its end."""
        failure, reason = running.killed_as, str(ended)
        # By the exit code: on a full disk, the process cannot write why it ended.
        if ended.code == DISK_FULL:
            failure, reason = Failure.DISK, "the disk is full"
        match failure:
            case Failure.HUNG:
                setting = "executor" if running.spec.hang_timeout is None else "algorithm"
                reason = (
                    f"no progress for {self._hang_timeout(running.spec):g} s; if one step may take "
                    f"longer, raise {setting}.hang_timeout"
                )
            case Failure.TIMEOUT:
                reason = overtime_text(running.timeout or 0.0)
            case None if ended.code == IN_USE:
                reason = "another process still executes the run"
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
