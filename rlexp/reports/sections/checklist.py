"""The reproducibility checklist as a table."""

from collections import Counter
from dataclasses import dataclass

from rlexp.reports.analysis.checklist import Answer, items
from rlexp.reports.analysis.inquiry import Inquiry
from rlexp.reports.drawing.blocks import Column, Part, Table, Text


@dataclass(frozen=True, slots=True)
class Checklist:
    """What the records answer, and what is left for the author to say."""

    def part(self, inquiry: Inquiry) -> Part | None:
        """Compute the part."""
        found = items(inquiry)
        counts = Counter(item.answer for item in found)
        told = ", ".join(f"{answer}: {counts[answer]}" for answer in Answer)
        text = (
            f"Of {len(found)} items of the checklist of Eimer, Lindauer and Raileanu (2023), "
            f"answered from the records: {told}. What needs words is for the author to say."
        )
        table = Table(
            name="checklist",
            title="Reproducibility checklist",
            columns=(
                Column(title="item", digits=0),
                Column(title="question"),
                Column(title="answer"),
                Column(title="evidence"),
            ),
            rows=tuple((i.number, i.question, str(i.answer), i.evidence) for i in found),
        )
        return Part(
            name="checklist",
            title="Reproducibility checklist",
            blocks=(Text(text=text), table),
            folded=True,
        )
