"""The section of learning curves: evaluations by environment steps and by wall-clock time."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from rlexp.reports.analysis.curves import (
    SHOWN,
    LabelCurves,
    LabelLines,
    aggregate_curve,
    by_seconds,
    by_steps,
    single_lines,
)
from rlexp.reports.analysis.report_context import ReportContext
from rlexp.reports.analysis.scale import possible_scores
from rlexp.reports.analysis.score_words import about_scores
from rlexp.reports.drawing.blocks import Axis, Block, LineFigure, SectionContent, Text
from rlexp.reports.evidence.runs import Evidence
from rlexp.text import format_count

CurveReader = Callable[[Evidence, str, str], LabelCurves]


@dataclass(frozen=True, slots=True)
class CurveView:
    """An x axis for learning curves: its name, titles, and the function that reads the curves."""

    name: str
    title: str
    axis: str
    read: CurveReader


STEPS = CurveView("steps", "", "environment steps", by_steps)
SECONDS = CurveView("time", " by wall-clock", "seconds since the start of the run", by_seconds)
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
        blocks = [_block(report, STEPS, k, task) for k, task in enumerate(tasks, 1)]
        if any(isinstance(block, LineFigure) for block in blocks):
            timed = [_block(report, SECONDS, k, task) for k, task in enumerate(tasks, 1)]
            blocks = [
                Text(text=about_scores(ABOUT, report.evidence)),
                *blocks,
                Text(text=WALL_CLOCK),
                *timed,
            ]
        return SectionContent(name="curves", title="Learning curves", blocks=tuple(blocks))


def _block(report: ReportContext, view: CurveView, number: int, task: str) -> Block:
    evidence = report.evidence
    curves_by_label = [view.read(evidence, label, task) for label in evidence.labels]
    if not any(len(curve.x) > 1 for curves in curves_by_label for curve in curves.curves):
        return Text(text=_no_curve(view, curves_by_label))
    drawn = [_drawn(report, curves) for curves in curves_by_label]
    threshold = evidence.reference(task).get("threshold")
    # Block names use the number of the task: task names need not be valid file names.
    return LineFigure(
        name=f"curves-{view.name}-{number}",
        title=f"{task}{view.title}",
        x=Axis(title=view.axis, low=0.0),
        y=Axis(title=f"mean {evidence.quantity(task)}"),
        lines=tuple(line for label_lines in drawn for line in label_lines.lines),
        marks=() if threshold is None else (("threshold", float(threshold)),),
        note=" ".join(
            f"{c.label}: {label_lines.description}."
            for c, label_lines in zip(curves_by_label, drawn, strict=True)
        ),
    )


def _drawn(report: ReportContext, curves: LabelCurves) -> LabelLines:
    """Lines of the single runs of a label, followed by their aggregate."""
    if not curves.curves:
        return LabelLines(lines=(), description=f"— ({curves.remark})")
    ends = possible_scores([report.evidence.cells[curves.label, curves.task]], None)
    aggregated = aggregate_curve([curves], report.settings, ends)
    single = single_lines(curves, report.settings.curve_points)
    shown = [f"{SHOWN} of its single runs shown"] if len(single) < len(curves.curves) else []
    remarks = "; ".join([aggregated.description, *shown, *curves.remarks])
    return LabelLines(lines=(*single, *aggregated.lines), description=remarks)


def _no_curve(view: CurveView, curves_by_label: Sequence[LabelCurves]) -> str:
    """Sentence that replaces the figure of a task without curves."""
    reasons = "; ".join(f"{curves.label}: {_few(curves)}" for curves in curves_by_label)
    return (
        f"{curves_by_label[0].task}{view.title}: no curve, because no run has two evaluations "
        f"during training ({reasons})."
    )


def _few(curves: LabelCurves) -> str:
    if not curves.curves:
        return curves.remark
    return f"{len(curves.curves)} of {format_count(curves.planned, 'run')} evaluated once"
