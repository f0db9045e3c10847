"""`rlexp tag`: adds, removes or shows the tags of an experiment or a run."""

from typing import TYPE_CHECKING, Annotated

import typer

from rlexp.cli.options import Json, TargetName, console_for, current_workspace, show_result

if TYPE_CHECKING:
    from collections.abc import Iterator

    from rlexp.app.commands.order.tag import Tagging


def tag(
    target: TargetName,
    tags: Annotated[
        list[str] | None, typer.Argument(help="Tags to add; without tags, show those it has.")
    ] = None,
    remove: Annotated[
        bool, typer.Option("--remove", help="Remove the tags instead of adding them.")
    ] = False,
    as_json: Json = False,
) -> None:
    """Tag an experiment or a run.

    rlexp ls --where tag=TAG lists what has a tag.
    """
    from rlexp.app.commands.order.tag import tag as use_case

    tagging = use_case(target, tags or (), current_workspace(), remove=remove)
    show_result(tagging, console_for(as_json=as_json), tagging_lines)


def tagging_lines(tagging: "Tagging") -> "Iterator[str]":
    """What was changed, and the tags that there are now."""
    from rlexp.text import join_names

    if tagging.added:
        yield f"added to {tagging.name}: {join_names(tagging.added)}"
    if tagging.removed:
        yield f"removed from {tagging.name}: {join_names(tagging.removed)}"
    if tagging.tags:
        yield f"tags of {tagging.name}: {', '.join(tagging.tags)}"
    else:
        yield f"{tagging.name} has no tags"
