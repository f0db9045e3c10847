"""Workers that the user starts, on any machine that sees `runs/`, with `rlexp worker`."""

import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

from annotated_types import Ge, Gt

from rlexp.executors import Batch, Gone, Site


@dataclass(frozen=True, slots=True, kw_only=True)
class Pull:
    """Queues runs for the workers that the user starts."""

    workers: Annotated[int, Ge(1)]
    grace: Annotated[float, Gt(0)]

    @property
    def runs_per_job(self) -> int:
        """1: this executor starts no jobs."""
        return 1

    def workers_for(self, threads: int) -> int:
        """The number of runs that the user's workers execute at the same time."""
        del threads
        return self.workers

    def check_detached(self) -> None:
        """Do nothing: workers never depend on the command that queued the runs."""

    @contextmanager
    def dispatch(self, site: Site) -> Iterator["PullSession"]:
        """Return a session; this executor has no connection to open."""
        del site
        yield PullSession(slots=self.workers)

    def cancel(self, jobs: Path) -> int:
        """Return 0: this executor has no jobs."""
        del jobs
        return 0


@dataclass(slots=True)
class PullSession:
    """A session without jobs: workers read the queue in the experiment's folder."""

    slots: int
    trouble: str | None = None

    def earlier_jobs(self) -> list[Batch]:
        """Return no jobs."""
        return []

    def submit(self, batches: Sequence[Batch]) -> None:
        """Do nothing: the runs are in the queue already."""

    def poll(self, seconds: float) -> list[Gone]:
        """Wait for `seconds`; returns no jobs."""
        time.sleep(seconds)
        return []

    def reason(self, key: str) -> None:
        """Return None: every run waits for a worker."""
        del key

    def stop(self) -> None:
        """Do nothing: the command writes stop requests into the run folders."""

    def kill(self) -> None:
        """Do nothing: this executor has no access to the workers' processes."""

    def leave(self) -> None:
        """Do nothing: the runs stay in the queue."""
