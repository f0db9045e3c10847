"""`rlexp worker`: executes queued runs of an experiment on this machine."""

import os
import signal
import sys
import threading
import time
from collections import deque
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import ClassVar

from rlexp.app.execution import launch_settings
from rlexp.app.execution.checks.import_permission import check_imports
from rlexp.app.execution.launch_settings import claim_run
from rlexp.app.execution.signals import Signals, collect_signals
from rlexp.app.observer import Observer
from rlexp.app.reading.older_schema import refuse_older
from rlexp.app.results import Schema
from rlexp.app.streams.handed_scoring import check_code, serve_scores
from rlexp.app.workspace import Workspace
from rlexp.config.compose import compose
from rlexp.config.validate import build
from rlexp.engine.loop import Loop
from rlexp.engine.remote_loop import is_cancelled
from rlexp.engine.run_in_flight import AttemptSettings
from rlexp.errors import ConfigError, RecordError, RlexpError
from rlexp.executors import Executor
from rlexp.protocol.spec import RunSpec
from rlexp.records.events import Evaluated, StopRequest
from rlexp.records.run import RunRecord
from rlexp.store.files import probe_writable, read_file
from rlexp.store.layout import ExperimentPaths, RunPaths
from rlexp.store.locks.lease import is_held
from rlexp.store.provenance import Code, collect, read_code
from rlexp.store.registers.streams import intact_stream
from rlexp.store.run_queue import RunOrder, is_queued, queued_runs, read_order, remove_order
from rlexp.store.runs import other_user, read_definition, read_run, read_spec
from rlexp.store.sweeps import candidate_codes

EVERY = 2.0
"""Seconds between two checks of the queue."""
FIRST_WITHIN = 10.0
"""Seconds within which a command queues its first run or holds the lock of its experiment."""


@dataclass(frozen=True, slots=True, kw_only=True)
class WorkerOptions:
    """The runs that a worker executes, and how long it waits for further ones.

    Attributes:
        job: A file with the runs that it may execute, one per line; None allows all queued runs.
        workers: Runs at a time; None takes as many as the cores allow.
        idle: Time to wait for further runs, in seconds.
        while_input: Whether to exit when standard input ends.
        scores: Whether it computes the scores of a stream, and executes no run.
    """

    job: Path | None = None
    workers: int | None = None
    idle: float = 600.0
    while_input: bool = False
    scores: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class WorkerOutcome:
    """The runs that a worker executed.

    Attributes:
        experiment: The name of the experiment.
        executed: Number of attempts that ended in this worker.
        refused: Names of skipped runs, which cannot be read or need an import that is not allowed.
        job: The file with the runs that it could execute; null if all queued runs were allowed.
        ordered: Number of runs that are still queued.
        interrupted: The signal that ended the worker (`SIGINT`); null if none did.
    """

    schema: ClassVar[Schema] = Schema("worker-outcome")

    experiment: str
    executed: int
    refused: tuple[str, ...]
    job: Path | None
    ordered: int
    interrupted: str | None


@dataclass(slots=True)
class QueuedRunSource:
    """The queued runs that no process has claimed, as the source of the run loop.

    Attributes:
        experiment: The experiment.
        names: The runs that may be executed; None allows all.
        check: Raises an `RlexpError` if a run may not be executed.
        note: Receives the reason why a run is skipped.
        taken: The orders of the runs that this worker has taken, by name.
        refused: Names of skipped runs.
        reasons: Why they were skipped.
        ends: Number of attempts that ended.
        offered: Names of queued runs, in order.
    """

    experiment: ExperimentPaths
    names: frozenset[str] | None
    check: Callable[[RunSpec], None]
    note: Callable[[str], None]
    taken: dict[str, RunOrder] = field(default_factory=dict)
    refused: set[str] = field(default_factory=set)
    reasons: set[str] = field(default_factory=set)
    ends: int = 0
    offered: deque[str] = field(default_factory=deque)

    @property
    def waiting(self) -> int:
        """Number of queued runs at the last check."""
        return len(self.offered)

    def look(self) -> int:
        """Read the queue; returns the number of queued runs, including those of other workers."""
        open_orders = [
            name
            for name in queued_runs(self.experiment)
            if name not in self.refused and (self.names is None or name in self.names)
        ]
        self.offered = deque(open_orders)
        return len(open_orders)

    def take(self) -> RunSpec | None:
        """The next run to execute; None if there is none."""
        while self.offered:
            name = self.offered.popleft()
            try:
                if spec := self._spec(name):
                    return spec
            except RlexpError as error:
                self.refused.add(name)
                self.note(f"run {name} is skipped{self._because(str(error))}")
        return None

    def _because(self, reason: str) -> str:
        """The reason in full for the first run, because a queue often has many runs of one code."""
        if reason in self.reasons:
            return " for the same reason"
        self.reasons.add(reason)
        return f": {reason}"

    def _spec(self, name: str) -> RunSpec | None:
        paths = self.experiment.run(name)
        # Another worker may have claimed the run, or the run may have ended, since the last check.
        order = None if _is_in_use(paths) else read_order(self.experiment, name)
        if order is None:
            return None
        spec = read_spec(paths)
        if spec.name != name:
            raise RecordError(f"its folder holds run {spec.name}")
        record = read_run(paths, spec).record
        is_answered = record.attempts > order.after and is_cancelled(paths, record)
        if is_answered or not order.stands(record):
            remove_order(self.experiment, name)
            return None
        self.check(spec)
        self.taken[name] = order
        return spec

    def evaluated(self, spec: RunSpec, evaluations: Sequence[Evaluated]) -> None:
        """Do nothing: the command that queued the run reads the journal itself."""

    def stopping(self, spec: RunSpec) -> StopRequest | None:
        """Do nothing: the command that queued the run writes stop requests to the run's folder."""

    def ended(self, record: RunRecord) -> None:
        """Count the attempt and remove the run from the queue."""
        self.ends += 1
        remove_order(self.experiment, record.spec.name)


