"""`rlexp worker`: takes runs of an experiment that were ordered, and executes them here."""

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
from rlexp.app.execution.import_permission import check_imports
from rlexp.app.execution.launch_settings import claim
from rlexp.app.execution.signals import Signals, listening
from rlexp.app.observer import Observer
from rlexp.app.reading.older_schema import refuse_older
from rlexp.app.results import Schema
from rlexp.app.workspace import Workspace
from rlexp.config.compose import compose
from rlexp.config.validate import build
from rlexp.engine.dispatch import is_cancelled
from rlexp.engine.loop import Loop
from rlexp.engine.running import Orders
from rlexp.errors import ConfigError, RecordError, RlexpError
from rlexp.executors import Executor
from rlexp.protocol.spec import RunSpec
from rlexp.records.events import Evaluated, StopRequest
from rlexp.records.run import RunRecord
from rlexp.store.files import probe_writable, read_file
from rlexp.store.layout import ExperimentPaths
from rlexp.store.lease import is_held
from rlexp.store.orders import Order, ordered, read_order, withdraw
from rlexp.store.provenance import Code, collect, read_code
from rlexp.store.runs import read_definition, read_run, read_spec

EVERY = 2.0
"""Seconds between looks for further orders."""


@dataclass(frozen=True, slots=True, kw_only=True)
class WorkerOptions:
    """Which runs a worker takes, and for how long it waits for them.

    Attributes:
        job: A file with the runs that it may take, a line each; without one, all that are ordered.
        workers: Runs at a time; without it, as many as the cores hold.
        idle: Seconds to wait for further orders.
        while_input: End when standard input ends.
    """

    job: Path | None = None
    workers: int | None = None
    idle: float = 600.0
    while_input: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class WorkerOutcome:
    """What a worker has done.

    Attributes:
        experiment: The experiment whose runs it took.
        executed: Attempts at runs that ended here.
        refused: Names of runs that were left alone: they cannot be read, or are not allowed.
        job: The file with the runs that it could take, if there is one.
        ordered: Runs that are still ordered.
        interrupted: The signal that ended it (`SIGINT`), if one did.
    """

    schema: ClassVar[Schema] = Schema("worker-outcome")

    experiment: str
    executed: int
    refused: tuple[str, ...]
    job: Path | None
    ordered: int
    interrupted: str | None


@dataclass(slots=True)
class Ordered:
    """The runs that are ordered and that nobody holds, as a source for the loop.

    Attributes:
        names: The runs that may be taken; without them, all.
        check: Raises an `RlexpError` where a run may not be executed.
        note: Receives why a run is left alone.
    """

    experiment: ExperimentPaths
    names: frozenset[str] | None
    check: Callable[[RunSpec], None]
    note: Callable[[str], None]
    taken: dict[str, Order] = field(default_factory=dict)
    refused: set[str] = field(default_factory=set)
    ends: int = 0
    offered: deque[str] = field(default_factory=deque)

    @property
    def waiting(self) -> int:
        """How many runs may follow."""
        return len(self.offered)

    def look(self) -> int:
        """Look for orders; returns for how many runs they are there, those of others included."""
        open_orders = [
            name
            for name in ordered(self.experiment)
            if name not in self.refused and (self.names is None or name in self.names)
        ]
        self.offered = deque(open_orders)
        return len(open_orders)

    def take(self) -> RunSpec | None:
        """The next run that is to be attempted."""
        while self.offered:
            name = self.offered.popleft()
            try:
                if spec := self._spec(name):
                    return spec
            except RlexpError as error:
                self.refused.add(name)
                self.note(f"{name} is left alone: {error}")
        return None

    def _spec(self, name: str) -> RunSpec | None:
        paths = self.experiment.run(name)
        order = None if is_held(paths.claim) else read_order(self.experiment, name)
        if order is None:
            return None
        spec = read_spec(paths)
        if spec.name != name:
            raise RecordError(f"its folder holds run {spec.name}")
        record = read_run(paths, spec).record
        is_answered = record.attempts > order.after and is_cancelled(paths, record)
        if is_answered or not order.stands(record):
            withdraw(self.experiment, name)
            return None
        self.check(spec)
        self.taken[name] = order
        return spec

    def evaluated(self, spec: RunSpec, evaluations: Sequence[Evaluated]) -> None:
        """Whoever gave the order looks for itself."""

    def stopping(self, spec: RunSpec) -> StopRequest | None:
        """Whoever gave the order asks in the run's folder."""

    def ended(self, record: RunRecord) -> None:
        """The order is carried out."""
        self.ends += 1
        withdraw(self.experiment, record.spec.name)


