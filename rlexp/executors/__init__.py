"""Executors start jobs, report how they ended, and cancel them; results stand in the run folders.

There are two kinds. An `Executor` executes attempts as processes of this machine. A `Remote`
executor starts workers (`rlexp worker`), which take runs from the experiment's queue themselves,
wherever they run. A remote executor may report about its workers late, wrongly or not at all: no
result depends on its reports.
"""

from collections.abc import Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol, runtime_checkable


@dataclass(frozen=True, slots=True)
class SharedProcess:
    """A process that serves several jobs of a session at the same time.

    Attributes:
        entry: The function that the process executes, as `module:function`; it takes a socket at which the
            descriptors of its jobs arrive, and returns at the end of the socket.
        jobs: Jobs that it serves at the same time, at most.
        variable: The environment variable that names the descriptor of a job.
    """

    entry: str
    jobs: int
    variable: str


@dataclass(frozen=True, slots=True)
class Job:
    """A job as data.

    Attributes:
        key: Name of the job among the jobs of a session.
        arguments: Arguments of the entry function that executes the job.
        log: File for the output of the job.
        in_turn: Whether a process may execute the job that has executed another such job before.
        shares: The process that serves the job; None for a job that needs none.
    """

    key: str
    arguments: tuple[str, ...]
    log: Path
    in_turn: bool = False
    shares: SharedProcess | None = None


DISK_FULL = 74
"""Exit code of a job that could not record its end on a full disk (`EX_IOERR` of sysexits)."""

IN_USE = 75
"""Exit code of a job whose run another process executes (`EX_TEMPFAIL` of sysexits)."""

RUN_FAILED = 1
"""Exit code of a job that has recorded the failure of its run; its process executes no other job."""


@dataclass(frozen=True, slots=True)
class Exit:
    """How the process of a job ended: with an exit code, or by a signal."""

    key: str
    code: int | None
    signal: int | None
    out_of_memory: bool = False

    def __str__(self) -> str:
        """The end of the process as text for a message."""
        if self.signal is not None:
            return f"its process was killed by signal {self.signal}"
        return f"its process ended with code {self.code} and without a result"


class Session(Protocol):
    """An open executor. One thread calls it."""

    @property
    def slots(self) -> int:
        """The number of jobs that may run at the same time."""
        ...

    @property
    def is_starting(self) -> bool:
        """Whether `submit` would wait for the executor; `poll` ends when it need not wait."""
        ...

    def submit(self, job: Job) -> None:
        """Start a job."""
        ...

    def poll(self, seconds: float) -> list[Exit]:
        """Wait up to `seconds` for a job to end; returns the jobs that have ended."""
        ...

    def stop(self) -> None:
        """Ask every job to end itself."""
        ...

    def kill(self, key: str) -> None:
        """End a job and all its processes within a second; its log may then hold a stack dump."""
        ...


class Executor(Protocol):
    """Executes jobs on this machine; the fields are its settings."""

    @property
    def hang_timeout(self) -> float:
        """Seconds without progress after which a job counts as hung."""
        ...

    @property
    def grace(self) -> float:
        """Seconds that jobs get to end themselves."""
        ...

    def workers_for(self, threads: int) -> int:
        """The number of jobs with so many threads that run at the same time."""
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
                arguments and returns an exit code.
            preload: Modules that every job needs; of `MODULE:FUNCTION`, the function is called, too.
                A name after a `!` is hidden from them while they are imported.
            threads: Number of threads of each job.
            folder: The user's folder, from which the jobs' code is importable.

        Raises:
            ExecutorError: The executor cannot be started.
        """
        ...


@dataclass(frozen=True, slots=True)
class Batch:
    """The runs that the worker of one remote job may take.

    Attributes:
        key: Name of the job among the jobs of the experiment, in letters and digits.
        runs: Names of run folders.
    """

    key: str
    runs: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Gone:
    """A remote job that no longer exists, as far as its executor knows."""

    key: str
    reason: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Site:
    """Folders, command and environment of the workers of a remote executor.

    Attributes:
        experiment: Folder of the experiment.
        jobs: Folder for the ids and the output of jobs.
        folder: The user's folder, in which commands are given.
        worker: The command of a worker, to which `--job FILE` is added: a file with the names
            of the runs that the worker may take, one per line.
        variables: Environment variables besides those of this command.
        threads: Number of threads of each run.
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
        """The number of runs that may be dispatched at the same time, waiting ones included."""
        ...

    @property
    def trouble(self) -> str | None:
        """Why the state of jobs is unknown just now; None if it is known."""
        ...

    def earlier_jobs(self) -> list[Batch]:
        """The jobs of earlier commands that still exist."""
        ...

    def submit(self, batches: Sequence[Batch]) -> None:
        """Start a job for each batch.

        Raises:
            ExecutorError: No job can be started; the call may be repeated later.
        """
        ...

    def poll(self, seconds: float) -> list[Gone]:
        """Wait up to `seconds` for a job to end; returns the jobs that no longer exist."""
        ...

    def reason(self, key: str) -> str | None:
        """Why a job waits; None if unknown."""
        ...

    def stop(self) -> None:
        """Ask every job to end itself, and cancel waiting jobs."""
        ...

    def kill(self) -> None:
        """End every job."""
        ...

    def leave(self) -> None:
        """Let the jobs go on without this command.

        Raises:
            ExecutorError: The jobs of this executor end with the command.
        """
        ...


@runtime_checkable
class Remote(Protocol):
    """Starts workers elsewhere; the fields are its settings."""

    @property
    def runs_per_job(self) -> int:
        """The number of runs that one job executes, one after the other."""
        ...

    @property
    def grace(self) -> float:
        """Seconds that jobs get to end themselves."""
        ...

    def workers_for(self, threads: int) -> int:
        """The number of runs with so many threads that are dispatched at the same time."""
        ...

    def check_detached(self) -> None:
        """Check that jobs can go on without the command that started them.

        Raises:
            ExecutorError: They cannot; the message says what to do instead.
        """
        ...

    def dispatch(self, site: Site) -> AbstractContextManager[RemoteSession]:
        """Open the executor; the context ends the jobs, unless `leave` was called.

        Raises:
            ExecutorError: The executor cannot be reached.
        """
        ...

    def cancel(self, jobs: Path) -> int:
        """Ask the jobs that are listed in a folder to end; returns their number.

        Raises:
            ExecutorError: The executor cannot be reached.
        """
        ...
