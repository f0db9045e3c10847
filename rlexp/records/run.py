"""The record of a run: the fold of the events of its attempts, in order."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field, replace
from enum import StrEnum
from itertools import pairwise
from math import isfinite

from rlexp.protocol.spec import RunSpec
from rlexp.records.events import (
    Checkpointed,
    Evaluated,
    Event,
    Failure,
    Measured,
    RunEnded,
    RunStarted,
)

LARGEST_SCORE = 1e90
"""What is larger is no score: differences and sums of such numbers overflow."""
FURTHER_ATTEMPTS = 2
"""How often a run is tried again after the machine failed it."""
WINDOW = 0.1
"""The part of training, at its end, that the score `last_window` averages."""


class State(StrEnum):
    """Where a run stands."""

    PLANNED = "planned"
    RUNNING = "running"
    COMPLETED = "completed"
    FAILED = "failed"
    PRUNED = "pruned"
    INTERRUPTED = "interrupted"
    LOST = "lost"


@dataclass(frozen=True, slots=True, kw_only=True)
class RunRecord:
    """What is known of a run. A failure is never a score."""

    spec: RunSpec
    state: State = State.PLANNED
    failure: Failure | None = None
    reason: str | None = None
    attempts: int = 0
    machine_failures: int = 0
    step: int = 0
    started: float | None = None
    ended: float | None = None
    seconds: float | None = None
    weights: str | None = None
    evaluations: tuple[Evaluated, ...] = ()
    final: Evaluated | None = None
    measurements: tuple[Measured, ...] = field(default=(), repr=False)
    checkpoints: tuple[Checkpointed, ...] = ()
    spent: int = 0
    """Environment steps that were really trained, all attempts included."""
    seconds_spent: float = 0.0
    """Seconds that all attempts took together, those that were killed without a word left out."""

    @classmethod
    def fold(
        cls,
        spec: RunSpec,
        attempts: Sequence[Iterable[Event]],
        *,
        alive: bool = False,
    ) -> "RunRecord":
        """Fold the events of the attempts, lowest number first.

        From an attempt that was continued at step s by the next, only what happened up to s
        counts; one that was restarted counts for nothing but its failure. `alive` says whether
        a process holds the run now: an attempt without an end is running then, else lost.
        """
        record = cls(spec=spec)
        for events in attempts:
            record = _attempt(record, events)
        lost = record.state is State.RUNNING and not alive
        return replace(record, state=State.LOST) if lost else record

    @property
    def score(self) -> float | None:
        """The score as the budget declares it, of a completed run; nothing for any other.

        What is no finite number, or one beyond 1e90, is no score.
        """
        score = self._declared_score() if self.state is State.COMPLETED else None
        return score if score is not None and abs(score) <= LARGEST_SCORE else None

    def may_run(self, *, retry: bool = False) -> bool:
        """Whether the run is to be attempted (again); `retry` tries final failures too.

        What the machine failed gets two further attempts, what was interrupted or lost by a dead
        command is simply continued, and what the configuration failed stays failed.
        """
        match self.state:
            case State.COMPLETED | State.PRUNED:
                return False
            case State.FAILED if self.failure is Failure.DISK:
                return True
            case State.FAILED:
                by_machine = self.failure is not None and self.failure.of_the_machine
                return retry or (by_machine and self.machine_failures <= FURTHER_ATTEMPTS)
            case _:
                return True

    @property
    def scoreless(self) -> bool:
        """Whether it ended for good without a score: failed, or completed with no number."""
        ended = self.state in {State.FAILED, State.COMPLETED}
        return ended and self.score is None and not self.may_run()

    def _declared_score(self) -> float | None:
        match self.spec.budget["score"]:
            case "final":
                return self.final.mean if self.final else None
            case "auc":
                return area_under_curve(self.evaluations)
            case _:
                return last_window(self.evaluations, self.spec.budget["steps"])


def _attempt(record: RunRecord, events: Iterable[Event]) -> RunRecord:
    record = replace(
        record,
        state=State.RUNNING,
        attempts=record.attempts + 1,
        failure=None,
        reason=None,
        ended=None,
    )
    begun = record.step
    measurements: list[Measured] = []
    for event in events:
        if isinstance(event, RunStarted):
            begun = event.continued_from or 0
        # Gathered, for there can be very many.
        if isinstance(event, Measured):
            measurements.append(event)
        else:
            record = _apply(record, event)
    step = max([record.step, *(event.step for event in measurements)])
    return replace(
        record,
        step=step,
        spent=record.spent + max(step - begun, 0),
        measurements=(*record.measurements, *measurements),
    )


def _apply(
    record: RunRecord,
    event: RunStarted | Evaluated | Checkpointed | RunEnded,
) -> RunRecord:
    match event:
        case RunStarted():
            return _start(record, event)
        case Evaluated(final=True):
            return replace(record, step=event.step, final=event)
        case Evaluated():
            return replace(record, step=event.step, evaluations=(*record.evaluations, event))
        case Checkpointed():
            return replace(record, checkpoints=(*record.checkpoints, event))
        case RunEnded():
            return _end(record, event)


def _start(record: RunRecord, event: RunStarted) -> RunRecord:
    kept = event.continued_from if event.continued_from is not None else -1
    return replace(
        record,
        step=max(kept, 0),
        started=event.time if record.started is None or kept < 0 else record.started,
        seconds=None,
        weights=None,
        final=None,
        evaluations=tuple(e for e in record.evaluations if e.step <= kept),
        measurements=tuple(e for e in record.measurements if e.step <= kept),
        checkpoints=tuple(e for e in record.checkpoints if e.step <= kept),
    )


def _end(record: RunRecord, event: RunEnded) -> RunRecord:
    seconds = event.seconds if isfinite(event.seconds) else None
    # A full disk says nothing of the run: it costs no attempt.
    counted = event.failure is not None and event.failure is not Failure.DISK
    failed_by_machine = counted and event.failure is not None and event.failure.of_the_machine
    return replace(
        record,
        state=State(event.ending),
        failure=event.failure,
        reason=event.reason,
        step=max(event.step, record.step),
        ended=event.time,
        seconds=seconds,
        seconds_spent=record.seconds_spent + (seconds or 0.0),
        weights=event.weights,
        evaluations=_until(record.evaluations, event.rung),
        machine_failures=record.machine_failures + failed_by_machine,
    )


def _until(evaluations: tuple[Evaluated, ...], rung: int | None) -> tuple[Evaluated, ...]:
    return evaluations if rung is None else tuple(e for e in evaluations if e.step <= rung)


def area_under_curve(evaluations: Sequence[Evaluated]) -> float | None:
    """Mean height of the evaluation curve by the trapezoidal rule, in units of the return."""
    if not evaluations:
        return None
    first, last = evaluations[0], evaluations[-1]
    if first.step == last.step:
        return last.mean
    area = sum((b.step - a.step) * (a.mean + b.mean) / 2 for a, b in pairwise(evaluations))
    return area / (last.step - first.step)


def last_window(evaluations: Sequence[Evaluated], steps: int) -> float | None:
    """Mean return of the evaluations in the last tenth of `steps`, or of the last one."""
    window = [e for e in evaluations if e.step > steps * (1 - WINDOW)] or list(evaluations[-1:])
    return sum(e.mean for e in window) / len(window) if window else None
