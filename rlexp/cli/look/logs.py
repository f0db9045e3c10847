"""`rlexp logs`: prints the log of a run, or the output of the jobs of an experiment."""

from typing import TYPE_CHECKING, Annotated

import typer

from rlexp.cli.options import Json, TargetName, console_for, current_workspace, render_result

if TYPE_CHECKING:
    from rlexp.app.commands.look.logs import JobLog, JobLogs, Log
    from rlexp.console import Console


def logs(
    name: TargetName,
    attempt: Annotated[
        int | None, typer.Option("--attempt", help="Number of the attempt; default: the last.")
    ] = None,
    lines: Annotated[
        int | None, typer.Option("--lines", "-n", help="Only the last N lines.")
    ] = None,
    as_json: Json = False,
) -> None:
    """Print the log of a run, or the output of cluster jobs."""
    from rlexp.app.commands.look.logs import logs as use_case

    console = console_for(as_json=as_json)
    log = use_case(name, attempt, lines, current_workspace())
    render_result(log, console, show)


def show(log: "Log | JobLogs", console: "Console") -> None:
    """Print the log of a run, or the output of jobs."""
    from rlexp.app.commands.look.logs import JobLogs

    if isinstance(log, JobLogs):
        for job in log.jobs:
            show_job(job, console)
    else:
        show_log(log, console)


def show_job(job: "JobLog", console: "Console") -> None:
    """Print the lines of a job's output below the name of their file."""
    console.text("\n".join((f"==> {job.file} <==", *job.lines)))


def show_log(log: "Log", console: "Console") -> None:
    """Print the lines of a log; if there are none, the reason goes to standard error."""
    if not log.total:
        console.note(_why_empty(log))
    elif log.lines:
        console.text("\n".join(log.lines))
    if log.jobs:
        console.note(f"its cluster job printed: {log.jobs[-1]}")


def _why_empty(log: "Log") -> str:
    if log.imported is None:
        return f"attempt {log.attempt} of run {log.run} printed nothing"
    return (
        f"run {log.run} was imported from {log.imported} and has no log; to see its source: "
        f"rlexp show {log.experiment}/{log.run} --provenance"
    )
