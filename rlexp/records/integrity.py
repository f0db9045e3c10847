"""Result of an integrity check: whether the records of an experiment are what was written."""

from dataclasses import dataclass
from enum import StrEnum

SHORT = 12
"""Digits of a ledger's head that are shown: short enough to quote in a paper."""


class RecordKind(StrEnum):
    """Kind of a finding."""

    MISSING = "missing"
    EDITED = "edited"
    COPIED = "copied"
    DAMAGED = "damaged"
    BROKEN = "broken chain"
    REWRITTEN = "rewritten"
    UNSEALED = "unsealed"
    FOREIGN = "foreign"
    LEFT_OUT = "left out"
    REMARK = "remark"


FAULTS = frozenset(
    {
        RecordKind.MISSING,
        RecordKind.EDITED,
        RecordKind.COPIED,
        RecordKind.DAMAGED,
        RecordKind.BROKEN,
        RecordKind.REWRITTEN,
    }
)
"""Kinds that no command of rlexp can cause."""


@dataclass(frozen=True, slots=True, kw_only=True)
class IntegrityFinding:
    """A finding about a run, or about the whole experiment if `run` is None."""

    kind: RecordKind
    text: str
    run: str | None = None

    @property
    def is_fault(self) -> bool:
        """Whether the finding means that a record differs from what was written."""
        return self.kind in FAULTS


@dataclass(frozen=True, slots=True, kw_only=True)
class Integrity:
    """Result of the comparison of an experiment's records with its ledger.

    Attributes:
        experiment: Name of the experiment.
        attempts: Number of attempts that ended, existing or not.
        matching: Number of attempts whose files are unchanged since they ended.
        late: Number of attempts entered by a later command than the one that saw them end.
        lines: Number of lines of the ledger.
        head: The sha256 of the last line; None without a ledger.
        findings: All findings, faults first.
    """

    experiment: str
    attempts: int
    matching: int
    late: int = 0
    lines: int = 0
    head: str | None = None
    findings: tuple[IntegrityFinding, ...] = ()

    @property
    def faults(self) -> tuple[IntegrityFinding, ...]:
        """The findings that are faults."""
        return tuple(f for f in self.findings if f.is_fault)

    def __str__(self) -> str:
        """The result as a phrase, without the experiment's name."""
        attempts = f"{self.attempts:,} attempt{'' if self.attempts == 1 else 's'}"
        if self.head is None:
            return f"without a ledger its {attempts} cannot be verified"
        late = f", {self.late:,} entered late" if self.late else ""
        verb = "matches" if self.matching == 1 else "match"
        return (
            f"{self.matching:,} of {attempts} {verb} the ledger{late} (head {self.head[:SHORT]})"
        )
