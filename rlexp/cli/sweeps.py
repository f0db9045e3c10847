"""Commands that search: sweep, and status of what goes on."""

from typing import Annotated

import typer

from rlexp.cli.options import Json, console_for, here


def status(
    experiment: Annotated[str | None, typer.Argument(help="Only this one")] = None,
    watch: Annotated[bool, typer.Option("--watch", help="Again and again, until it ends")] = False,
    as_json: Json = False,
) -> None:
    """Show how far experiments and sweeps are, whichever command drives them."""
    from rlexp.app.commands.status import show_status

    raise typer.Exit(show_status(experiment, here(), console_for(as_json=as_json), watch=watch))
