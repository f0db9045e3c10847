"""An array of Slurm jobs: written beside the experiment, then submitted."""

from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from uuid import uuid4

from rlexp.errors import ExecutorError
from rlexp.executors import Batch, Site
from rlexp.executors.slurm.queue import ask, find_arrays, submission_variables
from rlexp.executors.slurm.refusals import explained
from rlexp.executors.slurm.script import job_script
from rlexp.executors.slurm.tasks import Task, write_batch

LATE = ("timed out", "did not answer")
"""Errors after which a job may have been taken all the same."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Terms:
    """What jobs are submitted with.

    Attributes:
        words: For sbatch.
        partition: That the user named.
        setup: Lines of the user's that come before the worker.
        requeues: Whether a job that asks for it is queued again.
    """

    words: tuple[str, ...]
    partition: str | None
    setup: tuple[str, ...]
    requeues: bool


def submit_array(site: Site, terms: Terms, batches: Sequence[Batch]) -> list[Task]:
    """Submit a job for each batch, as one array.

    Raises:
        ExecutorError: Slurm takes none; nothing of them is left.
    """
    name = f"array-{uuid4().hex[:12]}"
    script = site.jobs / f"{name}.sh"
    tasks = [Task(batch, name, index) for index, batch in enumerate(batches)]
    try:
        _write(script, site, terms, tasks)
        array = _ask_for(script, site, terms, len(tasks))
    except ExecutorError as error:
        with suppress(OSError):
            for task in tasks:
                task.forget(site.jobs)
            script.unlink(missing_ok=True)
        raise explained(error, terms.partition) from error
    for task in tasks:
        task.array = array
        # Where it cannot be written any more, it is found by its script.
        with suppress(OSError):
            task.keep(site.jobs)
    return tasks


def _write(script: Path, site: Site, terms: Terms, tasks: Sequence[Task]) -> None:
    """Write the script and what is kept of its jobs before they have ids."""
    keys = [task.batch.key for task in tasks]
    text = job_script(site, script.stem, keys, setup=terms.setup, requeues=terms.requeues)
    try:
        site.jobs.mkdir(parents=True, exist_ok=True)
        for task in tasks:
            write_batch(site.jobs, task.batch)
            task.keep(site.jobs)
        script.write_text(text, encoding="utf-8", errors="surrogateescape")
    except OSError as error:
        raise ExecutorError(f"cannot write {script}: {error.strerror or error}") from error


def _ask_for(script: Path, site: Site, terms: Terms, count: int) -> str:
    """Submit the script as an array of so many tasks; returns its id."""
    # Words on the command line go before variables like SBATCH_OUTPUT, lines of a script do not.
    command = (
        *("sbatch", "--parsable", f"--array=0-{count - 1}"),
        f"--job-name=rlexp-{site.experiment.name}",
        f"--chdir={site.folder}",
        f"--output={output_pattern(script)}",
        *("--open-mode=append", "--export=ALL"),
        "--requeue" if terms.requeues else "--no-requeue",
        *terms.words,
        str(script),
    )
    try:
        told = ask(*command, variables=submission_variables(site.variables))
    except ExecutorError as error:
        is_late = any(words in str(error) for words in LATE)
        array = _found(script) if is_late else None
        if array is None:
            raise
        return array
    return told.strip().rpartition("\n")[2].partition(";")[0]


def _found(script: Path) -> str | None:
    with suppress(ExecutorError):
        return find_arrays().get(script.name)
    return None


def output_pattern(script: Path) -> str:
    """Where Slurm writes what it says of the tasks of a script: its name, `_` and their number."""
    path = str(script.with_suffix(""))
    # After a backslash Slurm fills in nothing: then only what the worker says is kept.
    return "/dev/null" if "\\" in path else path.replace("%", "%%") + "_%a.txt"
