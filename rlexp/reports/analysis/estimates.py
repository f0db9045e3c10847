"""Estimates that sections and `rlexp compare` share, so that both show the same numbers.

`aggregates` are metrics over all tasks, `per_task` those on each task, `pairs` the verdicts, and
`bounds` the range of aggregates under missing scores. Scores of several tasks are normalised by
anchors, those of a single task are raw (`unit`). An estimate that cannot be computed has a reason,
and never a smaller n.
"""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import combinations
from typing import Any

import numpy as np

from rlexp.metrics import Metric
from rlexp.metrics.estimate import Estimate, largest_difference
from rlexp.protocol.measures import declaration_key
from rlexp.reports.analysis.report_context import ReportContext
from rlexp.reports.analysis.scale import (
    AnchorsByTask,
    anchors_by_task,
    common_scale,
    possible_ends,
    possible_scores,
    task_scores,
    without_anchors,
)
from rlexp.reports.evidence.runs import Evidence, LabelTaskRuns, run_states_text
from rlexp.stats.aggregate import Negative, Reflected, Statistic, aggregate_of
from rlexp.stats.level_warning import level_warning
from rlexp.stats.pairs.difference import tasks_of_both
from rlexp.stats.pairs.pairwise_family import Family
from rlexp.stats.pairs.verdict import Decision, verdicts
from rlexp.stats.task_scores import LARGEST_SCORE, TaskScores
from rlexp.text import join_names

UNBOUNDED = LARGEST_SCORE
"""Stands for a score without a declared bound. A metric that ignores outliers stays finite."""

NO_BOUND = "No bound: "
"""The beginning of the reason why a task gives no bound on an aggregate."""


@dataclass(frozen=True, slots=True, kw_only=True)
class AggregateBounds:
    """Range of an aggregate over all possible scores of the runs without one.

    Attributes:
        label: Label of the aggregate.
        metric: Name of the metric.
        absent: Number of runs without a score: failed, unfinished, or not finite.
        alone: The aggregate of the runs with a score; `None` where a task has none.
        low: Smallest possible aggregate; `None` where it has no bound.
        high: Largest possible aggregate; `None` where it has no bound.
        reason: Why there is no bound, or no aggregate.
    """

    label: str
    metric: str
    absent: int
    alone: float | None = None
    low: float | None = None
    high: float | None = None
    reason: str | None = None


def bounds(report: ReportContext) -> tuple[AggregateBounds, ...]:
    """Bounds on every aggregate over all tasks, of every label that has a run without a score.

    The missing scores may be anything between the smallest and the largest score that the task
    declares. The bounds are exact for metrics that are monotone in every score.
    """
    scale, all_scales = (
        common_scale(report.evidence, report.settings),
        anchors_by_task(report.evidence, report.settings),
    )
    every = []
    for label in report.evidence.labels:
        cells = report.evidence.of_label(label)
        if any(len(cell.scored) < cell.planned for cell in cells):
            for name, metric in report.metrics.items():
                # A capped metric is normalised even on a single task, whose other metrics are raw.
                metric_scale = all_scales if is_capped(metric) else scale
                every.append(_bounds(name, metric, cells, report, metric_scale))
    return tuple(every)


def _bounds(
    name: str,
    metric: Metric,
    cells: list[LabelTaskRuns],
    report: ReportContext,
    scale: AnchorsByTask | None,
) -> AggregateBounds:
    label, absent = cells[0].label, sum(c.planned - len(c.scored) for c in cells)
    lacking = [t for t in report.evidence.tasks if t not in {c.task for c in cells}]
    reason = f"{label} has no planned run on {join_names(lacking)}" if lacking else None
    if reason is None and scale is not None:
        reason = without_anchors(scale, report)
    if reason is not None:
        return AggregateBounds(label=label, metric=name, absent=absent, reason=reason)
    references = {c.task: report.evidence.reference(c.task) for c in cells}
    ends = [
        _finite(metric, _scores(cells, scale, _extremes(cells, references, scale, key)))
        for key in ("minimum", "maximum")
    ]
    # For a metric such as the optimality gap, the smallest scores give the largest value.
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


