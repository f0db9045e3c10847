"""The section of learning curves: evaluations by environment steps and by wall-clock time."""

from collections.abc import Sequence
from dataclasses import dataclass

from rlexp.reports.analysis.curve_figures import (
    SCORE_BY_SECONDS,
    SCORE_BY_STEPS,
    CurveView,
    DrawnCurves,
    curve_figure,
    few_points,
    most_points,
    task_curves,
)
from rlexp.reports.analysis.report_context import ReportContext
from rlexp.reports.analysis.score_words import about_scores
from rlexp.reports.drawing.blocks import Block, LineFigure, SectionContent, Text

ABOUT = (
    "Mean return of the evaluations during training. The thick line is the interquartile mean "
    "(IQM) over runs. Between two evaluations a run keeps the value of the earlier one; after its "
    "last evaluation it no longer counts. The band is pointwise, from resampling whole runs. Thin "
    "lines are single runs. The thick line covers the steps between the first and the last "
    "evaluation of all completed runs and of at least half of all runs. Where runs ended early, "
    "it is the IQM of the remaining runs, which may be too optimistic."
)
WALL_CLOCK = (
    "Wall-clock time since the start of a run includes training, evaluations, and the pauses "
    "between attempts that continue one another. It depends on the machine and on its load."
)


@dataclass(frozen=True, slots=True)
class LearningCurvesSection:
    """Figures by environment steps and by wall-clock time for every task."""

    def part(self, report: ReportContext) -> SectionContent | None:
        """Compute the part; `None` where no run is planned."""
        tasks = report.evidence.tasks
        if not tasks:
            return None
        blocks = [_block(report, SCORE_BY_STEPS, k, task) for k, task in enumerate(tasks, 1)]
        if any(isinstance(block, LineFigure) for block in blocks):
            timed = [_block(report, SCORE_BY_SECONDS, k, task) for k, task in enumerate(tasks, 1)]
            about = Text(text=about_scores(ABOUT, report.evidence))
            blocks = [about, *blocks, Text(text=WALL_CLOCK), *timed]
        return SectionContent(name="curves", title="Learning curves", blocks=tuple(blocks))


def _block(report: ReportContext, view: CurveView, number: int, task: str) -> Block:
    drawn = task_curves(report, view, task)
    if most_points(drawn) < 2:
        return Text(text=_no_curve(view, task, drawn))
    return curve_figure(report, view, number, task, drawn)


def _no_curve(view: CurveView, task: str, drawn: Sequence[DrawnCurves]) -> str:
    """Sentence that replaces the figure of a task without curves."""
    reasons = "; ".join(
        f"{label.curves.label}: {few_points(label.curves, view.noun)}" for label in drawn
    )
    return (
        f"{task}{view.title}: no curve, because no run has two evaluations during training "
        f"({reasons})."
    )
