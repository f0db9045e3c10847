"""The journal of an attempt: events, one a line, appended and never changed."""

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
    """Appends events, each by a single write; what a result rests on is made durable at once."""

    def __init__(self, path: Path) -> None:
        """Create the journal; it must not exist, for no attempt is ever reopened."""
        self._descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_APPEND, 0o644)
        self._torn = False
        self._secrets = secret_values(os.environ)

    def append(self, event: Event) -> None:
        """Write one event.

        Raises:
            OSError: The disk is full or gone; the event is not recorded.
        """
        plain = _plain(event)
        if isinstance(plain.get("reason"), str):
            # It may quote an exception of any code, and that may quote anything.
            plain["reason"] = mask_known(plain["reason"], self._secrets)
        text = json.dumps(plain, separators=(",", ":"), allow_nan=False)
        # A line that the disk took in part is ended first, so that it spoils no other.
        line = b"\n" * self._torn + text.encode() + b"\n"
        written = os.write(self._descriptor, line)
        self._torn = written < len(line) and (self._torn or written > 0)
        if written < len(line):
            raise OSError(ENOSPC, "the journal took only part of a line")
        if isinstance(event, Evaluated | RunEnded):
            os.fsync(self._descriptor)

    def close(self) -> None:
        """Close the file."""
        os.close(self._descriptor)


def write_journal(path: Path, events: Iterable[Event]) -> None:
    """Publish a journal whose events are all known."""
    lines = [json.dumps(_plain(e), separators=(",", ":"), allow_nan=False) for e in events]
    publish(path, "".join(f"{line}\n" for line in lines).encode())


def _plain(event: Event) -> dict[str, Any]:
    """The event as JSON values; the first one of a journal says which schema that has."""
    plain = to_plain(event)
    return {**plain, **JOURNAL.head()} if isinstance(event, RunStarted) else plain


@dataclass(slots=True)
class Journal:
    """What a journal holds, and how many of its lines could not be read."""

    events: list[Event] = field(default_factory=list)
    torn: int = 0
    quarantined: int = 0


def read_journal(path: Path, *, measurements: bool = True, most: int | None = None) -> Journal:
    """Read a journal; a torn last line is dropped and counted, a bad line within quarantined.

    Args:
        path: The file; one that does not exist reads as empty.
        measurements: Whether to read what the learner logged, which most questions can skip.
        most: Bytes that count, where not all do.

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
        if not measurements and line.startswith(_MEASURED):
            continue
        try:
            plain = parse_json(line)
            journal.events.append(from_plain(plain))
        except (ValueError, RecursionError, RecordError):
            journal.quarantined += 1
            continue
        if VERSION in plain:
            JOURNAL.check(plain, path)
    return journal


def follow(path: Path, offset: int) -> tuple[list[bytes], int]:
    """Complete lines after `offset` bytes, and the offset behind them."""
    try:
        with open_file(path) as file:
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
            yield from_plain(parse_json(line))
        except (ValueError, RecursionError, RecordError):
            continue