def _extremes(
    cells: list[LabelTaskRuns],
    references: Mapping[str, Mapping[str, Any]],
    scale: AnchorsByTask | None,
    key: str,
) -> dict[str, float]:
    """The smallest (`minimum`) or largest possible score of each task on a scale, unnormalised.

    On a scale that is reversed, the smallest normalised score belongs to the largest raw one.
    """
    extremes = {}
    for cell in cells:
        anchors = scale[cell.task] if scale else None
        turned = anchors is not None and anchors.is_reversed
        end = {"minimum": "maximum", "maximum": "minimum"}[key] if turned else key
        declared = references[cell.task].get(end)
        far = -UNBOUNDED if end == "minimum" else UNBOUNDED
        extremes[cell.task] = far if declared is None else declared
    return extremes


def _undeclared(
    cells: list[LabelTaskRuns],
    references: Mapping[str, Mapping[str, object]],
    ends: list[float | None],
) -> str | None:
    """The ends without a bound, and the tasks that do not declare one."""
    short = [c.task for c in cells if len(c.scored) < c.planned]
    where = declaration_key(cells[0].members[0].configuration.budget.score)
    reasons = []
    for key, end in zip(("minimum", "maximum"), ends, strict=True):
        bare = [task for task in short if references[task].get(key) is None]
        if end is None and bare:
            reasons.append(f"{join_names(bare)} declares no {where}.{key}")
    return NO_BOUND + "; ".join(reasons) if reasons else None


def _scores(
    cells: list[LabelTaskRuns],
    scale: AnchorsByTask | None,
    ends: Mapping[str, float] | None = None,
) -> TaskScores:
    """Scores of the runs; with `ends`, a run without one has the end of its task."""
    tasks = []
    for cell in cells:
        scores = [m.score for m in cell.scored]
        if ends is not None:
            scores += [ends[cell.task]] * (cell.planned - len(scores))
        values = np.asarray(scores, dtype=np.float64)
        anchors = scale[cell.task] if scale else None
        scaled = anchors.normalised(values) if anchors else values
        # Normalising by narrow anchors would push `far` beyond the range of valid scores.
        tasks.append(np.clip(scaled, -UNBOUNDED, UNBOUNDED))
    return TaskScores.from_tasks(tasks)


def _finite(metric: Metric, scores: TaskScores) -> float | None:
    value = float(metric(scores))
    # A mean of one unbounded score over thousands of runs is still beyond the square root.
    return value if abs(value) < np.sqrt(UNBOUNDED) else None


