"""The journal of an attempt: one JSON event per line, appended and never changed."""

import json
import os
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from errno import ENOSPC
from pathlib import Path
from typing import Any

from rlexp.errors import RecordError
from rlexp.records.events import (
    Evaluated,
    Event,
    Measured,
    RunEnded,
    RunStarted,
    from_plain,
    to_plain,
)
from rlexp.store.files import open_file, parse_json, publish, read_file
from rlexp.store.schemas import JOURNAL, VERSION
from rlexp.store.secrets import mask_known, secret_values

_MEASURED = f'{{"event":"{Measured.tag}"'.encode()


class JournalWriter:
    """Appends events, each by a single write; evaluations and the end are synced to disk."""

    def __init__(self, path: Path) -> None:
        """Create the journal; it must not exist, because no attempt is ever reopened."""
        self._descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_APPEND, 0o644)
        self._torn = False
        self._secrets = secret_values(os.environ)

    def append(self, event: Event) -> None:
        """Write one event.

        Raises:
            OSError: The disk is full or gone; the event is not recorded.
        """
        document = _as_json(event)
        if isinstance(document.get("reason"), str):
            # The reason may quote an exception of any code, which may quote a secret.
            document["reason"] = mask_known(document["reason"], self._secrets)
        text = json.dumps(document, separators=(",", ":"), allow_nan=False)
        # After a partly written line, a line break first: the torn line spoils no other line.
        line = b"\n" * self._torn + text.encode() + b"\n"
        # One write per line: a process that is killed here leaves at most one torn line.
        written = os.write(self._descriptor, line)
        self._torn = written < len(line) and (self._torn or written > 0)
        if written < len(line):
            raise OSError(ENOSPC, "the journal took only part of a line")
        # A sync takes milliseconds and measurements are many: scores and the end need it.
        if isinstance(event, Evaluated | RunEnded):
            os.fsync(self._descriptor)

    def close(self) -> None:
        """Close the file."""
        os.close(self._descriptor)


def write_journal(path: Path, events: Iterable[Event]) -> None:
    """Publish a complete journal at once."""
    lines = [json.dumps(_as_json(e), separators=(",", ":"), allow_nan=False) for e in events]
    publish(path, "".join(f"{line}\n" for line in lines).encode())


def _as_json(event: Event) -> dict[str, Any]:
    """The event as JSON values; the first event of a journal also holds the schema version."""
    values = to_plain(event)
    return {**values, **JOURNAL.head()} if isinstance(event, RunStarted) else values


@dataclass(slots=True)
class Journal:
    """The events of a journal, and the number of its unreadable lines.

    Attributes:
        events: Events in the order of their lines.
        torn: 1 where the last line is incomplete, as a crash leaves it.
        quarantined: Damaged lines before the last one.
        logged: Positions in `events` of the learner's own measurements.
        quarantined_logged: Damaged lines that begin as measurements do.
    """

    events: list[Event] = field(default_factory=list)
    torn: int = 0
    quarantined: int = 0
    logged: list[int] = field(default_factory=list)
    quarantined_logged: int = 0


def read_journal(path: Path, *, measurements: bool = True, most: int | None = None) -> Journal:
    """Read a journal; an incomplete last line and damaged lines are left out and counted.

    Args:
        path: The file; a missing file reads as an empty journal.
        measurements: Whether to read the learner's own measurements; most callers skip them.
        most: Number of leading bytes that count; None for all (see `fences`).

    Raises:
        RecordError: The file cannot be read, or is of a newer schema.
    """
    journal = Journal()
    try:
        content = read_file(path)[:most]
    except FileNotFoundError:
        return journal
    except OSError as error:
        raise RecordError(f"{path} cannot be read: {error.strerror}") from error
    *lines, tail = content.split(b"\n")
    journal.torn = bool(tail)
    for line in lines:
        # By the first bytes: parsing a million measurements to drop them would take seconds.
        logged = line.startswith(_MEASURED)
        if logged and not measurements:
            continue
        try:
            document = parse_json(line)
            journal.events.append(from_plain(document))
        except (ValueError, RecursionError, RecordError):
            journal.quarantined += 1
            journal.quarantined_logged += logged
            continue
        if logged:
            journal.logged.append(len(journal.events) - 1)
        if VERSION in document:
            JOURNAL.check(document, path)
    return journal


def follow(path: Path, offset: int) -> tuple[list[bytes], int]:
    """The complete lines after `offset` bytes, and the offset behind the last of them."""
    try:
        with open_file(path) as file:
            file.seek(offset)
            content = file.read()
    except FileNotFoundError:
        return [], offset
    complete = content.rpartition(b"\n")[0]
    return (complete.split(b"\n"), offset + len(complete) + 1) if complete else ([], offset)


def events_of(lines: list[bytes]) -> Iterator[Event]:
    """The events in the lines; unreadable lines are left out."""
    for line in lines:
        try:
            yield from_plain(parse_json(line))
        except (ValueError, RecursionError, RecordError):
            continue
