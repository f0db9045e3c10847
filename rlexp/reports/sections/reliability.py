"""The section of reliability: dispersion and risk over time, runs and episodes, and failures."""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from rlexp.metrics.estimate import UNKNOWN, Ends, Estimator, largest_difference
from rlexp.records.run import LARGEST_SCORE, State
from rlexp.reports.analysis.estimates import best_labels_first
from rlexp.reports.analysis.every_run import with_every_run
from rlexp.reports.analysis.report_context import ReportContext
from rlexp.reports.analysis.scale import possible_scores, scale_of
from rlexp.reports.analysis.score_words import about_scores
from rlexp.reports.drawing.blocks import (
    REMARK_COLUMN,
    SectionContent,
    Table,
    TableColumn,
    Text,
    Value,
    without_empty_remarks,
)
from rlexp.reports.evidence.runs import Evidence, LabelTaskRuns, PlannedRun, run_states_text
from rlexp.stats.curves import align, common_grid
from rlexp.stats.interval import Interval, limited
from rlexp.stats.reliability.estimates import Reliability as Metric
from rlexp.stats.reliability.metrics import LearningCurves
from rlexp.stats.reliability.risk import SHARE, cvar, failure_rate, worst_count
from rlexp.stats.reliability.summary import rollout_reliability, training_reliability
from rlexp.stats.task_scores import TaskScores
from rlexp.text import decimals_for_span, format_percentage, join_first_names

Array = NDArray[np.float64]

PER_CENT = 100
SCORES = frozenset({"median performance", "risk across runs", "risk across rollouts"})
"""Metrics that are returns, whose intervals are clipped to possible returns."""
DISTANCES = frozenset({"dispersion across rollouts", "long-term risk"})
"""Metrics that are distances of two returns: from 0 to the width of the possible returns."""
# Dispersion across runs is computed after a filter, which may swing beyond the returns.
DISPERSIONS = DISTANCES | {"dispersion across runs", "dispersion across time"}
"""Metrics without negative values."""


@dataclass(frozen=True, slots=True, kw_only=True)
class LabelReliability:
    """Reliability metrics of a label on a task.

    Attributes:
        n: Number of runs from which they are computed.
        planned: Number of planned runs.
        metrics: Empty where no run can be used.
        remark: Missing data, as text.
    """

    task: str
    label: str
    n: int
    planned: int
    metrics: tuple[Metric, ...] = ()
    remark: str = ""


@dataclass(frozen=True, slots=True)
class ReliabilityKind:
    """A kind of data: its name, whether a run can be used, and how metrics are computed."""

    of: str
    usable: Callable[[PlannedRun], bool]
    compute: Callable[[ReportContext, str, Sequence[PlannedRun]], tuple[Metric, ...]]


def of_training(report: ReportContext, task: str, label: str) -> LabelReliability:
    """Metrics of the completed runs that were evaluated during training.

    Steps are in per cent of the budget. Returns are normalised by the anchors of the task where it
    has any.
    """
    return _remembered(report, task, label, TRAINING)


def of_final_policies(report: ReportContext, task: str, label: str) -> LabelReliability:
    """Metrics of the final episodes of the completed runs."""
    return _remembered(report, task, label, ROLLOUTS)


def _remembered(
    report: ReportContext, task: str, label: str, kind: ReliabilityKind
) -> LabelReliability:
    # With observed scores as anchors, the runs of other labels change the scale.
    scale = scale_of(task, report.evidence, report.settings)
    return report.memory.recall(
        ("reliability", kind.of, task, label),
        (report.evidence.cell(label, task), report.settings, scale),
        lambda: _assessed(report, task, label, kind),
    )


def _assessed(
    report: ReportContext, task: str, label: str, kind: ReliabilityKind
) -> LabelReliability:
    cell = report.evidence.cell(label, task)
    if cell is None:
        return LabelReliability(task=task, label=label, n=0, planned=0, remark="no run planned")
    completed = [m for m in cell.members if m.record.state is State.COMPLETED]
    others = [m for m in cell.members if m.record.state is not State.COMPLETED]
    used = [member for member in completed if kind.usable(member)]
    remarks = [f"not completed: {run_states_text(others)}"] if others else []
    if len(used) < len(completed):
        remarks.append(
            f"{len(completed) - len(used)} whose {kind.of} are missing or not all finite"
        )
    metrics = kind.compute(report, task, used) if used else ()
    # Ends are only known on the normalised scale: raw metrics are shares of other quantities.
    scale = scale_of(task, report.evidence, report.settings)
    ends = possible_scores([cell], {task: scale}) if scale else UNKNOWN
    metrics = tuple(_possible(metric, ends) for metric in metrics)
    if used and not metrics:
        remarks.append("the evaluations of the runs have no step in common")
    return LabelReliability(
        task=task,
        label=label,
        n=len(used),
        planned=cell.planned,
        metrics=metrics,
        remark="; ".join(remarks),
    )


def _possible(metric: Metric, ends: Ends) -> Metric:
    """The metric with its interval clipped to possible values."""
    if metric.interval is None:
        return metric
    return replace(metric, interval=limited(metric.interval, *_limits(metric.metric, ends)))


