"""The record of a run: the fold of the events of its attempts, in order."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field, replace
from enum import StrEnum
from itertools import pairwise
from math import isfinite

from rlexp.protocol.spec import RunSpec
from rlexp.records.events import (
    Checkpointed,
    Continued,
    Evaluated,
    Event,
    Examined,
    Failure,
    Measured,
    Refused,
    RunEnded,
    RunStarted,
)

WINDOW = 0.1
"""The part of training, at its end, that the score `last_window` averages."""


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


LARGEST_SCORE = 1e90
"""What is larger is no score: differences and sums of such numbers overflow."""
FURTHER_ATTEMPTS = 2
"""How often a run is tried again after the machine failed it."""


class State(StrEnum):
    """Where a run stands."""

    PLANNED = "planned"
    RUNNING = "running"
    COMPLETED = "completed"
    FAILED = "failed"
    PRUNED = "pruned"
    INTERRUPTED = "interrupted"
    LOST = "lost"


OVER = frozenset({State.COMPLETED, State.PRUNED, State.FAILED})


@dataclass(frozen=True, slots=True)
class Brief:
    """What a record tells without its evaluations and checkpoints.

    Attributes:
        score: The score of the run.
        last: When it was last known to do something, in seconds since 1970.
    """

    score: float | None
    last: float | None


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
    examinations: tuple[Examined, ...] = ()
    """Of the final policy on other distributions than that of the score."""
    measurements: tuple[Measured, ...] = field(default=(), repr=False)
    checkpoints: tuple[Checkpointed, ...] = ()
    continuations: tuple[Continued, ...] = ()
    """Where attempts went on from a checkpoint, of all attempts."""
    refused: tuple[Refused, ...] = ()
    """Checkpoints that were not continued from, of all attempts."""
    restarts: int = 0
    """Attempts that began at the first step though an earlier one had begun before."""
    begun: int = 0
    """The step at which the last attempt began."""
    spent: int = 0
    """Environment steps that were really trained, all attempts included."""
    seconds_spent: float = 0.0
    """Seconds that all attempts took together, those that were killed without a word left out."""
    brief: Brief | None = None
    """What stands for evaluations, examinations, measurements and checkpoints that are left out."""

    @classmethod
    def fold(
        cls,
        spec: RunSpec,
        attempts: Sequence[Iterable[Event]],
        *,
        alive: bool = False,
    ) -> "RunRecord":
        """Fold the events of the attempts, lowest number first.

        Of the attempts before one that continued at step s, what happened up to s counts;
        before one that began anew they count for nothing but their failures. `alive` says whether
        a process holds the run now: an attempt without an end is running then, else lost.
        """
        record, past = cls(spec=spec), _Past()
        for events in attempts:
            record = _attempt(record, events, past)
        lost = record.state is State.RUNNING and not alive
        return replace(record, state=State.LOST) if lost else record

    @property
    def score(self) -> float | None:
        """The score as the budget declares it, of a completed run; nothing for any other.

        What is no finite number, or one beyond 1e90, is no score.
        """
        if self.brief is not None:
            return self.brief.score
        score = self._declared_score() if self.state is State.COMPLETED else None
        return score if score is not None and abs(score) <= LARGEST_SCORE else None

    @property
    def last(self) -> float | None:
        """When the run was last known to do something, in seconds since 1970."""
        if self.brief is not None:
            return self.brief.last
        events = (*self.evaluations[-1:], *self.checkpoints[-1:], self.final)
        times = [self.started, self.ended, *(e.time for e in events if e)]
        return max((t for t in times if t is not None), default=None)

    @property
    def is_over(self) -> bool:
        """Whether nothing but `--retry` will change it."""
        return self.state in OVER and not self.may_run()

    def in_brief(self) -> "RunRecord":
        """The record of a run that is over, without what it was told step by step."""
        return replace(
            self,
            evaluations=(),
            final=None,
            examinations=(),
            measurements=(),
            checkpoints=(),
            brief=Brief(self.score, self.last),
        )

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


@dataclass(slots=True)
class _Past:
    """Earlier attempts as they ended, whether they count now or not.

    A continued attempt may follow one that died before it could say where it went on, or one that
    began anew: what counts is what led to the checkpoint.
    """

    started: float | None = None
    ends: dict[int, RunRecord] = field(default_factory=dict)

    def add(self, attempt: int, record: RunRecord) -> None:
        self.started = record.started if self.started is None else self.started
        self.ends[attempt] = record

    def until(self, record: RunRecord, event: Continued) -> RunRecord:
        """The record with what had happened before the checkpoint."""
        before = self.ends.get(event.attempt, RunRecord(spec=record.spec))
        return replace(
            record,
            step=event.step,
            started=record.started if self.started is None else self.started,
            evaluations=tuple(e for e in before.evaluations if e.step <= event.step),
            measurements=tuple(e for e in before.measurements if e.step <= event.step),
            checkpoints=tuple(e for e in before.checkpoints if e.step <= event.step),
        )


def _attempt(record: RunRecord, events: Iterable[Event], past: _Past) -> RunRecord:
    record = replace(
        record,
        state=State.RUNNING,
        attempts=record.attempts + 1,
        failure=None,
        reason=None,
        ended=None,
    )
    begun, again, number = record.step, record.started is not None, record.attempts
    refused, continued = len(record.refused), len(record.continuations)
    measurements: list[Measured] = []
    told: list[Evaluated | Checkpointed] = []
    for event in events:
        # Gathered, for there can be very many.
        if isinstance(event, Measured):
            measurements.append(event)
            continue
        if isinstance(event, Checkpointed) or (isinstance(event, Evaluated) and not event.final):
            told.append(event)
            continue
        record = _with(record, told)
        told.clear()
        if isinstance(event, RunStarted):
            begun, number = 0, event.attempt
        elif isinstance(event, Continued):
            begun = event.step
            record = past.until(record, event)
        record = _apply(record, event)
    record = _with(record, told)
    step = max([record.step, *(event.step for event in measurements)])
    # One that died before it trained has neither continued nor begun anew.
    anew = again and len(record.continuations) == continued
    anew = anew and (step > begun or len(record.refused) > refused)
    record = replace(
        record,
        step=step,
        begun=begun,
        restarts=record.restarts + anew,
        spent=record.spent + max(step - begun, 0),
        measurements=(*record.measurements, *measurements),
    )
    past.add(number, record)
    return record


def _with(record: RunRecord, told: Sequence[Evaluated | Checkpointed]) -> RunRecord:
    """The record with evaluations during training and checkpoints, in their order."""
    if not told:
        return record
    evaluations = [e for e in told if isinstance(e, Evaluated)]
    return replace(
        record,
        step=evaluations[-1].step if evaluations else record.step,
        evaluations=(*record.evaluations, *evaluations),
        checkpoints=(*record.checkpoints, *(e for e in told if isinstance(e, Checkpointed))),
    )


def _apply(
    record: RunRecord, event: RunStarted | Refused | Continued | Evaluated | Examined | RunEnded
) -> RunRecord:
    match event:
        case RunStarted():
            return _start(record, event)
        case Refused():
            return replace(record, refused=(*record.refused, event))
        case Continued():
            return replace(record, continuations=(*record.continuations, event))
        case Evaluated():
            return replace(record, step=event.step, final=event)
        case Examined():
            return replace(record, examinations=(*record.examinations, event))
        case RunEnded():
            return _end(record, event)


def _start(record: RunRecord, event: RunStarted) -> RunRecord:
    return replace(
        record,
        step=0,
        started=event.time,
        seconds=None,
        weights=None,
        final=None,
        evaluations=(),
        examinations=(),
        measurements=(),
        checkpoints=(),
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
