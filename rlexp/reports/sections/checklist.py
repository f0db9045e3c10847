"""The section of the reproducibility checklist, answered from the records."""

from collections import Counter
from dataclasses import dataclass

from rlexp.reports.analysis.checklist import ChecklistAnswer, items
from rlexp.reports.analysis.report_context import ReportContext
from rlexp.reports.drawing.blocks import SectionContent, Table, TableColumn, Text


@dataclass(frozen=True, slots=True)
class ChecklistSection:
    """Table of the checklist items, with the answer that the records give to each."""

    def part(self, report: ReportContext) -> SectionContent | None:
        """Compute the part."""
        answered = items(report)
        counts = Counter(item.answer for item in answered)
        counts_by_answer = ", ".join(f"{answer}: {counts[answer]}" for answer in ChecklistAnswer)
        text = (
            f"The {len(answered)} items of the checklist of Eimer, Lindauer and Raileanu (2023), "
            f"answered from the records: {counts_by_answer}. The author answers the items that "
            "need words."
        )
        table = Table(
            name="checklist",
            title="Reproducibility checklist",
            columns=(
                TableColumn(title="item", digits=0),
                TableColumn(title="question"),
                TableColumn(title="answer"),
                TableColumn(title="evidence"),
            ),
            rows=tuple((i.number, i.question, str(i.answer), i.evidence) for i in answered),
        )
        return SectionContent(
            name="checklist",
            title="Reproducibility checklist",
            blocks=(Text(text=text), table),
            folded=True,
        )
