"""The record of a run, computed from the events of its attempts in order."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from enum import StrEnum
from itertools import pairwise
from math import isfinite

from rlexp.protocol.measures import TRAINING_SHIFT, quantity_of, results_among
from rlexp.protocol.spec import RunSpec
from rlexp.records.context_returns import worst_context
from rlexp.records.events import (
    Checkpointed,
    Continued,
    Evaluated,
    Event,
    Examined,
    Failure,
    Inherited,
    Measured,
    Refused,
    RunEnded,
    RunStarted,
)

WINDOW = 0.1
"""Fraction of training, at its end, over which the score `last_window` averages."""


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
    """Mean return of the evaluations in the last tenth of `steps`; of the last one if none is."""
    window = [e for e in evaluations if e.step > steps * (1 - WINDOW)] or list(evaluations[-1:])
    return sum(e.mean for e in window) / len(window) if window else None


LARGEST_SCORE = 1e90
"""A larger score counts as missing: differences and sums of such numbers could overflow."""
FURTHER_ATTEMPTS = 2
"""Number of further attempts of a run after failures of the machine."""


class State(StrEnum):
    """State of a run."""

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
    """Values of a record that would need its evaluations and checkpoints.

    Attributes:
        score: The score of the run.
        last: Time of the last event of the run, in seconds since 1970.
        measures: Mean of each measure over the final evaluation.
    """

    score: float | None
    last: float | None
    measures: Mapping[str, float] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class RunRecord:
    """The record of a run. A failed run has no score."""

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
    """Episodes of the final policy on distributions other than that of the score."""
    measurements: tuple[Measured, ...] = field(default=(), repr=False)
    checkpoints: tuple[Checkpointed, ...] = ()
    continuations: tuple[Continued, ...] = ()
    """Continuations from a checkpoint, of all attempts."""
    refused: tuple[Refused, ...] = ()
    """Checkpoints from which an attempt did not continue, of all attempts."""
    inherited: Inherited | None = None
    """Where the events of the parent end; None for a run without a parent."""
    restarts: int = 0
    """Number of attempts that started again at step 0 after an earlier attempt."""
    begun: int = 0
    """Step at which the last attempt began."""
    spent: int = 0
    """Environment steps trained by all attempts, repeated ones included."""
    seconds_spent: float = 0.0
    """Duration of all attempts, without those that were killed and recorded no end."""
    acted: Mapping[str, int] | None = None
    """How often each callback, component and teacher that counts it has acted; see `RunEnded`."""
    training_shift: float | None = None
    """Divergence between the contexts or levels of training and their target; see `RunEnded`."""
    brief: Brief | None = None
    """Replaces evaluations, examinations, measurements and checkpoints that are left out."""

    @classmethod
    def fold(
        cls,
        spec: RunSpec,
        attempts: Sequence[Iterable[Event]],
        *,
        alive: bool = False,
    ) -> "RunRecord":
        """The record after the events of the attempts, lowest number first.

        If an attempt continued at step s, the events of earlier attempts up to s count. If it began
        anew, only the failures of earlier attempts count. `alive` says whether a process holds the
        run now: an attempt without an end is then running, and lost otherwise.
        """
        record, past = cls(spec=spec), _Past()
        for events in attempts:
            record = _attempt(record, events, past)
        lost = record.state is State.RUNNING and not alive
        return replace(record, state=State.LOST) if lost else record

    @property
    def score(self) -> float | None:
        """The score that the budget declares, of a completed run; None for any other.

        A number that is not finite or beyond 1e90 counts as missing.
        """
        if self.brief is not None:
            return self.brief.score
        score = self._declared_score() if self.state is State.COMPLETED else None
        # The comparison is False for NaN, which is therefore no score.
        return score if score is not None and abs(score) <= LARGEST_SCORE else None

    @property
    def measures(self) -> Mapping[str, float]:
        """Mean of each measure over the episodes of the final evaluation that report it.

        Contexts are no results, and are left out, as are means that are no possible score. Where
        the episodes had several contexts, the worst mean return of one is a measure, too. Where
        training played contexts or levels, its shift is a measure of the run.
        """
        if self.brief is not None:
            return self.brief.measures
        if self.final is None:
            return {}
        names = results_among(self.final.measures or {})
        means = {name: self.final.mean_of_reported(name) for name in names}
        usable = {n: m for n, m in means.items() if m is not None and abs(m) <= LARGEST_SCORE}
        measures = {**usable, **worst_context(self.final, LARGEST_SCORE)}
        shift = self.training_shift
        return measures if shift is None else {**measures, TRAINING_SHIFT: shift}

    @property
    def last(self) -> float | None:
        """Time of the last event of the run, in seconds since 1970."""
        if self.brief is not None:
            return self.brief.last
        events = (*self.evaluations[-1:], *self.checkpoints[-1:], self.final)
        times = [self.started, self.ended, *(e.time for e in events if e)]
        return max((t for t in times if t is not None), default=None)

    @property
    def is_over(self) -> bool:
        """Whether the run is finished, so that only `--retry` can change it."""
        return self.state in OVER and not self.may_run()

    def in_brief(self) -> "RunRecord":
        """The record of a finished run without its evaluations, measurements and checkpoints."""
        return replace(
            self,
            evaluations=(),
            final=None,
            examinations=(),
            measurements=(),
            checkpoints=(),
            brief=Brief(self.score, self.last, self.measures),
        )

    def may_run(self, *, retry: bool = False) -> bool:
        """Whether the run should be attempted (again); `retry` includes final failures.

        A failure of the machine gets two further attempts. An interrupted or lost run is always
        continued. A failure of the configuration is final.
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
        """Whether the run is finished without a score: failed, or completed with a NaN."""
        ended = self.state in {State.FAILED, State.COMPLETED}
        return ended and self.score is None and not self.may_run()

    def _declared_score(self) -> float | None:
        match self.spec.budget["score"]:
            case "auc":
                return area_under_curve(self.evaluations)
            case "last_window":
                return last_window(self.evaluations, self.spec.budget["steps"])
            case _:
                quantity = quantity_of(self.spec.budget["score"])
                return self.final.mean_of(quantity) if self.final else None


