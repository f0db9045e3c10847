"""The jobs that a remote executor gets for the queued runs."""

from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from uuid import uuid4

from rlexp.errors import ExecutorError
from rlexp.executors import Batch, RemoteSession

ORDINARY = frozenset({"None", "Priority", "Resources", "BeginTime", "Dependency"})
"""Slurm's reasons for which jobs usually wait on a shared cluster; they are not reported."""
TRY_AGAIN = 30.0
"""Seconds until a refused submission is repeated."""


@dataclass(slots=True)
class Jobs:
    """Submits jobs for runs, and finds the jobs of earlier commands.

    Attributes:
        runs_per_job: Number of runs that one job executes.
        tell: Shows a message about jobs that could not be submitted or do not start.
        unsent: Runs without a job.
        submitted: Number of jobs that this command has submitted.
    """

    session: RemoteSession
    runs_per_job: int
    tell: Callable[[str], None]
    monotonic: Callable[[], float]
    unsent: list[str] = field(default_factory=list)
    submitted: int = 0
    _earlier: dict[str, str] = field(default_factory=dict)
    _shown: set[str] = field(default_factory=set)
    _retry_at: float = 0.0

    def take_up(self) -> None:
        """Find the jobs of an earlier command."""
        self._earlier = {
            run: batch.key for batch in self.session.earlier_jobs() for run in batch.runs
        }

    def enter(self, run: str) -> str | None:
        """The job that an earlier command submitted for a run; without one, the run is unsent."""
        job = self._earlier.pop(run, None)
        if job is None:
            self.unsent.append(run)
        return job

    def forget(self, run: str) -> None:
        """Submit no job for a run."""
        if run in self.unsent:
            self.unsent.remove(run)

    def send(self) -> dict[str, str]:
        """Submit jobs for the unsent runs; returns the job of each run, {} if refused for now.

        Raises:
            ExecutorError: The first submission of this command was refused.
        """
        if not self.unsent or self.monotonic() < self._retry_at:
            return {}
        starts = range(0, len(self.unsent), self.runs_per_job)
        runs = [tuple(self.unsent[start : start + self.runs_per_job]) for start in starts]
        batches = [Batch(uuid4().hex[:12], names) for names in runs]
        try:
            self.session.submit(batches)
        except ExecutorError as error:
            # The first refusal is a wrong setting; later ones are limits that pass.
            if not self.submitted:
                raise
            self._retry_at = self.monotonic() + TRY_AGAIN
            self.tell(f"{error}; tried again in {TRY_AGAIN:g} s")
            return {}
        self.unsent.clear()
        self.submitted += len(batches)
        return {run: batch.key for batch in batches for run in batch.runs}

    def report_problems(self, not_begun: Iterable[str | None]) -> None:
        """Show, once each, why the executor does not answer and why jobs do not start."""
        job = next(filter(None, not_begun), None)
        why = self.session.reason(job) if job else None
        waits = f"jobs wait for: {why}" if why and why not in ORDINARY else None
        for text in (self.session.trouble, waits):
            if text and text not in self._shown:
                self._shown.add(text)
                self.tell(text)
