"""Training: builds the parts of a run, trains, evaluates, and reports events to a listener."""

from collections.abc import Callable
from pathlib import Path
from typing import Protocol

from rlexp.records.checkpoint import Checkpoint
from rlexp.records.events import Event, StopRequest


class Listener(Protocol):
    """Receives the events of a training, and gives it stop requests and the time.

    Only the training thread calls it.
    """

    def emit(self, event: Event) -> None:
        """Record an event; raises OSError when it cannot be recorded."""
        ...

    def publish(self, name: str, write: Callable[[Path], object]) -> None:
        """Publish a file of the run under `name` atomically."""
        ...

    def checkpoint(self, checkpoint: Checkpoint) -> int:
        """Publish a checkpoint atomically; returns the bytes written."""
        ...

    def goes_on_from(self, step: int | None) -> None:
        """Receive the step of the restored checkpoint; None says that training starts from scratch.

        Without a restored checkpoint the listener keeps all checkpoints of earlier attempts.
        """
        ...

    def beat(self, step: int) -> None:
        """Record a heartbeat at `step` environment steps."""
        ...

    def stopping(self) -> StopRequest | None:
        """The pending stop request, or None; cheap enough to call at every step."""
        ...

    def now(self) -> float:
        """Seconds since 1970."""
        ...

    def elapsed(self) -> float:
        """Seconds since the attempt began, measured by a monotonic clock."""
        ...