def _limits(name: str, ends: Ends) -> Ends:
    """Smallest and largest possible value of a metric of returns between `ends`."""
    if name in SCORES:
        return ends
    if name not in DISPERSIONS:
        return UNKNOWN
    return 0.0, largest_difference([ends]) if name in DISTANCES else None


def _has_curve(member: PlannedRun) -> bool:
    return member.is_evaluated and bool(np.isfinite(member.heights).all())


def _is_final(member: PlannedRun) -> bool:
    final = member.record.final
    if final is None or final.lacking(member.recorded_quantity):
        return False
    return bool((np.abs(final.values_of(member.recorded_quantity)) <= LARGEST_SCORE).all())


def _scaled(report: ReportContext, task: str) -> tuple[Callable[[Array], Array], float | None]:
    """The normalisation of returns, and the baseline by which metrics are divided.

    Without anchors, returns stay raw and metrics are divided by what the runs themselves reach.
    Greater values are better on either scale.
    """
    scale = scale_of(task, report.evidence, report.settings)
    if scale:
        return scale.normalised, 1.0
    return (np.negative if report.evidence.lower_is_better(task) else np.asarray), None


def _training(
    report: ReportContext, task: str, members: Sequence[PlannedRun]
) -> tuple[Metric, ...]:
    normalised, baseline = _scaled(report, task)
    # Runs of a label on a task have the same budget: evidence with different ones is refused.
    budget = float(members[0].record.spec.budget["steps"])
    curves = [(m.steps * PER_CENT / budget, normalised(m.heights)) for m in members]
    # The longest curve sets the resolution; runs may differ in their number of evaluations.
    grid = common_grid(curves, max(2, *(len(x) for x, _ in curves)))
    if not len(grid):
        return ()
    aligned = LearningCurves.of(grid, align(curves, grid))
    return training_reliability(
        aligned,
        report.settings.curve_resampling,
        baseline=baseline,
        middle=report.settings.interquartile_mean,
    )


def _rollouts(
    report: ReportContext, task: str, members: Sequence[PlannedRun]
) -> tuple[Metric, ...]:
    normalised, baseline = _scaled(report, task)
    finals = [
        np.asarray(m.record.final.values_of(m.recorded_quantity))
        for m in members
        if m.record.final
    ]
    returns = [normalised(final) for final in finals]
    return rollout_reliability(
        returns,
        report.settings.resampling,
        baseline=baseline,
        middle=report.settings.interquartile_mean,
    )


TRAINING = ReliabilityKind("evaluations", _has_curve, _training)
ROLLOUTS = ReliabilityKind("final episodes", _is_final, _rollouts)


WORST_ALONE = "only the worst run counts"
ARROWS = {"higher": "↑", "lower": "↓"}
ABOUT = (
    "Reliability beyond average performance (Chan et al. 2020). Dispersion is an interquartile "
    "range: lower is better (↓). Risk is the mean of the worst "
    f"{format_percentage(SHARE)} (CVaR). Short-term risk uses the changes between consecutive evaluations; "
    "risk across runs and across rollouts uses returns: the lowest are the worst, so higher is "
    "better (↑). Long-term risk uses drawdowns, the distance of a run below its best evaluation so "
    "far: the largest are the worst, so lower is better (↓)."
)
TRAINING_NOTE = (
    "Completed runs that were evaluated during training. Returns are normalised where the task "
    "has anchors; elsewhere dispersions and risks are shares of the rise of each run. "
    "Changes are per 1 % of training."
)
FINAL = (
    "Final episodes of completed runs. Returns are normalised where the task has anchors; "
    "elsewhere they are shares of the median return of each run. The CVaR of scores is in units "
    "of the score. Failed: share of the runs that completed or failed."
)


@dataclass(frozen=True, slots=True)
class ReliabilitySection:
    """Tables of training and of final policies, with a row for each label and task."""

    def part(self, report: ReportContext) -> SectionContent | None:
        """Compute the part; `None` where no run is planned."""
        evidence = report.evidence
        pairs = [(task, label) for task in evidence.tasks for label in best_labels_first(report)]
        if not pairs:
            return None
        cells = [evidence.cell(label, task) for task, label in pairs]
        blocks = (
            Text(text=about_scores(ABOUT, evidence)),
            _training_table([of_training(report, task, label) for task, label in pairs]),
            _final(
                [of_final_policies(report, task, label) for task, label in pairs],
                [_scores_and_failures(cell, report) for cell in cells],
                evidence,
            ),
        )
        return SectionContent(name="reliability", title="Reliability", blocks=blocks)


def _training_table(assessed: Sequence[LabelReliability]) -> Table:
    columns, values = _metrics(assessed)
    table = Table(
        name="reliability-training",
        title="During training",
        columns=(*_FIRST, *columns, REMARK_COLUMN),
        rows=tuple(
            (*_first(item), *row, item.remark or None)
            for item, row in zip(assessed, values, strict=True)
        ),
        note=" ".join([TRAINING_NOTE, *_remarks(assessed)]),
    )
    return with_every_run(without_empty_remarks(table))


