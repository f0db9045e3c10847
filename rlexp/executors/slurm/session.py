"""A session of the Slurm executor: submits, watches and ends arrays of jobs."""

import time
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass, field

from rlexp.errors import ExecutorError
from rlexp.executors import Batch, Gone, Site
from rlexp.executors.slurm.client import ACTIVE, ENDED, JobState, end, how_it_ended, look
from rlexp.executors.slurm.submission import SubmissionOptions, submit_array
from rlexp.executors.slurm.tasks import (
    ArrayTask,
    arrays_of,
    ask_to_end,
    find_missing_arrays,
    read_tasks,
    remove_scripts,
)

LONGEST_PAUSE = 300.0
"""Longest pause in seconds between two queries while Slurm does not answer."""
MISSING_LOOKS = 2
"""Consecutive looks at which a job must be missing before it counts as gone."""
SETTLE_LIMIT = 5.0
"""Seconds that workers get to end after the last run has ended."""


@dataclass(slots=True)
class SlurmSession:
    """The jobs of a command and their last state in the queue.

    Attributes:
        site: Folders, command and environment of the workers.
        slots: Number of runs that may be dispatched at the same time.
        submission: Options of the submission.
        poll_every: Seconds between two looks at the queue.
        array_limit: Most tasks of an array.
        trouble: Why Slurm did not answer the last query; None if it did.
        has_let_go: Whether the jobs were ended, or left to go on without the command.
    """

    site: Site
    slots: int
    submission: SubmissionOptions
    poll_every: float
    array_limit: int
    trouble: str | None = None
    has_let_go: bool = False
    _tasks: dict[str, ArrayTask] = field(default_factory=dict)
    _seen: dict[str, JobState] = field(default_factory=dict)
    _missing: dict[str, int] = field(default_factory=dict)
    _held: list[Batch] = field(default_factory=list)
    _failures: int = 0
    _next_look: float = 0.0

    def earlier_jobs(self) -> list[Batch]:
        """The jobs of earlier commands that Slurm still has; removes the files of all others."""
        tasks = read_tasks(self.site.jobs)
        if not tasks:
            return []
        find_missing_arrays(tasks)
        seen = look(arrays_of(tasks))
        for task in tasks:
            if task.array is None or task.name not in seen or seen[task.name].state in ENDED:
                task.forget(self.site.jobs)
                continue
            self._tasks[task.batch.key] = task
            self._seen[task.batch.key] = seen[task.name]
        remove_scripts(self.site.jobs, list(self._tasks.values()))
        return [task.batch for task in self._tasks.values()]

    def submit(self, batches: Sequence[Batch]) -> None:
        """Submit an array of jobs, or several arrays if there are more jobs than one may have."""
        limit = self.array_limit
        parts = [batches[start : start + limit] for start in range(0, len(batches), limit)]
        for number, part in enumerate(parts):
            try:
                tasks = submit_array(self.site, self.submission, part)
            except ExecutorError as error:
                if number == 0:
                    raise
                # Earlier arrays are submitted: an error here would end them. Submit the rest later.
                self.trouble = str(error)
                self._held.extend(batch for later in parts[number:] for batch in later)
                return
            self._tasks.update((task.batch.key, task) for task in tasks)
            self._next_look = time.monotonic() + self.poll_every

    def poll(self, seconds: float) -> list[Gone]:
        """Wait up to `seconds`; looks at the queue only every `poll_every` seconds."""
        due = self._next_look - time.monotonic()
        if due > seconds or not (self._tasks or self._held):
            time.sleep(seconds)
            return []
        time.sleep(max(due, 0.0))
        gone = self._look()
        # Twice the pause after each failure: a busy controller must not be asked more and more.
        pause = min(self.poll_every * 2**self._failures, max(LONGEST_PAUSE, self.poll_every))
        self._next_look = time.monotonic() + pause
        return gone

    def waiting(self, key: str) -> bool:
        """Whether a job waits in the queue, or is to be submitted."""
        seen = self._seen.get(key)
        return key in {batch.key for batch in self._held} or (
            key in self._tasks and (seen is None or seen.state == "PENDING")
        )

    def reason(self, key: str) -> str | None:
        """Why a job waits, as Slurm names the reason; None if it does not wait."""
        seen = self._seen.get(key)
        return seen.reason if seen is not None and seen.state == "PENDING" else None

    def stop(self) -> None:
        """Ask every job to end itself, and cancel waiting jobs."""
        self._held.clear()
        ask_to_end(arrays_of(self._tasks.values()))

    def kill(self) -> None:
        """End every job; Slurm gives the processes `KillWait` seconds."""
        self.has_let_go = True
        self._held.clear()
        arrays = arrays_of(self._tasks.values())
        # If Slurm does not answer, the files stay, so that `rlexp cancel` finds the jobs.
        with suppress(ExecutorError, OSError):
            if arrays:
                end(arrays)
            for task in self._tasks.values():
                task.forget(self.site.jobs)
            remove_scripts(self.site.jobs, [])

    def settle(self) -> None:
        """Wait up to `SETTLE_LIMIT` seconds for workers without further runs to end themselves."""
        deadline = time.monotonic() + SETTLE_LIMIT
        with suppress(ExecutorError, OSError):
            while not self.has_let_go and time.monotonic() < deadline:
                seen = look(arrays_of(self._tasks.values())) if self._tasks else {}
                states = (seen.get(task.name) for task in self._tasks.values())
                if not any(state and state.state in ACTIVE for state in states):
                    return
                time.sleep(1.0)

    def leave(self) -> None:
        """Let the jobs go on without this command."""
        self.has_let_go = True

    def _look(self) -> list[Gone]:
        try:
            self._submit_held()
            seen = look(arrays_of(self._tasks.values())) if self._tasks else {}
        except ExecutorError as error:
            self.trouble, self._failures = str(error), self._failures + 1
            return []
        self._failures = 0
        if not self._held:
            self.trouble = None
        gone = [gone for task in list(self._tasks.values()) if (gone := self._see(task, seen))]
        if gone:
            remove_scripts(self.site.jobs, list(self._tasks.values()))
        return gone

    def _submit_held(self) -> None:
        if self._held:
            held, self._held = self._held, []
            try:
                self.submit(held)
            except ExecutorError:
                self._held = held
                raise

    def _see(self, task: ArrayTask, shown: dict[str, JobState]) -> Gone | None:
        """Store the state of a job; returns the job if it is gone."""
        key, seen = task.batch.key, shown.get(task.name)
        if seen is not None:
            self._seen[key] = seen
        if seen is not None and not seen.has_ended:
            self._missing.pop(key, None)
            return None
        self._missing[key] = self._missing.get(key, 0) + 1
        # A job that is requeued is missing from the queue, or shown as ended, for a moment.
        if (seen is None or seen.state not in ENDED) and self._missing[key] < MISSING_LOOKS:
            return None
        # A task that was cancelled before it began is shown as part of its array only.
        reason = how_it_ended(task.name, seen or shown.get(str(task.array)))
        task.forget(self.site.jobs)
        for by_key in (self._tasks, self._seen, self._missing):
            by_key.pop(key, None)
        return Gone(key, reason)
