"""`rlexp mv`: gives an experiment another name."""

from typing import TYPE_CHECKING, Annotated

import typer

from rlexp.cli.completion import complete_experiment
from rlexp.cli.options import Json, console_for, current_workspace, show_result

if TYPE_CHECKING:
    from collections.abc import Iterator

    from rlexp.app.commands.order.move import Move


def move(
    experiment: Annotated[
        str, typer.Argument(autocompletion=complete_experiment, help="An experiment.")
    ],
    name: Annotated[str, typer.Argument(help="Its new name, as in experiment=NAME.")],
    as_json: Json = False,
) -> None:
    """Give an experiment another name; its runs stay the same."""
    from rlexp.app.commands.order.move import move as use_case

    moved = use_case(experiment, name, current_workspace())
    show_result(moved, console_for(as_json=as_json), move_lines)


def move_lines(moved: "Move") -> "Iterator[str]":
    """The new name, and what still has the old one."""
    from rlexp.cli.summaries import next_lines
    from rlexp.text import join_names

    yield f"{moved.before} is now {moved.experiment}: {moved.folder}"
    word = (
        f"--experiment {moved.experiment}" if moved.imported else f"experiment={moved.experiment}"
    )
    yield f"commands that add to it need {word} from now on"
    if moved.name_in_services is not None:
        yield f"trackers continue it as {moved.name_in_services}"
    if moved.report is not None:
        yield f"its report under the old name stays: {moved.report}"
    if moved.referring:
        yield (
            f"{moved.before} is named by {join_names(moved.referring)}: in commands that you repeat, "
            f"write {moved.experiment}"
        )
    yield from next_lines(moved.next)
