"""`rlexp worker`: takes runs of an experiment that were ordered, and executes them here."""

import os
import shlex
import signal
import sys
import threading
import time
from collections import deque
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from rlexp.app import execution
from rlexp.app.execution import claim
from rlexp.app.permission import check_imports
from rlexp.app.signals import Signals, listening
from rlexp.app.study import Study
from rlexp.config.compose import compose
from rlexp.config.validate import build
from rlexp.console import Console
from rlexp.engine.dispatch import is_cancelled
from rlexp.engine.loop import Loop
from rlexp.engine.running import Orders
from rlexp.errors import ConfigError, RecordError, RlexpError
from rlexp.executors import Executor
from rlexp.protocol.spec import RunSpec
from rlexp.records.events import Evaluated, StopRequest
from rlexp.records.run import RunRecord
from rlexp.reports.sentences import counted
from rlexp.store.files import probe_writable, read_file
from rlexp.store.layout import ExperimentPaths
from rlexp.store.lease import is_held
from rlexp.store.orders import Order, ordered, read_order, withdraw
from rlexp.store.provenance import Code, collect, read_code
from rlexp.store.runs import read_run, read_spec

EVERY = 2.0
"""Seconds between looks for further orders."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Options:
    """What a worker was told.

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


@dataclass(slots=True)
class Ordered:
    """The runs that are ordered and that nobody holds, as a source for the loop.

    Attributes:
        names: The runs that may be taken; without them, all.
        check: Raises an `RlexpError` where a run may not be executed.
        tell: Told why a run is left alone.
    """

    experiment: ExperimentPaths
    names: frozenset[str] | None
    check: Callable[[RunSpec], None]
    tell: Callable[[str], None]
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
                self.tell(f"{name} is left alone: {error}")
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
    experiment: str, words: Sequence[str], options: Options, study: Study, console: Console
) -> int:
    """Execute what is ordered of an experiment; returns the exit code.

    0 when nothing is left to take, 1 when runs had to be left alone; a signal's own otherwise.

    Args:
        experiment: Its name.
        words: About the executor here (`executor.grace=60`).
        options: What the worker was told.
        study: Where it is.
        console: Shows the runs.

    Raises:
        RlexpError: There is no such experiment, or its folder cannot be worked in.
    """
    paths = study.experiment(experiment)
    probe_writable(paths.folder)
    executor = _executor(words, options, study)
    names = _names(options.job) if options.job else None
    command = ("rlexp", "worker", experiment, *words, *study.permission)
    source = Ordered(
        paths,
        names,
        check=lambda spec: check_imports([spec], study.allowed, command),
        tell=console.note,
    )
    if options.while_input:
        threading.Thread(target=_end_with_input, daemon=True).start()
    with listening() as signals:
        if _wait(source, options, signals):
            _execute(source, executor, options, study, console, signals)
        elif not signals.asked_to_stop():
            console.line(_nothing(paths, options))
        return signals.code or int(bool(source.refused))


def _executor(words: Sequence[str], options: Options, study: Study) -> Executor:
    for word in words:
        if not word.startswith("executor."):
            raise ConfigError(
                f"{word!r} is not for a worker: it takes words about its executor only, "
                "executor.grace=60 say; what runs are about stands in their orders"
            )
    workers = [f"executor.workers={options.workers}"] if options.workers else []
    plain = compose(["executor=local", *words, *workers], study.folder)[0].plain
    executor: Executor = build(plain["executor"], "executor", study.allowed)
    return executor


def _names(job: Path) -> frozenset[str]:
    try:
        return frozenset(read_file(job).decode(errors="replace").split("\n")) - {""}
    except OSError as error:
        raise ConfigError(f"--job {job} cannot be read: {error.strerror}") from error


def _wait(source: Ordered, options: Options, signals: Signals) -> bool:
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
    options: Options,
    study: Study,
    console: Console,
    signals: Signals,
) -> None:
    paths, code = source.experiment, read_code(study.folder, study.layout.root)
    spec = source.take()
    if spec is None:
        return
    source.offered.appendleft(spec.name)
    loop = None
    opened = executor.open(
        execution.ENTRY,
        execution.PRELOAD,
        threads=int(spec.compute["threads"]),
        folder=study.folder,
    )
    try:
        with opened as session, console.watch(source.waiting) as watcher:
            loop = Loop(
                experiment=paths,
                executor=executor,
                session=session,
                orders=lambda spec: _orders(source.taken[spec.name], code, study),
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
        signals.code = signals.code or 130
    finally:
        if loop is not None:
            loop.abandon()
    if loop is not None and loop.disk_error is not None:
        raise loop.disk_error


def _orders(order: Order, code: Code, study: Study) -> Orders:
    return Orders(
        settings=order.settings,
        provenance=collect(code, order.command, study.folder, os.environ),
        patch=code.patch,
        timeout=order.timeout,
    )


def _nothing(paths: ExperimentPaths, options: Options) -> str:
    if options.job:
        return f"nothing to do: the runs of {options.job.name} are over, or others are at them"
    left = counted(len(ordered(paths)), "run")
    orders = shlex.join(["rlexp", "run", "…", f"experiment={paths.name}", "executor=pull"])
    return f"nothing to take: {left} of {paths.name} ordered; runs are ordered by: {orders}"


def _end_with_input() -> None:
    while os.read(sys.stdin.fileno(), 4096):
        pass
    os.kill(os.getpid(), signal.SIGTERM)
