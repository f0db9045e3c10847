"""Runs that are queued for remote workers, or taken by one; and how to cancel them."""

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
from rlexp.store.locks.lease import is_held
from rlexp.store.run_queue import queued_runs, remove_order
from rlexp.store.runs import CANCELLED, is_taken, request_stop

EXECUTOR_NAME = re.compile(r"[A-Za-z][A-Za-z0-9_-]*")
"""Pattern of an executor's name."""


@dataclass(frozen=True, slots=True)
class QueuedRuns:
    """Unfinished runs of an experiment that are queued for workers.

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
        names = queued_runs(paths)
        taken = {name for name in names if is_held(paths.run(name).claim)}
        # A job without a queued run has ended, or ends as soon as it starts.
        jobs = Counter(job.executor for job in _jobs(paths) if not job.runs.isdisjoint(names))
        waiting = tuple(name for name in names if name not in taken)
        return cls(waiting, tuple(n for n in names if n in taken), dict(jobs))


def cancel_all(paths: ExperimentPaths, workspace: Workspace) -> int:
    """Empty the queue, ask the taken runs to stop, and cancel jobs.

    Returns:
        The number of runs that were queued or taken.

    Raises:
        RecordError: The folder cannot be written to.
        ExecutorError: Jobs cannot be cancelled.
    """
    queued = QueuedRuns.of(paths)
    try:
        # The queue is emptied first: a worker that ends a run looks for the next one at once.
        for name in (*queued.waiting, *queued.taken):
            withdraw(paths, name)
    except OSError as error:
        raise RecordError(f"cannot write to {paths.folder}: {error.strerror}") from error
    for name in sorted({job.executor for job in _jobs(paths)}):
        _cancel_jobs(name, paths, workspace)
    return len(queued.waiting) + len(queued.taken)


def withdraw(paths: ExperimentPaths, name: str) -> bool:
    """Remove a run from the queue, and ask it to stop if a worker has taken it.

    Returns:
        Whether the run was asked to stop.

    Raises:
        OSError: The folder cannot be written to.
    """
    run = paths.run(name)
    # The order goes first: a worker that has just taken the run looks for it once more.
    remove_order(paths, name)
    if not is_taken(run):
        return False
    request_stop(run, StopRequest(Ending.INTERRUPTED, CANCELLED))
    return True


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
    """A submitted job: its executor and the names of its runs."""

    executor: str
    runs: frozenset[str]


def _jobs(paths: ExperimentPaths) -> Iterator[_Job]:
    """Yield every recorded job, including jobs that have ended."""
    for file in sorted(paths.jobs.glob("*.json")):
        # A damaged file hides one job and must not hide the others.
        with suppress(RecordError, TypeError):
            job = read_json(file)
            executor = str(job.get("executor"))
            # The name becomes an override, and anybody with access to the folder may edit the file.
            if EXECUTOR_NAME.fullmatch(executor):
                yield _Job(executor, frozenset(map(str, job.get("runs", ()))))
