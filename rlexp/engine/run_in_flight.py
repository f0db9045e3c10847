"""State of a run in progress, its settings and its observer."""

import struct
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Protocol

from rlexp.protocol.spec import RunSpec
from rlexp.records.events import Continued, Evaluated, Failure, RunEnded
from rlexp.records.run import RunRecord
from rlexp.store.journal import events_of, follow
from rlexp.store.layout import AttemptPaths, ExperimentPaths, RunPaths
from rlexp.store.locks.lease import Lease
from rlexp.store.runs import read_run

# Byte order and sizes are fixed, because a worker may write the file on another machine.
PROGRESS = struct.Struct("<qq")
"""Format of a progress file: environment steps, and a counter of heartbeats."""


@dataclass(slots=True)
class RunInFlight:
    """A run in progress.

    Attributes:
        spec: The definition of the run.
        attempt: The present attempt.
        since: When the attempt began, on the monotonic clock.
        timeout: Time limit of the attempt in seconds.
        step: Environment steps so far.
        first_step: Environment steps of the checkpoint from which the attempt continued, or 0.
        beats: Counter of heartbeats at the last look; -1 before the first heartbeat.
        beat_at: When the counter last changed, on the monotonic clock.
        offset: Bytes of the journal that were read.
        evaluations: Evaluations during training so far.
        ends_early: Whether the run was asked to end because its trial was pruned.
        killed_as: The failure for which the loop killed the process.
        stopped: Whether the run was asked to end with the command.
    """

    spec: RunSpec
    attempt: AttemptPaths
    since: float
    timeout: float | None = None
    step: int = 0
    first_step: int = 0
    beats: int = -1
    beat_at: float = 0.0
    offset: int = 0
    evaluations: list[Evaluated] = field(default_factory=list)
    ends_early: bool = False
    killed_as: Failure | None = None
    stopped: bool = False

    @property
    def last(self) -> Evaluated | None:
        """The last evaluation during training."""
        return self.evaluations[-1] if self.evaluations else None

    def has_reached(self, rung: int | None) -> bool:
        """Whether this attempt has the evaluation at environment step `rung`.

        The record of a pruned run ends at this evaluation: after a crash, the next attempt must
        reach it again before it may end.
        """
        return rung is None or (self.last is not None and self.last.step >= rung)


@dataclass(frozen=True, slots=True, kw_only=True)
class AttemptSettings:
    """Settings and provenance of a run's attempts, which are not part of the run."""

    settings: Mapping[str, Any]
    provenance: Mapping[str, Any]
    patch: str
    timeout: float | None


class ClaimRun(Protocol):
    """Claims runs for a loop."""

    def __call__(self, paths: RunPaths, on_loss: Callable[[], None]) -> Lease | None:
        """The claim, or None where another process holds it; `on_loss` is called if it is lost."""
        ...


class Watcher(Protocol):
    """Receives progress updates several times per second and displays them."""

    def update(self, running: Sequence[RunInFlight], waiting: int) -> None:
        """Show the runs in progress, and the number of waiting runs."""
        ...

    def ended(self, record: RunRecord, *, again: bool) -> None:
        """Show that an attempt ended; `again` says whether another attempt follows."""
        ...


def read_new_events(experiment: ExperimentPaths, running: RunInFlight) -> bool:
    """Read the events since the last call; returns whether the attempt has ended."""
    lines, running.offset = follow(running.attempt.journal, running.offset)
    is_over = False
    for event in events_of(lines):
        if isinstance(event, Evaluated) and not event.final:
            running.evaluations.append(event)
        elif isinstance(event, Continued):
            # A resumed attempt keeps the evaluations of earlier attempts up to its checkpoint.
            record = read_run(experiment.run(running.spec.name), running.spec).record
            running.evaluations = [e for e in record.evaluations if e.step <= event.step]
            running.first_step = event.step
        is_over = is_over or isinstance(event, RunEnded)
    return is_over


def read_progress(path: Path) -> tuple[int, int]:
    """Environment steps and heartbeats of a run; (0, -1) before its first heartbeat."""
    try:
        content = path.read_bytes()
        step, beats = PROGRESS.unpack(content)
    except (OSError, struct.error):
        return 0, -1
    return step, beats
