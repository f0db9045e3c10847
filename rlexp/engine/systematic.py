"""Whether trials fail for one and the same reason, which no tuner can do anything about."""

import re
from collections.abc import Iterator

from rlexp.engine.progress import Progress
from rlexp.engine.search import Search
from rlexp.records.events import Failure
from rlexp.records.run import RunRecord
from rlexp.records.trial import TrialState

_NUMBERS = re.compile(r"[-+]?\d[\d.,_]*(e[-+]?\d+)?")


def systematic_failure(search: Search) -> str | None:
    """Why the sweep is to stop: so many trials in a row failed alike; nothing where none did.

    Weights that are no numbers any more, and combinations that cannot be run, are what some
    configurations come to: they stop a sweep only where no trial but the default escapes them.
    """
    limit = search.question.plan.stop_after
    told: list[tuple[int, str, bool]] = []
    for number, why, own in _failures(search):
        if told and (told[-1][0] != number - 1 or told[-1][1] != why):
            told = []
        told.append((number, why, own))
        if len(told) >= limit and not (own and told[0][0] > 1):
            return _said(search, told[0][0], len(told))
    return None


def first_failed_run(search: Search) -> RunRecord | None:
    """The first run of the search that failed, whose log says more."""
    for entry in search.entries:
        if (record := _failed_run(entry)) is not None:
            return record
    return None


def _failures(search: Search) -> Iterator[tuple[int, str, bool]]:
    """Failed trials in order, with why, and whether the configuration itself is to blame.

    Two reasons that differ in numbers only are alike.
    """
    for entry in search.entries:
        if entry.trial is None:
            return
        if entry.trial.state is TrialState.FAILED:
            record = _failed_run(entry)
            failure = record.failure if record else None
            alike = _NUMBERS.sub("#", why_failed(entry))
            own = failure is Failure.NAN or entry.proposal.refused is not None
            yield entry.proposal.number, f"{failure}: {alike}", own


def _failed_run(entry: Progress) -> RunRecord | None:
    found = (entry.records[p] for p in sorted(entry.records))
    return next((r for r in found if r.score is None and r.failure is not None), None)


def why_failed(entry: Progress) -> str:
    """Why a trial failed, in words."""
    record = _failed_run(entry)
    return entry.proposal.refused or (record.reason if record else None) or "no score"


def _said(search: Search, first: int, count: int) -> str:
    return (
        f"{count} trials in a row failed alike, from trial {first} on: "
        f"{why_failed(search.entries[first])}"
    )
