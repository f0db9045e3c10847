"""Where an attempt ends for the record: what it writes once the next one is made does not count.

The number of an attempt is its fencing token. No file system of several machines compares and
swaps, so that a process that wakes between its look and its step can still take that one step.
"""

import os
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass
from typing import Any

from rlexp.errors import RecordError
from rlexp.store.files import open_file, read_json
from rlexp.store.layout import AttemptPaths, RunPaths

KEY = "before"
"""Of the settings of an attempt, where the fence of the one before it is kept."""


@dataclass(frozen=True, slots=True)
class Fence:
    """What there was of an attempt when the next one was made.

    Attributes:
        attempt: Its number.
        bytes: Of its journal.
        judged: Whether there was a verdict.
    """

    attempt: int
    bytes: int
    judged: bool

    @classmethod
    def of(cls, attempt: AttemptPaths) -> "Fence":
        """What there is of an attempt now."""
        size = 0
        with suppress(OSError), open_file(attempt.journal) as file:
            size = os.fstat(file.fileno()).st_size
        return cls(attempt.number, size, attempt.verdict.exists())

    def plain(self) -> dict[str, Any]:
        """JSON values for the settings of the next attempt."""
        return {KEY: {"attempt": self.attempt, "bytes": self.bytes, "judged": self.judged}}


def read_fence(attempt: AttemptPaths, following: AttemptPaths | None) -> Fence | None:
    """The fence of an attempt; nothing where no other follows, or none was recorded."""
    if following is None:
        return None
    with suppress(RecordError):
        plain = read_json(following.settings).get(KEY)
        if isinstance(plain, Mapping) and plain.get("attempt") == attempt.number:
            size, judged = plain.get("bytes"), plain.get("judged")
            if type(size) is int and size >= 0 and isinstance(judged, bool):
                return Fence(attempt.number, size, judged)
    return None


def superseded(attempt: AttemptPaths) -> str | None:
    """What took an attempt's place, in words; nothing while it is the run's last.

    What cannot be read for the moment took no place.
    """
    try:
        numbers = [one.number for one in RunPaths(attempt.folder.parent.parent).attempts()]
    except RecordError:
        return None
    if attempt.number not in numbers:
        return f"attempt {attempt.number} was removed"
    if numbers[-1] != attempt.number:
        return f"attempt {attempt.number} was superseded by attempt {numbers[-1]}"
    return None
