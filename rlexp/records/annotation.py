"""Tags and notes that users attach to experiments and runs; no part of any identity or number."""

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from rlexp.errors import ConfigError
from rlexp.records.json_values import as_text

TAG = re.compile(r"\w[\w.+@:/-]{0,49}")
LONGEST_NOTE = 10_000
"""Most characters of a note."""
YEAR_10_000 = 253402300800
"""Seconds since 1970 at which the years of dates end."""


@dataclass(frozen=True, slots=True)
class Note:
    """A note of a user.

    Attributes:
        time: When it was written, in seconds since 1970.
        text: Its text.
    """

    time: float
    text: str


@dataclass(frozen=True, slots=True)
class Annotation:
    """The tags and notes of one experiment or run.

    Attributes:
        tags: Different words, in the order in which they were added.
        notes: The notes, oldest first.
    """

    tags: tuple[str, ...] = ()
    notes: tuple[Note, ...] = ()

    def tagged(self, tags: Sequence[str]) -> "Annotation":
        """With further tags; those that it has already stay where they are."""
        return replace(self, tags=tuple(dict.fromkeys([*self.tags, *tags])))

    def untagged(self, tags: Sequence[str]) -> "Annotation":
        """Without some tags."""
        return replace(self, tags=tuple(tag for tag in self.tags if tag not in tags))

    def noted(self, note: Note) -> "Annotation":
        """With a further note."""
        return replace(self, notes=(*self.notes, note))

    def without_note(self, number: int) -> "Annotation":
        """Without the note of a number, which counts from 1."""
        return replace(self, notes=self.notes[: number - 1] + self.notes[number:])

    def plain(self) -> dict[str, Any]:
        """The annotation as JSON values."""
        notes = [{"time": note.time, "text": note.text} for note in self.notes]
        return {"tags": list(self.tags), "notes": notes}

    @classmethod
    def from_plain(cls, mapping: Mapping[str, Any]) -> "Annotation":
        """The inverse of `plain`.

        Raises:
            KeyError: A field is missing.
            TypeError: A field has a wrong type.
            ValueError: A field has an invalid value.
        """
        notes = tuple(Note(_time(n["time"]), as_text(n["text"])) for n in _list(mapping["notes"]))
        return cls(tags=tuple(map(as_text, _list(mapping["tags"]))), notes=notes)


def check_tag(tag: str) -> str:
    """Return `tag` if it can be a tag.

    Raises:
        ConfigError: It is empty, too long, or has other characters than tags have.
    """
    if not TAG.fullmatch(tag):
        raise ConfigError(
            f"tag {tag!r} is not allowed: use up to 50 letters, digits and _ . + @ : / -, "
            "starting with a letter or digit",
            key="tag",
        )
    return tag


def check_note(text: str) -> str:
    """Return the text of a note without blank ends.

    Raises:
        ConfigError: It is empty, or too long.
    """
    stripped = text.strip()
    if not stripped:
        raise ConfigError("the text of the note is empty; to see the notes, leave it out")
    if len(stripped) > LONGEST_NOTE:
        raise ConfigError(
            f"the note has {len(stripped):,} characters; at most {LONGEST_NOTE:,} are allowed"
        )
    return stripped


def _list(value: Any) -> list[Any]:
    if not isinstance(value, list):
        raise TypeError(f"{value!r} is no list")
    return value


def _time(value: Any) -> float:
    # The comparison is false for NaN; a date needs a time within its years.
    if not isinstance(value, int | float) or not 0 <= value < YEAR_10_000:
        raise ValueError(f"{value!r:.50} is no time")
    return float(value)
