"""A run while somebody executes it: what it is asked for, how far it is, who is told."""

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
from rlexp.store.lease import Held
from rlexp.store.runs import read_run

PROGRESS = struct.Struct("<qq")
"""What a progress file holds: environment steps, and heartbeats of any kind."""


@dataclass(slots=True)
class Running:
    """A run while its process lives."""

    spec: RunSpec
    attempt: AttemptPaths
    since: float
    timeout: float | None = None
    step: int = 0
    beats: int = -1
    beat_at: float = 0.0
    offset: int = 0
    evaluations: list[Evaluated] = field(default_factory=list)
    ends_early: bool = False
    killed_as: Failure | None = None
    stopped: bool = False

    @property
    def last(self) -> Evaluated | None:
        """Its last evaluation during training."""
        return self.evaluations[-1] if self.evaluations else None

    def has_reached(self, rung: int | None) -> bool:
        """Whether this attempt has the evaluation that the run is judged by.

        After a crash the next attempt has to come to it again: it is part of the record.
        """
        return rung is None or (self.last is not None and self.last.step >= rung)


@dataclass(frozen=True, slots=True, kw_only=True)
class Orders:
    """What the attempts are asked for besides their runs."""

    settings: Mapping[str, Any]
    provenance: Mapping[str, Any]
    patch: str
    timeout: float | None


class Claimer(Protocol):
    """Claims a run for this loop; told what to do when the claim is lost to another."""

    def __call__(self, paths: RunPaths, on_loss: Callable[[], None]) -> Held | None:
        """The claim, or nothing where another process holds it."""
        ...


class Watcher(Protocol):
    """Told how things stand, several times a second; shows it."""

    def update(self, running: Sequence[Running], waiting: int) -> None:
        """What runs now, and how many runs wait."""
        ...

    def ended(self, record: RunRecord, *, again: bool) -> None:
        """A run's attempt ended; `again` says whether another follows."""
        ...


def read_news(experiment: ExperimentPaths, running: Running) -> bool:
    """Read what a run wrote since the last look; returns whether that was its end."""
    lines, running.offset = follow(running.attempt.journal, running.offset)
    is_over = False
    for event in events_of(lines):
        if isinstance(event, Evaluated) and not event.final:
            running.evaluations.append(event)
        elif isinstance(event, Continued):
            # What the run had shown before is part of its record again.
            record = read_run(experiment.run(running.spec.name), running.spec).record
            running.evaluations = [e for e in record.evaluations if e.step <= event.step]
        is_over = is_over or isinstance(event, RunEnded)
    return is_over


def read_progress(path: Path) -> tuple[int, int]:
    """Environment steps and heartbeats of a run; (0, -1) before its first sign of life."""
    try:
        content = path.read_bytes()
        step, beats = PROGRESS.unpack(content)
    except (OSError, struct.error):
        return 0, -1
    return step, beats