@dataclass(slots=True)
class _Past:
    """Records after each earlier attempt, including attempts that do not count any more.

    They are all kept, because a checkpoint may come from any of them: between the attempt that
    made it and the one that continues from it, others may have died early or begun anew.
    """

    started: float | None = None
    ends: dict[int, RunRecord] = field(default_factory=dict)

    def add(self, attempt: int, record: RunRecord) -> None:
        self.started = record.started if self.started is None else self.started
        self.ends[attempt] = record

    def unreported(self, event: Continued) -> int:
        """Steps before the checkpoint that the killed attempt trained after its last report.

        They count once, also if several attempts continue from the same checkpoint.
        """
        before = self.ends.get(event.attempt)
        if before is None or event.step <= before.step:
            return 0
        self.ends[event.attempt] = replace(before, step=event.step)
        return event.step - before.step

    def until(self, record: RunRecord, event: Continued) -> RunRecord:
        """The record with the events up to the checkpoint."""
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
        # Only `--retry` starts an attempt after a final failure; it gives new further attempts.
        machine_failures=record.machine_failures if record.may_run() else 0,
        failure=None,
        reason=None,
        ended=None,
    )
    begun, again, number = record.step, record.started is not None, record.attempts
    refused, continued = len(record.refused), len(record.continuations)
    measurements: list[Measured] = []
    pending: list[Evaluated | Checkpointed] = []
    for event in events:
        # Frequent events are collected in lists: a new record for each of them would copy ever
        # longer tuples, in quadratic time.
        if isinstance(event, Measured):
            measurements.append(event)
            continue
        if isinstance(event, Checkpointed) or (isinstance(event, Evaluated) and not event.final):
            pending.append(event)
            continue
        record = _with(record, pending)
        pending.clear()
        if isinstance(event, RunStarted):
            begun, number = 0, event.attempt
        elif isinstance(event, Continued):
            begun = event.step
            record = replace(
                past.until(record, event), spent=record.spent + past.unreported(event)
            )
        elif isinstance(event, Inherited):
            # The parent has trained the steps before, so that this run has not spent them.
            begun = event.step
            record = replace(record, step=event.step, inherited=event)
            continue
        record = _apply(record, event)
    record = _with(record, pending)
    step = max([record.step, *(event.step for event in measurements)])
    # An attempt that died before it trained has neither continued nor begun anew.
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


def _with(record: RunRecord, pending: Sequence[Evaluated | Checkpointed]) -> RunRecord:
    """The record with further evaluations during training and checkpoints, in order."""
    if not pending:
        return record
    evaluations = [e for e in pending if isinstance(e, Evaluated)]
    return replace(
        record,
        step=evaluations[-1].step if evaluations else record.step,
        evaluations=(*record.evaluations, *evaluations),
        checkpoints=(*record.checkpoints, *(e for e in pending if isinstance(e, Checkpointed))),
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
        acted=None,
        training_shift=None,
        final=None,
        evaluations=(),
        examinations=(),
        measurements=(),
        checkpoints=(),
    )


def _end(record: RunRecord, event: RunEnded) -> RunRecord:
    seconds = event.seconds if isfinite(event.seconds) else None
    # A full disk is not a property of the run: it uses up no attempt.
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
        acted=event.acted,
        training_shift=event.training_shift,
        evaluations=_until(record.evaluations, event.rung),
        machine_failures=record.machine_failures + failed_by_machine,
    )


def _until(evaluations: tuple[Evaluated, ...], rung: int | None) -> tuple[Evaluated, ...]:
    return evaluations if rung is None else tuple(e for e in evaluations if e.step <= rung)
