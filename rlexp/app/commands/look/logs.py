"""`rlexp logs`: reads the log of a run, or the output of the jobs of an experiment."""

import re
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import ClassVar

from rlexp.app.results import Schema
from rlexp.app.workspace import Workspace
from rlexp.errors import ConfigError, RecordError
from rlexp.store.files import read_file
from rlexp.store.layout import AttemptPaths, ExperimentPaths, RunPaths
from rlexp.store.runs import read_spec

OUTPUT = (".txt", ".log")
"""Endings of files with the output of jobs."""
LINKED = "array-"
"""Prefix of Slurm's names for the output of jobs."""
EXECUTES = re.compile(r"rlexp: job \S+ on .* executes: (.*)")
"""The line in a job's output that names its runs."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Log:
    """The log of an attempt at a run, or its last lines.

    Attributes:
        experiment: The name of the experiment.
        run: The name of the run.
        attempt: The number of the attempt.
        file: The file of the log.
        total: Number of lines in the log.
        lines: The requested lines, without line ends.
        imported: The kind of source from which the run was imported; an imported run has no log.
            Null if the run was not imported.
        jobs: The files with the output of the cluster jobs that executed the run.
    """

    schema: ClassVar[Schema] = Schema("log")

    experiment: str
    run: str
    attempt: int
    file: str
    total: int
    lines: tuple[str, ...]
    imported: str | None
    jobs: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class JobLog:
    """The output of a cluster job, or its last lines.

    Attributes:
        file: The file of the output.
        runs: The names of the runs that the job executes; empty where the output names none.
        total: Number of lines in the output.
        lines: The requested lines, without line ends.
    """

    file: str
    runs: tuple[str, ...]
    total: int
    lines: tuple[str, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class JobLogs:
    """The output of the cluster jobs of an experiment, or of a run that has not started.

    Attributes:
        experiment: The name of the experiment.
        run: The name of the run; null for all jobs of the experiment.
        jobs: The output of each job, the newest last.
    """

    schema: ClassVar[Schema] = Schema("job-logs")

    experiment: str
    run: str | None
    jobs: tuple[JobLog, ...]


def logs(name: str, attempt: int | None, lines: int | None, workspace: Workspace) -> Log | JobLogs:
    """Read the log of an attempt, or the output of the jobs of an experiment.

    The output of its jobs is also read for a run that has not started.

    Args:
        name: The run, or the experiment.
        attempt: The number of the attempt; None reads the last attempt.
        lines: Number of lines to return from the end of each log; None returns all.
        workspace: The workspace of the run.

    Raises:
        RlexpError: There is no such run, experiment or attempt, or `lines` is negative.
    """
    if lines is not None and lines < 0:
        raise ConfigError(f"--lines={lines} is negative; give 0 or more")
    match = workspace.find(name)
    if isinstance(match, RunPaths):
        return _log_of_run(match, attempt, lines)
    if attempt is not None:
        raise ConfigError(
            f"--attempt={attempt} is for a run, and {match.name} is an experiment: write "
            f"EXPERIMENT/RUN; 'rlexp ls {match.name}' lists its runs"
        )
    return _logs_of_experiment(match, lines)


def _logs_of_experiment(experiment: ExperimentPaths, lines: int | None) -> JobLogs:
    jobs = _job_logs(experiment, lines)
    if not jobs:
        raise RecordError(
            f"experiment {experiment.name} has no output of cluster jobs; the log of a run: rlexp "
            f"logs {experiment.name}/RUN ('rlexp ls {experiment.name}' lists its runs)",
            command=f"rlexp ls {experiment.name}",
        )
    return JobLogs(experiment=experiment.name, run=None, jobs=jobs)


def _log_of_run(run: RunPaths, attempt: int | None, lines: int | None) -> Log | JobLogs:
    experiment = ExperimentPaths(run.folder.parent)
    jobs = tuple(job for job in _job_logs(experiment, lines) if run.folder.name in job.runs)
    if jobs and attempt is None and not run.attempts():
        return JobLogs(experiment=experiment.name, run=run.folder.name, jobs=jobs)
    chosen = _attempt(run, attempt)
    written = _lines(chosen.log)
    kept = _last(written, lines)
    return Log(
        experiment=run.folder.parent.name,
        run=run.folder.name,
        attempt=chosen.number,
        file=str(chosen.log),
        total=len(written),
        lines=kept,
        imported=_source(run),
        jobs=tuple(job.file for job in jobs),
    )


def _job_logs(experiment: ExperimentPaths, lines: int | None) -> tuple[JobLog, ...]:
    """The output of every job of an experiment, the newest last."""
    files = [p for p in experiment.jobs.glob("*") if p.suffix in OUTPUT and p.is_file()]
    # While a job lives, Slurm's name for its output is a second name of the same file.
    of_run = [path for path in files if not path.name.startswith(LINKED)]
    return tuple(_job_log(path, lines) for path in sorted(of_run, key=_changed))


def _changed(path: Path) -> tuple[float, str]:
    with suppress(OSError):
        return path.stat().st_mtime, path.name
    return 0.0, path.name


def _job_log(path: Path, lines: int | None) -> JobLog:
    written = _lines(path)
    # A job that was queued again has written a line for each of its starts.
    named = (match[1].split() for line in written if (match := EXECUTES.match(line)))
    runs = tuple(dict.fromkeys(run for names in named for run in names))
    return JobLog(file=str(path), runs=runs, total=len(written), lines=_last(written, lines))


def _last(written: Sequence[str], lines: int | None) -> tuple[str, ...]:
    # Not `written[-lines:]`, which would return the whole log for 0 lines.
    return tuple(written if lines is None else written[len(written) - min(lines, len(written)) :])


def _source(run: RunPaths) -> str | None:
    """The kind of source from which the run was imported; None if it was not imported."""
    with suppress(RecordError):
        if imported := read_spec(run).imported:
            return str(imported.get("kind"))
    return None


def _attempt(run: RunPaths, number: int | None) -> AttemptPaths:
    attempts = {a.number: a for a in run.attempts()}
    if not attempts:
        raise RecordError(f"run {run.folder.name} has not started yet, so it has no log")
    if number is not None and number not in attempts:
        numbers = [str(attempt) for attempt in attempts]
        raise RecordError(
            f"run {run.folder.name} has no attempt {number} (there are: {', '.join(numbers)})",
            code="unknown_value",
            key="--attempt",
            allowed=numbers,
        )
    return attempts[number or max(attempts)]


def _lines(file: Path) -> list[str]:
    """The lines of a log; none where there is no such file."""
    try:
        text = read_file(file).decode(errors="replace").replace("\r\n", "\n").rstrip("\n")
    except FileNotFoundError:
        return []
    except OSError as error:
        raise RecordError(f"{file} cannot be read: {error.strerror}") from error
    return text.split("\n") if text else []
