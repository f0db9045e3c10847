"""What is kept of Slurm jobs beside the experiment, so that any later command finds them again."""

import re
from collections.abc import Iterable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from rlexp.errors import ExecutorError, RecordError
from rlexp.executors import Batch
from rlexp.executors.slurm.queue import ask, find_arrays, look
from rlexp.store.files import publish_json, read_json

EXECUTOR = "slurm"
"""The name under which jobs are kept."""
SCRIPT = re.compile(r"array-[0-9A-Za-z]+")
ARRAY = re.compile(r"[0-9]+")


@dataclass(slots=True)
class Task:
    """One job: a task of an array.

    Attributes:
        batch: The runs that it is for.
        script: Name of the array's script, without its ending.
        index: Its number in the array.
        array: Slurm's id of the array; none before it is known.
    """

    batch: Batch
    script: str
    index: int
    array: str | None = None

    @property
    def name(self) -> str:
        """Slurm's id of the task."""
        return f"{self.array}_{self.index}"

    def keep(self, jobs: Path) -> None:
        """Write it down."""
        kept = {
            "executor": EXECUTOR,
            "job": self.name if self.array else None,
            "runs": list(self.batch.runs),
            "script": self.script,
            "index": self.index,
        }
        publish_json(jobs / f"{self.batch.key}.json", kept)

    def forget(self, jobs: Path) -> None:
        """Remove what was kept of it, all but its output."""
        key = self.batch.key
        names = (f"{key}.json", f"{key}.runs", f"{key}.idle", f"{self.script}_{self.index}.txt")
        for name in names:
            (jobs / name).unlink(missing_ok=True)


def read_tasks(jobs: Path) -> list[Task]:
    """The jobs that are kept in a folder; what is damaged or another executor's is passed over."""
    found = (_read(path) for path in sorted(jobs.glob("*.json")))
    return [task for task in found if task is not None]


def _read(path: Path) -> Task | None:
    try:
        kept: dict[str, Any] = read_json(path)
    except RecordError:
        return None
    if kept.get("executor") != EXECUTOR:
        return None
    try:
        batch = Batch(path.stem, tuple(map(str, kept["runs"])))
        job, script = kept["job"], str(kept["script"])
        array = None if job is None else str(job).partition("_")[0]
        # They become words of commands and names of files, and whoever sees the folder may edit it.
        if not SCRIPT.fullmatch(script) or not (array is None or ARRAY.fullmatch(array)):
            return None
        return Task(batch, script, int(kept["index"]), array)
    except (KeyError, TypeError, ValueError):
        return None


def find_missing_arrays(tasks: Iterable[Task]) -> None:
    """Ask Slurm for the ids of jobs whose command ended before it could write them down.

    Raises:
        ExecutorError: Slurm cannot be reached.
    """
    unknown = [task for task in tasks if task.array is None]
    arrays = find_arrays() if unknown else {}
    for task in unknown:
        task.array = arrays.get(f"{task.script}.sh")


def arrays_of(tasks: Iterable[Task]) -> list[str]:
    """Slurm's ids of their arrays."""
    return sorted({task.array for task in tasks if task.array is not None})


def remove_scripts(jobs: Path, remaining: Sequence[Task]) -> None:
    """Remove the scripts of arrays of which no task remains."""
    needed = {task.script for task in remaining}
    for path in jobs.glob("array-*.sh"):
        if path.stem not in needed:
            path.unlink(missing_ok=True)


def forget_ended(jobs: Path, tasks: Sequence[Task]) -> None:
    """Remove what is kept of tasks that are over.

    Raises:
        ExecutorError: Slurm cannot be reached.
        OSError: Files cannot be removed.
    """
    seen, remaining = look(arrays_of(tasks)), list[Task]()
    for task in tasks:
        shown = seen.get(task.name)
        if shown is None or shown.has_ended:
            task.forget(jobs)
        else:
            remaining.append(task)
    remove_scripts(jobs, remaining)


def write_batch(jobs: Path, batch: Batch) -> None:
    """Write the names of a job's runs, a line each."""
    lines = "".join(f"{run}\n" for run in batch.runs)
    (jobs / f"{batch.key}.runs").write_text(lines, encoding="utf-8")


def ask_to_end(arrays: Sequence[str]) -> None:
    """Withdraw jobs that wait, and have the scripts of the others end their workers.

    A job that is over by now is no error, and Slurm tells it apart from nothing: if it cannot be
    reached, they go on.
    """
    if not arrays:
        return
    for words in (
        # One that is being queued again, or preempted meanwhile, does not come back.
        ("scontrol", "update", f"JobId={','.join(arrays)}", "Requeue=0"),
        ("scancel", "--state=PENDING", *arrays),
        ("scancel", "--batch", "--signal=USR2", *arrays),
    ):
        with suppress(ExecutorError):
            ask(*words)
