"""`rlexp rm`: removes an experiment or a run."""

from typing import TYPE_CHECKING

from rlexp.cli.options import Json, TargetName, Yes, console_for, current_workspace, show_result

if TYPE_CHECKING:
    from collections.abc import Iterator

    from rlexp.app.commands.order.remove import Removal


def remove(target: TargetName, yes: Yes = False, as_json: Json = False) -> None:
    """Remove an experiment or a run (needs --yes).

    Without --yes, only show what would be removed.
    """
    from rlexp.app.commands.order.remove import remove as use_case

    removal = use_case(target, current_workspace(), yes=yes)
    show_result(removal, console_for(as_json=as_json), removal_lines)


def removal_lines(removal: "Removal") -> "Iterator[str]":
    """The removed experiment or run; without `--yes`, the command that removes it."""
    from rlexp.cli.summaries import next_lines

    verb = "removed" if removal.removed else "would remove"
    yield f"{verb} {removal.name}: {_content(removal)}"
    yield from next_lines(removal.next)


def _content(removal: "Removal") -> str:
    from rlexp.text import format_bytes

    if removal.link:
        return "only the link, not the folder that it points to"
    return (
        f"{removal.runs} {'run' if removal.runs == 1 else 'runs'}, {format_bytes(removal.bytes)}"
    )
