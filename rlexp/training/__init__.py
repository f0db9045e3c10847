"""Training: builds the parts of a run, learns, evaluates, and tells a listener what happens."""

from collections.abc import Callable
from pathlib import Path
from typing import Protocol

from rlexp.records.checkpoint import Checkpoint
from rlexp.records.events import Event, StopRequest


class Listener(Protocol):
    """What a training tells the world, and what the world may ask of it.

    One thread calls it: the one that trains.
    """

    def emit(self, event: Event) -> None:
        """Record an event; raises OSError when it cannot be recorded."""
        ...

    def publish(self, name: str, write: Callable[[Path], object]) -> None:
        """Publish a file of the run under `name`, whole or not at all."""
        ...

    def checkpoint(self, checkpoint: Checkpoint) -> int:
        """Publish a checkpoint, whole or not at all; returns the bytes written."""
        ...

    def goes_on_from(self, step: int | None) -> None:
        """The attempt goes on from the checkpoint at `step`, or begins anew: then it keeps them all."""
        ...

    def beat(self, step: int) -> None:
        """Say that the run is alive and has taken `step` environment steps."""
        ...

    def stopping(self) -> StopRequest | None:
        """How and why the run is to end at this step, or nothing; cheap enough for every step."""
        ...

    def now(self) -> float:
        """Seconds since 1970."""
        ...

    def elapsed(self) -> float:
        """Seconds since the attempt began, by a clock that nobody sets."""
        ...
