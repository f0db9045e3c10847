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
    agents: Annotated[
        bool,
        typer.Option(
            "--agents", help="Write only AGENTS.md, which tells programs how to work here."
        ),
    ] = False,
    as_json: Json = False,
) -> None:
    """Create a new workspace with an example environment."""
    from rlexp.app.commands.setup.init import init as use_case
    from rlexp.app.commands.setup.init import init_agents, init_study
    from rlexp.errors import ConfigError

    if study and agents:
        raise ConfigError(
            "--study and --agents write one file each: give one of them, then the other"
        )
    result = init_study(folder) if study else init_agents(folder) if agents else use_case(folder)
    show_result(result, console_for(as_json=as_json), scaffold_lines)


def scaffold_lines(scaffold: "Scaffold") -> "Iterator[str]":
    """The written files and the next commands, as lines."""
    from rlexp.cli.summaries import next_lines

    for file in scaffold.files:
        yield f"wrote {file}"
    for file in scaffold.extended:
        yield f"added a section to {file}; what it held before is unchanged"
    if not scaffold.files and not scaffold.extended:
        yield "AGENTS.md holds this section already: nothing was written"
    yield from next_lines(scaffold.next)
