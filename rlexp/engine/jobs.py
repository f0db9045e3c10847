"""The jobs that an executor elsewhere gets for the runs that are ordered."""

from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from uuid import uuid4

from rlexp.errors import ExecutorError
from rlexp.executors import Batch, RemoteSession

ORDINARY = frozenset({"None", "Priority", "Resources", "BeginTime", "Dependency"})
"""Why jobs wait on a cluster that others use too."""
TRY_AGAIN = 30.0
"""Seconds until jobs are submitted again that an executor did not take."""


@dataclass(slots=True)
class Jobs:
    """Which runs wait for a job, and which had one before this command came.

    Attributes:
        runs_per_job: How many runs one job executes.
        tell: Told, in a line, of jobs that could not be submitted or do not start.
        unsent: Runs that wait.
        submitted: Jobs of this command.
    """

    session: RemoteSession
    runs_per_job: int
    tell: Callable[[str], None]
    monotonic: Callable[[], float]
    unsent: list[str] = field(default_factory=list)
    submitted: int = 0
    _known: dict[str, str] = field(default_factory=dict)
    _told: set[str] = field(default_factory=set)
    _retry_at: float = 0.0

    def take_up(self) -> None:
        """Find the jobs of an earlier command."""
        self._known = {run: batch.key for batch in self.session.known() for run in batch.runs}

    def enter(self, run: str) -> str | None:
        """The job that a run has from an earlier command; without one, it waits for the next."""
        job = self._known.pop(run, None)
        if job is None:
            self.unsent.append(run)
        return job

    def forget(self, run: str) -> None:
        """A run needs no job any more."""
        if run in self.unsent:
            self.unsent.remove(run)

    def send(self) -> dict[str, str]:
        """Submit jobs for what waits; the job of each run, none where it is to be tried later.

        Raises:
            ExecutorError: The first submission of all was refused.
        """
        if not self.unsent or self.monotonic() < self._retry_at:
            return {}
        starts = range(0, len(self.unsent), self.runs_per_job)
        runs = [tuple(self.unsent[start : start + self.runs_per_job]) for start in starts]
        batches = [Batch(uuid4().hex[:12], own) for own in runs]
        try:
            self.session.submit(batches)
        except ExecutorError as error:
            if not self.submitted:
                raise
            self._retry_at = self.monotonic() + TRY_AGAIN
            self.tell(f"{error}; tried again in {TRY_AGAIN:g} s")
            return {}
        self.unsent.clear()
        self.submitted += len(batches)
        return {run: batch.key for batch in batches for run in batch.runs}

    def tell_what_is_wrong(self, not_begun: Iterable[str | None]) -> None:
        """Say once each what keeps jobs from being seen, or from starting."""
        job = next(filter(None, not_begun), None)
        why = self.session.reason(job) if job else None
        waits = f"jobs wait for: {why}" if why and why not in ORDINARY else None
        for text in (self.session.trouble, waits):
            if text and text not in self._told:
                self._told.add(text)
                self.tell(text)
