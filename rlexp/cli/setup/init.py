"""`rlexp init`: creates a new workspace and shows the next commands."""

from typing import TYPE_CHECKING, Annotated

import typer

from rlexp.cli.options import Json, console_for, show_result

if TYPE_CHECKING:
    from collections.abc import Iterator

    from rlexp.app.commands.setup.init import Scaffold


def init(
    folder: Annotated[
        str, typer.Argument(help="Folder of the new workspace; with --study, a file.")
    ] = ".",
    study: Annotated[
        bool, typer.Option("--study", help="Write only a commented study file, study.yaml.")
    ] = False,
    as_json: Json = False,
) -> None:
    """Create a new workspace with an example environment."""
    from rlexp.app.commands.setup.init import init as use_case
    from rlexp.app.commands.setup.init import init_study

    result = init_study(folder) if study else use_case(folder)
    show_result(result, console_for(as_json=as_json), scaffold_lines)


def scaffold_lines(scaffold: "Scaffold") -> "Iterator[str]":
    """The written files and the next commands, as lines."""
    from rlexp.cli.summaries import next_lines

    for file in scaffold.files:
        yield f"wrote {file}"
    yield from next_lines(scaffold.next)
