"""Sample efficiency: what is reached after how many steps, over all tasks and by area."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from rlexp.metrics.estimate import Ends, Estimate
from rlexp.records.run import State
from rlexp.reports.analysis.curves import Drawn, aggregate, by_steps
from rlexp.reports.analysis.every_run import with_every_run
from rlexp.reports.analysis.inquiry import Inquiry
from rlexp.reports.analysis.scale import (
    Scale,
    Scales,
    common_scale,
    possible_scores,
    without_anchors,
)
from rlexp.reports.drawing.blocks import (
    REMARK,
    Axis,
    Block,
    Column,
    Lines,
    Notice,
    Part,
    Table,
    Text,
    Tone,
    Value,
    remarked,
)
from rlexp.reports.evidence.runs import Evidence, Member, states
from rlexp.stats.aggregate import interquartile_mean
from rlexp.stats.curves import area_under_curve
from rlexp.stats.task_scores import TaskScores
from rlexp.text import listed

ALL_TASKS = "all tasks, normalised"
ABOUT = (
    "How much is reached after how many environment steps: the higher a curve stands early, the "
    "fewer steps are needed."
)
AREAS = (
    "Mean height of a run's evaluation curve (trapezoidal rule, from its first to its last "
    "evaluation), then the interquartile mean over runs. Only completed runs count, for a shorter "
    "curve has another mean."
)


@dataclass(frozen=True, slots=True)
class Areas:
    """The areas under the curves of a label's runs on a task, and why others have none."""

    values: tuple[float, ...]
    planned: int
    reason: str


@dataclass(frozen=True, slots=True)
class SampleEfficiency:
    """A figure over all tasks where they have one scale, and a table of areas."""

    def part(self, inquiry: Inquiry) -> Part | None:
        """Compute the part; nothing where no run was asked for."""
        if not inquiry.evidence.labels:
            return None
        scale = common_scale(inquiry.evidence, inquiry.settings)
        figure = [] if scale is None else [_over_tasks(inquiry, scale)]
        about = [Text(text=ABOUT)] if any(isinstance(block, Lines) for block in figure) else []
        blocks = (*about, *figure, _table(inquiry, scale))
        return Part(name="sample-efficiency", title="Sample efficiency", blocks=blocks)


def _over_tasks(inquiry: Inquiry, scale: Scales) -> Block:
    reason = without_anchors(scale, inquiry)
    if reason:
        return Notice(tone=Tone.WARNING, text=f"No curve over all tasks: {reason}.")
    evidence = inquiry.evidence
    budgets = {task: _budget(evidence, task) for task in evidence.tasks}
    shared = len(set(budgets.values())) == 1
    drawn = {
        label: _drawn(inquiry, label, scale, {} if shared else budgets)
        for label in evidence.labels
    }
    notes = [f"{label}: {own.words}." for label, own in drawn.items()]
    if not any(own.lines for own in drawn.values()):
        text = f"No curve over all tasks, for no label has one on each. {' '.join(notes)}"
        return Notice(tone=Tone.WARNING, text=text)
    return Lines(
        name="sample-efficiency",
        title="Normalised return over all tasks",
        x=Axis(title="environment steps" if shared else "share of the task's budget", low=0.0),
        y=Axis(title="normalised mean return"),
        lines=tuple(line for own in drawn.values() for line in own.lines),
        note=" ".join(["IQM over the runs of all tasks, with a band by whole runs.", *notes]),
    )


def _budget(evidence: Evidence, task: str) -> int:
    """Environment steps of a task: the most that a label has."""
    members = (member for cell in evidence.of_task(task) for member in cell.members)
    return max(int(member.record.spec.budget["steps"]) for member in members)


