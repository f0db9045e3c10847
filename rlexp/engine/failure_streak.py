"""Detects a streak of trials that fail for the same reason, which no tuner can avoid."""

import re
from collections.abc import Iterator

from rlexp.engine.search import Search
from rlexp.engine.trial_state import TrialProgress
from rlexp.records.events import Failure
from rlexp.records.run import RunRecord
from rlexp.records.trial import TrialState

_NUMBERS = re.compile(r"[-+]?\d[\d.,_]*(e[-+]?\d+)?")


def systematic_failure(search: Search) -> str | None:
    """Why the sweep should stop: `stop_after` trials in a row failed alike; None otherwise.

    NaN weights and invalid combinations are the fault of a configuration. They stop a sweep only if
    every trial after the default has failed in this way.
    """
    limit = search.question.plan.stop_after
    streak: list[tuple[int, str]] = []
    for number, reason, by_configuration in _failures(search):
        if streak and (streak[-1][0] != number - 1 or streak[-1][1] != reason):
            streak = []
        streak.append((number, reason))
        first = streak[0][0]
        if len(streak) >= limit and not (by_configuration and first > 1):
            return _message(search, first, len(streak))
    return None


def first_failed_run(search: Search) -> RunRecord | None:
    """The first failed run of the search; its log shows the error."""
    for entry in search.entries:
        if (record := _failed_run(entry)) is not None:
            return record
    return None


def _failures(search: Search) -> Iterator[tuple[int, str, bool]]:
    """The number of each failed trial, the reason, and whether its configuration is the cause."""
    for entry in search.entries:
        # A later trial may have ended first: without this stop, the streak would depend on speed.
        if entry.trial is None:
            return
        if entry.trial.state is TrialState.FAILED:
            record = _failed_run(entry)
            failure = record.failure if record else None
            # Two reasons that differ in numbers only, such as a step, count as the same.
            reason = _NUMBERS.sub("#", why_failed(entry))
            by_configuration = failure is Failure.NAN or entry.proposal.refused is not None
            yield entry.proposal.number, f"{failure}: {reason}", by_configuration


def _failed_run(entry: TrialProgress) -> RunRecord | None:
    records = (entry.records[p] for p in sorted(entry.records))
    return next((r for r in records if r.score is None and r.failure is not None), None)


def why_failed(entry: TrialProgress) -> str:
    """Why a trial failed, as text for a message."""
    record = _failed_run(entry)
    return entry.proposal.refused or (record.reason if record else None) or "no score"


def trial_reason(entry: TrialProgress) -> str | None:
    """Why a trial was pruned or failed, or None."""
    if entry.stop is not None:
        return f"at step {entry.stop.step:,}, {entry.stop.reason}"
    failed = entry.trial is not None and entry.trial.state is TrialState.FAILED
    return why_failed(entry) if failed else None


def _message(search: Search, first: int, count: int) -> str:
    return (
        f"{count} trials in a row failed alike, from trial {first} on: "
        f"{why_failed(search.entries[first])}"
    )
