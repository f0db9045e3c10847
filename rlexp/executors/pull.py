"""Workers that somebody else starts: wherever `rlexp worker` is given and sees `runs/`."""

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
    """Leaves runs to any worker that takes them."""

    workers: Annotated[int, Ge(1)]
    grace: Annotated[float, Gt(0)]

    @property
    def runs_per_job(self) -> int:
        """Nobody starts jobs here."""
        return 1

    def workers_for(self, threads: int) -> int:
        """As many runs as the workers are expected to execute at a time, of any size."""
        del threads
        return self.workers

    def check_detached(self) -> None:
        """Workers do not ask who gave the orders."""

    @contextmanager
    def dispatch(self, site: Site) -> Iterator["PullSession"]:
        """Nothing is to be opened."""
        del site
        yield PullSession(slots=self.workers)

    def cancel(self, jobs: Path) -> int:
        """There are no jobs, only orders."""
        del jobs
        return 0


@dataclass(slots=True)
class PullSession:
    """Orders lie in the experiment's folder; who takes them is told by the runs."""

    slots: int
    trouble: str | None = None

    def known(self) -> list[Batch]:
        """There are no jobs."""
        return []

    def submit(self, batches: Sequence[Batch]) -> None:
        """The orders have been given."""

    def poll(self, seconds: float) -> list[Gone]:
        """Wait; no job can go, for none is known."""
        time.sleep(seconds)
        return []

    def reason(self, key: str) -> None:
        """It waits for a worker."""
        del key

    def stop(self) -> None:
        """The runs are asked in their folders."""

    def kill(self) -> None:
        """Nobody here has a hold on the workers."""

    def leave(self) -> None:
        """The orders stay."""
