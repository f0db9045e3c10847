"""Jobs of a Slurm cluster as they are submitted, watched and ended."""

import time
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass, field

from rlexp.errors import ExecutorError
from rlexp.executors import Batch, Gone, Site
from rlexp.executors.slurm.queue import ACTIVE, ENDED, Seen, end, how_it_ended, look
from rlexp.executors.slurm.submission import Terms, submit_array
from rlexp.executors.slurm.tasks import (
    Task,
    arrays_of,
    ask_to_end,
    find_missing_arrays,
    read_tasks,
    remove_scripts,
)

LONGEST_PAUSE = 300.0
"""Seconds between two questions at most, however often Slurm did not answer."""
SURE = 2
"""Looks at which a job must be missing, one after the other, before it counts as gone."""
SOON = 5.0
"""Seconds that workers get to end after the last run has."""


@dataclass(slots=True)
class SlurmSession:
    """Arrays of jobs, and what was last seen of each.

    Attributes:
        terms: What jobs are submitted with.
        poll_every: Seconds between two looks at the queue.
        array_limit: Tasks of an array at most.
        trouble: Why Slurm did not answer the last question, if it did not.
    """

    site: Site
    slots: int
    terms: Terms
    poll_every: float
    array_limit: int
    trouble: str | None = None
    has_let_go: bool = False
    _tasks: dict[str, Task] = field(default_factory=dict)
    _seen: dict[str, Seen] = field(default_factory=dict)
    _missing: dict[str, int] = field(default_factory=dict)
    _held: list[Batch] = field(default_factory=list)
    _failures: int = 0
    _next_look: float = 0.0

    def known(self) -> list[Batch]:
        """The jobs of earlier commands that Slurm still has; of others nothing stays but output."""
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
        """Submit an array of jobs, or several where one may not be so long."""
        limit = self.array_limit
        parts = [batches[start : start + limit] for start in range(0, len(batches), limit)]
        for number, part in enumerate(parts):
            try:
                tasks = submit_array(self.site, self.terms, part)
            except ExecutorError as error:
                if number == 0:
                    raise
                # Those before are out: the others follow as soon as Slurm takes them.
                self.trouble = str(error)
                self._held.extend(batch for later in parts[number:] for batch in later)
                return
            self._tasks.update((task.batch.key, task) for task in tasks)
            self._next_look = time.monotonic() + self.poll_every

    def poll(self, seconds: float) -> list[Gone]:
        """Wait; looks at the queue when it is time to, and then only."""
        due = self._next_look - time.monotonic()
        if due > seconds or not (self._tasks or self._held):
            time.sleep(seconds)
            return []
        time.sleep(max(due, 0.0))
        gone = self._look()
        pause = min(self.poll_every * 2**self._failures, max(LONGEST_PAUSE, self.poll_every))
        self._next_look = time.monotonic() + pause
        return gone

    def waiting(self, key: str) -> bool:
        """Whether a job is in the queue, or about to be."""
        seen = self._seen.get(key)
        return key in {batch.key for batch in self._held} or (
            key in self._tasks and (seen is None or seen.state == "PENDING")
        )

    def reason(self, key: str) -> str | None:
        """Why a job waits, in Slurm's word for it."""
        seen = self._seen.get(key)
        return seen.reason if seen is not None and seen.state == "PENDING" else None

    def stop(self) -> None:
        """Ask every job to end itself, and withdraw those that wait."""
        self._held.clear()
        ask_to_end(arrays_of(self._tasks.values()))

    def kill(self) -> None:
        """End every job; Slurm gives its processes `KillWait` seconds."""
        self.has_let_go = True
        self._held.clear()
        arrays = arrays_of(self._tasks.values())
        # Where Slurm cannot be asked, they are kept for `cancel`.
        with suppress(ExecutorError, OSError):
            if arrays:
                end(arrays)
            for task in self._tasks.values():
                task.forget(self.site.jobs)
            remove_scripts(self.site.jobs, [])

    def settle(self) -> None:
        """Let workers that have nothing left to do end by themselves, if they do so soon."""
        deadline = time.monotonic() + SOON
        with suppress(ExecutorError, OSError):
            while not self.has_let_go and time.monotonic() < deadline:
                seen = look(arrays_of(self._tasks.values())) if self._tasks else {}
                shown = (seen.get(task.name) for task in self._tasks.values())
                if not any(each and each.state in ACTIVE for each in shown):
                    return
                time.sleep(1.0)

    def leave(self) -> None:
        """Let the jobs go on."""
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

    def _see(self, task: Task, shown: dict[str, Seen]) -> Gone | None:
        """Note what is shown of a job; whether it is gone."""
        key, seen = task.batch.key, shown.get(task.name)
        if seen is not None:
            self._seen[key] = seen
        if seen is not None and not seen.has_ended:
            self._missing.pop(key, None)
            return None
        self._missing[key] = self._missing.get(key, 0) + 1
        if (seen is None or seen.state not in ENDED) and self._missing[key] < SURE:
            return None
        # A task that was withdrawn before it began is shown with its array only.
        reason = how_it_ended(task.name, seen or shown.get(str(task.array)))
        task.forget(self.site.jobs)
        for kept in (self._tasks, self._seen, self._missing):
            kept.pop(key, None)
        return Gone(key, reason)
