"""Figures of curves of a task: the aggregate of each label with its band, and single runs."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial

import numpy as np

from rlexp.protocol.measures import RETURN
from rlexp.records.logged_values import MEAN_RETURN
from rlexp.reports.analysis.curves import (
    EVALUATIONS,
    SHOWN,
    VALUES,
    LabelCurves,
    LabelLines,
    PointNoun,
    aggregate_curve,
    by_seconds,
    by_steps,
    logged_by_seconds,
    logged_by_steps,
    single_lines,
)
from rlexp.reports.analysis.report_context import ReportContext
from rlexp.reports.analysis.scale import possible_scores
from rlexp.reports.drawing.blocks import Axis, LineFigure
from rlexp.reports.evidence.runs import Evidence
from rlexp.text import format_count

CurveReader = Callable[[Evidence, str, str], LabelCurves]
STEPS_TITLE = "environment steps"
HOUR = 3600.0
"""Seconds."""


@dataclass(frozen=True, slots=True)
class CurveView:
    """A metric over an x axis: names, titles, and the function that reads the curves.

    Attributes:
        name: The beginning of the name of a figure.
        title: What follows the name of the task in the title of a figure.
        x: The title of the horizontal axis.
        y: The title of the vertical axis.
        read: Returns the curves of a label on a task.
        noun: The words for a point of a curve.
        of_scores: Whether the values are those that the score is made of, for which a task declares
            ends and a threshold.
    """

    name: str
    title: str
    x: str
    y: str
    read: CurveReader
    noun: PointNoun = EVALUATIONS
    of_scores: bool = True


SCORE_BY_STEPS = CurveView("curves-steps", "", STEPS_TITLE, "mean return", by_steps)
SCORE_BY_SECONDS = CurveView(
    "curves-time",
    " by wall-clock",
    "seconds since the start of the run",
    "mean return",
    by_seconds,
)


def score_metric(evidence: Evidence) -> str:
    """The name of the metric that scores are made of; that of returns if tasks differ in it."""
    quantities = {member.recorded_quantity for member in evidence.members}
    return (
        f"eval/{quantities.pop()}"
        if len(quantities) == 1 and RETURN not in quantities
        else MEAN_RETURN
    )


def view_of(metric: str, evidence: Evidence, *, hours: bool = False) -> CurveView:
    """The view of a metric over environment steps, or over hours since the start of a run."""
    if metric == score_metric(evidence):
        view = SCORE_BY_SECONDS if hours else SCORE_BY_STEPS
    else:
        read = partial(logged_by_seconds if hours else logged_by_steps, metric=metric)
        view = CurveView(
            f"logged-{'time' if hours else 'steps'}-{metric}",
            f": {metric}",
            STEPS_TITLE,
            metric,
            read,
            noun=VALUES,
            of_scores=False,
        )
    return _in_hours(view) if hours else view


def _in_hours(view: CurveView) -> CurveView:
    def read(evidence: Evidence, label: str, task: str) -> LabelCurves:
        return view.read(evidence, label, task).scaled(x=HOUR)

    return CurveView(
        view.name,
        view.title,
        "hours since the start of the run",
        view.y,
        read,
        noun=view.noun,
        of_scores=view.of_scores,
    )


@dataclass(frozen=True, slots=True)
class DrawnCurves:
    """The curves of a label on a task, and the lines that show them."""

    curves: LabelCurves
    shown: LabelLines

    @property
    def note(self) -> str:
        """The runs of the label as a sentence (`ppo: 4 of 4 runs.`)."""
        return f"{self.curves.label}: {self.shown.description}."

    @property
    def has_band(self) -> bool:
        """Whether a band is drawn at any point."""
        return any(v is not None for line in self.shown.lines for v in line.low or ())


def task_curves(
    report: ReportContext, view: CurveView, task: str, *, single: bool = True
) -> list[DrawnCurves]:
    """The curves of every label on a task.

    Args:
        report: Runs and settings.
        view: The metric and the x axis.
        task: The name of the task.
        single: Whether lines of single runs are added to the aggregates.
    """
    return [
        report.memory.recall(
            ("curves", view.name, view.x, task, label, single),
            (report.evidence.cell(label, task), report.settings, view.of_scores),
            partial(_drawn, report, view, label, task, single=single),
        )
        for label in report.evidence.labels
    ]


def _drawn(
    report: ReportContext, view: CurveView, label: str, task: str, *, single: bool
) -> DrawnCurves:
    curves = view.read(report.evidence, label, task)
    return DrawnCurves(curves, _lines(report, view, curves, single=single))


def most_points(drawn: Sequence[DrawnCurves]) -> int:
    """The number of points of the run that has the most; 0 without a run."""
    return max((len(c.x) for d in drawn for c in d.curves.curves), default=0)


def has_values(drawn: Sequence[DrawnCurves]) -> bool:
    """Whether any run of any label has a finite value."""
    return any(np.isfinite(curve.y).any() for d in drawn for curve in d.curves.curves)


def curve_figure(
    report: ReportContext, view: CurveView, number: int, task: str, drawn: Sequence[DrawnCurves]
) -> LineFigure:
    """The figure of a task with the lines of every label.

    `number` is that of the task, because task names need not be valid file names.
    """
    threshold = report.evidence.reference(task).get("threshold") if view.of_scores else None
    return LineFigure(
        name=f"{view.name}-{number}",
        title=f"{task}{view.title}",
        x=Axis(title=view.x, low=0.0),
        y=Axis(title=f"mean {report.evidence.quantity(task)}" if view.of_scores else view.y),
        lines=tuple(line for label in drawn for line in label.shown.lines),
        marks=() if threshold is None else (("threshold", float(threshold)),),
        note=" ".join(label.note for label in drawn),
    )


def few_points(curves: LabelCurves, noun: PointNoun) -> str:
    """Why a label has no curve: its runs have one point, or none."""
    if not curves.curves:
        return curves.remark
    counted = f"{len(curves.curves)} of {format_count(curves.planned, 'run')}"
    return f"{counted} evaluated once" if noun is EVALUATIONS else f"{counted} with {noun.one}"


def _aggregated(
    report: ReportContext,
    view: CurveView,
    curves: LabelCurves,
    ends: tuple[float | None, float | None],
) -> LabelLines:
    """The aggregate of the curves, computed once: the card and a section draw it."""
    key = f"curve of {view.name} over {view.x}: {curves.label} on {curves.task}"
    if key not in report.computed:
        report.computed[key] = aggregate_curve([curves], report.settings, ends)
    aggregated: LabelLines = report.computed[key]
    return aggregated


def _lines(
    report: ReportContext, view: CurveView, curves: LabelCurves, *, single: bool
) -> LabelLines:
    """Lines of the single runs of a label, followed by their aggregate."""
    if not curves.curves:
        return LabelLines(lines=(), description=f"— ({curves.remark})")
    cell = report.evidence.cells[curves.label, curves.task]
    ends = possible_scores([cell], None) if view.of_scores else (None, None)
    aggregated = _aggregated(report, view, curves, ends)
    faint = single_lines(curves, report.settings.curve_points) if single else ()
    few = single and len(faint) < len(curves.curves)
    shown = [f"{SHOWN} of its single runs shown"] if few else []
    remarks = "; ".join([aggregated.description, *shown, *curves.remarks])
    return LabelLines(lines=(*faint, *aggregated.lines), description=remarks, band=aggregated.band)
