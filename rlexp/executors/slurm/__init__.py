"""Executes runs as arrays of Slurm jobs; preempted jobs and jobs at their limit are continued."""

import re
import shlex
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Annotated

from annotated_types import Ge, Gt, Le

from rlexp.errors import ConfigError, ExecutorError
from rlexp.executors import Site
from rlexp.executors.slurm.capacity import Request, read_nodes
from rlexp.executors.slurm.client import array_limit, look, require_slurm
from rlexp.executors.slurm.options import checked_options, checked_word, minutes
from rlexp.executors.slurm.session import SlurmSession
from rlexp.executors.slurm.submission import SubmissionOptions
from rlexp.executors.slurm.tasks import (
    arrays_of,
    ask_to_end,
    find_missing_arrays,
    forget_ended,
    read_tasks,
)

DESCRIBED = ("partition", "account", "qos", "constraint", "exclude")
"""Settings that are options of sbatch with the same names."""

EARLY = 60
"""Seconds that Slurm may send the signal before `signal_before` asks for it."""
REQUEUE_WAIT = 120
"""Seconds that Slurm lets a job wait at least that was queued again."""
NEEDED, LEAST_GRACE = 20, 10
"""Seconds of `signal_before` that the worker needs itself, and the least that runs get of it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Slurm:
    """Executes runs as jobs of a Slurm cluster.

    Attributes:
        partition: Partition of the jobs; None for the cluster's default.
        account: Account that pays for the jobs.
        qos: Quality of service.
        time: Time limit of a job: minutes, or in Slurm's format (`1-12:00:00`).
        memory: Memory of a job, such as `4G`.
        cpus: Cores of a job; None for the number of threads of a run.
        gpus: GPUs of a job: a number, or `type:number`.
        constraint: Features that the node must have.
        exclude: Nodes that are not used.
        jobs: Number of jobs at the same time.
        runs_per_job: Number of runs that a job executes one after the other.
        signal_before: Seconds before the time limit at which runs write a checkpoint.
        requeue: Whether jobs that were preempted or reached the time limit are requeued.
        setup: Lines of bash before the worker starts.
        command_prefix: Words before the worker's command, such as those of a container or of srun.
        options: Further options of sbatch, as `--name=value`.
        poll: Seconds between two looks at the queue.
        grace: Seconds that jobs get to end themselves.
    """

    partition: str | None
    account: str | None
    qos: str | None
    time: Annotated[int, Ge(1)] | str | None
    memory: str | None
    cpus: Annotated[int, Ge(1)] | None
    gpus: Annotated[int, Ge(0)] | str
    constraint: str | None
    exclude: str | None
    jobs: Annotated[int, Ge(1)]
    runs_per_job: Annotated[int, Ge(1)]
    signal_before: Annotated[int, Ge(1), Le(65_535)]
    requeue: bool
    setup: tuple[str, ...]
    command_prefix: str | None
    options: tuple[str, ...]
    poll: Annotated[float, Ge(1)]
    grace: Annotated[float, Gt(0)]

    def __post_init__(self) -> None:
        """Check the settings, which become options of sbatch.

        Raises:
            ConfigError: A setting is malformed, or `time` is not longer than `signal_before`.
        """
        for name in (*DESCRIBED, "memory"):
            checked_word(name, getattr(self, name))
        if self.memory is not None and not re.fullmatch(r"\d+[KMGT]?", self.memory):
            raise ConfigError(
                f"executor.memory={self.memory!r} is no amount of memory: use 4G or 500M"
            )
        if not re.fullmatch(r"\d+|[\w.-]+:\d+", str(self.gpus), re.ASCII):
            raise ConfigError(f"executor.gpus={self.gpus!r} is no number: use 1 or a100:1")
        checked_options(self.options)
        self._check_time()
        self._prefix()

    def _check_time(self) -> None:
        """Check that jobs can train for a while before Slurm's signal."""
        # A job that trains for less time than it waits in the queue again gets hardly anywhere.
        slack = EARLY + (REQUEUE_WAIT if self.requeue else 0)
        if self.time is not None and minutes(self.time) * 60 <= self.signal_before + slack:
            waits = f", and a job that is queued again waits {REQUEUE_WAIT} s"
            raise ConfigError(
                f"executor.time={self.time} must be longer than "
                f"executor.signal_before={self.signal_before} (seconds) and {slack} s, for Slurm "
                f"may send the signal {EARLY} s early{waits if self.requeue else ''}: raise "
                "executor.time, or lower executor.signal_before"
            )

    def _prefix(self) -> tuple[str, ...]:
        """The words of `command_prefix`."""
        try:
            return tuple(shlex.split(self.command_prefix or ""))
        except ValueError as error:
            raise ConfigError(
                f"executor.command_prefix={self.command_prefix!r} is no command: {error}; write "
                "it as in a shell, with closed quotes"
            ) from error

    def workers_for(self, threads: int) -> int:
        """The number of runs of all jobs, including runs that wait for others of their job."""
        del threads
        return self.jobs * self.runs_per_job

    def check_detached(self) -> None:
        """Do nothing: Slurm jobs never depend on the command that submitted them."""

    @contextmanager
    def dispatch(self, site: Site) -> Iterator[SlurmSession]:
        """Check that Slurm answers; the end of the context cancels jobs, unless they were left."""
        require_slurm()
        self.request(site.threads).check(read_nodes())
        submission = SubmissionOptions(
            options=self.sbatch_options(site.threads),
            partition=self.partition,
            setup=self.setup,
            requeues=self.requeue,
        )
        slots = self.workers_for(site.threads)
        # After the signal, a worker has `signal_before` seconds; Slurm enforces shorter limits.
        patience = f"executor.grace={max(self.signal_before - NEEDED, LEAST_GRACE)}"
        patient = replace(site, worker=(*self._prefix(), *site.worker, patience))
        session = SlurmSession(patient, slots, submission, self.poll, array_limit())
        try:
            yield session
            session.settle()
        finally:
            if not session.has_let_go:
                session.kill()

    def cancel(self, jobs: Path) -> int:
        """Ask the jobs that are listed in a folder to end; returns their number.

        Files of jobs that have ended or never began are removed, except their output.
        """
        tasks = read_tasks(jobs)
        if not tasks:
            return 0
        require_slurm()
        find_missing_arrays(tasks)
        seen = look(arrays_of(tasks))
        living = [t for t in tasks if t.name in seen and not seen[t.name].has_ended]
        ask_to_end(arrays_of(living))
        with suppress(ExecutorError, OSError):
            forget_ended(jobs, tasks)
        return len(living)

    def request(self, threads: int) -> Request:
        """The resources of a job for runs with so many threads."""
        return Request(
            partition=self.partition,
            cpus=self.cpus or threads,
            memory=self.memory,
            gpus=str(self.gpus),
        )

    def sbatch_options(self, threads: int) -> tuple[str, ...]:
        """The options of sbatch for runs with so many threads."""
        values = {name: getattr(self, name) for name in DESCRIBED}
        values |= {
            "time": self.time,
            "mem": self.memory,
            "gres": f"gpu:{self.gpus}" if self.gpus not in (0, "0") else None,
            "nodes": 1,
            "ntasks": 1,
            "cpus-per-task": self.cpus or threads,
            # B: only to the batch script, which decides what the worker gets.
            "signal": f"B:USR1@{self.signal_before}",
        }
        named = [f"--{name}={value}" for name, value in values.items() if value is not None]
        return (*named, *self.options)
