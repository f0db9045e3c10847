"""Sections: each computes one part of a report from the evidence."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Protocol

from rlexp.metrics import Metric
from rlexp.reports.blocks import Part
from rlexp.reports.evidence import Evidence
from rlexp.reports.settings import Settings


@dataclass(frozen=True, slots=True, kw_only=True)
class Inquiry:
    """What a section is asked about. The first metric is the one that verdicts are led by."""

    evidence: Evidence
    settings: Settings
    metrics: Mapping[str, Metric]


class Section(Protocol):
    """One part of a report."""

    def part(self, inquiry: Inquiry) -> Part | None:
        """Compute the part; nothing where it has nothing to say."""
        ...
