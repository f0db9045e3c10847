"""Numbers that sections and `rlexp compare` share: `aggregates`, `per_task` and `pairs`.

Scores of several tasks are normalised by anchors, those of one task are raw: `unit` says which.
What cannot be computed stands there with a reason in words, never with a smaller n. What runs
without a score could change is in `rlexp.reports.analysis.estimates`.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import combinations

import numpy as np

from rlexp.metrics import Metric
from rlexp.metrics.estimate import Estimate, largest_difference
from rlexp.reports.analysis.inquiry import Inquiry
from rlexp.reports.analysis.scale import (
    AnchorsByTask,
    common_scale,
    possible_ends,
    possible_scores,
    scales,
    task_scores,
    without_anchors,
)
from rlexp.reports.evidence.runs import Cell, Evidence, states
from rlexp.stats.aggregate import aggregate_of
from rlexp.stats.comparison import PrimaryTest
from rlexp.stats.difference import tasks_of_both
from rlexp.stats.task_scores import LARGEST_SCORE, TaskScores
from rlexp.stats.verdict import Decision, verdicts
from rlexp.text import listed

UNBOUNDED = LARGEST_SCORE
"""What stands for a score without a bound; what a metric ignores leaves no trace of it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class AggregateBounds:
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


def bounds(report: Inquiry) -> tuple[AggregateBounds, ...]:
    """Bounds on every aggregate over all tasks, of every label that has a run without a score.

    Such a run stands for anything between the least and the greatest score that its task
    declares. It holds for metrics that rise, or fall, with every score.
    """
    scale, all_scales = (
        common_scale(report.evidence, report.settings),
        scales(report.evidence, report.settings),
    )
    every = []
    for label in report.evidence.labels:
        cells = report.evidence.of_label(label)
        if any(len(cell.scored) < cell.planned for cell in cells):
            for name, metric in report.metrics.items():
                metric_scale = all_scales if is_capped(metric) else scale
                every.append(_bounds(name, metric, cells, report, metric_scale))
    return tuple(every)


