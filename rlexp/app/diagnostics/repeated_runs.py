"""Executes one run several times, each in a process of its own that shares nothing with others."""

import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from pathlib import Path

from rlexp.app.execution.environment_variables import given
from rlexp.app.execution.launch_settings import PRELOAD
from rlexp.app.execution.run_process import execute as execute_run
from rlexp.executors import Job, Session
from rlexp.executors.local import Local
from rlexp.protocol.budget import OPERATIONAL
from rlexp.protocol.spec import RunSpec
from rlexp.records.run import RunRecord
from rlexp.store.layout import ExperimentPaths, RunPaths
from rlexp.store.provenance import usable_cores
from rlexp.store.runs import new_attempt, read_run, write_run

ENTRY = "rlexp.app.diagnostics.repeated_runs:execute"
DETERMINISTIC = "deterministic"
"""A word that asks for torch's deterministic algorithms."""
OVERTIME = 60.0
"""Seconds beyond its time limit after which an execution is killed."""
LOG_LIMIT = 1_000_000
TICK = 0.1


@dataclass(frozen=True, slots=True, kw_only=True)
class Execution:
    """How a run is to be executed.

    Attributes:
        name: What it is told apart by.
        spec: The run.
        variables: Variables that its process starts with, besides those of this one.
        deterministic: Whether torch may use deterministic algorithms only.
    """

    name: str
    spec: RunSpec
    variables: Mapping[str, str] = field(default_factory=dict)
    deterministic: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Place:
    """Where executions happen: a folder of their own, the workspace's folder, what it may import."""

    folder: Path
    workspace: Path
    allowed: tuple[str, ...]
    timeout: float


def execute(words: list[str]) -> int:
    """Execute an attempt, as every run is, on request with deterministic algorithms only.

    Args:
        words: The run's folder, the attempt's number, and how.
    """
    if DETERMINISTIC in words[2:]:
        from rlexp.training.training_run import require_deterministic_algorithms

        require_deterministic_algorithms()
    return execute_run(words[:2])


def execute_apart(executions: Sequence[Execution], place: Place) -> list[RunRecord]:
    """Execute a run in several ways, as many at a time as there are cores.

    Each has a server of its own, so that they differ in all in which two commands would:
    addresses in memory, numbers of processes, what the system's generator gives.

    Raises:
        ExecutorError: A process cannot be started.
    """
    count = max(1, usable_cores() // max(e.spec.compute["threads"] for e in executions))
    records: list[RunRecord] = []
    for start in range(0, len(executions), count):
        records += _together(executions[start : start + count], place)
    return records


def _together(executions: Sequence[Execution], place: Place) -> list[RunRecord]:
    with ExitStack() as stack:
        sessions = [stack.enter_context(_opened(each, place)) for each in executions]
        runs = [_prepare(each, place) for each in executions]
        for session, run, each in zip(sessions, runs, executions, strict=True):
            attempt = run.attempt(1)
            words = (str(run.folder), "1", *([DETERMINISTIC] if each.deterministic else []))
            session.submit(Job(each.name, words, attempt.log))
        _wait(dict(zip((e.name for e in executions), sessions, strict=True)), place.timeout)
    return [
        read_run(run, each.spec, measurements=True).record
        for run, each in zip(runs, executions, strict=True)
    ]


@contextmanager
def _opened(execution: Execution, place: Place) -> Iterator[Session]:
    """A server that holds nothing but this execution."""
    executor = Local(
        workers=1, hang_timeout=place.timeout + OVERTIME, grace=1.0, log_limit=LOG_LIMIT
    )
    preload = (*PRELOAD, ENTRY.partition(":")[0])
    with ExitStack() as stack:
        with given(execution.variables):
            opened = executor.open(ENTRY, preload, threads=1, folder=place.workspace)
            session = stack.enter_context(opened)
        yield session


def _prepare(execution: Execution, place: Place) -> RunPaths:
    run = ExperimentPaths(place.folder / execution.name).run(execution.spec.name)
    write_run(run, execution.spec)
    operational = {**dict.fromkeys(OPERATIONAL), "timeout": place.timeout}
    new_attempt(run, {**operational, "allowed": list(place.allowed)}, {}, "")
    return run


def _wait(sessions: Mapping[str, Session], timeout: float) -> None:
    """Wait until every execution has ended; what hangs is killed."""
    waiting = dict(sessions)
    deadline = time.monotonic() + timeout + OVERTIME
    while waiting:
        for name, session in list(waiting.items()):
            if session.poll(TICK):
                del waiting[name]
            elif time.monotonic() > deadline:
                session.kill(name)
