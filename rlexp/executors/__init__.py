"""Executors: start jobs, say how they ended, cancel them. The truth stays in the run folders."""

from contextlib import AbstractContextManager
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol


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
