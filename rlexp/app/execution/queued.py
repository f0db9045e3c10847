"""Runs that are left to workers: queued, or taken by a worker or by a job of a cluster."""

import re
from collections import Counter
from collections.abc import Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass

from rlexp.app.workspace import Workspace
from rlexp.config.compose import compose
from rlexp.config.validate import build
from rlexp.errors import ConfigError, RecordError
from rlexp.executors import Remote
from rlexp.records.events import Ending, StopRequest
from rlexp.store.files import read_json
from rlexp.store.layout import ExperimentPaths
from rlexp.store.lease import is_held
from rlexp.store.orders import ordered, withdraw
from rlexp.store.runs import request_stop

OPTION = re.compile(r"[A-Za-z][A-Za-z0-9_-]*")
"""What an executor may be called."""


@dataclass(frozen=True, slots=True)
class QueuedRuns:
    """Runs of an experiment that are left to workers, and that no worker has ended.

    Attributes:
        waiting: Names of the runs that no worker has taken.
        taken: Names of the runs that a worker has taken.
        jobs: Jobs that were submitted for such runs, by the name of their executor.
    """

    waiting: tuple[str, ...]
    taken: tuple[str, ...]
    jobs: Mapping[str, int]

    @classmethod
    def of(cls, paths: ExperimentPaths) -> "QueuedRuns":
        """Read the queue of an experiment."""
        names = ordered(paths)
        taken = {name for name in names if is_held(paths.run(name).claim)}
        # A job none of whose runs is queued is over, or will be as soon as it begins.
        jobs = Counter(job.executor for job in _jobs(paths) if not job.runs.isdisjoint(names))
        waiting = tuple(name for name in names if name not in taken)
        return cls(waiting, tuple(n for n in names if n in taken), dict(jobs))


def cancel_all(paths: ExperimentPaths, workspace: Workspace) -> int:
    """Take every run from the queue, ask the runs that are taken to end, and cancel jobs.

    Returns:
        The number of runs that were queued or taken.

    Raises:
        RecordError: The folder cannot be written to.
        ExecutorError: Jobs cannot be asked to end.
    """
    queued = QueuedRuns.of(paths)
    try:
        for name in (*queued.waiting, *queued.taken):
            withdraw(paths, name)
        for name in queued.taken:
            request_stop(paths.run(name), StopRequest(Ending.INTERRUPTED, "cancelled by the user"))
    except OSError as error:
        raise RecordError(f"cannot write to {paths.folder}: {error.strerror}") from error
    for name in sorted({job.executor for job in _jobs(paths)}):
        _cancel_jobs(name, paths, workspace)
    return len(queued.waiting) + len(queued.taken)


def _cancel_jobs(name: str, paths: ExperimentPaths, workspace: Workspace) -> None:
    try:
        configuration = compose([f"executor={name}"], workspace.folder)[0].plain
    except ConfigError:
        return
    executor = build(configuration["executor"], "executor", workspace.allowed)
    if isinstance(executor, Remote):
        executor.cancel(paths.jobs)


@dataclass(frozen=True, slots=True)
class _Job:
    """A job that was submitted: its executor, and the runs it was submitted for."""

    executor: str
    runs: frozenset[str]


def _jobs(paths: ExperimentPaths) -> Iterator[_Job]:
    """Every job that is recorded; it may long be over."""
    for file in sorted(paths.jobs.glob("*.json")):
        with suppress(RecordError, TypeError):
            job = read_json(file)
            executor = str(job.get("executor"))
            # It becomes a word of a configuration, and whoever sees the folder may edit it.
            if OPTION.fullmatch(executor):
                yield _Job(executor, frozenset(map(str, job.get("runs", ()))))
