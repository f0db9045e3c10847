"""The journal of an attempt: events, one a line, appended and never changed."""

import json
import os
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

from rlexp.errors import RecordError
from rlexp.records.events import Evaluated, Event, Measured, RunEnded, from_plain, to_plain

_MEASURED = f'{{"event":"{Measured.tag}"'.encode()


class JournalWriter:
    """Appends events, each by a single write; what a result rests on is made durable at once."""

    def __init__(self, path: Path) -> None:
        """Create the journal; it must not exist, for no attempt is ever reopened."""
        self._descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_APPEND, 0o644)

    def append(self, event: Event) -> None:
        """Write one event.

        Raises:
            OSError: The disk is full or gone; the event is not recorded.
        """
        text = json.dumps(to_plain(event), separators=(",", ":"), allow_nan=False)
        line = text.encode() + b"\n"
        if os.write(self._descriptor, line) != len(line):
            raise OSError(28, "the journal took only part of a line")
        if isinstance(event, Evaluated | RunEnded):
            os.fsync(self._descriptor)

    def close(self) -> None:
        """Close the file."""
        os.close(self._descriptor)


@dataclass(slots=True)
class Journal:
    """What a journal holds, and how many of its lines could not be read."""

    events: list[Event] = field(default_factory=list)
    torn: int = 0
    quarantined: int = 0


def read_journal(path: Path, *, measurements: bool = True) -> Journal:
    """Read a journal; a torn last line is dropped and counted, a bad line within quarantined.

    Args:
        path: The file; one that does not exist reads as empty.
        measurements: Whether to read what the learner logged, which most questions can skip.
    """
    journal = Journal()
    try:
        content = path.read_bytes()
    except FileNotFoundError:
        return journal
    *lines, tail = content.split(b"\n")
    journal.torn = bool(tail)
    for line in lines:
        if not measurements and line.startswith(_MEASURED):
            continue
        try:
            journal.events.append(from_plain(json.loads(line)))
        except (ValueError, RecordError):
            journal.quarantined += 1
    return journal


def follow(path: Path, offset: int) -> tuple[list[bytes], int]:
    """Complete lines after `offset` bytes, and the offset behind them."""
    try:
        with path.open("rb") as file:
            file.seek(offset)
            content = file.read()
    except FileNotFoundError:
        return [], offset
    complete = content.rpartition(b"\n")[0]
    return (complete.split(b"\n"), offset + len(complete) + 1) if complete else ([], offset)


def events_of(lines: list[bytes]) -> Iterator[Event]:
    """The events in lines, those that cannot be read left out."""
    for line in lines:
        try:
            yield from_plain(json.loads(line))
        except (ValueError, RecordError):
            continue
