"""The files that describe Slurm jobs beside the experiment, so that later commands find them."""

import re
from collections.abc import Iterable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from rlexp.errors import ExecutorError, RecordError
from rlexp.executors import Batch
from rlexp.executors.slurm.client import find_arrays, look, slurm_output
from rlexp.store.files import publish_json, read_json

EXECUTOR = "slurm"
"""Value of the key `executor` in the files of these jobs."""
SCRIPT = re.compile(r"array-[0-9A-Za-z]+")
ARRAY = re.compile(r"[0-9]+")


@dataclass(slots=True)
class ArrayTask:
    """A Slurm job: one task of an array.

    Attributes:
        batch: The runs that the job executes.
        script: Name of the array's script, without its ending.
        index: Number of the task in the array.
        array: Slurm's id of the array; None before it is known.
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
        """Write the file that describes the job."""
        document = {
            "executor": EXECUTOR,
            "job": self.name if self.array else None,
            "runs": list(self.batch.runs),
            "script": self.script,
            "index": self.index,
        }
        publish_json(jobs / f"{self.batch.key}.json", document)

    def forget(self, jobs: Path) -> None:
        """Remove all files of the job except its output."""
        key = self.batch.key
        names = (f"{key}.json", f"{key}.runs", f"{key}.idle", f"{self.script}_{self.index}.txt")
        for name in names:
            (jobs / name).unlink(missing_ok=True)


def read_tasks(jobs: Path) -> list[ArrayTask]:
    """The jobs in a folder; damaged files and jobs of other executors are left out."""
    tasks = (_read(path) for path in sorted(jobs.glob("*.json")))
    return [task for task in tasks if task is not None]


def _read(path: Path) -> ArrayTask | None:
    try:
        document: dict[str, Any] = read_json(path)
    except RecordError:
        return None
    if document.get("executor") != EXECUTOR:
        return None
    try:
        batch = Batch(path.stem, tuple(map(str, document["runs"])))
        job, script = document["job"], str(document["script"])
        array = None if job is None else str(job).partition("_")[0]
        # Both become arguments of commands and names of files, and other users may be able to
        # edit the file.
        if not SCRIPT.fullmatch(script) or not (array is None or ARRAY.fullmatch(array)):
            return None
        return ArrayTask(batch, script, int(document["index"]), array)
    except (KeyError, TypeError, ValueError):
        return None


def find_missing_arrays(tasks: Iterable[ArrayTask]) -> None:
    """Ask Slurm for the ids of jobs whose command died before it could write them.

    Raises:
        ExecutorError: Slurm cannot be reached.
    """
    unknown = [task for task in tasks if task.array is None]
    arrays = find_arrays() if unknown else {}
    for task in unknown:
        task.array = arrays.get(f"{task.script}.sh")


def arrays_of(tasks: Iterable[ArrayTask]) -> list[str]:
    """Slurm's ids of the arrays of these tasks."""
    return sorted({task.array for task in tasks if task.array is not None})


def remove_scripts(jobs: Path, remaining: Sequence[ArrayTask]) -> None:
    """Remove the scripts of arrays without remaining tasks."""
    needed = {task.script for task in remaining}
    for path in jobs.glob("array-*.sh"):
        if path.stem not in needed:
            path.unlink(missing_ok=True)


def forget_ended(jobs: Path, tasks: Sequence[ArrayTask]) -> None:
    """Remove the files of ended tasks.

    Raises:
        ExecutorError: Slurm cannot be reached.
        OSError: Files cannot be removed.
    """
    seen, remaining = look(arrays_of(tasks)), list[ArrayTask]()
    for task in tasks:
        state = seen.get(task.name)
        if state is None or state.has_ended:
            task.forget(jobs)
        else:
            remaining.append(task)
    remove_scripts(jobs, remaining)


def write_batch(jobs: Path, batch: Batch) -> None:
    """Write the names of a job's runs, one per line."""
    lines = "".join(f"{run}\n" for run in batch.runs)
    (jobs / f"{batch.key}.runs").write_text(lines, encoding="utf-8")


def ask_to_end(arrays: Sequence[str]) -> None:
    """Cancel waiting jobs, and ask the scripts of the others to end their workers.

    Errors are ignored: Slurm reports an ended job in the same way as an unknown one. If Slurm
    cannot be reached, the jobs go on.
    """
    if not arrays:
        return
    for command in (
        # First: a job that is preempted or requeued meanwhile must not come back.
        ("scontrol", "update", f"JobId={','.join(arrays)}", "Requeue=0"),
        ("scancel", "--state=PENDING", *arrays),
        ("scancel", "--batch", "--signal=USR2", *arrays),
    ):
        with suppress(ExecutorError):
            slurm_output(*command)
