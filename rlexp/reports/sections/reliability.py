"""Reliability: spread and risk in time, across runs and across episodes, and failures."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

from rlexp.metrics.estimate import Estimator
from rlexp.records.run import State
from rlexp.reports.analysis.every_run import with_every_run
from rlexp.reports.analysis.inquiry import Inquiry
from rlexp.reports.analysis.scale import possible_scores
from rlexp.reports.drawing.blocks import Column, Part, Table, Text, Value
from rlexp.reports.evidence.runs import Cell
from rlexp.reports.reliability_metrics import Assessed, of_final_policies, of_training
from rlexp.reports.remarks import REMARK, remarked
from rlexp.reports.sentences import shortened
from rlexp.stats.interval import Interval, limited
from rlexp.stats.reliability.estimates import Reliability as Metric
from rlexp.stats.reliability.risk import SHARE, cvar, failure_rate, worst_count
from rlexp.stats.task_scores import TaskScores
from rlexp.text import digits_for, per_cent

WORST_ALONE = "the worst run alone"
ARROWS = {"higher": "↑", "lower": "↓"}
ABOUT = (
    "How far one can rely on a label, beyond what it reaches on average (Chan et al. 2020). "
    "Dispersion is an interquartile range: lower is steadier (↓). Risk is the mean of the worst "
    f"{per_cent(SHARE)} (CVaR). Short-term risk is of the changes from one evaluation to the next, "
    "risk across runs and across rollouts of their returns: the lowest are the worst, so higher is "
    "better (↑). Long-term risk is of the drawdowns, how far a run lies below its best so far: the "
    "largest are the worst, so lower is better (↓)."
)
TRAINING = (
    "Of completed runs that were evaluated during training. Returns are normalised where the task "
    "has anchors; where it has none, dispersions and risks are shares of how far each run rises. "
    "Changes are per 1 % of training."
)
FINAL = (
    "Of the final episodes of completed runs: returns are normalised where the task has anchors; "
    "where it has none, they are shares of the median return of each run. The CVaR of scores is "
    "a return. Failed: of the runs that have completed or failed."
)


@dataclass(frozen=True, slots=True)
class Reliability:
    """A table of the training and one of the final policies, a row for each label and task."""

    def part(self, inquiry: Inquiry) -> Part | None:
        """Compute the part; nothing where no run was asked for."""
        evidence = inquiry.evidence
        pairs = [(task, label) for task in evidence.tasks for label in evidence.labels]
        if not pairs:
            return None
        cells = [evidence.cell(label, task) for task, label in pairs]
        blocks = (
            Text(text=ABOUT),
            _training([of_training(inquiry, task, label) for task, label in pairs]),
            _final(
                [of_final_policies(inquiry, task, label) for task, label in pairs],
                [_scores_and_failures(cell, inquiry) for cell in cells],
            ),
        )
        return Part(name="reliability", title="Reliability", blocks=blocks)


def _training(found: Sequence[Assessed]) -> Table:
    columns, values = _metrics(found)
    table = Table(
        name="reliability-training",
        title="During training",
        columns=(*_FIRST, *columns, REMARK),
        rows=tuple(
            (*_first(own), *row, own.remark or None)
            for own, row in zip(found, values, strict=True)
        ),
        note=" ".join([TRAINING, *_remarks(found)]),
    )
    return with_every_run(remarked(table))


def _final(found: Sequence[Assessed], others: Sequence[tuple[Value, Value]]) -> Table:
    columns, values = _metrics(found)
    table = Table(
        name="reliability-final",
        title="Final policies, scores and failures",
        columns=(
            *_FIRST,
            *columns,
            Column(title="CVaR of scores ↑", digits=_digits([score for score, _ in others])),
            Column(title="failed ↓"),
            REMARK,
        ),
        rows=tuple(
            (*_first(own), *row, *more, own.remark or None)
            for own, row, more in zip(found, values, others, strict=True)
        ),
        note=" ".join([FINAL, *_remarks(found)]),
    )
    return with_every_run(remarked(table))


_FIRST = (Column(title="task"), Column(title="label", label=True), Column(title="runs"))


def _first(own: Assessed) -> tuple[Value, ...]:
    return (own.task, own.label, f"{own.n} of {own.planned}")


def _metrics(found: Sequence[Assessed]) -> tuple[list[Column], list[list[Value]]]:
    """A column for each metric, and their values, a row for each label and task."""
    names = {m.metric: m.better for own in found for m in own.metrics}
    rows: list[list[Value]] = []
    for own in found:
        known = {m.metric: _cell(m) for m in own.metrics}
        rows.append([known.get(name) for name in names])
    columns = [
        Column(title=f"{name} {ARROWS[better]}", digits=_digits([row[k] for row in rows]))
        for k, (name, better) in enumerate(names.items())
    ]
    return columns, rows


def _cell(metric: Metric) -> Interval | None:
    """The interval; where only the worst run is to be seen, the reason stands under the table."""
    found = metric.interval
    if found and found.reason and _is_in_reason(metric):
        return replace(found, reason=WORST_ALONE)
    return found


def _is_in_reason(metric: Metric) -> bool:
    found = metric.interval
    return bool(metric.note and found and found.reason and found.reason.startswith(metric.note))


def _digits(values: Sequence[Value]) -> int:
    """Digits that show the largest value of a column to two places."""
    known = (v for v in values if isinstance(v, Interval))
    return digits_for(max((abs(v.estimate) for v in known), default=0.0))


def _remarks(found: Sequence[Assessed]) -> Iterator[str]:
    """What to know of metrics, and why some are not possible: once for all that it is true of."""
    told: dict[str, list[str]] = {}
    for own in found:
        for metric in own.metrics:
            for text in _told(metric):
                told.setdefault(text, []).append(f"{own.label} on {own.task}")
    every = sum(bool(own.metrics) for own in found)
    for text, places in told.items():
        where = "" if len(places) == every else f" ({shortened(places, 4)})"
        yield f"{text}{where}."


def _told(metric: Metric) -> Iterator[str]:
    if metric.reason:
        yield f"No {metric.metric}: {metric.reason}"
    elif metric.interval and _is_in_reason(metric):
        yield f"Of the {metric.metric}, {metric.interval.reason}"
    elif metric.note:
        yield f"Of the {metric.metric}, {metric.note}"


def _scores_and_failures(cell: Cell | None, inquiry: Inquiry) -> tuple[Value, Value]:
    """The CVaR of the scores, and the share of the runs that failed."""
    if cell is None:
        return None, None
    ended = [m for m in cell.members if m.record.state in {State.COMPLETED, State.FAILED}]
    failures = sum(member.record.state is State.FAILED for member in ended)
    level = inquiry.settings.level
    failed = limited(failure_rate(failures, len(ended), level)) if ended else None
    return _worst_scores(cell, inquiry) if cell.n else None, failed


def _worst_scores(cell: Cell, inquiry: Inquiry) -> Interval:
    """The CVaR of the scores; a single worst run cannot be resampled as new ones would vary."""
    resampling = inquiry.settings.curve_resampling
    if worst_count(cell.n) > 1:
        by_quantiles = Estimator(method="percentile", resampling=resampling)
        scores, ends = TaskScores.from_tasks([cell.scores]), possible_scores([cell], None)
        return by_quantiles.estimate(scores, lambda s: cvar(s.values), ends)
    return Interval(
        estimate=float(cvar(cell.scores)),
        low=None,
        high=None,
        level=resampling.level,
        method="CVaR",
        repetitions=0,
        n=cell.n,
        reason=WORST_ALONE,
    )
