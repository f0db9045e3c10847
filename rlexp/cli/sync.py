"""`rlexp sync`: pushes to trackers, and shows what they still lack."""

from typing import TYPE_CHECKING, Annotated

import typer

from rlexp.cli.exit_codes import OF_SIGNALS, PENDING
from rlexp.cli.options import Allow, Json, console_for, here, render_result

if TYPE_CHECKING:
    from rlexp.app.commands.sync import Pushed
    from rlexp.console import Console


def sync(
    words: Annotated[
        list[str] | None,
        typer.Argument(
            help="Experiments, default: all; then words about trackers: "
            "tracker=[mlflow] tracker.mlflow.uri=http://…",
        ),
    ] = None,
    wait: Annotated[
        float, typer.Option("--wait", min=0, help="Seconds for each experiment")
    ] = 300.0,
    allow_import: Allow = None,
    as_json: Json = False,
) -> None:
    """Push to trackers what commands could not."""
    from rlexp.app.commands.sync import sync as use_case

    pushed = use_case(words or [], here(allow_import), wait=wait)
    render_result(pushed, console_for(as_json=as_json), show_pushed)
    raise typer.Exit(sync_exit_code(pushed))


def show_pushed(pushed: "Pushed", console: "Console") -> None:
    """A table of experiments and trackers, or why there was nothing to push."""
    from dataclasses import asdict

    if pushed.rows:
        columns = ["experiment", "tracker", "place", "pending", "problem"]
        console.table([asdict(row) for row in pushed.rows], columns)
    elif pushed.interrupted is None and pushed.trackers is None:
        console.line("nothing to push: there is no experiment under runs/")
    elif pushed.interrupted is None:
        known = ",".join(pushed.trackers or ())
        console.line(
            "nothing to push: no experiment was mirrored yet; name the trackers with "
            f"tracker=[{known}]"
        )


def sync_exit_code(pushed: "Pushed") -> int:
    """0 where trackers lack nothing, 69 where something is still to be pushed."""
    from signal import Signals

    if pushed.interrupted is not None:
        return OF_SIGNALS[Signals[pushed.interrupted]]
    return PENDING if any(row.pending or row.problem for row in pushed.rows) else 0
