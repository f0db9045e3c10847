"""Executors: start jobs, say how they ended, cancel them. The truth stays in the run folders.

There are two kinds. An `Executor` executes attempts as processes of this machine. A `Remote` one
starts workers (`rlexp worker`) that take runs from the experiment's folder by themselves, wherever
they are: it may lie about them, lag behind or lose them, and no result depends on it.
"""

from collections.abc import Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol, runtime_checkable


@dataclass(frozen=True, slots=True)
class Job:
    """A job is data: words for the entry function that executes it, and where its output goes."""

    key: str
    words: tuple[str, ...]
    log: Path


DISK_FULL = 74
"""Exit code of a job that could not write how it ended (`EX_IOERR` of sysexits)."""


@dataclass(frozen=True, slots=True)
class Exit:
    """The process of a job is gone: with a code, or by a signal."""

    key: str
    code: int | None
    signal: int | None
    out_of_memory: bool = False

    def __str__(self) -> str:
        """How it went, in words."""
        if self.signal is not None:
            return f"its process was killed by signal {self.signal}"
        return f"its process ended with code {self.code} and without a result"


class Session(Protocol):
    """An open executor. One thread calls it."""

    @property
    def slots(self) -> int:
        """How many jobs may run at a time."""
        ...

    def submit(self, job: Job) -> None:
        """Start a job."""
        ...

    def poll(self, seconds: float) -> list[Exit]:
        """Wait up to so many seconds for jobs to end; returns those that did."""
        ...

    def stop(self) -> None:
        """Ask every job to end itself."""
        ...

    def kill(self, key: str) -> None:
        """End a job and everything it started within a second; its log may say where it stood."""
        ...


class Executor(Protocol):
    """A way to execute jobs: its fields are its settings, `open` is the behaviour."""

    @property
    def hang_timeout(self) -> float:
        """Seconds without progress after which a job counts as hung."""
        ...

    @property
    def grace(self) -> float:
        """Seconds that jobs get to end themselves."""
        ...

    def workers_for(self, threads: int) -> int:
        """How many jobs of so many threads run at a time."""
        ...

    def open(
        self,
        entry: str,
        preload: tuple[str, ...],
        *,
        threads: int,
        folder: Path,
    ) -> AbstractContextManager[Session]:
        """Open the executor.

        Args:
            entry: The function that executes a job, as `module:function`; it takes the job's
                words and returns an exit code.
            preload: Modules that every job needs; one after a `!` is kept from being imported by
                them.
            threads: Of each job.
            folder: The study's folder, from which the jobs' code is importable.

        Raises:
            ExecutorError: It cannot be started.
        """
        ...


@dataclass(frozen=True, slots=True)
class Batch:
    """Runs that one job of a remote executor executes: what its worker may take.

    Attributes:
        key: Its name among the jobs of the experiment, in letters and digits.
        runs: Names of run folders.
    """

    key: str
    runs: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Gone:
    """A job of a remote executor is no longer there, as far as that can be known."""

    key: str
    reason: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Site:
    """What the jobs of a remote executor work on.

    Attributes:
        experiment: Its folder.
        jobs: The folder for what is kept of jobs: their ids, their output.
        folder: The study's folder, in which commands are given.
        worker: The command of a worker, to which `--job FILE` is added: a file with the names
            of the runs that it may take, a line each.
        variables: What its environment holds besides that of this command.
        threads: Of each run.
    """

    experiment: Path
    jobs: Path
    folder: Path
    worker: tuple[str, ...]
    variables: Mapping[str, str]
    threads: int


class RemoteSession(Protocol):
    """An open remote executor. One thread calls it."""

    @property
    def slots(self) -> int:
        """How many runs may be out at a time, queued ones included."""
        ...

    @property
    def trouble(self) -> str | None:
        """Why nothing can be told of jobs just now, if it cannot."""
        ...

    def known(self) -> list[Batch]:
        """The jobs of earlier commands that are still there."""
        ...

    def submit(self, batches: Sequence[Batch]) -> None:
        """Start a job for each batch.

        Raises:
            ExecutorError: None can be started; the same may be asked again later.
        """
        ...

    def poll(self, seconds: float) -> list[Gone]:
        """Wait up to so many seconds for jobs to end; returns those that are gone."""
        ...

    def reason(self, key: str) -> str | None:
        """Why a job waits, as far as that is known."""
        ...

    def stop(self) -> None:
        """Ask every job to end itself, and withdraw those that wait."""
        ...

    def kill(self) -> None:
        """End every job."""
        ...

    def leave(self) -> None:
        """Let the jobs go on without this command.

        Raises:
            ExecutorError: They cannot.
        """
        ...


@runtime_checkable
class Remote(Protocol):
    """A way to start workers: its fields are its settings, `dispatch` is the behaviour."""

    @property
    def runs_per_job(self) -> int:
        """How many runs one job executes, one after the other."""
        ...

    @property
    def grace(self) -> float:
        """Seconds that jobs get to end themselves."""
        ...

    def workers_for(self, threads: int) -> int:
        """How many runs of so many threads are out at a time."""
        ...

    def check_detached(self) -> None:
        """See that jobs can go on without the command that started them.

        Raises:
            ExecutorError: They cannot; says what to do instead.
        """
        ...

    def dispatch(self, site: Site) -> AbstractContextManager[RemoteSession]:
        """Open the executor; jobs that were neither stopped nor left end with the context.

        Raises:
            ExecutorError: It cannot be reached.
        """
        ...

    def cancel(self, jobs: Path) -> int:
        """Ask the jobs that are kept in a folder to end; returns how many there were.

        Raises:
            ExecutorError: They cannot be asked.
        """
        ...