def work(
    experiment: str,
    overrides: Sequence[str],
    options: WorkerOptions,
    workspace: Workspace,
    observer: Observer,
) -> WorkerOutcome:
    """Execute the queued runs of an experiment until no more runs come.

    Args:
        experiment: The name of the experiment.
        overrides: Overrides of the executor on this machine (`executor.grace=60`).
        options: The runs to execute, and how long to wait for them.
        workspace: The workspace of the experiment.
        observer: Receives the progress of the runs.

    Raises:
        RlexpError: There is no such experiment, or its folder cannot be written.
    """
    paths = workspace.experiment(experiment)
    if paths.definition.exists():
        refuse_older(read_definition(paths))
    probe_writable(paths.folder)
    if options.scores:
        return _serve_scores(paths, options, workspace, observer)
    executor = _executor(overrides, options, workspace)
    names = _names(options.job) if options.job else None
    command = ("rlexp", "worker", experiment, *overrides, *workspace.permission)
    source = QueuedRunSource(
        paths,
        names,
        check=lambda spec: _check(spec, paths, workspace, command),
        note=observer.note,
    )
    if options.while_input:
        threading.Thread(target=_end_with_input, daemon=True).start()
    with collect_signals(handled=workspace.handles_signals) as signals:
        if _wait_for_first(source, options, signals):
            _execute(source, executor, options, workspace, observer, signals)
        return WorkerOutcome(
            experiment=paths.name,
            executed=source.ends,
            refused=tuple(sorted(source.refused)),
            job=options.job,
            ordered=len(queued_runs(paths)),
            interrupted=signals.received.name if signals.received else None,
        )


def _check(
    spec: RunSpec, paths: ExperimentPaths, workspace: Workspace, command: Sequence[str]
) -> None:
    """Refuse a run that names code which is not allowed, or of a candidate with other code than here.

    Raises:
        RecordError: What to type.
    """
    check_imports([spec], workspace.allowed, command)
    if spec.code is None:
        return
    register = intact_stream(paths)
    numbers = [n for n, code in candidate_codes(paths) if code == spec.code]
    if register.beginning is not None and numbers:
        commit = register.commit_of(numbers[0])
        check_code(paths, register.beginning, spec.code, commit, workspace, command)


def _serve_scores(
    paths: ExperimentPaths, options: WorkerOptions, workspace: Workspace, observer: Observer
) -> WorkerOutcome:
    """Compute the scores that a stream has ordered, until no order comes any more."""
    with collect_signals(handled=workspace.handles_signals) as signals:
        first, last = time.monotonic() + FIRST_WITHIN, time.monotonic() + options.idle

        def goes_on() -> bool:
            # An order comes only while a command judges, which may have been given just now.
            now = time.monotonic()
            expected = is_held(paths.lock) or now < min(first, last)
            return not signals.asked_to_stop() and expected and now < last

        answers = serve_scores(paths, workspace, goes_on, observer)
        return WorkerOutcome(
            experiment=paths.name,
            executed=answers,
            refused=(),
            job=None,
            ordered=0,
            interrupted=signals.received.name if signals.received else None,
        )


