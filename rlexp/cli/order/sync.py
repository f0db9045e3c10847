"""`rlexp sync`: pushes records to trackers and shows what is still pending."""

from typing import TYPE_CHECKING, Annotated

import typer

from rlexp.cli.completion import complete_resumed
from rlexp.cli.exit_codes import OF_SIGNALS, PENDING
from rlexp.cli.options import AllowImport, Json, console_for, current_workspace, render_result

if TYPE_CHECKING:
    from rlexp.app.commands.order.sync import SyncOutcome
    from rlexp.console import Console


def sync(
    arguments: Annotated[
        list[str] | None,
        typer.Argument(
            autocompletion=complete_resumed,
            help="Experiments; default: all. Then overrides of trackers: "
            "tracker=[mlflow] tracker.mlflow.uri=http://…",
        ),
    ] = None,
    wait: Annotated[
        float, typer.Option("--wait", min=0, help="Time limit per experiment, in seconds.")
    ] = 300.0,
    allow_import: AllowImport = None,
    as_json: Json = False,
) -> None:
    """Push records to trackers that were not pushed before."""
    from rlexp.app.commands.order.sync import sync as use_case
    from rlexp.cli.observer import TerminalObserver

    console = console_for(as_json=as_json)
    outcome = use_case(
        arguments or [],
        current_workspace(allow_import),
        wait=wait,
        observer=TerminalObserver(console),
    )
    render_result(outcome, console, show_pushed)
    raise typer.Exit(sync_exit_code(outcome))


def show_pushed(outcome: "SyncOutcome", console: "Console") -> None:
    """Show a table of experiments and trackers, or the reason why nothing was pushed."""
    from dataclasses import asdict

    if outcome.rows:
        columns = ["experiment", "tracker", "place", "pending"]
        console.table([asdict(row) for row in outcome.rows], columns)
        # A column of the table would fold a problem, and with it the command to type.
        for row in outcome.rows:
            if row.problem:
                console.line(
                    f"{' in '.join(filter(None, (row.experiment, row.tracker)))}: {row.problem}"
                )
        for line in dict.fromkeys(
            f"{row.tracker}: {row.page}" for row in outcome.rows if row.page
        ):
            console.line(line)
    elif outcome.interrupted is None and outcome.trackers is None:
        console.line("nothing to push: no experiments under runs/")
    elif outcome.interrupted is None:
        names = ",".join(outcome.trackers or ())
        console.line(
            "nothing to push: no experiment was pushed to a tracker before; choose trackers with "
            f"tracker=[{names}]"
        )


def sync_exit_code(outcome: "SyncOutcome") -> int:
    """The exit code: 0 if trackers have everything, 69 if something is still pending."""
    from signal import Signals

    if outcome.interrupted is not None:
        return OF_SIGNALS[Signals[outcome.interrupted]]
    return PENDING if any(row.pending or row.problem for row in outcome.rows) else 0
