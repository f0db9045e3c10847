"""How the attempts of a run began and ended, and what their checkpoints cost."""

from collections.abc import Sequence
from dataclasses import dataclass

from rlexp.app.execution.plans import RefusedCheckpoint
from rlexp.records.events import Checkpointed, Continued, Refused, RunStarted
from rlexp.records.run import RunRecord, State
from rlexp.store.runs import StoredAttempt, StoredRun


@dataclass(frozen=True, slots=True, kw_only=True)
class AttemptRow:
    """How one attempt of a run began and ended, by itself.

    Attributes:
        attempt: Its number.
        started: When it began, in seconds since 1970.
        began: Where it began (`step 0`, `checkpoint at step 40`).
        continued: The step of the checkpoint from which it continued, if it did.
        refused: Checkpoints that it did not continue from.
        drift: What had changed since the checkpoint from which it continued all the same.
        state: The state in which it left the run.
        failure: The kind of its failure.
        reason: Why it ended as it did.
        step: Environment steps that the run had at its end.
        seconds: Its duration in seconds, if its end was recorded.
        checkpoints: Checkpoints that it wrote.
        host: The machine on which it ran.
        pid: The number of its process.
    """

    attempt: int
    started: float | None
    began: str | None
    continued: int | None
    refused: tuple[RefusedCheckpoint, ...]
    drift: str | None
    state: str
    failure: str | None
    reason: str | None
    step: int
    seconds: float | None
    checkpoints: int
    host: str | None
    pid: int | None


@dataclass(frozen=True, slots=True, kw_only=True)
class CheckpointCost:
    """What the checkpoints of all attempts of a run cost.

    Attributes:
        count: Their number.
        seconds: What writing them took, in seconds.
        bytes: Their size, in bytes.
        share: `seconds` as a share of the duration of all attempts; nothing where no duration is
            known. The duration of an attempt that was killed is not known.
    """

    count: int
    seconds: float
    bytes: int
    share: float | None


def describe_attempts(
    stored: StoredRun, attempts: Sequence[StoredAttempt]
) -> tuple[AttemptRow, ...]:
    """Every attempt of a run, by itself."""
    return tuple(_attempt(attempt, attempts, stored) for attempt in attempts)


def checkpoint_cost(record: RunRecord, attempts: Sequence[StoredAttempt]) -> CheckpointCost | None:
    """What the checkpoints of all attempts cost; nothing where there was none."""
    events = [e for a in attempts for e in a.events if isinstance(e, Checkpointed)]
    if not events:
        return None
    seconds = sum(event.seconds for event in events)
    duration = record.seconds_spent
    return CheckpointCost(
        count=len(events),
        seconds=seconds,
        bytes=sum(event.bytes for event in events),
        share=seconds / duration if duration else None,
    )


def _attempt(
    attempt: StoredAttempt, attempts: Sequence[StoredAttempt], stored: StoredRun
) -> AttemptRow:
    alive = attempt is attempts[-1] and stored.record.state is State.RUNNING
    record = RunRecord.fold(stored.record.spec, [attempt.events], alive=alive)
    started = next((e for e in attempt.events if isinstance(e, RunStarted)), None)
    continued = next((e for e in attempt.events if isinstance(e, Continued)), None)
    refused = [e for e in attempt.events if isinstance(e, Refused)]
    return AttemptRow(
        attempt=attempt.paths.number,
        started=record.started,
        began=_began(started, continued, refused),
        continued=continued.step if continued else None,
        refused=tuple(RefusedCheckpoint(step=e.step, reason=e.reason) for e in refused),
        drift=continued.drift if continued else None,
        state=str(record.state),
        failure=record.failure,
        reason=record.reason if started else record.reason or "its process never began",
        step=stored.record.step if alive else record.step,
        seconds=record.seconds,
        checkpoints=sum(isinstance(e, Checkpointed) for e in attempt.events),
        host=started.host if started else None,
        pid=started.pid if started else None,
    )


def _began(
    started: RunStarted | None, continued: Continued | None, refused: Sequence[Refused]
) -> str | None:
    """Where an attempt began."""
    if started is None:
        return None
    if continued is not None:
        return f"checkpoint at step {continued.step:,}"
    return "step 0, checkpoint refused" if refused else "step 0"