@dataclass(frozen=True, slots=True, kw_only=True)
class LabelEstimates:
    """The metrics of one label, over all tasks or on a single task.

    Attributes:
        label: The label.
        tasks: Names of the tasks.
        n: Number of scores.
        planned: Number of planned runs; n is smaller where some have no score.
        intervals: Estimates by name of the metric, where they can be computed.
        reasons: By name of the metric, why there is no estimate, for all others.
        scores: Scores on a single task, rising, in its units; empty for several tasks.
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
    """Two labels, compared on the tasks on which both have scores.

    Attributes:
        first: The label that the verdict is about.
        second: The label that it is compared with.
        tasks: Names of these tasks, sorted.
        left_out: Tasks without a score of one label or both; the verdict does not cover them.
        decision: The verdict; `None` where the labels cannot be compared.
        reason: Why the labels cannot be compared; `None` with a decision.
        warning: Why the verdict may not hold its level; `None` where the runs look usual.
    """

    first: str
    second: str
    tasks: tuple[str, ...]
    left_out: tuple[str, ...]
    decision: Decision | None = None
    reason: str | None = None
    warning: str | None = None


def unit(evidence: Evidence) -> str:
    """Unit of aggregates and differences: normalised score, or the quantity of a single task."""
    single = len(evidence.tasks) == 1
    return evidence.quantity(evidence.tasks[0]) if single else "normalised score"


def aggregates(report: ReportContext) -> tuple[LabelEstimates, ...]:
    """Every metric of every label over all tasks, the label with the best score first.

    A label has no aggregates where it has no planned run or no score on a task. No label has any
    where a task has no anchors.
    """
    # The card and two sections show them, and their intervals are resampled.
    if "aggregates" not in report.computed:
        report.computed["aggregates"] = _aggregates(report)
    every: tuple[LabelEstimates, ...] = report.computed["aggregates"]
    return every


def _aggregates(report: ReportContext) -> tuple[LabelEstimates, ...]:
    scale = common_scale(report.evidence, report.settings)
    every = []
    for label in report.evidence.labels:
        reason = _gap(label, report.evidence) or (scale and without_anchors(scale, report))
        every.append(_estimates(label, report, report.evidence.tasks, scale, reason or None))
    return _best_first(every, report, lower_is_better=is_reflected(report))


def best_labels_first(report: ReportContext) -> tuple[str, ...]:
    """The labels in the order of their leading metric over all tasks, those without it last."""
    return tuple(estimates.label for estimates in aggregates(report))


def _best_first(
    estimates: Sequence[LabelEstimates], report: ReportContext, *, lower_is_better: bool
) -> tuple[LabelEstimates, ...]:
    """The estimates in the order of the leading metric; equal ones keep the order of the labels.

    `lower_is_better` is about the scores. A metric may be better the lower it is, too.
    """
    name, metric = leading_metric(report)
    sign = 1 if metric.higher_is_better is lower_is_better else -1

    def rank(of_label: LabelEstimates) -> float:
        estimate = of_label.intervals.get(name)
        # A NaN would make the order depend on the order of the labels.
        if estimate is None or math.isnan(estimate.estimate):
            return math.inf
        return sign * estimate.estimate

    return tuple(sorted(estimates, key=rank))


def per_task(report: ReportContext) -> tuple[LabelEstimates, ...]:
    """Every metric of every label on every task, in units of its return.

    Tasks are outermost. On each task, the label with the best score is first.
    A label without a planned run on a task has a reason instead of estimates.
    """
    every: list[LabelEstimates] = []
    capped = is_capped(leading_metric(report)[1])
    for task in report.evidence.tasks:
        on_task = []
        for label in report.evidence.labels:
            cell = report.evidence.cell(label, task)
            reason = f"{label} has no planned run on {task}" if cell is None else _empty([cell])
            on_task.append(_estimates(label, report, (task,), None, reason))
        # Capped metrics are of normalised scores, which are better the higher they are.
        lower_is_better = report.evidence.lower_is_better(task) and not capped
        every += _best_first(on_task, report, lower_is_better=lower_is_better)
    return tuple(every)


def pairs(report: ReportContext) -> tuple[LabelPair, ...]:
    """Every pair of labels with its verdict, p-values adjusted over all labels.

    A verdict is about the difference of the leading metric (positive where the first label is
    better), and a permutation test decides it. The family contains every pair that can be
    compared, also one whose test is impossible; a pair with a `reason` is not part of it, because
    no scores could give it a verdict.
    """
    # Several sections ask for the pairs, and permutation tests take seconds.
    if "pairs" not in report.computed:
        report.computed["pairs"] = _pairs(report)
    compared: tuple[LabelPair, ...] = report.computed["pairs"]
    return compared


def _pairs(report: ReportContext) -> tuple[LabelPair, ...]:
    scale = verdict_scale(report)
    evidence = report.evidence
    tasks = {name: _scored_tasks(name, evidence) for name in evidence.labels}
    joined = [
        _joined(a, b, evidence.tasks, tasks[a] & tasks[b])
        for a, b in combinations(evidence.labels, 2)
    ]
    scores: dict[tuple[str, tuple[str, ...]], TaskScores] = {}
    scored = [_scores_of_both(pair, report, scale, scores) for pair in joined]
    metric = _verdict_metric(report)
    # One call for all pairs: the adjustment needs the whole family.
    decisions = iter(_decisions(report, joined, scored))
    return tuple(
        replace(pair, reason=both)
        if isinstance(both, str)
        else replace(
            pair,
            decision=next(decisions),
            warning=level_warning(*both, pair.first, pair.second, metric),
        )
        for pair, both in zip(joined, scored, strict=True)
    )


def leading_metric(report: ReportContext) -> tuple[str, Metric]:
    """Name and metric with which tables begin, and about which verdicts are."""
    return next(iter(report.metrics.items()))


def verdict_scale(report: ReportContext) -> AnchorsByTask | None:
    """Anchors of the scores of verdicts; `None` where the scores are raw."""
    # A capped metric is normalised even on a single task, whose other metrics are raw.
    if is_capped(leading_metric(report)[1]):
        return anchors_by_task(report.evidence, report.settings)
    return common_scale(report.evidence, report.settings)


def is_reflected(report: ReportContext) -> bool:
    """Whether verdicts are about scores with reversed signs, because lower raw ones are better.

    Normalised scores are better the higher they are, whatever the raw ones are.
    """
    return report.evidence.is_minimised and verdict_scale(report) is None


def order_of_difference(report: ReportContext) -> str:
    """Which label is subtracted from which in the differences of verdicts, in words."""
    if is_reflected(report):
        return "second label minus first, because lower is better"
    return "first label minus second"


def _verdict_metric(report: ReportContext) -> Statistic:
    """The leading metric as a function of the scores that verdicts are about."""
    metric = leading_metric(report)[1]
    # The usual aggregates are odd functions, and are computed much faster than others.
    if not is_reflected(report) or aggregate_of(metric) is not None:
        return metric
    return Reflected(metric)


def verdict_unit(report: ReportContext) -> str:
    """Unit of the differences of verdicts: normalised score, or the quantity of the score."""
    capped = is_capped(leading_metric(report)[1])
    return "normalised score" if capped else unit(report.evidence)


def _decisions(
    report: ReportContext,
    joined: Sequence[LabelPair],
    scored: Sequence[tuple[TaskScores, TaskScores] | str],
) -> tuple[Decision, ...]:
    """A decision for each pair that can be compared."""
    settings, scale = report.settings, verdict_scale(report)
    compared = [
        (pair, both)
        for pair, both in zip(joined, scored, strict=True)
        if not isinstance(both, str)
    ]
    if not compared:
        return ()
    furthest = [_furthest(pair, report.evidence, scale) for pair, _ in compared]
    _, metric = leading_metric(report)
    statistic = _verdict_metric(report)
    family = Family(
        pairs=[both for _, both in compared],
        members=_members([pair for pair, _ in compared]),
        statistic=statistic if metric.higher_is_better else Negative(statistic),
        resampling=settings.resampling,
        alpha=settings.alpha,
        margin=settings.margin,
        furthest=furthest,
        intervals=report.pair_intervals,
    )
    return verdicts(family, power=settings.power)


def _members(pairs: Sequence[LabelPair]) -> list[tuple[int, int]] | None:
    """Numbers of both labels of each pair; `None` where not every pair shares all tasks."""
    names = dict.fromkeys(name for pair in pairs for name in (pair.first, pair.second))
    labels = {name: number for number, name in enumerate(names)}
    complete = len(pairs) == len(labels) * (len(labels) - 1) // 2
    if not complete or len({pair.tasks for pair in pairs}) > 1:
        return None
    return [(labels[pair.first], labels[pair.second]) for pair in pairs]


def is_capped(metric: Metric) -> bool:
    """Whether a metric caps scores (optimality gap), which needs normalised scores."""
    aggregate = aggregate_of(metric)
    return aggregate is not None and aggregate.cap is not None


def _estimates(
    label: str,
    report: ReportContext,
    tasks: tuple[str, ...],
    scale: AnchorsByTask | None,
    reason: str | None,
) -> LabelEstimates:
    cells = [c for c in report.evidence.of_label(label) if c.task in tasks]
    computed: dict[str, Estimate] = {}
    reasons = dict.fromkeys(report.metrics, reason or "")
    if reason is None:
        computed, reasons = _computed(cells, report, scale)
    alone = cells[0].scores if len(tasks) == 1 and cells else ()
    return LabelEstimates(
        label=label,
        tasks=tasks,
        n=sum(cell.n for cell in cells),
        planned=sum(cell.planned for cell in cells),
        intervals=computed,
        reasons=reasons,
        scores=tuple(float(score) for score in alone),
    )


def _computed(
    cells: list[LabelTaskRuns], report: ReportContext, scale: AnchorsByTask | None
) -> tuple[dict[str, Estimate], dict[str, str]]:
    """Intervals by metric, and reasons for absent ones; capped metrics use normalised scores."""
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
            estimates |= report.estimator.estimates(
                task_scores(cells, metric_scale), metrics, ends
            )
    return {name: estimates[name] for name in report.metrics if name in estimates}, reasons


def _scales_of(cells: Sequence[LabelTaskRuns], report: ReportContext) -> AnchorsByTask:
    all_scales = anchors_by_task(report.evidence, report.settings)
    return {cell.task: all_scales[cell.task] for cell in cells}


def _gap(label: str, evidence: Evidence) -> str | None:
    """Why a label has no aggregate over all tasks; `None` where it has one."""
    cells = evidence.of_label(label)
    lacking = [task for task in evidence.tasks if task not in {cell.task for cell in cells}]
    if lacking:
        return f"{label} has no planned run on {join_names(lacking)}"
    return _empty(cells)


def _empty(cells: Sequence[LabelTaskRuns]) -> str | None:
    """The tasks without a score of the label, with the states of its runs."""
    empty = [f"{c.task} ({run_states_text(c.members)})" for c in cells if not c.n]
    return f"{cells[0].label} has no score on {join_names(empty)}" if empty else None


def _furthest(pair: LabelPair, evidence: Evidence, scale: AnchorsByTask | None) -> float | None:
    """Largest possible difference on the tasks of a pair."""
    cells = [evidence.cells[pair.first, task] for task in pair.tasks]
    return largest_difference(possible_ends(cells, scale))


def _scored_tasks(label: str, evidence: Evidence) -> set[str]:
    return {cell.task for cell in evidence.of_label(label) if cell.n}


def _joined(first: str, second: str, tasks: Sequence[str], both: set[str]) -> LabelPair:
    return LabelPair(
        first=first,
        second=second,
        tasks=tuple(task for task in tasks if task in both),
        left_out=tuple(task for task in tasks if task not in both),
    )


def _scores_of_both(
    pair: LabelPair,
    report: ReportContext,
    scale: AnchorsByTask | None,
    computed: dict[tuple[str, tuple[str, ...]], TaskScores],
) -> tuple[TaskScores, TaskScores] | str:
    """Scores of both labels, or the reason why they cannot be compared.

    Args:
        pair: The pair.
        report: The report.
        scale: Anchors of the scores; `None` where they are raw.
        computed: Scores by label and tasks, to which new ones are added.
    """
    if not pair.tasks:
        return f"{pair.first} and {pair.second} have no task in common on which both have a score"
    anchors = {task: scale[task] for task in pair.tasks} if scale else {}
    if reason := without_anchors(anchors, report):
        return reason
    for label in (pair.first, pair.second):
        if (label, pair.tasks) not in computed:
            cells = [report.evidence.cells[label, task] for task in pair.tasks]
            scores = task_scores(cells, scale)
            if is_reflected(report):
                scores = TaskScores.from_tasks([cell.merits for cell in cells])
            computed[label, pair.tasks] = scores
    first, second = (computed[label, pair.tasks] for label in (pair.first, pair.second))
    # Scores may be too few or out of range for a difference; the reason replaces a verdict.
    try:
        tasks_of_both(first, second)
    except ValueError as error:
        return str(error)
    return first, second
