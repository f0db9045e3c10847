"""What a section of a report is asked about."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from rlexp.metrics import Metric
from rlexp.reports.evidence.runs import Evidence
from rlexp.reports.settings import Settings


@dataclass(frozen=True, slots=True, kw_only=True)
class Inquiry:
    """Evidence, and what is to be computed from it.

    Attributes:
        evidence: The runs.
        settings: Levels, methods, seeds.
        metrics: Aggregates by name; the first one leads.
        sections: Names of all sections of the report, so that one can speak of the others.
    """

    evidence: Evidence
    settings: Settings
    metrics: Mapping[str, Metric]
    sections: tuple[str, ...] = ()
    computed: dict[str, Any] = field(default_factory=dict, init=False, repr=False, compare=False)
    """What one section has computed and another asks for, by what it is."""
