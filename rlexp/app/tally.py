"""What a comparison of records with their ledger has found so far."""

from collections.abc import Mapping
from dataclasses import dataclass, field

from rlexp.records.integrity import Finding, Kind

OF_ONE_RUN = ("events.jsonl", "verdict.json", "spec.json", "model.zip", "normalisation.npz")
"""Files that no two runs have in common."""


@dataclass(slots=True)
class Tally:
    """What is found; `owners` knows whose a file is, by its name and sum.

    Attributes:
        owners: By name and sha256, the run that a file was first seen of.
        findings: In the order in which they were made.
        attempts: Those that ended.
        matching: Those whose files are what they were.
    """

    owners: dict[tuple[str, str], str] = field(default_factory=dict)
    findings: list[Finding] = field(default_factory=list)
    attempts: int = 0
    matching: int = 0

    def find(self, kind: Kind, text: str, run: str | None = None) -> None:
        """Make a finding."""
        self.findings.append(Finding(kind=kind, text=text, run=run))

    def own(self, name: str, files: Mapping[str, str]) -> None:
        """Remember whose files these are, by their path and sha256."""
        for path, text in files.items():
            if (base := path.rpartition("/")[2]) in OF_ONE_RUN:
                self.owners.setdefault((base, text), name)

    def owner(self, path: str, text: str | None, name: str) -> str | None:
        """The other run whose file this is, if it is one's."""
        found = self.owners.get((path.rpartition("/")[2], text or ""))
        return None if found == name else found

    def is_faulty(self, name: str) -> bool:
        """Whether something is wrong with a run already."""
        return any(f.is_fault and f.run == name for f in self.findings)