def _drawn(inquiry: Inquiry, label: str, scale: Scales, units: Mapping[str, int]) -> Drawn:
    """The aggregate of a label's runs over all tasks, or why there is none."""
    found = []
    for task in inquiry.evidence.tasks:
        curves, own = by_steps(inquiry.evidence, label, task), scale[task]
        if not curves.curves or own is None:
            return Drawn(lines=(), words=f"— ({task}: {curves.told})")
        found.append(curves.scaled(units.get(task, 1), own.normalised))
    ends = possible_scores(inquiry.evidence.of_label(label), scale)
    drawn = aggregate(found, inquiry.settings, ends)
    remarks = [f"{curves.task}: {remark}" for curves in found for remark in curves.remarks]
    return Drawn(lines=drawn.lines, words="; ".join([drawn.words, *remarks]))


def _table(inquiry: Inquiry, scale: Scales | None) -> Table:
    evidence = inquiry.evidence
    found = {(t, k): _areas(evidence, k, t) for t in evidence.tasks for k in evidence.labels}
    rows = [_row(inquiry, task, label, areas) for (task, label), areas in found.items()]
    if scale and not without_anchors(scale, inquiry):
        rows += [_over_all(inquiry, label, scale, found) for label in evidence.labels]
    table = Table(
        name="areas",
        title="Area under the evaluation curve",
        columns=(
            Column(title="task"),
            Column(title="label", label=True),
            Column(title="runs"),
            Column(title="mean height (IQM)"),
            REMARK,
        ),
        rows=tuple(rows),
        note=AREAS,
    )
    return with_every_run(remarked(table))


def _areas(evidence: Evidence, label: str, task: str) -> Areas:
    cell = evidence.cell(label, task)
    if cell is None:
        return Areas((), 0, "not asked for")
    completed = [m for m in cell.members if m.record.state is State.COMPLETED]
    others = [m for m in cell.members if m.record.state is not State.COMPLETED]
    known = [area for m in completed if (area := _area(m)) is not None]
    told = [f"not completed: {states(others)}"] if others else []
    if len(known) < len(completed):
        told.append(f"{len(completed) - len(known)} without two evaluations, all of them finite")
    return Areas(tuple(known), cell.planned, "; ".join(told))


def _area(member: Member) -> float | None:
    steps, returns = member.steps, member.returns
    if len(steps) < 2 or not member.is_evaluated or not np.isfinite(returns).all():
        return None
    return float(area_under_curve(steps, returns))


def _row(inquiry: Inquiry, task: str, label: str, areas: Areas) -> tuple[Value, ...]:
    cell = inquiry.evidence.cell(label, task)
    found = None
    if cell and areas.values:
        found = _estimate(inquiry, [areas.values], possible_scores([cell], None))
    runs = f"{len(areas.values)} of {areas.planned}"
    return (task, label, runs, found, areas.reason or None)


def _over_all(
    inquiry: Inquiry, label: str, scale: Scales, found: Mapping[tuple[str, str], Areas]
) -> tuple[Value, ...]:
    """The row of a label over all tasks; the area of normalised returns is the normalised area."""
    own = {task: found[task, label] for task in inquiry.evidence.tasks}
    runs = f"{sum(len(a.values) for a in own.values())} of {sum(a.planned for a in own.values())}"
    lacking = [task for task, areas in own.items() if not areas.values]
    if lacking:
        return (ALL_TASKS, label, runs, None, f"none on {listed(lacking)}")
    normalised = [_normalised(areas.values, scale[task]) for task, areas in own.items()]
    ends = possible_scores(inquiry.evidence.of_label(label), scale)
    return (ALL_TASKS, label, runs, _estimate(inquiry, normalised, ends), None)


def _normalised(values: Sequence[float], scale: Scale | None) -> Sequence[float]:
    assert scale is not None
    return tuple(scale.normalised(np.asarray(values, dtype=np.float64)).tolist())


def _estimate(inquiry: Inquiry, tasks: Sequence[Sequence[float]], ends: Ends) -> Estimate:
    scores = TaskScores.from_tasks(tasks)
    return inquiry.settings.estimator.estimate(scores, interquartile_mean, ends)
