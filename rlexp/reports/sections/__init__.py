"""Sections: each computes one part of a report from the evidence."""

from typing import Protocol

from rlexp.reports.analysis.inquiry import Inquiry
from rlexp.reports.drawing.blocks import Part

__all__ = ["Inquiry", "Section"]


class Section(Protocol):
    """One part of a report."""

    def part(self, report: Inquiry) -> Part | None:
        """Compute the part; nothing where it has nothing to say."""
        ...
