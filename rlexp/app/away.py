"""Runs that are out: ordered, waiting for a worker or a job, or with one."""

import re
from collections import Counter
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass
from typing import Any

from rlexp.app.workspace import Workspace
from rlexp.config.compose import compose
from rlexp.config.validate import build
from rlexp.errors import ConfigError, RecordError
from rlexp.executors import Remote
from rlexp.records.events import Ending, StopRequest
from rlexp.reports.sentences import counted
from rlexp.store.files import read_json
from rlexp.store.layout import ExperimentPaths
from rlexp.store.lease import is_held
from rlexp.store.orders import ordered, withdraw
from rlexp.store.runs import request_stop

OPTION = re.compile(r"[A-Za-z][A-Za-z0-9_-]*")
"""What an executor may be called."""


@dataclass(frozen=True, slots=True)
class Away:
    """What of an experiment is out.

    Attributes:
        waiting: Runs that are ordered and that no worker has.
        taken: Runs that are ordered and that a worker has.
        jobs: How many were submitted for such runs, by the name of their executor.
    """

    waiting: tuple[str, ...]
    taken: tuple[str, ...]
    jobs: dict[str, int]

    @classmethod
    def of(cls, paths: ExperimentPaths) -> "Away":
        """Look what is out."""
        names = ordered(paths)
        taken = {name for name in names if is_held(paths.run(name).claim)}
        # A job whose runs nobody wants any more is over, or will be as soon as it begins.
        jobs = Counter(job.executor for job in _kept(paths) if not job.runs.isdisjoint(names))
        waiting = tuple(name for name in names if name not in taken)
        return cls(waiting, tuple(n for n in names if n in taken), dict(jobs))

    def plain(self) -> dict[str, Any]:
        """As JSON."""
        return {"waiting": len(self.waiting), "taken": len(self.taken), "jobs": self.jobs}

    def lines(self) -> Iterator[str]:
        """In words; nothing where nothing is out."""
        if self.waiting:
            yield f"{counted(len(self.waiting), 'ordered run')} not taken by a worker yet"
        for name, count in self.jobs.items():
            yield f"{counted(count, 'job')} submitted to {name} for ordered runs"


def end_all(paths: ExperimentPaths, workspace: Workspace) -> int:
    """Withdraw every order, ask the runs that are taken to end, and cancel jobs.

    Returns:
        How many runs were out.

    Raises:
        RecordError: The folder cannot be written to.
        ExecutorError: Jobs cannot be asked to end.
    """
    away = Away.of(paths)
    try:
        for name in (*away.waiting, *away.taken):
            withdraw(paths, name)
        for name in away.taken:
            request_stop(paths.run(name), StopRequest(Ending.INTERRUPTED, "cancelled by the user"))
    except OSError as error:
        raise RecordError(f"cannot write to {paths.folder}: {error.strerror}") from error
    for name in sorted({job.executor for job in _kept(paths)}):
        _cancel_jobs(name, paths, workspace)
    return len(away.waiting) + len(away.taken)


def _cancel_jobs(name: str, paths: ExperimentPaths, workspace: Workspace) -> None:
    try:
        plain = compose([f"executor={name}"], workspace.folder)[0].plain
    except ConfigError:
        return
    executor = build(plain["executor"], "executor", workspace.allowed)
    if isinstance(executor, Remote):
        executor.cancel(paths.jobs)


@dataclass(frozen=True, slots=True)
class _Kept:
    """What is kept of a job, whichever executor has it."""

    executor: str
    runs: frozenset[str]


def _kept(paths: ExperimentPaths) -> Iterator[_Kept]:
    """Every job that something is kept of; it may long be over."""
    for place in sorted(paths.jobs.glob("*.json")):
        with suppress(RecordError, TypeError):
            plain = read_json(place)
            executor = str(plain.get("executor"))
            # It becomes a word of a configuration, and whoever sees the folder may edit it.
            if OPTION.fullmatch(executor):
                yield _Kept(executor, frozenset(map(str, plain.get("runs", ()))))
