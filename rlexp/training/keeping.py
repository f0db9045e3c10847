"""When a training is copied, and when the copy is published as a checkpoint."""

import math
import traceback
from collections.abc import Callable
from dataclasses import dataclass, field

from rlexp.errors import RecordError
from rlexp.protocol.budget import Budget
from rlexp.records.checkpoint import Checkpoint
from rlexp.records.events import Checkpointed, Ending, StopRequest
from rlexp.training import Listener
from rlexp.training.snapshot import Snapshot

SPACING = 1.0
"""Seconds between copies, at least."""
SHARE = 0.01
"""Of the time, what copies may take, at most."""
LINGER = 5.0
"""Seconds for which one that is asked to end goes on to where it can be copied."""


@dataclass(slots=True)
class Keeper:
    """Keeps the newest copy of a training, and publishes it at the cadence that is asked for.

    A training can be copied only where a rollout starts: the library cannot re-enter a half-done
    one. Which of these moments are taken changes no number.
    """

    listener: Listener
    budget: Budget
    take: Callable[[], Snapshot]
    as_files: Callable[[Snapshot, int], Checkpoint | None]
    is_whole: Callable[[Snapshot, int], bool]
    written: int = 0
    """Rows of experience that are published."""
    published: int = 0
    """The step of the last checkpoint."""
    published_at: float = 0.0
    taken_at: float = 0.0
    pause: float = SPACING
    newest: Snapshot | None = field(default=None, repr=False)
    asked_at: float | None = None
    """When the training was asked to end, and could not be copied in time."""

    def rollout_starts(self, step: int) -> None:
        """Copy the training if it is time, and publish it if that is due.

        Raises:
            OSError: The checkpoint cannot be written.
        """
        now = self.listener.elapsed()
        due = step > self.published and self._is_due(step, now)
        try:
            if due or now - self.taken_at >= self.pause or self._is_asked_to_end():
                self.newest = self.take()
                self.taken_at = self.listener.elapsed()
                self.pause = max(SPACING, (self.taken_at - now) / SHARE)
            if due:
                self._publish()
        except OSError:
            raise
        except Exception:  # noqa: BLE001
            # Training is worth more than its copy.
            traceback.print_exc()
            self.newest, self.pause = None, math.inf
            self.published, self.published_at = step, now

    def _is_asked_to_end(self) -> bool:
        request = self.listener.stopping()
        return request is not None and not self.may_end(request)

    def may_end(self, request: StopRequest) -> bool:
        """Whether a training that is asked to end would leave what its newest copy holds.

        Where a full buffer has overwritten some of that, it goes on to its next rollout, for some
        seconds.
        """
        if request.ending is not Ending.INTERRUPTED or self.newest is None:
            return True
        if self.newest.step <= self.published or self.is_whole(self.newest, self.written):
            return True
        now = self.listener.elapsed()
        self.asked_at = now if self.asked_at is None else self.asked_at
        return now - self.asked_at > LINGER

    def save_newest(self) -> None:
        """Publish the newest copy, as the training is about to end; what fails is only told."""
        if self.newest is None or self.newest.step <= self.published:
            return
        try:
            self._publish()
        except Exception:  # noqa: BLE001
            traceback.print_exc()

    def _is_due(self, step: int, now: float) -> bool:
        every, minutes = self.budget.checkpoint_every, self.budget.checkpoint_minutes
        if every is not None and step // every > self.published // every:
            return True
        return minutes is not None and now - self.published_at >= 60 * minutes

    def _publish(self) -> None:
        assert self.newest is not None
        begun = self.listener.elapsed()
        step, end = self.newest.step, self.newest.extent.end
        size = self._hand_over(self.newest)
        if size is None:
            print(f"no checkpoint at step {step}: its experience is overwritten", flush=True)  # noqa: T201
            return
        self.published, self.written = step, max(self.written, end)
        self.published_at = self.listener.elapsed()
        self.listener.emit(
            Checkpointed(
                time=self.listener.now(),
                step=step,
                name=f"checkpoints/{step}",
                seconds=self.published_at - begun,
                bytes=size,
            )
        )

    def _hand_over(self, snapshot: Snapshot) -> int | None:
        """Publish; returns the bytes written, or nothing where experience is overwritten by now."""
        checkpoint = self.as_files(snapshot, self.written)
        if checkpoint is None:
            return None
        try:
            return self.listener.checkpoint(checkpoint)
        except RecordError:
            # Earlier experience is gone from the disk: all of it is written once more.
            self.written = 0
            checkpoint = self.as_files(snapshot, 0)
            return None if checkpoint is None else self.listener.checkpoint(checkpoint)
