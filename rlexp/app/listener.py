"""Writes what a training tells into its run's folder, and tells it when to end."""

import mmap
import os
import sys
import threading
import time
from collections.abc import Callable, Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any

from rlexp.engine.running import PROGRESS
from rlexp.errors import RlexpError
from rlexp.records.checkpoint import Checkpoint
from rlexp.records.events import Ending, Event, Measured, RunEnded, StopRequest
from rlexp.store.bundles import remove
from rlexp.store.checkpoints import clear_replay, discard_after, publish_checkpoint
from rlexp.store.fences import superseded
from rlexp.store.files import publish_with, sync
from rlexp.store.journal import JournalWriter
from rlexp.store.layout import AttemptPaths, RunPaths
from rlexp.store.lease import Held, holder
from rlexp.store.runs import ASKED_TO_END, read_stop

CLOSE_LIMIT = 10.0
"""Seconds that environments may take to close once everything is recorded."""
LOOK_EVERY = 0.2
"""Seconds between looks for a request to stop."""
LOOK_LATE_EVERY = 2.0
"""Seconds between looks, at most, whether another attempt has taken the place of this one."""


class Post:
    """Whether an attempt still is its run's last: where it is not, its process ends.

    What it would write then is the next attempt's to write.
    """

    def __init__(self, paths: RunPaths, attempt: AttemptPaths) -> None:
        self._paths = paths
        self._attempt = attempt
        self._last_word = threading.Lock()
        self.lease: Held | None = None

    def check(self, written: Path | None = None) -> None:
        """End the process, with code 0, where the attempt was superseded or lost its lease.

        Args:
            written: What was to be published; removed then.
        """
        lost = self.lease is not None and self.lease.lost
        if (reason := superseded(self._attempt)) is not None or lost:
            if written is not None:
                with suppress(OSError):
                    remove(written)
            self._leave(reason)

    def leave(self) -> None:
        """End the process, whose lease is lost."""
        self._leave(superseded(self._attempt))

    def _leave(self, reason: str | None) -> None:
        # Never given back: the other of two threads waits for the end.
        self._last_word.acquire()
        with suppress(OSError, ValueError):
            print(  # noqa: T201
                f"{reason or self._loss()}: nothing more is recorded", flush=True
            )
            sys.stderr.flush()
        if self.lease is not None:
            self.lease.release()
        os._exit(0)

    def _loss(self) -> str:
        return f"attempt {self._attempt.number} lost its lease to {holder(self._paths.lease)}"


class RunListener:
    """Writes what a training tells into the run's folder, while its attempt is the run's last."""

    def __init__(
        self,
        paths: RunPaths,
        attempt: AttemptPaths,
        journal: JournalWriter,
        post: Post | None = None,
    ) -> None:
        self._paths = paths
        self._post = post or Post(paths, attempt)
        self._journal = journal
        self.origin: Mapping[str, Any] = {}
        self._anew = False
        self._started = time.monotonic()
        self._look_at = self._look_late_at = 0.0
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
        if isinstance(event, Measured):
            self._look_late()
        else:
            self._post.check()
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
        self._post.check()

        def write_and_look(temporary: Path) -> None:
            write(temporary)
            # Here, so that as little time as can be lies between the look and the new name.
            sync(temporary)
            self._post.check(temporary)

        publish_with(self._paths.folder / name, write_and_look)

    def checkpoint(self, checkpoint: Checkpoint) -> int:
        """Publish a checkpoint; the last two are kept."""
        self._post.check()
        size = publish_checkpoint(self._paths, checkpoint, self.origin, last_look=self._post.check)
        self._anew = False
        return size

    def goes_on_from(self, step: int | None) -> None:
        """Remove what the attempt will make again.

        What was refused stays until there is a checkpoint in its place: the reason may pass.
        """
        self._anew = step is None
        if step is not None:
            self._post.check()
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
            self._look_late()
            if self._paths.stop.exists():
                self._request = read_stop(self._paths)
        return self._request

    def _look_late(self) -> None:
        """Look now and then: where much is told, each look would cost more than the telling."""
        now = time.monotonic()
        if now >= self._look_late_at:
            self._look_late_at = now + LOOK_LATE_EVERY
            self._post.check()

    def interrupt(self, *_: object) -> None:
        """Handle a signal: end at the next step."""
        self._request = StopRequest(Ending.INTERRUPTED, ASKED_TO_END)

    def now(self) -> float:
        """Seconds since 1970."""
        return time.time()

    def elapsed(self) -> float:
        """Seconds since the attempt began."""
        return time.monotonic() - self._started
