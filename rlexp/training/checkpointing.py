"""The checkpoint schedule: when a training is copied, and when the copy is published."""

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

MINIMUM_SPACING = 2.0
"""Seconds between two copies, at least; an interrupted training loses no more than these.

A copy of a small learner takes 5 ms, which is a quarter of a percent of these seconds.
"""
MAXIMUM_TIME_SHARE = 0.01
"""Largest share of the run time that copying may take."""
STOP_DELAY_LIMIT = 5.0
"""Seconds for which a training may delay a stop request to reach a state that can be copied."""


@dataclass(slots=True)
class CheckpointScheduler:
    """Holds the newest copy of a training, and publishes copies at the cadence of the budget.

    A training can be copied only where a rollout starts, because stable-baselines3 cannot re-enter
    an unfinished rollout. The choice among these moments changes no result.
    """

    listener: Listener
    budget: Budget
    take: Callable[[], Snapshot]
    as_files: Callable[[Snapshot, int], Checkpoint | None]
    is_whole: Callable[[Snapshot, int], bool]
    may_be_last: Callable[[int], bool] = lambda _: False
    """Whether the rollout that starts at this step may be the last one, whose start is kept."""
    written: int = 0
    """Rows of experience published so far."""
    published: int = 0
    """The step of the last checkpoint."""
    published_at: float = 0.0
    offline_published: int = 0
    """Gradient steps of the offline stage at its last checkpoint."""
    taken_at: float = 0.0
    pause: float = MINIMUM_SPACING
    newest: Snapshot | None = field(default=None, repr=False)
    asked_at: float | None = None
    """Elapsed seconds at the first stop request that had to wait for a copy."""

    def rollout_starts(self, step: int) -> None:
        """Copy the training if the spacing allows it, and publish the copy if one is due.

        Raises:
            OSError: The checkpoint cannot be written.
        """
        now = self.listener.elapsed()
        due = step > self.published and self._is_due(step, now)
        # A full replay buffer overwrites its experience in the last rollout: its start is published
        # before it, although the run may go on.
        last = step > self.published and self.may_be_last(step)
        try:
            if due or last or now - self.taken_at >= self.pause or self._is_asked_to_end():
                self.newest = self.take()
                self.taken_at = self.listener.elapsed()
                # A copy of a large replay buffer is slow: the pause grows with its cost.
                self.pause = max(MINIMUM_SPACING, (self.taken_at - now) / MAXIMUM_TIME_SHARE)
            if due or (last and self._can_be_extended()):
                self._publish()
        except OSError:
            # A disk that takes no checkpoint takes no events either: the run fails with `disk`.
            raise
        except Exception:  # noqa: BLE001
            # A training that cannot be copied still yields its result: stop copying, train on.
            traceback.print_exc()
            self.newest, self.pause = None, math.inf
            # Count the attempt as published, so that it is not repeated at every rollout.
            self.published, self.published_at = step, now

    def offline_steps_taken(self, done: int) -> None:
        """Copy and publish the training between two gradient steps of its offline stage, if that is due.

        All these checkpoints are of step 0; each replaces the one before it.

        Args:
            done: Gradient steps of the stage so far.

        Raises:
            OSError: The checkpoint cannot be written.
        """
        now, every = self.listener.elapsed(), self.budget.checkpoint_every
        minutes, request = self.budget.checkpoint_minutes, self.listener.stopping()
        due = every is not None and done // every > self.offline_published // every
        due = due or (minutes is not None and now - self.published_at >= 60 * minutes)
        if due or (request is not None and request.ending is Ending.INTERRUPTED):
            self.newest = self.take()
            self.taken_at = self.listener.elapsed()
            self._publish()
            self.offline_published = done

    def _can_be_extended(self) -> bool:
        """Whether another run can continue from the newest copy; prints what is in the way."""
        assert self.newest is not None
        if self.newest.obstacle is not None:
            print(f"no copy is kept to extend this run: {self.newest.obstacle}", flush=True)  # noqa: T201
        return self.newest.obstacle is None

    def _is_asked_to_end(self) -> bool:
        request = self.listener.stopping()
        return request is not None and not self.may_end(request)

    def may_end(self, request: StopRequest) -> bool:
        """Whether the training may end now for `request`.

        An interrupted training publishes its newest copy. If a full replay buffer has overwritten
        part of that copy's experience, the training continues for up to `STOP_DELAY_LIMIT` seconds
        to its next rollout, where a new copy is taken.
        """
        if request.ending is not Ending.INTERRUPTED or self.newest is None:
            return True
        # Nothing is lost if the copy is published already or its experience is complete.
        if self.newest.step <= self.published or self.is_whole(self.newest, self.written):
            return True
        now = self.listener.elapsed()
        self.asked_at = now if self.asked_at is None else self.asked_at
        return now - self.asked_at > STOP_DELAY_LIMIT

    def save_newest(self) -> None:
        """Publish the newest copy before the training ends; a failure is only printed."""
        if self.newest is None or self.newest.step <= self.published:
            return
        try:
            self._publish()
        except Exception:  # noqa: BLE001
            traceback.print_exc()

    def _is_due(self, step: int, now: float) -> bool:
        every, minutes = self.budget.checkpoint_every, self.budget.checkpoint_minutes
        # A rollout rarely starts exactly at a multiple of `every`: passed multiples are compared.
        if every is not None and step // every > self.published // every:
            return True
        return minutes is not None and now - self.published_at >= 60 * minutes

    def _publish(self) -> None:
        assert self.newest is not None
        begun = self.listener.elapsed()
        step, end = self.newest.step, self.newest.extent.end
        size = self._hand_over(self.newest)
        if size is None:
            message = (
                f"no checkpoint at step {step}: the replay buffer has overwritten its experience"
            )
            print(message, flush=True)  # noqa: T201
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
        """Publish a copy; returns the bytes written, or None where its experience is lost."""
        checkpoint = self.as_files(snapshot, self.written)
        if checkpoint is None:
            return None
        try:
            return self.listener.checkpoint(checkpoint)
        except RecordError:
            # The store lacks earlier rows of experience: write all rows again.
            self.written = 0
            checkpoint = self.as_files(snapshot, 0)
            return None if checkpoint is None else self.listener.checkpoint(checkpoint)
