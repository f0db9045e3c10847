"""Fencing: whatever an attempt writes after the next attempt was made does not count.

The number of an attempt is its fencing token. A network file system has no atomic compare-and-swap,
so that a process which was paused between its check and its write can still do that one write. The
fence makes the late write harmless: it records how many bytes of the journal count.
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
"""Key in the settings of an attempt that holds the fence of the attempt before it."""


@dataclass(frozen=True, slots=True)
class Fence:
    """What an attempt had written when the next attempt was made.

    Attributes:
        attempt: Number of the attempt.
        bytes: Size of its journal.
        judged: Whether it had a verdict.
    """

    attempt: int
    bytes: int
    judged: bool

    @classmethod
    def of(cls, attempt: AttemptPaths) -> "Fence":
        """The fence after what an attempt has written so far."""
        size = 0
        with suppress(OSError), open_file(attempt.journal) as file:
            size = os.fstat(file.fileno()).st_size
        return cls(attempt.number, size, attempt.verdict.exists())

    def plain(self) -> dict[str, Any]:
        """JSON values for the settings of the next attempt."""
        return {KEY: {"attempt": self.attempt, "bytes": self.bytes, "judged": self.judged}}


def read_fence(attempt: AttemptPaths, following: AttemptPaths | None) -> Fence | None:
    """The fence of an attempt; None for the last attempt, or where no fence was recorded."""
    if following is None:
        return None
    with suppress(RecordError):
        fence = read_json(following.settings).get(KEY)
        if isinstance(fence, Mapping) and fence.get("attempt") == attempt.number:
            size, judged = fence.get("bytes"), fence.get("judged")
            # `type` and not `isinstance`: a JSON `true` is an `int` for Python.
            if type(size) is int and size >= 0 and isinstance(judged, bool):
                return Fence(attempt.number, size, judged)
    return None


def superseded(attempt: AttemptPaths) -> str | None:
    """Why an attempt may write nothing more, as text; None while it is the run's last attempt.

    If the folder cannot be read, the attempt counts as not superseded. A folder that was replaced by
    a link may lead anywhere.
    """
    run = RunPaths(attempt.folder.parent.parent)
    folders = (run.folder, attempt.folder.parent, attempt.folder, run.checkpoints, run.replay)
    for folder in folders:
        if folder.is_symlink():
            return f"{folder} was replaced by a link, through which nothing is written"
    try:
        numbers = [other.number for other in run.attempts()]
    except RecordError:
        return None
    if attempt.number not in numbers:
        return f"attempt {attempt.number} was removed"
    if numbers[-1] != attempt.number:
        return f"attempt {attempt.number} was superseded by attempt {numbers[-1]}"
    return None
