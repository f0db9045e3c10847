"""The section of single tasks: every label on every task, with each run as a dot."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from rlexp.metrics.estimate_text import too_narrow
from rlexp.protocol.measures import d4rl_score
from rlexp.reports.analysis.estimates import LabelEstimates, is_capped, per_task
from rlexp.reports.analysis.every_run import with_every_run
from rlexp.reports.analysis.report_context import ReportContext
from rlexp.reports.analysis.score_words import quantities_text, worst_end
from rlexp.reports.drawing.blocks import (
    REMARK_COLUMN,
    Axis,
    Block,
    Callout,
    IntervalFigure,
    IntervalMark,
    Panel,
    SectionContent,
    Table,
    TableColumn,
    Tone,
    Value,
)
from rlexp.stats.two_groups import two_groups
from rlexp.text import (
    decimals_for_span,
    format_number,
    format_percentage,
    join_first_names,
    join_names,
)

MARKED = ("random", "threshold")
"""Known scores of a task that figures show as lines."""


@dataclass(frozen=True, slots=True)
class TasksSection:
    """Figure and table of the leading metric of each label on each task."""

    def part(self, report: ReportContext) -> SectionContent | None:
        """Compute the part; `None` where there is no task."""
        name = _leading(report)
        estimates = per_task(replace(report, metrics={name: report.metrics[name]}))
        if not estimates:
            return None
        blocks: list[Block] = [*_narrow(name, estimates), *_groups(name, estimates)]
        if any(cell_estimates.intervals for cell_estimates in estimates):
            blocks.append(_figure(name, estimates, report))
        blocks.append(_table(name, estimates, report))
        blocks += _dataset_scores(name, estimates, report)
        return SectionContent(
            name="tasks",
            title="Task by task",
            blocks=tuple(blocks),
            # With a single task, the aggregates show the same numbers.
            folded=len(report.evidence.tasks) == 1,
        )


def _leading(report: ReportContext) -> str:
    """The first metric that is defined for raw scores, or else the first metric."""
    raw = [name for name, metric in report.metrics.items() if not is_capped(metric)]
    return (raw or list(report.metrics))[0]


def _unit(name: str, task: str, report: ReportContext) -> str:
    if is_capped(report.metrics[name]):
        return "normalised score"
    lower = " (lower is better)" if report.evidence.lower_is_better(task) else ""
    return f"{report.evidence.quantity(task)}{lower}"


def _narrow(name: str, estimates: Sequence[LabelEstimates]) -> Iterator[Callout]:
    """Warning about intervals with a coverage below the nominal level."""
    narrow = [
        i
        for cell_estimates in estimates
        if (i := cell_estimates.intervals.get(name)) and too_narrow(i)
    ]
    shares = sorted({i.coverage for i in narrow if i.coverage is not None})
    if shares:
        text = (
            f"{len(narrow)} of {len(estimates)} intervals below are too narrow: with so few runs "
            f"per task, {format_percentage(narrow[0].level)} intervals contained the true value in "
            f"{format_percentage(shares[0])} of simulations."
        )
        yield Callout(tone=Tone.WARNING, text=text)


def _groups(name: str, estimates: Sequence[LabelEstimates]) -> Iterator[Callout]:
    """Warning about labels whose runs form two groups on a task, as solved and failed ones do."""
    described = [
        f"{cell.label} on {cell.tasks[0]} ({len(groups[0])} of {_span(groups[0])}, "
        f"{len(groups[1])} of {_span(groups[1])})"
        for cell in estimates
        if name in cell.intervals and (groups := two_groups(cell.scores))
    ]
    if described:
        yield Callout(
            tone=Tone.WARNING,
            text=f"Runs form two groups with a clear gap: {join_first_names(described, 4)}. "
            "Intervals of such runs hold the true value less often than expected: read the runs, "
            "and add seeds.",
        )


def _span(scores: NDArray[np.float64]) -> str:
    digits = decimals_for_span(float(scores[-1] - scores[0])) if scores[-1] > scores[0] else 1
    ends = dict.fromkeys(format_number(float(end), digits) for end in (scores[0], scores[-1]))
    return " to ".join(ends)


def _figure(
    name: str, estimates: Sequence[LabelEstimates], report: ReportContext
) -> IntervalFigure:
    tasks = [
        t
        for t in report.evidence.tasks
        if any(_is_on(cell_estimates, t) for cell_estimates in estimates)
    ]
    return IntervalFigure(
        name="tasks-figure",
        title=f"{report.metrics[name].title} by task",
        panels=tuple(_panel(name, task, estimates, report) for task in tasks),
        note=f"{format_percentage(report.settings.level)} intervals; dots are runs.",
    )


def _is_on(estimates: LabelEstimates, task: str) -> bool:
    return estimates.tasks == (task,) and bool(estimates.intervals)


def _panel(
    name: str, task: str, estimates: Sequence[LabelEstimates], report: ReportContext
) -> Panel:
    raw = not is_capped(report.metrics[name])
    # Known scores are raw returns, which have no place on a normalised axis.
    reference: Mapping[str, Any] = report.evidence.reference(task) if raw else {}
    return Panel(
        title=task,
        axis=Axis(title=_unit(name, task, report)),
        marks=tuple(
            IntervalMark(
                label=cell_estimates.label,
                interval=cell_estimates.intervals[name],
                dots=cell_estimates.scores if raw else (),
            )
            for cell_estimates in estimates
            if _is_on(cell_estimates, task)
        ),
        marked=tuple(
            (word, float(reference[word])) for word in MARKED if reference.get(word) is not None
        ),
    )


def _table(name: str, estimates: Sequence[LabelEstimates], report: ReportContext) -> Table:
    spans = [
        cell_estimates.scores[-1] - cell_estimates.scores[0]
        for cell_estimates in estimates
        if cell_estimates.scores
    ]
    # The task with the smallest spread of scores determines the digits of the column.
    largest = max((abs(s) for e in estimates for s in e.scores), default=0.0)
    digits = decimals_for_span(min([span for span in spans if span > 0], default=0.0), largest)
    title = report.metrics[name].title
    table = Table(
        name="tasks",
        title=f"{title} of every label on every task",
        columns=(
            TableColumn(title="task"),
            TableColumn(title="label", label=True),
            TableColumn(title="runs"),
            TableColumn(title=title, digits=digits),
            TableColumn(title="lowest run", digits=digits),
            TableColumn(title="highest run", digits=digits),
            REMARK_COLUMN,
        ),
        rows=tuple(_row(name, cell_estimates) for cell_estimates in estimates),
        note=f"Runs: with a score, of planned. {_units(name, report)}{_counted_as_worst(report)}",
    )
    return with_every_run(table)


def _dataset_scores(
    name: str, estimates: Sequence[LabelEstimates], report: ReportContext
) -> Iterator[Table]:
    """A table of D4RL's normalised scores, of labels whose dataset declares its anchors."""
    if is_capped(report.metrics[name]) or report.settings.normalisation == "none":
        return
    rows: list[tuple[Value, ...]] = []
    for estimated in estimates:
        cell = report.evidence.cell(estimated.label, estimated.tasks[0])
        anchors = None if cell is None else cell.members[0].configuration.dataset_anchors
        interval = estimated.intervals.get(name)
        if anchors is not None and interval is not None:
            score = d4rl_score(interval.estimate, anchors)
            rows.append((estimated.tasks[0], estimated.label, *anchors, score, interval.n))
    if rows:
        yield Table(
            name="d4rl-scores",
            title="D4RL's normalised scores",
            columns=(
                TableColumn(title="task"),
                TableColumn(title="label", label=True),
                TableColumn(title="random (becomes 0)", digits=1),
                TableColumn(title="expert (becomes 100)", digits=1),
                TableColumn(title="D4RL score", digits=1),
                TableColumn(title="n"),
            ),
            rows=tuple(rows),
            note=f"100 (score − random) / (expert − random) of the {report.metrics[name].title} above (Fu et "
            "al. 2020, arXiv:2004.07219). The dataset of each label declares its random and its expert "
            "score.",
        )


def _units(name: str, report: ReportContext) -> str:
    units = f"in units of the {quantities_text(report.evidence)}"
    if not is_capped(report.metrics[name]):
        return f"{units[0].upper()}{units[1:]}."
    return f"{report.metrics[name].title} in normalised scores, runs {units}."


def _row(name: str, estimates: LabelEstimates) -> tuple[Value, ...]:
    ends = (estimates.scores[0], estimates.scores[-1]) if estimates.scores else (None, None)
    runs = f"{estimates.n:,} of {estimates.planned:,}"
    return (
        *estimates.tasks,
        estimates.label,
        runs,
        estimates.intervals.get(name),
        *ends,
        estimates.reasons.get(name),
    )


def _counted_as_worst(report: ReportContext) -> str:
    """Labels and tasks whose failed runs get the minimum of the task, as a sentence."""
    affected = [
        f"{cell.label} on {cell.task} ({cell.counted_as_worst})"
        for cell in report.evidence.cells.values()
        if cell.counted_as_worst
    ]
    return (
        f" Failed runs that count as the task's {worst_end(report.evidence)}: {join_names(affected)}."
        if affected
        else ""
    )
