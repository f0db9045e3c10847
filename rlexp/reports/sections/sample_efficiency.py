"""The section of sample efficiency: learning curves over all tasks, and areas under curves."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from rlexp.metrics.estimate import Ends, Estimate
from rlexp.records.run import State
from rlexp.reports.analysis.curves import LabelLines, aggregate_curve, by_steps
from rlexp.reports.analysis.estimates import best_labels_first
from rlexp.reports.analysis.every_run import with_every_run
from rlexp.reports.analysis.report_context import ReportContext
from rlexp.reports.analysis.scale import (
    AnchorsByTask,
    TaskAnchors,
    common_scale,
    possible_scores,
    without_anchors,
)
from rlexp.reports.analysis.score_words import about_scores
from rlexp.reports.drawing.blocks import (
    REMARK_COLUMN,
    Axis,
    Block,
    Callout,
    LineFigure,
    SectionContent,
    Table,
    TableColumn,
    Text,
    Tone,
    Value,
    without_empty_remarks,
)
from rlexp.reports.evidence.runs import Evidence, PlannedRun, run_states_text
from rlexp.stats.curves import area_under_curve
from rlexp.stats.task_scores import TaskScores
from rlexp.text import join_names

ALL_TASKS = "all tasks, normalised"
ABOUT = (
    "Return as a function of environment steps. The higher a curve is at an early step, the fewer "
    "steps the label needs."
)
AREAS = (
    "Mean height of a run's evaluation curve (trapezoidal rule, from its first to its last "
    "evaluation), then the interquartile mean (IQM) over runs. Only completed runs count, because "
    "the mean height of a shorter curve is not comparable."
)


@dataclass(frozen=True, slots=True)
class CurveAreas:
    """Areas under the curves of a label's runs on a task, and why other runs have none."""

    values: tuple[float, ...]
    planned: int
    reason: str


@dataclass(frozen=True, slots=True)
class SampleEfficiencySection:
    """Figure over all tasks where scores can be normalised, and a table of areas."""

    def part(self, report: ReportContext) -> SectionContent | None:
        """Compute the part; `None` where no run is planned."""
        if not report.evidence.labels:
            return None
        scale = common_scale(report.evidence, report.settings)
        figure = [] if scale is None else [_over_tasks(report, scale)]
        about = (
            [Text(text=about_scores(ABOUT, report.evidence))]
            if any(isinstance(block, LineFigure) for block in figure)
            else []
        )
        blocks = (*about, *figure, _table(report, scale))
        return SectionContent(name="sample-efficiency", title="Sample efficiency", blocks=blocks)


def _over_tasks(report: ReportContext, scale: AnchorsByTask) -> Block:
    reason = without_anchors(scale, report)
    if reason:
        return Callout(tone=Tone.WARNING, text=f"No curve over all tasks: {reason}.")
    evidence = report.evidence
    budgets = {task: _budget(evidence, task) for task in evidence.tasks}
    # Tasks of different lengths have a common axis only as shares of their budgets.
    shared = len(set(budgets.values())) == 1
    drawn = {
        label: _drawn(report, label, scale, {} if shared else budgets) for label in evidence.labels
    }
    notes = [f"{label}: {label_lines.description}." for label, label_lines in drawn.items()]
    if not any(label_lines.lines for label_lines in drawn.values()):
        reason = "no label has a curve on every task"
        text = f"No curve over all tasks, because {reason}. {' '.join(notes)}"
        return Callout(tone=Tone.WARNING, text=text)
    return LineFigure(
        name="sample-efficiency",
        title=about_scores("Normalised return over all tasks", evidence),
        x=Axis(title="environment steps" if shared else "share of the task's budget", low=0.0),
        y=Axis(title=about_scores("normalised mean return", evidence)),
        lines=tuple(line for label_lines in drawn.values() for line in label_lines.lines),
        note=" ".join(["IQM over the runs of all tasks; the band resamples whole runs.", *notes]),
    )


def _budget(evidence: Evidence, task: str) -> int:
    """Environment steps of a task: the largest budget of its runs."""
    members = (member for cell in evidence.of_task(task) for member in cell.members)
    return max(int(member.record.spec.budget["steps"]) for member in members)


