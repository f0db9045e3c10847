"""What runs without a score of their own could change: bounds on every aggregate."""

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np

from rlexp.metrics import Metric
from rlexp.reports.analysis.estimates import is_capped
from rlexp.reports.analysis.inquiry import Inquiry
from rlexp.reports.analysis.scale import Scales, common_scale, scales, without_anchors
from rlexp.reports.evidence.runs import Cell
from rlexp.reports.sentences import listed
from rlexp.stats.task_scores import LARGEST_SCORE, TaskScores

UNBOUNDED = LARGEST_SCORE
"""What stands for a score without a bound; what a metric ignores leaves no trace of it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Bounds:
    """Where an aggregate would lie, had all of a label's runs a score.

    Attributes:
        label: Whose aggregate.
        metric: Its name.
        absent: Runs without a score of their own: failed, not finished, or no finite number.
        alone: The aggregate of the other runs alone; nothing where a task has none.
        low: The least that it could be; nothing where it has no bound.
        high: The greatest that it could be; nothing where it has no bound.
        reason: What has no bound and why, or why there is no aggregate, in words.
    """

    label: str
    metric: str
    absent: int
    alone: float | None = None
    low: float | None = None
    high: float | None = None
    reason: str | None = None


def bounds(inquiry: Inquiry) -> tuple[Bounds, ...]:
    """Bounds on every aggregate over all tasks, of every label that has a run without a score.

    Such a run stands for anything between the least and the greatest score that its task
    declares. It holds for metrics that rise, or fall, with every score.
    """
    scale, known = (
        common_scale(inquiry.evidence, inquiry.settings),
        scales(inquiry.evidence, inquiry.settings),
    )
    found = []
    for label in inquiry.evidence.labels:
        cells = inquiry.evidence.of_label(label)
        if any(len(cell.scored) < cell.planned for cell in cells):
            for name, metric in inquiry.metrics.items():
                own = known if is_capped(metric) else scale
                found.append(_bounds(name, metric, cells, inquiry, own))
    return tuple(found)


def _bounds(
    name: str, metric: Metric, cells: list[Cell], inquiry: Inquiry, scale: Scales | None
) -> Bounds:
    label, absent = cells[0].label, sum(c.planned - len(c.scored) for c in cells)
    lacking = [t for t in inquiry.evidence.tasks if t not in {c.task for c in cells}]
    reason = f"{label} was not asked for on {listed(lacking)}" if lacking else None
    if reason is None and scale is not None:
        reason = without_anchors(scale, inquiry)
    if reason is not None:
        return Bounds(label=label, metric=name, absent=absent, reason=reason)
    references = {c.task: inquiry.evidence.reference(c.task) for c in cells}
    ends = [
        _finite(metric, _scores(cells, scale, {t: r.get(key) for t, r in references.items()}, far))
        for key, far in (("minimum", -UNBOUNDED), ("maximum", UNBOUNDED))
    ]
    low, high = ends if metric.higher_is_better else ends[::-1]
    return Bounds(
        label=label,
        metric=name,
        absent=absent,
        alone=float(metric(_scores(cells, scale))) if all(c.scored for c in cells) else None,
        low=low,
        high=high,
        reason=_undeclared(cells, references, ends),
    )


def _undeclared(
    cells: list[Cell], references: Mapping[str, Mapping[str, object]], ends: list[float | None]
) -> str | None:
    """Which end has no bound, and which tasks declare none."""
    short = [c.task for c in cells if len(c.scored) < c.planned]
    told = []
    for key, end in zip(("minimum", "maximum"), ends, strict=True):
        bare = [task for task in short if references[task].get(key) is None]
        if end is None and bare:
            told.append(f"no bound: {listed(bare)} declares no environment.reference.{key}")
    return "; ".join(told) or None


def _scores(
    cells: list[Cell],
    scale: Scales | None,
    ends: Mapping[str, float | None] | None = None,
    far: float = 0.0,
) -> TaskScores:
    """Scores of the runs' own; with ends, every other run has that of its task, or `far`."""
    tasks = []
    for cell in cells:
        scores = [m.score for m in cell.scored]
        if ends is not None:
            end = ends[cell.task]
            scores += [far if end is None else end] * (cell.planned - len(scores))
        values = np.asarray(scores, dtype=np.float64)
        own = scale[cell.task] if scale else None
        scaled = own.normalised(values) if own else values
        # `far` stays within what a score may be, however narrow the scale.
        tasks.append(np.clip(scaled, -UNBOUNDED, UNBOUNDED))
    return TaskScores.from_tasks(tasks)


def _finite(metric: Metric, scores: TaskScores) -> float | None:
    value = float(metric(scores))
    return value if abs(value) < np.sqrt(UNBOUNDED) else None
