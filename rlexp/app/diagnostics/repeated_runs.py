"""Executes one run several times in separate processes that share nothing with one another."""

import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from pathlib import Path

from rlexp.app.execution.environment_variables import temporary_environment
from rlexp.app.execution.launch_settings import PRELOAD
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
"""The argument that enables torch's deterministic algorithms."""
OVERTIME = 60.0
"""Seconds after its time limit until an execution is killed."""
LOG_LIMIT = 1_000_000
TICK = 0.1


@dataclass(frozen=True, slots=True, kw_only=True)
class RepeatedRun:
    """One of several executions of a run.

    Attributes:
        name: The name of this execution.
        spec: The run.
        variables: Additional environment variables of its process.
        deterministic: Whether torch may use only deterministic algorithms.
    """

    name: str
    spec: RunSpec
    variables: Mapping[str, str] = field(default_factory=dict)
    deterministic: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class RepetitionSettings:
    """Settings shared by all executions of a run.

    Attributes:
        folder: A temporary folder for the records.
        workspace: The workspace's folder.
        allowed: Packages that the runs may import.
        timeout: Seconds that one training may take.
    """

    folder: Path
    workspace: Path
    allowed: tuple[str, ...]
    timeout: float


def execute(arguments: list[str]) -> int:
    """Execute an attempt, on request with deterministic algorithms only.

    Args:
        arguments: The run's folder, the attempt's number, and `DETERMINISTIC` or nothing.
    """
    if DETERMINISTIC in arguments[2:]:
        from rlexp.training.training_run import require_deterministic_algorithms

        require_deterministic_algorithms()
    # Late: the command that starts executions needs no learning library.
    from rlexp.app.execution.run_process import execute as execute_run

    return execute_run(arguments[:2])


def execute_separately(
    executions: Sequence[RepeatedRun], settings: RepetitionSettings
) -> list[RunRecord]:
    """Execute a run several times, with as many executions at a time as the cores allow.

    Each execution has its own server process, so that everything differs that would differ between
    two commands: memory addresses, process numbers and the system's entropy.

    Raises:
        ExecutorError: A process cannot be started.
    """
    # More at a time than cores could exceed the time limit only because the machine is busy.
    count = max(1, usable_cores() // max(e.spec.compute["threads"] for e in executions))
    records: list[RunRecord] = []
    for start in range(0, len(executions), count):
        records += _together(executions[start : start + count], settings)
    return records


def _together(executions: Sequence[RepeatedRun], settings: RepetitionSettings) -> list[RunRecord]:
    with ExitStack() as stack:
        sessions = [stack.enter_context(_opened(execution, settings)) for execution in executions]
        runs = [_prepare(execution, settings) for execution in executions]
        for session, run, execution in zip(sessions, runs, executions, strict=True):
            attempt = run.attempt(1)
            arguments = (
                str(run.folder),
                "1",
                *([DETERMINISTIC] if execution.deterministic else []),
            )
            session.submit(Job(execution.name, arguments, attempt.log))
        _wait(dict(zip((e.name for e in executions), sessions, strict=True)), settings.timeout)
    return [
        read_run(run, execution.spec, measurements=True).record
        for run, execution in zip(runs, executions, strict=True)
    ]


@contextmanager
def _opened(execution: RepeatedRun, settings: RepetitionSettings) -> Iterator[Session]:
    """Start a server process for this execution only."""
    executor = Local(
        workers=1, hang_timeout=settings.timeout + OVERTIME, grace=1.0, log_limit=LOG_LIMIT
    )
    preload = (*PRELOAD, ENTRY.partition(":")[0])
    with ExitStack() as stack:
        # Variables such as PYTHONHASHSEED take effect only when a process starts.
        with temporary_environment(execution.variables):
            opened = executor.open(ENTRY, preload, threads=1, folder=settings.workspace)
            session = stack.enter_context(opened)
        yield session


def _prepare(execution: RepeatedRun, settings: RepetitionSettings) -> RunPaths:
    run = ExperimentPaths(settings.folder / execution.name).run(execution.spec.name)
    write_run(run, execution.spec)
    operational = dict.fromkeys(OPERATIONAL) | {"timeout": settings.timeout, "keep_last": False}
    new_attempt(run, {**operational, "allowed": list(settings.allowed)}, {}, "")
    return run


def _wait(sessions: Mapping[str, Session], timeout: float) -> None:
    """Wait until every execution has ended; kill those that exceed the time limit."""
    waiting = dict(sessions)
    deadline = time.monotonic() + timeout + OVERTIME
    while waiting:
        for name, session in list(waiting.items()):
            if session.poll(TICK):
                del waiting[name]
            elif time.monotonic() > deadline:
                session.kill(name)
