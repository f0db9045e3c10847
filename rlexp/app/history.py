"""How the attempts of a run began and ended, and what their checkpoints cost."""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from rlexp.records.events import Checkpointed, Continued, Refused, RunStarted
from rlexp.records.run import RunRecord, State
from rlexp.store.runs import StoredAttempt, StoredRun


def describe_attempts(
    stored: StoredRun, attempts: Sequence[StoredAttempt]
) -> list[dict[str, Any]]:
    """Every attempt of a run, by itself, as plain values."""
    return [_attempt(attempt, attempts, stored) for attempt in attempts]


def describe_checkpoints(
    record: RunRecord, attempts: Sequence[StoredAttempt]
) -> dict[str, Any] | None:
    """What the checkpoints of all attempts cost; nothing where there was none.

    Returns:
        Their number, seconds and bytes, and the share of the time that the run took, all
        attempts together: what an attempt took that was killed without a word is not known.
    """
    events = [e for a in attempts for e in a.events if isinstance(e, Checkpointed)]
    if not events:
        return None
    seconds = sum(event.seconds for event in events)
    taken = record.seconds_spent
    return {
        "count": len(events),
        "seconds": seconds,
        "bytes": sum(event.bytes for event in events),
        "share": seconds / taken if taken else None,
    }


def describe_past(record: RunRecord) -> dict[str, Any]:
    """How attempts after the first began, as plain values."""
    return {
        "continued": [event.step for event in record.continuations],
        "restarts": record.restarts,
        "refused": [{"step": e.step, "reason": e.reason} for e in record.refused],
        "drift": [event.drift for event in record.continuations if event.drift],
    }


def tell_attempts(history: Sequence[Mapping[str, Any]]) -> Iterator[str]:
    """Why checkpoints were not continued from, and what had changed since others, a line each."""
    for attempt in history:
        number = attempt["attempt"]
        for refused in attempt["refused"]:
            yield (
                f"attempt {number}: the checkpoint at step {refused['step']:,} was refused: "
                f"{refused['reason']}"
            )
        if attempt["drift"]:
            yield f"attempt {number} continued with other versions: {attempt['drift']}"


def _attempt(
    attempt: StoredAttempt, attempts: Sequence[StoredAttempt], stored: StoredRun
) -> dict[str, Any]:
    """How one attempt began and ended, by itself."""
    alive = attempt is attempts[-1] and stored.record.state is State.RUNNING
    record = RunRecord.fold(stored.record.spec, [attempt.events], alive=alive)
    started = next((e for e in attempt.events if isinstance(e, RunStarted)), None)
    continued = next((e for e in attempt.events if isinstance(e, Continued)), None)
    refused = [e for e in attempt.events if isinstance(e, Refused)]
    return {
        "attempt": attempt.paths.number,
        "started": record.started,
        "began": _began(started, continued, refused),
        "continued": continued.step if continued else None,
        "refused": [{"step": e.step, "reason": e.reason} for e in refused],
        "drift": continued.drift if continued else None,
        "state": str(record.state),
        "failure": record.failure,
        "reason": record.reason if started else record.reason or "its process never began",
        "step": stored.record.step if alive else record.step,
        "seconds": record.seconds,
        "checkpoints": sum(isinstance(e, Checkpointed) for e in attempt.events),
        "host": started.host if started else None,
        "pid": started.pid if started else None,
    }


def _began(
    started: RunStarted | None, continued: Continued | None, refused: Sequence[Refused]
) -> str | None:
    """Where an attempt began, in words."""
    if started is None:
        return None
    if continued is not None:
        return f"checkpoint at step {continued.step:,}"
    return "step 0, checkpoint refused" if refused else "step 0"