def work(
    experiment: str,
    words: Sequence[str],
    options: WorkerOptions,
    workspace: Workspace,
    observer: Observer,
) -> WorkerOutcome:
    """Execute what is ordered of an experiment, until nothing is left to take.

    Args:
        experiment: Its name.
        words: About the executor here (`executor.grace=60`).
        options: Which runs are taken.
        workspace: Where it is.
        observer: Receives the progress of the runs.

    Raises:
        RlexpError: There is no such experiment, or its folder cannot be worked in.
    """
    paths = workspace.experiment(experiment)
    if paths.definition.exists():
        refuse_older(read_definition(paths))
    probe_writable(paths.folder)
    executor = _executor(words, options, workspace)
    names = _names(options.job) if options.job else None
    command = ("rlexp", "worker", experiment, *words, *workspace.permission)
    source = Ordered(
        paths,
        names,
        check=lambda spec: check_imports([spec], workspace.allowed, command),
        note=observer.note,
    )
    if options.while_input:
        threading.Thread(target=_end_with_input, daemon=True).start()
    with listening(handled=workspace.handles_signals) as signals:
        if _wait(source, options, signals):
            _execute(source, executor, options, workspace, observer, signals)
        return WorkerOutcome(
            experiment=paths.name,
            executed=source.ends,
            refused=tuple(sorted(source.refused)),
            job=options.job,
            ordered=len(ordered(paths)),
            interrupted=signals.received.name if signals.received else None,
        )


def _executor(words: Sequence[str], options: WorkerOptions, workspace: Workspace) -> Executor:
    for word in words:
        if not word.startswith("executor."):
            raise ConfigError(
                f"{word!r} is not for a worker: it takes words about its executor only, "
                "executor.grace=60 say; what runs are about stands in their orders"
            )
    workers = [f"executor.workers={options.workers}"] if options.workers else []
    plain = compose(["executor=local", *words, *workers], workspace.folder)[0].plain
    executor: Executor = build(plain["executor"], "executor", workspace.allowed)
    return executor


def _names(job: Path) -> frozenset[str]:
    try:
        return frozenset(read_file(job).decode(errors="replace").split("\n")) - {""}
    except OSError as error:
        raise ConfigError(f"--job {job} cannot be read: {error.strerror}") from error


def _wait(source: Ordered, options: WorkerOptions, signals: Signals) -> bool:
    """Wait for something to do; whether there is."""
    until = time.monotonic() + options.idle
    while not signals.asked_to_stop():
        there = source.look()
        if there and _any_free(source):
            return True
        if options.job or (not there and not is_held(source.experiment.lock)):
            return False
        if time.monotonic() > until:
            return False
        time.sleep(EVERY)
    return False


def _any_free(source: Ordered) -> bool:
    return any(not is_held(source.experiment.run(n).claim) for n in source.offered)


def _execute(
    source: Ordered,
    executor: Executor,
    options: WorkerOptions,
    workspace: Workspace,
    observer: Observer,
    signals: Signals,
) -> None:
    paths, code = source.experiment, read_code(workspace.folder, workspace.layout.root)
    spec = source.take()
    if spec is None:
        return
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
                orders=lambda spec: _orders(source.taken[spec.name], code, workspace),
                claim=claim,
                watcher=watcher,
                asked_to_stop=signals.asked_to_stop,
                monotonic=time.monotonic,
                now=time.time,
                passes_by=True,
            )
            loop.close_gap(source)
            while loop.disk_error is None and _wait(source, options, signals):
                loop.close_gap(source)
    except KeyboardInterrupt:
        signals.received = signals.received or signal.SIGINT
    finally:
        if loop is not None:
            loop.abandon()
    if loop is not None and loop.disk_error is not None:
        raise loop.disk_error


def _orders(order: Order, code: Code, workspace: Workspace) -> Orders:
    return Orders(
        settings=order.settings,
        provenance=collect(code, order.command, workspace.folder, os.environ),
        patch=code.patch,
        timeout=order.timeout,
    )


def _end_with_input() -> None:
    while os.read(sys.stdin.fileno(), 4096):
        pass
    os.kill(os.getpid(), signal.SIGTERM)
