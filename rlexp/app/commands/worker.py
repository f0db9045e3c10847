"""`rlexp worker`: takes runs of an experiment that were ordered, and executes them here."""

import os
import signal
import sys
import threading
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from rlexp.app import execution
from rlexp.app.execution import claim
from rlexp.app.older_schema import refuse_older
from rlexp.app.ordered import Ordered
from rlexp.app.permission import check_imports
from rlexp.app.signals import Signals, listening
from rlexp.app.workspace import Workspace
from rlexp.config.compose import compose
from rlexp.config.validate import build
from rlexp.console import Console
from rlexp.engine.loop import Loop
from rlexp.engine.running import Orders
from rlexp.errors import ConfigError
from rlexp.executors import Executor
from rlexp.reports.sentences import counted
from rlexp.store.files import probe_writable, read_file
from rlexp.store.layout import ExperimentPaths
from rlexp.store.lease import is_held
from rlexp.store.orders import Order, ordered
from rlexp.store.provenance import Code, collect, read_code
from rlexp.store.runs import read_definition

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


def work(
    experiment: str, words: Sequence[str], options: Options, workspace: Workspace, console: Console
) -> int:
    """Execute what is ordered of an experiment; returns the exit code.

    0 when nothing is left to take, 1 when runs had to be left alone; a signal's own otherwise.

    Args:
        experiment: Its name.
        words: About the executor here (`executor.grace=60`).
        options: What the worker was told.
        workspace: Where it is.
        console: Shows the runs.

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
        tell=console.note,
    )
    if options.while_input:
        threading.Thread(target=_end_with_input, daemon=True).start()
    with listening() as signals:
        if _wait(source, options, signals):
            _execute(source, executor, options, workspace, console, signals)
        elif not signals.asked_to_stop():
            console.line(_nothing(paths, options))
        return signals.code or int(bool(source.refused))


def _executor(words: Sequence[str], options: Options, workspace: Workspace) -> Executor:
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
    workspace: Workspace,
    console: Console,
    signals: Signals,
) -> None:
    paths, code = source.experiment, read_code(workspace.folder, workspace.layout.root)
    spec = source.take()
    if spec is None:
        return
    source.offered.appendleft(spec.name)
    loop = None
    opened = executor.open(
        execution.ENTRY,
        execution.PRELOAD,
        threads=int(spec.compute["threads"]),
        folder=workspace.folder,
    )
    try:
        with opened as session, console.watch(source.waiting) as watcher:
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
        signals.code = signals.code or 130
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


def _nothing(paths: ExperimentPaths, options: Options) -> str:
    if options.job:
        return f"nothing to do: the runs of {options.job.name} are over, or others are at them"
    left = counted(len(ordered(paths)), "run")
    return (
        f"nothing to take: {left} of {paths.name} ordered; the command that made it orders more "
        "with executor=pull"
    )


def _end_with_input() -> None:
    while os.read(sys.stdin.fileno(), 4096):
        pass
    os.kill(os.getpid(), signal.SIGTERM)
