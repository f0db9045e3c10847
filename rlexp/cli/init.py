"""`rlexp init`: writes the scaffold of a new workspace, and names what to do next."""

from typing import TYPE_CHECKING, Annotated

import typer

from rlexp.cli.options import Json, console_for, show_result

if TYPE_CHECKING:
    from collections.abc import Iterator

    from rlexp.app.commands.init import Scaffold


def init(
    folder: Annotated[str, typer.Argument(help="The new workspace's folder")] = ".",
    as_json: Json = False,
) -> None:
    """Write the scaffold of a new workspace."""
    from rlexp.app.commands.init import init as use_case

    show_result(use_case(folder), console_for(as_json=as_json), scaffold_lines)


def scaffold_lines(scaffold: "Scaffold") -> "Iterator[str]":
    """The files, and the commands that make sense now."""
    from rlexp.cli.summaries import next_lines

    for file in scaffold.files:
        yield f"wrote {file}"
    yield from next_lines(scaffold.next)