def _executor(overrides: Sequence[str], options: WorkerOptions, workspace: Workspace) -> Executor:
    for word in overrides:
        if not word.startswith("executor."):
            raise ConfigError(
                f"{word!r} is not for a worker: it takes only overrides of its executor, as in "
                "executor.grace=60; the configuration of the runs is fixed in the queue"
            )
    workers = [f"executor.workers={options.workers}"] if options.workers else []
    configuration = compose(["executor=local", *overrides, *workers], workspace.folder)[0].plain
    executor: Executor = build(configuration["executor"], "executor", workspace.allowed)
    return executor


def _names(job: Path) -> frozenset[str]:
    try:
        # Only line feeds separate names; `splitlines` would also split at other characters.
        return frozenset(read_file(job).decode(errors="replace").split("\n")) - {""}
    except OSError as error:
        raise ConfigError(f"--job {job} cannot be read: {error.strerror}") from error


def _wait_for_first(source: QueuedRunSource, options: WorkerOptions, signals: Signals) -> bool:
    """Wait for the first run, also of a command that has only just been given."""
    if _wait(source, options, signals):
        return True
    patience = 0.0 if options.job else min(options.idle, FIRST_WITHIN)
    last = time.monotonic() + patience
    if patience and not signals.asked_to_stop():
        source.note(f"no run is queued; waiting {patience:g} s for a command that queues one")
    while not signals.asked_to_stop() and time.monotonic() < last:
        time.sleep(min(EVERY, patience))
        if queued_runs(source.experiment) or is_held(source.experiment.lock):
            return _wait(source, options, signals)
    return False


def _wait(source: QueuedRunSource, options: WorkerOptions, signals: Signals) -> bool:
    """Wait for a queued run that is not claimed; returns whether there is one."""
    deadline = time.monotonic() + options.idle
    while not signals.asked_to_stop():
        queued = source.look()
        if queued and _any_free(source):
            return True
        # A job has a fixed list of runs; an empty queue grows only while a command is active.
        if options.job or (not queued and not is_held(source.experiment.lock)):
            return False
        if time.monotonic() > deadline:
            return False
        time.sleep(EVERY)
    return False


def _any_free(source: QueuedRunSource) -> bool:
    return any(not _is_in_use(source.experiment.run(n)) for n in source.offered)


def _is_in_use(paths: RunPaths) -> bool:
    # A process may still execute a run whose worker is gone.
    return is_held(paths.claim) or other_user(paths) is not None


def _execute(
    source: QueuedRunSource,
    executor: Executor,
    options: WorkerOptions,
    workspace: Workspace,
    observer: Observer,
    signals: Signals,
) -> None:
    """Execute queued runs until none is left, or a signal or a disk error ends the worker."""
    paths, code = source.experiment, read_code(workspace.folder, workspace.layout.root)
    # The executor needs the number of threads before it starts, and the first run has it.
    spec = source.take()
    if spec is None:
        return
    # Given back, because the loop takes and claims every run itself.
    source.offered.appendleft(spec.name)
    loop = None
    opened = executor.open(
        launch_settings.ENTRY,
        launch_settings.PRELOAD,
        threads=int(spec.compute["threads"]),
        folder=workspace.folder,
    )
    try:
        with opened as session, observer.watch(source.waiting) as watcher:
            loop = Loop(
                experiment=paths,
                executor=executor,
                session=session,
                orders=lambda spec: _attempt_settings(source.taken[spec.name], code, workspace),
                claim=claim_run,
                watcher=watcher,
                asked_to_stop=signals.asked_to_stop,
                conductor=launch_settings.conductor(),
                monotonic=time.monotonic,
                now=time.time,
                is_wanted=lambda spec: is_queued(paths, spec.name),
                note=observer.note,
                passes_by=True,
            )
            loop.close_gap(source)
            while loop.disk_error is None and _wait(source, options, signals):
                loop.close_gap(source)
    except KeyboardInterrupt:
        signals.received = signals.received or signal.SIGINT
    finally:
        # The closed session has killed the processes that were left: their runs are recorded as
        # interrupted.
        if loop is not None:
            loop.abandon()
    if loop is not None and loop.disk_error is not None:
        raise loop.disk_error


def _attempt_settings(order: RunOrder, code: Code, workspace: Workspace) -> AttemptSettings:
    return AttemptSettings(
        settings=order.settings,
        provenance=collect(code, order.command, workspace.folder, os.environ),
        patch=code.patch,
        timeout=order.timeout,
    )


def _end_with_input() -> None:
    """Stop this process when its standard input ends: its parent has closed it or has died."""
    # Not through `sys.stdin`: a thread inside a buffered read holds its lock when Python exits,
    # which is a fatal error.
    while os.read(sys.stdin.fileno(), 4096):
        pass
    # The handler of SIGTERM stops the runs gracefully, as if a scheduler had sent the signal.
    os.kill(os.getpid(), signal.SIGTERM)
