"""`rlexp note`: adds, removes or shows the notes of an experiment or a run."""

from typing import TYPE_CHECKING, Annotated

import typer

from rlexp.cli.options import Json, TargetName, console_for, current_workspace, show_result

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from rlexp.app.commands.order.note import Notes, NumberedNote


def note(
    target: TargetName,
    text: Annotated[
        str | None, typer.Argument(help="The note to add; without a text, show the notes.")
    ] = None,
    remove: Annotated[
        int | None, typer.Option("--remove", help="Remove the note of this number.")
    ] = None,
    as_json: Json = False,
) -> None:
    """Add a note to an experiment or a run, or show its notes."""
    from rlexp.app.commands.order.note import note as use_case

    notes = use_case(target, text, current_workspace(), remove=remove)
    show_result(notes, console_for(as_json=as_json), lines_of_notes)


def lines_of_notes(notes: "Notes") -> "Iterator[str]":
    """What was changed, or all notes."""
    if notes.added is not None:
        yield f"note {notes.added} of {notes.name} is stored"
    elif notes.removed is not None:
        yield f"removed note {notes.removed.number} of {notes.name}: {notes.removed.text}"
    elif notes.notes:
        yield f"notes of {notes.name}:"
        yield from note_lines(notes.notes)
    else:
        yield f"{notes.name} has no notes"


def note_lines(notes: "Iterable[NumberedNote]") -> "Iterator[str]":
    """Every note with its number and time; further lines of a text are indented."""
    from rlexp.text import format_time

    for note in notes:
        text = note.text.replace("\n", "\n      ")
        yield f"  {note.number}. {format_time(note.time)}  {text}"
