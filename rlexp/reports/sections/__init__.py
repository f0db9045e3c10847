"""Sections of a report: each computes its tables, figures and notes from the evidence."""

from typing import Protocol

from rlexp.reports.analysis.report_context import Inquiry
from rlexp.reports.drawing.blocks import Part

__all__ = ["Inquiry", "Section"]


class Section(Protocol):
    """Plug-in that computes one part of a report."""

    def part(self, report: Inquiry) -> Part | None:
        """Compute the part; `None` where the section does not apply to the evidence."""
        ...
