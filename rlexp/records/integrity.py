"""Whether the records of an experiment are what was written, and what is wrong where not."""

from dataclasses import dataclass
from enum import StrEnum

SHORT = 12
"""Digits of a head that are shown: as many as a paper has room for."""


class Kind(StrEnum):
    """What a finding is about."""

    MISSING = "missing"
    EDITED = "edited"
    COPIED = "copied"
    DAMAGED = "damaged"
    BROKEN = "broken chain"
    REWRITTEN = "rewritten"
    UNSEALED = "unsealed"
    FOREIGN = "foreign"
    REMARK = "remark"


FAULTS = frozenset(
    {Kind.MISSING, Kind.EDITED, Kind.COPIED, Kind.DAMAGED, Kind.BROKEN, Kind.REWRITTEN}
)
"""What no command of ours leaves behind."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Finding:
    """Something about a run, or about the experiment itself where no run is named."""

    kind: Kind
    text: str
    run: str | None = None

    @property
    def is_fault(self) -> bool:
        """Whether a record is not what was written."""
        return self.kind in FAULTS


@dataclass(frozen=True, slots=True, kw_only=True)
class Integrity:
    """What a ledger says of an experiment's records.

    Attributes:
        experiment: Its name.
        attempts: Those that ended, whether they are still there or not.
        matching: Those whose files are what they were when they ended.
        late: Those that were entered by a later command than the one that saw them end.
        lines: Of the ledger.
        head: The sha256 of its last line; nothing where there is no ledger.
        findings: Everything else there is to say, faults first.
    """

    experiment: str
    attempts: int
    matching: int
    late: int = 0
    lines: int = 0
    head: str | None = None
    findings: tuple[Finding, ...] = ()

    @property
    def faults(self) -> tuple[Finding, ...]:
        """What is wrong."""
        return tuple(f for f in self.findings if f.is_fault)

    def __str__(self) -> str:
        """In a sentence's words, without the experiment's name."""
        attempts = f"{self.attempts:,} attempt{'' if self.attempts == 1 else 's'}"
        if self.head is None:
            return f"no ledger says what its {attempts} {'was' if self.attempts == 1 else 'were'}"
        late = f", {self.late:,} entered late" if self.late else ""
        verb = "matches" if self.matching == 1 else "match"
        return (
            f"{self.matching:,} of {attempts} {verb} the ledger{late} (head {self.head[:SHORT]})"
        )
