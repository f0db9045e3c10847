"""`rlexp logs`: reads the log of a run, which holds its standard output and error."""

from contextlib import suppress
from dataclasses import dataclass
from typing import ClassVar

from rlexp.app.results import Schema
from rlexp.app.workspace import Workspace
from rlexp.errors import ConfigError, RecordError
from rlexp.store.files import read_file
from rlexp.store.layout import AttemptPaths, RunPaths
from rlexp.store.runs import read_spec


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
    """

    schema: ClassVar[Schema] = Schema("log")

    experiment: str
    run: str
    attempt: int
    file: str
    total: int
    lines: tuple[str, ...]
    imported: str | None


def logs(run_name: str, attempt: int | None, lines: int | None, workspace: Workspace) -> Log:
    """Read the log of an attempt.

    Args:
        run_name: The run.
        attempt: The number of the attempt; None reads the last attempt.
        lines: Number of lines to return from the end; None returns all.
        workspace: The workspace of the run.

    Raises:
        RlexpError: There is no such run or attempt, or `lines` is negative.
    """
    if lines is not None and lines < 0:
        raise ConfigError(f"--lines={lines} is negative; give 0 or more")
    run = workspace.run(run_name)
    chosen = _attempt(run, attempt)
    output = _read(chosen).replace("\r\n", "\n").rstrip("\n")
    written = output.split("\n") if output else []
    # Not `written[-lines:]`, which would return the whole log for 0 lines.
    kept = written if lines is None else written[len(written) - min(lines, len(written)) :]
    return Log(
        experiment=run.folder.parent.name,
        run=run.folder.name,
        attempt=chosen.number,
        file=str(chosen.log),
        total=len(written),
        lines=tuple(kept),
        imported=_source(run),
    )


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


def _read(attempt: AttemptPaths) -> str:
    try:
        return read_file(attempt.log).decode(errors="replace")
    except FileNotFoundError:
        return ""
    except OSError as error:
        raise RecordError(f"{attempt.log} cannot be read: {error.strerror}") from error
