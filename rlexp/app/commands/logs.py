"""`rlexp logs`: what a run wrote to its output."""

from contextlib import suppress

from rlexp.app.workspace import Workspace
from rlexp.console import Console
from rlexp.errors import ConfigError, RecordError
from rlexp.store.files import read_file
from rlexp.store.layout import AttemptPaths, RunPaths
from rlexp.store.runs import read_spec


def logs(
    run_name: str,
    attempt: int | None,
    lines: int | None,
    workspace: Workspace,
    console: Console,
) -> int:
    """Print the output of an attempt, the last if none is named; returns the exit code.

    Raises:
        RlexpError: There is no such run or attempt, or `lines` is negative.
    """
    if lines is not None and lines < 0:
        raise ConfigError(f"--lines={lines} is negative; it counts lines from the end")
    run = workspace.run(run_name)
    chosen = _attempt(run, attempt)
    written = _read(chosen).replace("\r\n", "\n").rstrip("\n").split("\n")
    kept = written if lines is None else written[len(written) - min(lines, len(written)) :]
    if written == [""]:
        console.note(_why_nothing(run, chosen))
    elif kept:
        console.text("\n".join(kept))
    return 0


def _why_nothing(run: RunPaths, attempt: AttemptPaths) -> str:
    with suppress(RecordError):
        if marked := read_spec(run).imported:
            name = f"{run.folder.parent.name}/{run.folder.name}"
            return (
                f"run {run.folder.name} was imported from {marked.get('kind')}, and holds no log; "
                f"'rlexp show {name} --provenance' says what was read"
            )
    return f"attempt {attempt.number} of run {run.folder.name} printed nothing"


def _attempt(run: RunPaths, number: int | None) -> AttemptPaths:
    attempts = {a.number: a for a in run.attempts()}
    if not attempts:
        raise RecordError(f"run {run.folder.name} was not attempted yet, so it printed nothing")
    if number is not None and number not in attempts:
        known = [str(attempt) for attempt in attempts]
        raise RecordError(
            f"run {run.folder.name} has no attempt {number} (there are: {', '.join(known)})",
            code="unknown_value",
            key="--attempt",
            allowed=known,
        )
    return attempts[number or max(attempts)]


def _read(attempt: AttemptPaths) -> str:
    try:
        return read_file(attempt.log).decode(errors="replace")
    except FileNotFoundError:
        return ""
    except OSError as error:
        raise RecordError(f"{attempt.log} cannot be read: {error.strerror}") from error
