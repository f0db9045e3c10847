"""Figures of learning curves, and the lines in them."""

from evidence_samples import inquiry

from rlexp.reports.drawing.blocks import FigureLine, LineFigure, SectionContent
from rlexp.reports.evidence.runs import Evidence
from rlexp.reports.sections.curves import LearningCurvesSection


def part_of(evidence: Evidence, **changes: object) -> SectionContent:
    """The section on learning curves, which must exist."""
    part = LearningCurvesSection().part(inquiry(evidence, **changes))
    assert part is not None
    return part


def figures(evidence: Evidence, **changes: object) -> list[LineFigure]:
    """The figures of the section."""
    return [b for b in part_of(evidence, **changes).blocks if isinstance(b, LineFigure)]


def aggregate_line(figure: LineFigure, label: str = "ppo") -> FigureLine:
    """The line of a label's aggregate in a figure."""
    return next(line for line in figure.lines if line.label == label and not line.faint)


def run_lines(figure: LineFigure) -> list[FigureLine]:
    """The lines of single runs in a figure."""
    return [line for line in figure.lines if line.faint]