def _final(
    assessed: Sequence[LabelReliability],
    others: Sequence[tuple[Value, Value]],
    evidence: Evidence,
) -> Table:
    columns, values = _metrics(assessed)
    lower = {evidence.lower_is_better(task) for task in evidence.tasks}
    arrow = ARROWS["lower" if lower == {True} else "higher"] if len(lower) == 1 else "↑↓"
    table = Table(
        name="reliability-final",
        title="Final policies, scores and failures",
        columns=(
            *_FIRST,
            *columns,
            TableColumn(
                title=f"CVaR of scores {arrow}", digits=_digits([score for score, _ in others])
            ),
            TableColumn(title="failed ↓"),
            REMARK_COLUMN,
        ),
        rows=tuple(
            (*_first(item), *row, *more, item.remark or None)
            for item, row, more in zip(assessed, values, others, strict=True)
        ),
        note=" ".join([about_scores(FINAL, evidence), *_remarks(assessed)]),
    )
    return with_every_run(without_empty_remarks(table))


_FIRST = (
    TableColumn(title="task"),
    TableColumn(title="label", label=True),
    TableColumn(title="runs"),
)


def _first(assessed: LabelReliability) -> tuple[Value, ...]:
    return (assessed.task, assessed.label, f"{assessed.n} of {assessed.planned}")


def _metrics(assessed: Sequence[LabelReliability]) -> tuple[list[TableColumn], list[list[Value]]]:
    """A column for each metric, and their values, a row for each label and task."""
    names = {m.metric: m.better for item in assessed for m in item.metrics}
    rows: list[list[Value]] = []
    for item in assessed:
        cells = {m.metric: _cell(m) for m in item.metrics}
        rows.append([cells.get(name) for name in names])
    columns = [
        TableColumn(title=f"{name} {ARROWS[better]}", digits=_digits([row[k] for row in rows]))
        for k, (name, better) in enumerate(names.items())
    ]
    return columns, rows


def _cell(metric: Metric) -> Interval | None:
    """The interval; a long reason for an absent one moves to the note of the table."""
    interval = metric.interval
    if interval and interval.reason and _is_in_reason(metric):
        return replace(interval, reason=WORST_ALONE)
    return interval


def _is_in_reason(metric: Metric) -> bool:
    interval = metric.interval
    return bool(
        metric.note and interval and interval.reason and interval.reason.startswith(metric.note)
    )


def _digits(values: Sequence[Value]) -> int:
    """Digits that show the largest value of a column to two places."""
    intervals = (v for v in values if isinstance(v, Interval))
    return decimals_for_span(max((abs(v.estimate) for v in intervals), default=0.0))


def _remarks(assessed: Sequence[LabelReliability]) -> Iterator[str]:
    """Sentences about metrics and about absent ones, each with the labels and tasks concerned."""
    where_by_text: dict[str, list[str]] = {}
    for item in assessed:
        for metric in item.metrics:
            for text in _told(metric):
                where_by_text.setdefault(text, []).append(f"{item.label} on {item.task}")
    every = sum(bool(item.metrics) for item in assessed)
    for text, places in where_by_text.items():
        where = "" if len(places) == every else f" ({join_first_names(places, 4)})"
        yield f"{text}{where}."


def _told(metric: Metric) -> Iterator[str]:
    if metric.reason:
        yield f"No {metric.metric}: {metric.reason}"
    elif metric.interval and _is_in_reason(metric):
        yield f"Of the {metric.metric}, {metric.interval.reason}"
    elif metric.note:
        yield f"Of the {metric.metric}, {metric.note}"


def _scores_and_failures(cell: LabelTaskRuns | None, report: ReportContext) -> tuple[Value, Value]:
    """The CVaR of the scores, and the share of the runs that failed."""
    if cell is None:
        return None, None
    ended = [m for m in cell.members if m.record.state in {State.COMPLETED, State.FAILED}]
    failures = sum(member.record.state is State.FAILED for member in ended)
    level = report.settings.level
    failed = limited(failure_rate(failures, len(ended), level)) if ended else None
    return _worst_scores(cell, report) if cell.n else None, failed


def _worst_scores(cell: LabelTaskRuns, report: ReportContext) -> Interval:
    """The CVaR of the scores; without an interval where the worst share is a single run."""
    resampling = report.settings.curve_resampling
    sign = -1 if cell.lower_is_better else 1
    if worst_count(cell.n) > 1:
        # A bootstrap t interval needs a smooth statistic, which the CVaR of few runs is not.
        by_quantiles = Estimator(method="percentile", resampling=resampling)
        scores, ends = TaskScores.from_tasks([cell.scores]), possible_scores([cell], None)
        return by_quantiles.estimate(scores, lambda s: sign * cvar(sign * s.values), ends)
    return Interval(
        estimate=float(sign * cvar(sign * cell.scores)),
        low=None,
        high=None,
        level=resampling.level,
        method="CVaR",
        repetitions=0,
        n=cell.n,
        reason=WORST_ALONE,
    )
