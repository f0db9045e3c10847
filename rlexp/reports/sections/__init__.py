"""Sections of a report: each computes its tables, figures and notes from the evidence."""

from typing import Protocol

from rlexp.reports.analysis.report_context import ReportContext
from rlexp.reports.drawing.blocks import SectionContent

__all__ = ["ReportContext", "Section"]


class Section(Protocol):
    """Plug-in that computes one part of a report."""

    def part(self, report: ReportContext) -> SectionContent | None:
        """Compute the part; `None` where the section does not apply to the evidence."""
        ...
