"""Writes what a training tells into its run's folder, and tells it when to end."""

import mmap
import os
import threading
import time
from collections.abc import Callable, Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any

from rlexp.engine.loop import PROGRESS
from rlexp.errors import RlexpError
from rlexp.records.checkpoint import Checkpoint
from rlexp.records.events import Ending, Event, RunEnded, StopRequest
from rlexp.store.checkpoints import clear_replay, discard_after, publish_checkpoint
from rlexp.store.files import publish_with
from rlexp.store.journal import JournalWriter
from rlexp.store.layout import AttemptPaths, RunPaths
from rlexp.store.runs import ASKED_TO_END, read_stop

CLOSE_LIMIT = 10.0
"""Seconds that environments may take to close once everything is recorded."""
LOOK_EVERY = 0.2
"""Seconds between looks for a request to stop."""


class RunListener:
    """Writes what a training tells into the run's folder."""

    def __init__(
        self,
        paths: RunPaths,
        attempt: AttemptPaths,
        journal: JournalWriter,
    ) -> None:
        self._paths = paths
        self._journal = journal
        self.origin: Mapping[str, Any] = {}
        self._anew = False
        self._started = time.monotonic()
        self._look_at = 0.0
        self._request: StopRequest | None = None
        self._beats = 0
        self.last_resort = threading.Timer(CLOSE_LIMIT, os._exit, (0,))
        self.last_resort.daemon = True
        with attempt.progress.open("w+b") as file:
            file.write(PROGRESS.pack(0, 0))
            file.flush()
            self._progress = mmap.mmap(file.fileno(), PROGRESS.size)

    def emit(self, event: Event) -> None:
        """Append an event to the journal; after the last one, closing may not take for ever."""
        self._journal.append(event)
        if isinstance(event, RunEnded):
            if event.ending in {Ending.COMPLETED, Ending.PRUNED}:
                self._clear()
            self.last_resort.start()

    def _clear(self) -> None:
        """Remove what only a run needs that goes on; what stays of it harms nobody."""
        with suppress(OSError, RlexpError):
            if self._anew:
                discard_after(self._paths, None)
            clear_replay(self._paths)

    def publish(self, name: str, write: Callable[[Path], object]) -> None:
        """Publish a file of the run."""
        publish_with(self._paths.folder / name, write)

    def checkpoint(self, checkpoint: Checkpoint) -> int:
        """Publish a checkpoint; the last two are kept."""
        size = publish_checkpoint(self._paths, checkpoint, self.origin)
        self._anew = False
        return size

    def goes_on_from(self, step: int | None) -> None:
        """Remove what the attempt will make again.

        What was refused stays until there is a checkpoint in its place: the reason may pass.
        """
        self._anew = step is None
        if step is not None:
            discard_after(self._paths, step)

    def beat(self, step: int) -> None:
        """Overwrite the progress counters."""
        self._beats += 1
        PROGRESS.pack_into(self._progress, 0, step, self._beats)

    def stopping(self) -> StopRequest | None:
        """A signal's request, or one left in the run's folder."""
        now = time.monotonic()
        if now >= self._look_at:
            self._look_at = now + LOOK_EVERY
            if self._paths.stop.exists():
                self._request = read_stop(self._paths)
        return self._request

    def interrupt(self, *_: object) -> None:
        """Handle a signal: end at the next step."""
        self._request = StopRequest(Ending.INTERRUPTED, ASKED_TO_END)

    def now(self) -> float:
        """Seconds since 1970."""
        return time.time()

    def elapsed(self) -> float:
        """Seconds since the attempt began."""
        return time.monotonic() - self._started