def _bounds(
    name: str, metric: Metric, cells: list[Cell], report: Inquiry, scale: AnchorsByTask | None
) -> AggregateBounds:
    label, absent = cells[0].label, sum(c.planned - len(c.scored) for c in cells)
    lacking = [t for t in report.evidence.tasks if t not in {c.task for c in cells}]
    reason = f"{label} was not asked for on {listed(lacking)}" if lacking else None
    if reason is None and scale is not None:
        reason = without_anchors(scale, report)
    if reason is not None:
        return AggregateBounds(label=label, metric=name, absent=absent, reason=reason)
    references = {c.task: report.evidence.reference(c.task) for c in cells}
    ends = [
        _finite(metric, _scores(cells, scale, {t: r.get(key) for t, r in references.items()}, far))
        for key, far in (("minimum", -UNBOUNDED), ("maximum", UNBOUNDED))
    ]
    low, high = ends if metric.higher_is_better else ends[::-1]
    return AggregateBounds(
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
    reasons = []
    for key, end in zip(("minimum", "maximum"), ends, strict=True):
        bare = [task for task in short if references[task].get(key) is None]
        if end is None and bare:
            reasons.append(f"no bound: {listed(bare)} declares no environment.reference.{key}")
    return "; ".join(reasons) or None


def _scores(
    cells: list[Cell],
    scale: AnchorsByTask | None,
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
        anchors = scale[cell.task] if scale else None
        scaled = anchors.normalised(values) if anchors else values
        # `far` stays within what a score may be, however narrow the scale.
        tasks.append(np.clip(scaled, -UNBOUNDED, UNBOUNDED))
    return TaskScores.from_tasks(tasks)


def _finite(metric: Metric, scores: TaskScores) -> float | None:
    value = float(metric(scores))
    return value if abs(value) < np.sqrt(UNBOUNDED) else None


PRIMARY = PrimaryTest.PERMUTATION
"""The test that decides verdicts."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Estimates:
    """The metrics of one label, over all tasks or on one.

    Attributes:
        label: Whose.
        tasks: On which.
        n: Runs that the numbers rest on, or would.
        planned: Runs that were asked for; n is less where some have no score.
        intervals: By name of the metric; only those that could be computed.
        reasons: Why not, by name of the metric, for all others.
        scores: Of the runs on one task, rising, in units of its return; empty over several.
    """

    label: str
    tasks: tuple[str, ...]
    n: int
    planned: int
    intervals: Mapping[str, Estimate] = field(default_factory=dict)
    reasons: Mapping[str, str] = field(default_factory=dict)
    scores: tuple[float, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class LabelPair:
    """Two labels on the tasks that both have scores on.

    Attributes:
        first: The label that the verdict is about.
        second: The label that it is compared with.
        tasks: Those that both have scores on, in order of their names.
        left_out: Tasks on which a label or both have no score: the verdict is not about them.
        decision: The verdict; nothing where `reason` says why not.
        reason: Why the labels cannot be compared, in words.
    """

    first: str
    second: str
    tasks: tuple[str, ...]
    left_out: tuple[str, ...]
    decision: Decision | None = None
    reason: str | None = None


def unit(evidence: Evidence) -> str:
    """What aggregates and differences are measured in."""
    return "normalised score" if len(evidence.tasks) > 1 else "return"


def aggregates(report: Inquiry) -> tuple[Estimates, ...]:
    """Every metric of every label over all tasks, in the order of the labels.

    There is none for a label that was not asked for on every task or has no score on one, nor
    for any label where a task has no anchors.
    """
    scale = common_scale(report.evidence, report.settings)
    every = []
    for label in report.evidence.labels:
        reason = _gap(label, report.evidence) or (scale and without_anchors(scale, report))
        every.append(_estimates(label, report, report.evidence.tasks, scale, reason or None))
    return tuple(every)


def per_task(report: Inquiry) -> tuple[Estimates, ...]:
    """Every metric of every label on every task, in units of its return; tasks outermost.

    A label that was not asked for on a task stands there with that as the reason.
    """
    every = []
    for task in report.evidence.tasks:
        for label in report.evidence.labels:
            cell = report.evidence.cell(label, task)
            reason = f"{label} was not asked for on {task}" if cell is None else _empty([cell])
            every.append(_estimates(label, report, (task,), None, reason))
    return tuple(every)


def pairs(report: Inquiry) -> tuple[LabelPair, ...]:
    """Every pair of labels with its verdict, p-values adjusted over the pairs by Holm.

    Verdicts are about the mean over tasks of the difference of the means, decided by a
    permutation test; the difference is positive where the first label is higher. A pair whose
    `reason` says why it cannot be compared is not one of those that are adjusted for: whatever its
    scores, it gets no verdict. One that is compared and cannot be tested is.
    """
    if "pairs" not in report.computed:
        report.computed["pairs"] = _pairs(report)
    compared: tuple[LabelPair, ...] = report.computed["pairs"]
    return compared


def _pairs(report: Inquiry) -> tuple[LabelPair, ...]:
    settings, scale = report.settings, common_scale(report.evidence, report.settings)
    labels = combinations(report.evidence.labels, 2)
    joined = [_joined(a, b, report.evidence) for a, b in labels]
    scored = [_scores_of_both(pair, report, scale) for pair in joined]
    compared = [
        (both, _furthest(pair, report.evidence, scale))
        for pair, both in zip(joined, scored, strict=True)
        if not isinstance(both, str)
    ]
    decisions = iter(
        verdicts(
            [both for both, _ in compared],
            settings.resampling,
            furthest=[far for _, far in compared],
            alpha=settings.alpha,
            margin=settings.margin,
            primary=PRIMARY,
            power=settings.power,
        )
    )
    return tuple(
        replace(pair, reason=both)
        if isinstance(both, str)
        else replace(pair, decision=next(decisions))
        for pair, both in zip(joined, scored, strict=True)
    )


def is_capped(metric: Metric) -> bool:
    """Whether a metric is about a score beyond which nothing is gained, and so a normalised one."""
    aggregate = aggregate_of(metric)
    return aggregate is not None and aggregate.cap is not None


def _estimates(
    label: str,
    report: Inquiry,
    tasks: tuple[str, ...],
    scale: AnchorsByTask | None,
    reason: str | None,
) -> Estimates:
    cells = [c for c in report.evidence.of_label(label) if c.task in tasks]
    computed: dict[str, Estimate] = {}
    reasons = dict.fromkeys(report.metrics, reason or "")
    if reason is None:
        computed, reasons = _computed(cells, report, scale)
    alone = cells[0].scores if len(tasks) == 1 and cells else ()
    return Estimates(
        label=label,
        tasks=tasks,
        n=sum(cell.n for cell in cells),
        planned=sum(cell.planned for cell in cells),
        intervals=computed,
        reasons=reasons,
        scores=tuple(float(score) for score in alone),
    )


def _computed(
    cells: list[Cell], report: Inquiry, scale: AnchorsByTask | None
) -> tuple[dict[str, Estimate], dict[str, str]]:
    """Intervals by metric, and why there is none; capped metrics are of normalised scores."""
    reasons: dict[str, str] = {}
    capped = {name: m for name, m in report.metrics.items() if is_capped(m)}
    uncapped = {name: m for name, m in report.metrics.items() if name not in capped}
    anchors = scale or _scales_of(cells, report)
    if capped and (reason := without_anchors(anchors, report)):
        reasons, capped = dict.fromkeys(capped, reason), {}
    estimates: dict[str, Estimate] = {}
    for metrics, metric_scale in ((uncapped, scale), (capped, anchors)):
        if metrics:
            ends = possible_scores(cells, metric_scale)
            estimates |= report.settings.estimator.estimates(
                task_scores(cells, metric_scale), metrics, ends
            )
    return {name: estimates[name] for name in report.metrics if name in estimates}, reasons


def _scales_of(cells: Sequence[Cell], report: Inquiry) -> AnchorsByTask:
    all_scales = scales(report.evidence, report.settings)
    return {cell.task: all_scales[cell.task] for cell in cells}


def _gap(label: str, evidence: Evidence) -> str | None:
    """What a label lacks for an aggregate over all tasks."""
    cells = evidence.of_label(label)
    lacking = [task for task in evidence.tasks if task not in {cell.task for cell in cells}]
    if lacking:
        return f"{label} was not asked for on {listed(lacking)}"
    return _empty(cells)


def _empty(cells: Sequence[Cell]) -> str | None:
    """Where a label has no score, and why."""
    empty = [f"{c.task} ({states(c.members)})" for c in cells if not c.n]
    return f"{cells[0].label} has no score on {listed(empty)}" if empty else None


def _furthest(pair: LabelPair, evidence: Evidence, scale: AnchorsByTask | None) -> float | None:
    """The largest difference that the tasks of a pair allow."""
    cells = [evidence.cells[pair.first, task] for task in pair.tasks]
    return largest_difference(possible_ends(cells, scale))


def _joined(first: str, second: str, evidence: Evidence) -> LabelPair:
    scored = [
        {cell.task for cell in evidence.of_label(name) if cell.n} for name in (first, second)
    ]
    both = scored[0] & scored[1]
    return LabelPair(
        first=first,
        second=second,
        tasks=tuple(task for task in evidence.tasks if task in both),
        left_out=tuple(task for task in evidence.tasks if task not in both),
    )


def _scores_of_both(
    pair: LabelPair, report: Inquiry, scale: AnchorsByTask | None
) -> tuple[TaskScores, TaskScores] | str:
    """The scores of both labels, or why they cannot be compared."""
    if not pair.tasks:
        return f"{pair.first} and {pair.second} have scores on no common task"
    anchors = {task: scale[task] for task in pair.tasks} if scale else {}
    if reason := without_anchors(anchors, report):
        return reason
    first, second = (
        task_scores([report.evidence.cells[label, task] for task in pair.tasks], scale)
        for label in (pair.first, pair.second)
    )
    try:
        tasks_of_both(first, second)
    except ValueError as error:
        return str(error)
    return first, second
