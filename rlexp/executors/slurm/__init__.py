"""Jobs of a Slurm cluster, submitted as arrays, that go on where preemption or a limit ended them."""

import re
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Annotated

from annotated_types import Ge, Gt, Le

from rlexp.errors import ConfigError, ExecutorError
from rlexp.executors import Site
from rlexp.executors.slurm.queue import array_limit, look, require_slurm
from rlexp.executors.slurm.session import SlurmSession
from rlexp.executors.slurm.submission import Terms
from rlexp.executors.slurm.tasks import (
    arrays_of,
    ask_to_end,
    find_missing_arrays,
    forget_ended,
    read_tasks,
)
from rlexp.executors.slurm.words import checked_options, checked_word, minutes

DESCRIBED = ("partition", "account", "qos", "constraint", "exclude")
"""Settings that are handed on to sbatch under their own names."""

NEEDED, LEAST_GRACE = 20, 10
"""Seconds of the notice before a time limit that are not the runs', and what they get at least."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Slurm:
    """Runs as jobs of a Slurm cluster.

    Attributes:
        partition: Where jobs run; none: the cluster's default.
        account: That pays for them.
        qos: Quality of service.
        time: Limit of a job: minutes, or as Slurm writes it (`1-12:00:00`).
        memory: Of a job, as `4G`.
        cpus: Of a job; none: as many as a run has threads.
        gpus: Of a job: a number, or `type:number`.
        constraint: Features that its node must have.
        exclude: Nodes that it must not have.
        jobs: That are out at a time.
        runs_per_job: Which a job executes one after the other.
        signal_before: Seconds before the time limit at which runs are to write a checkpoint.
        requeue: Whether jobs that were preempted or reached the limit are queued again.
        setup: Lines for bash before the worker starts.
        options: Further words for sbatch, `--name=value`.
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
    options: tuple[str, ...]
    poll: Annotated[float, Ge(1)]
    grace: Annotated[float, Gt(0)]

    def __post_init__(self) -> None:
        """Refuse what sbatch would not take, or take for something else.

        Raises:
            ConfigError: A setting is no word, or a time limit no longer than the notice of it.
        """
        for name in (*DESCRIBED, "memory"):
            checked_word(name, getattr(self, name))
        if self.memory is not None and not re.fullmatch(r"\d+[KMGT]?", self.memory):
            raise ConfigError(f"executor.memory={self.memory!r} is no amount: use 4G or 500M")
        if not re.fullmatch(r"\d+|[\w.-]+:\d+", str(self.gpus), re.ASCII):
            raise ConfigError(f"executor.gpus={self.gpus!r} is no number: use 1 or a100:1")
        checked_options(self.options)
        if self.time is not None and minutes(self.time) * 60 <= self.signal_before:
            raise ConfigError(
                f"executor.time={self.time} is over when its end is announced: raise it, or lower "
                f"executor.signal_before={self.signal_before} (seconds)"
            )

    def workers_for(self, threads: int) -> int:
        """As many runs as all jobs hold, those included that wait for others of their job."""
        del threads
        return self.jobs * self.runs_per_job

    def check_detached(self) -> None:
        """Jobs never need the command that submitted them."""

    @contextmanager
    def dispatch(self, site: Site) -> Iterator[SlurmSession]:
        """See that Slurm answers; jobs that were not left are cancelled at the end."""
        require_slurm()
        terms = Terms(
            words=self.words(site.threads),
            partition=self.partition,
            setup=self.setup,
            requeues=self.requeue,
        )
        slots = self.workers_for(site.threads)
        # A worker may take the time that the notice leaves it; Slurm sees to shorter limits.
        patience = f"executor.grace={max(self.signal_before - NEEDED, LEAST_GRACE)}"
        patient = replace(site, worker=(*site.worker, patience))
        session = SlurmSession(patient, slots, terms, self.poll, array_limit())
        try:
            yield session
            session.settle()
        finally:
            if not session.has_let_go:
                session.kill()

    def cancel(self, jobs: Path) -> int:
        """Ask the jobs that are kept in a folder to end; returns how many there were.

        Of those that are over, and of those that had not begun, nothing but the output is kept.
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

    def words(self, threads: int) -> tuple[str, ...]:
        """What sbatch is asked for, for runs of so many threads."""
        asked = {name: getattr(self, name) for name in DESCRIBED}
        asked |= {
            "time": self.time,
            "mem": self.memory,
            "gres": f"gpu:{self.gpus}" if self.gpus not in (0, "0") else None,
            "nodes": 1,
            "ntasks": 1,
            "cpus-per-task": self.cpus or threads,
            "signal": f"B:USR1@{self.signal_before}",
        }
        given = [f"--{name}={value}" for name, value in asked.items() if value is not None]
        return (*given, *self.options)
