"""The section of single tasks: every label on every task, with each run as a dot."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from rlexp.metrics.estimate_text import too_narrow
from rlexp.reports.analysis.estimates import Estimates, is_capped, per_task
from rlexp.reports.analysis.every_run import with_every_run
from rlexp.reports.analysis.report_context import Inquiry
from rlexp.reports.drawing.blocks import (
    REMARK,
    Axis,
    Block,
    Column,
    Intervals,
    Mark,
    Notice,
    Panel,
    Part,
    Table,
    Tone,
    Value,
)
from rlexp.text import digits_for, listed, per_cent

MARKED = ("random", "threshold")
"""Known scores of a task that figures show as lines."""


@dataclass(frozen=True, slots=True)
class TasksSection:
    """Figure and table of the leading metric of each label on each task."""

    def part(self, report: Inquiry) -> Part | None:
        """Compute the part; `None` where there is no task."""
        name = _leading(report)
        estimates = per_task(replace(report, metrics={name: report.metrics[name]}))
        if not estimates:
            return None
        blocks: list[Block] = [*_narrow(name, estimates)]
        if any(cell_estimates.intervals for cell_estimates in estimates):
            blocks.append(_figure(name, estimates, report))
        blocks.append(_table(name, estimates, report))
        return Part(name="tasks", title="Task by task", blocks=tuple(blocks))


def _leading(report: Inquiry) -> str:
    """The first metric that is defined for raw scores, or else the first metric."""
    raw = [name for name, metric in report.metrics.items() if not is_capped(metric)]
    return (raw or list(report.metrics))[0]


def _unit(name: str, report: Inquiry) -> str:
    return "normalised score" if is_capped(report.metrics[name]) else "return"


def _narrow(name: str, estimates: Sequence[Estimates]) -> Iterator[Notice]:
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
            f"per task, {per_cent(narrow[0].level)} intervals contained the true value in "
            f"{per_cent(shares[0])} of simulations."
        )
        yield Notice(tone=Tone.WARNING, text=text)


def _figure(name: str, estimates: Sequence[Estimates], report: Inquiry) -> Intervals:
    tasks = [
        t
        for t in report.evidence.tasks
        if any(_is_on(cell_estimates, t) for cell_estimates in estimates)
    ]
    return Intervals(
        name="tasks-figure",
        title=f"{report.metrics[name].title} by task",
        panels=tuple(_panel(name, task, estimates, report) for task in tasks),
        note=f"{per_cent(report.settings.level)} intervals; dots are runs.",
    )


def _is_on(estimates: Estimates, task: str) -> bool:
    return estimates.tasks == (task,) and bool(estimates.intervals)


def _panel(name: str, task: str, estimates: Sequence[Estimates], report: Inquiry) -> Panel:
    raw = not is_capped(report.metrics[name])
    reference: Mapping[str, Any] = report.evidence.reference(task) if raw else {}
    return Panel(
        title=task,
        axis=Axis(title=_unit(name, report)),
        marks=tuple(
            Mark(
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


def _table(name: str, estimates: Sequence[Estimates], report: Inquiry) -> Table:
    spans = [
        cell_estimates.scores[-1] - cell_estimates.scores[0]
        for cell_estimates in estimates
        if cell_estimates.scores
    ]
    # The task with the smallest spread of scores determines the digits of the column.
    digits = digits_for(min([span for span in spans if span > 0], default=0.0))
    title = report.metrics[name].title
    table = Table(
        name="tasks",
        title=f"{title} of every label on every task",
        columns=(
            Column(title="task"),
            Column(title="label", label=True),
            Column(title="runs"),
            Column(title=title, digits=digits),
            Column(title="lowest run", digits=digits),
            Column(title="highest run", digits=digits),
            REMARK,
        ),
        rows=tuple(_row(name, cell_estimates) for cell_estimates in estimates),
        note=f"Runs: with a score, of planned. {_units(name, report)}{_counted_as_worst(report)}",
    )
    return with_every_run(table)


def _units(name: str, report: Inquiry) -> str:
    if not is_capped(report.metrics[name]):
        return "In units of the return."
    return f"{report.metrics[name].title} in normalised scores, runs in units of the return."


def _row(name: str, estimates: Estimates) -> tuple[Value, ...]:
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


def _counted_as_worst(report: Inquiry) -> str:
    """Labels and tasks where failed runs count as the task's minimum, as a sentence."""
    affected = [
        f"{cell.label} on {cell.task} ({cell.counted_as_worst})"
        for cell in report.evidence.cells.values()
        if cell.counted_as_worst
    ]
    return (
        f" Failed runs that count as the task's minimum: {listed(affected)}." if affected else ""
    )
