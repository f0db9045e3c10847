"""Sections: each computes one part of a report from the evidence."""

from typing import Protocol

from rlexp.reports.blocks import Part
from rlexp.reports.inquiry import Inquiry

__all__ = ["Inquiry", "Section"]


class Section(Protocol):
    """One part of a report."""

    def part(self, inquiry: Inquiry) -> Part | None:
        """Compute the part; nothing where it has nothing to say."""
        ...
