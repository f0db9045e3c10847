"""`rlexp note`: adds, removes or shows the notes of an experiment or a run."""

import os
import shlex
import time
from dataclasses import dataclass
from typing import ClassVar

from rlexp.app.commands.order.tag import annotated
from rlexp.app.results import Displayed, Schema
from rlexp.app.workspace import Workspace
from rlexp.errors import ConfigError
from rlexp.records.annotation import Annotation, Note, check_note
from rlexp.store.annotations import change_annotation, read_annotations
from rlexp.store.secrets import mask, secret_values


@dataclass(frozen=True, slots=True, kw_only=True)
class NumberedNote:
    """A note of an experiment or a run.

    Attributes:
        number: Its number, from 1; removing a note renumbers the later ones.
        time: When it was written, in seconds since 1970.
        text: Its text; secrets are masked.
    """

    number: int
    time: float
    text: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Notes(Displayed):
    """The notes of an experiment or a run, and what the command changed.

    Attributes:
        name: The experiment, or the run as `EXPERIMENT/RUN`.
        notes: Its notes now, oldest first.
        added: The number of the note that was added; null if none was.
        removed: The note that was removed, with its former number; null if none was.
    """

    schema: ClassVar[Schema] = Schema("notes")

    name: str
    notes: tuple[NumberedNote, ...]
    added: int | None = None
    removed: NumberedNote | None = None


def note(
    target: str, text: str | None, workspace: Workspace, *, remove: int | None = None
) -> Notes:
    """Add a note to an experiment or a run, or remove one; with neither, only read them.

    Args:
        target: The experiment, or the run.
        text: The text of the new note; secrets in it are masked before it is stored.
        workspace: The workspace of the experiment.
        remove: The number of the note to remove.

    Raises:
        RlexpError: There is no such experiment, run or note, the text is empty or too long, or the
            folder cannot be written; nothing was changed.
    """
    experiment, run = annotated(target, workspace)
    name = experiment.name if run is None else f"{experiment.name}/{run}"
    if text is not None and remove is not None:
        raise ConfigError("give a text to add, or --remove with the number of a note, not both")
    if text is not None:
        masked = mask(check_note(text), secret_values(os.environ))
        new = Note(time.time(), masked)
        after = change_annotation(experiment, run, lambda present: present.noted(new))
        return Notes(name=name, notes=numbered(after), added=len(after.notes))
    if remove is None:
        return Notes(name=name, notes=numbered(read_annotations(experiment).of(run)))
    removed: list[NumberedNote] = []

    def without(present: Annotation) -> Annotation:
        _require(name, remove, present)
        removed.append(numbered(present)[remove - 1])
        return present.without_note(remove)

    after = change_annotation(experiment, run, without)
    return Notes(name=name, notes=numbered(after), removed=removed[-1])


def numbered(annotation: Annotation) -> tuple[NumberedNote, ...]:
    """The notes of an annotation with their numbers."""
    return tuple(
        NumberedNote(number=number, time=note.time, text=note.text)
        for number, note in enumerate(annotation.notes, start=1)
    )


def _require(name: str, number: int, present: Annotation) -> None:
    count = len(present.notes)
    if not 1 <= number <= count:
        command = shlex.join(["rlexp", "note", name])
        existing = f"its notes have the numbers 1 to {count}" if count else "it has no notes"
        raise ConfigError(
            f"{name} has no note {number}; {existing}; to see them: {command}", key="--remove"
        )