def _drawn(
    report: ReportContext, label: str, scale: AnchorsByTask, units: Mapping[str, int]
) -> LabelLines:
    """The aggregate of a label's runs over all tasks, or why there is none."""
    normalised = []
    for task in report.evidence.tasks:
        curves, anchors = by_steps(report.evidence, label, task), scale[task]
        if not curves.curves or anchors is None:
            return LabelLines(lines=(), description=f"— ({task}: {curves.remark})")
        normalised.append(curves.scaled(units.get(task, 1), anchors.normalised))
    ends = possible_scores(report.evidence.of_label(label), scale)
    drawn = aggregate_curve(normalised, report.settings, ends)
    remarks = [f"{curves.task}: {remark}" for curves in normalised for remark in curves.remarks]
    return LabelLines(lines=drawn.lines, description="; ".join([drawn.description, *remarks]))


def _table(report: ReportContext, scale: AnchorsByTask | None) -> Table:
    evidence = report.evidence
    labels = best_labels_first(report)
    areas_by_cell = {(t, k): _areas(evidence, k, t) for t in evidence.tasks for k in labels}
    rows = [_row(report, task, label, areas) for (task, label), areas in areas_by_cell.items()]
    if scale and not without_anchors(scale, report):
        rows += [_over_all(report, label, scale, areas_by_cell) for label in labels]
    table = Table(
        name="areas",
        title="Area under the evaluation curve",
        columns=(
            TableColumn(title="task"),
            TableColumn(title="label", label=True),
            TableColumn(title="runs"),
            TableColumn(title="mean height (IQM)"),
            REMARK_COLUMN,
        ),
        rows=tuple(rows),
        note=AREAS,
    )
    return with_every_run(without_empty_remarks(table))


def _areas(evidence: Evidence, label: str, task: str) -> CurveAreas:
    cell = evidence.cell(label, task)
    if cell is None:
        return CurveAreas((), 0, "no run planned")
    completed = [m for m in cell.members if m.record.state is State.COMPLETED]
    others = [m for m in cell.members if m.record.state is not State.COMPLETED]
    areas = [area for m in completed if (area := _area(m)) is not None]
    reasons = [f"not completed: {run_states_text(others)}"] if others else []
    if len(areas) < len(completed):
        reasons.append(
            f"{len(completed) - len(areas)} without at least two evaluations, all finite"
        )
    return CurveAreas(tuple(areas), cell.planned, "; ".join(reasons))


def _area(member: PlannedRun) -> float | None:
    steps, heights = member.steps, member.heights
    if len(steps) < 2 or not member.is_evaluated or not np.isfinite(heights).all():
        return None
    return float(area_under_curve(steps, heights))


def _row(report: ReportContext, task: str, label: str, areas: CurveAreas) -> tuple[Value, ...]:
    cell = report.evidence.cell(label, task)
    estimate = None
    if cell and areas.values:
        estimate = _estimate(report, [areas.values], possible_scores([cell], None))
    runs = f"{len(areas.values)} of {areas.planned}"
    return (task, label, runs, estimate, areas.reason or None)


def _over_all(
    report: ReportContext,
    label: str,
    scale: AnchorsByTask,
    areas_by_cell: Mapping[tuple[str, str], CurveAreas],
) -> tuple[Value, ...]:
    """The row of a label over all tasks, of normalised areas."""
    areas_by_task = {task: areas_by_cell[task, label] for task in report.evidence.tasks}
    scored = sum(len(areas.values) for areas in areas_by_task.values())
    runs = f"{scored} of {sum(areas.planned for areas in areas_by_task.values())}"
    lacking = [task for task, areas in areas_by_task.items() if not areas.values]
    if lacking:
        return (ALL_TASKS, label, runs, None, f"no area on {join_names(lacking)}")
    normalised = [_normalised(areas.values, scale[task]) for task, areas in areas_by_task.items()]
    ends = possible_scores(report.evidence.of_label(label), scale)
    return (ALL_TASKS, label, runs, _estimate(report, normalised, ends), None)


def _normalised(values: Sequence[float], scale: TaskAnchors | None) -> Sequence[float]:
    assert scale is not None
    return tuple(scale.normalised(np.asarray(values, dtype=np.float64)).tolist())


def _estimate(report: ReportContext, tasks: Sequence[Sequence[float]], ends: Ends) -> Estimate:
    scores = TaskScores.from_tasks(tasks)
    return report.settings.estimator.estimate(scores, report.settings.interquartile_mean, ends)
