"""Commands about the mirrors of records."""

from typing import Annotated

import typer

from rlexp.cli.options import Allow, Json, console_for, here


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
    from rlexp.app.commands.sync import Wanted
    from rlexp.app.commands.sync import sync as use_case

    console = console_for(as_json=as_json)
    raise typer.Exit(use_case(words or [], Wanted(wait=wait), here(allow_import), console))
