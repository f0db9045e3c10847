"""`rlexp logs`: prints what a run wrote to its output."""

from typing import TYPE_CHECKING, Annotated

import typer

from rlexp.cli.options import Json, Run, console_for, here, render_result

if TYPE_CHECKING:
    from rlexp.app.commands.logs import Log
    from rlexp.console import Console


def logs(
    run_name: Run,
    attempt: Annotated[int | None, typer.Option("--attempt", help="Default: the last")] = None,
    lines: Annotated[int | None, typer.Option("--lines", "-n", help="Only the last N")] = None,
    as_json: Json = False,
) -> None:
    """Print what a run wrote to its output."""
    from rlexp.app.commands.logs import logs as use_case

    console = console_for(as_json=as_json)
    log = use_case(run_name, attempt, lines, here())
    render_result(log, console, show_log)


def show_log(log: "Log", console: "Console") -> None:
    """Show the lines of a log to people; why there are none goes to standard error."""
    if not log.total:
        console.note(_why_empty(log))
    elif log.lines:
        console.text("\n".join(log.lines))


def _why_empty(log: "Log") -> str:
    if log.imported is None:
        return f"attempt {log.attempt} of run {log.run} printed nothing"
    return (
        f"run {log.run} was imported from {log.imported}, and holds no log; "
        f"'rlexp show {log.experiment}/{log.run} --provenance' says what was read"
    )
