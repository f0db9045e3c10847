"""Counts of runs that continued from a checkpoint or restarted, with the reasons."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from rlexp.records.run import RunRecord
from rlexp.text import format_count

REASONS = 3
"""Number of reasons that a line lists one by one."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RestartCounts:
    """Counts of runs by the beginning of their further attempts.

    Attributes:
        continued: Runs with an attempt that continued from a checkpoint.
        restarted: Runs with an attempt from step 0 although an earlier one had got further.
        refused: Runs with a refused checkpoint.
        reasons: Reasons of refusals, most frequent first.
        drifted: Runs that continued with changed packages or code.
        changes: The changes, most frequent first.
    """

    continued: int = 0
    restarted: int = 0
    refused: int = 0
    reasons: tuple[str, ...] = ()
    drifted: int = 0
    changes: tuple[str, ...] = ()

    @classmethod
    def of(cls, records: Iterable[RunRecord]) -> RestartCounts:
        """Counts over the records of runs."""
        runs = list(records)
        # A set per run: repeated refusals for the same reason count once.
        reasons = Counter(reason for r in runs for reason in {e.reason for e in r.refused})
        drifts = [{e.drift for e in r.continuations if e.drift} for r in runs]
        changes = Counter(change for run in drifts for change in run)
        return cls(
            continued=sum(bool(r.continuations) for r in runs),
            restarted=sum(r.restarts > 0 for r in runs),
            refused=sum(bool(r.refused) for r in runs),
            reasons=tuple(reason for reason, _ in reasons.most_common()),
            drifted=sum(map(bool, drifts)),
            changes=tuple(change for change, _ in changes.most_common()),
        )

    def plain(self) -> dict[str, Any]:
        """The counts as JSON values."""
        return {
            "continued": self.continued,
            "restarted": self.restarted,
            "refused": self.refused,
            "reasons": list(self.reasons),
            "drifted": self.drifted,
            "changes": list(self.changes),
        }

    @classmethod
    def from_plain(cls, document: Mapping[str, Any]) -> RestartCounts:
        """Counts from JSON values, the inverse of `plain`."""
        return cls(
            continued=document["continued"],
            restarted=document["restarted"],
            refused=document["refused"],
            reasons=tuple(document["reasons"]),
            drifted=document["drifted"],
            changes=tuple(document["changes"]),
        )

    def sentences(self) -> Iterator[str]:
        """One sentence for each count above 0."""
        if self.continued:
            yield f"{format_count(self.continued, 'run')} continued from a checkpoint"
        if self.restarted:
            yield f"{format_count(self.restarted, 'run')} restarted from the first step"
        if self.refused:
            whose = format_count(self.refused, "run")
            yield f"checkpoints of {whose} were refused: {first_reasons(self.reasons)}"
        if self.drifted:
            whose = format_count(self.drifted, "run")
            yield f"{whose} continued with other versions: {first_reasons(self.changes)}"


def first_reasons(reasons: Sequence[str]) -> str:
    """The first reasons in a line, and the number of the others."""
    more = len(reasons) - REASONS
    return "; ".join(reasons[:REASONS]) + (f"; and {more} other reasons" if more > 0 else "")
