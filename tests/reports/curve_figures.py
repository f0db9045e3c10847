"""The figures of learning curves, and the lines in them."""

from evidence_samples import inquiry

from rlexp.reports.drawing.blocks import FigureLine, LineFigure, SectionContent
from rlexp.reports.evidence.runs import Evidence
from rlexp.reports.sections.curves import LearningCurvesSection


def part_of(evidence: Evidence, **changes: object) -> SectionContent:
    """The part, which there must be."""
    part = LearningCurvesSection().part(inquiry(evidence, **changes))
    assert part is not None
    return part


def figures(evidence: Evidence, **changes: object) -> list[LineFigure]:
    """The figures of the part."""
    return [b for b in part_of(evidence, **changes).blocks if isinstance(b, LineFigure)]


def thick(figure: LineFigure, label: str = "ppo") -> FigureLine:
    """The aggregate of a label in a figure."""
    return next(line for line in figure.lines if line.label == label and not line.faint)


def faint(figure: LineFigure) -> list[FigureLine]:
    """The single runs of a figure."""
    return [line for line in figure.lines if line.faint]
