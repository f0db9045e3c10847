"""Runs that went on from a checkpoint, and runs that began anew: how many, and why."""

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from rlexp.records.run import RunRecord
from rlexp.text import counted

REASONS = 3
"""Reasons that are told one by one."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Past:
    """How the attempts of runs began that were not their first ones.

    Attributes:
        continued: Runs of which an attempt went on from a checkpoint.
        restarted: Runs of which an attempt began anew, though an earlier one had got further.
        refused: Runs of which a checkpoint was refused.
        reasons: Why, the commonest reason first.
        drifted: Runs that went on although packages or code had changed.
        changes: What had changed, the commonest change first.
    """

    continued: int = 0
    restarted: int = 0
    refused: int = 0
    reasons: tuple[str, ...] = ()
    drifted: int = 0
    changes: tuple[str, ...] = ()

    @classmethod
    def of(cls, records: Iterable[RunRecord]) -> "Past":
        """Count runs."""
        runs = list(records)
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
        """As JSON values."""
        return {
            "continued": self.continued,
            "restarted": self.restarted,
            "refused": self.refused,
            "reasons": list(self.reasons),
            "drifted": self.drifted,
            "changes": list(self.changes),
        }

    @classmethod
    def from_plain(cls, document: Mapping[str, Any]) -> "Past":
        """The inverse of `plain`."""
        return cls(
            continued=document["continued"],
            restarted=document["restarted"],
            refused=document["refused"],
            reasons=tuple(document["reasons"]),
            drifted=document["drifted"],
            changes=tuple(document["changes"]),
        )

    def sentences(self) -> Iterator[str]:
        """In words, a line for each kind that there is."""
        if self.continued:
            yield f"{counted(self.continued, 'run')} continued from a checkpoint"
        if self.restarted:
            yield f"{counted(self.restarted, 'run')} began anew at the first step"
        if self.refused:
            whose = counted(self.refused, "run")
            yield f"checkpoints of {whose} were refused: {several(self.reasons)}"
        if self.drifted:
            whose = counted(self.drifted, "run")
            yield f"{whose} continued with other versions: {several(self.changes)}"


def several(reasons: Sequence[str]) -> str:
    """Reasons in a line: the first few, and how many there are besides."""
    more = len(reasons) - REASONS
    return "; ".join(reasons[:REASONS]) + (f"; and {more} other reasons" if more > 0 else "")
