"""`rlexp recipe`: lists the recipes, and makes the virtual environment of one."""

from typing import TYPE_CHECKING, Annotated

import typer

from rlexp.cli.options import Json, console_for, current_workspace, show_result

if TYPE_CHECKING:
    from collections.abc import Iterator

    from rlexp.app.commands.setup.recipe import RecipeInstallation, RecipeListing


def recipe(
    name: Annotated[
        str | None, typer.Argument(help="A recipe to install; without one, list all.")
    ] = None,
    again: Annotated[
        bool, typer.Option("--again", help="Make the virtual environment anew.")
    ] = False,
    as_json: Json = False,
) -> None:
    """List recipes, trainers of other libraries, or install one.

    Installing makes a virtual environment in the user's cache, with pip.
    """
    from rlexp.app.commands.setup.recipe import install_recipe, list_recipes

    console, workspace = console_for(as_json=as_json), current_workspace()
    if name is None:
        show_result(list_recipes(workspace), console, listing_lines)
    else:
        show_result(install_recipe(name, workspace, again=again), console, installation_lines)


def listing_lines(listing: "RecipeListing") -> "Iterator[str]":
    """The recipes with their packages, a line each."""
    width = max((len(row.name) for row in listing.rows), default=0)
    for row in listing.rows:
        state = "installed" if row.installed else f"rlexp recipe {row.name}"
        yield f"{row.name.ljust(width)}  {row.description} [{state}]"


def installation_lines(installation: "RecipeInstallation") -> "Iterator[str]":
    """Where the virtual environment is, and the next command."""
    from rlexp.cli.summaries import next_lines

    yield f"{installation.name}: {len(installation.packages)} packages in {installation.folder}"
    yield from next_lines(installation.next)
