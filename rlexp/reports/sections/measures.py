"""The section of measures: success, cost, violations and other measures of final episodes."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from rlexp.reports.analysis.every_run import with_every_run
from rlexp.reports.analysis.generalisation import MeasureEstimates, measures
from rlexp.reports.analysis.held_out_episodes import has_measures, is_examined
from rlexp.reports.analysis.report_context import ReportContext
from rlexp.reports.drawing.blocks import (
    REMARK_COLUMN,
    Axis,
    Block,
    IntervalFigure,
    IntervalMark,
    Panel,
    SectionContent,
    Table,
    TableColumn,
    Value,
    without_empty_remarks,
)
from rlexp.text import decimals_for_span, format_percentage

ABOUT = (
    "The mean over the episodes of a run's final evaluation, then the mean over runs. Intervals "
    "are for the mean over runs."
)
MEANINGS = {
    "success": "success is the share of the episodes that succeeded",
    "catastrophe": "catastrophe is the share of the episodes that were a catastrophe",
    "cost": "cost is the sum over an episode",
    "violations": "violations are the share of the steps of an episode that break a constraint",
}


@dataclass(frozen=True, slots=True)
class MeasuresSection:
    """Figure for each task, and a table of every measure of every label."""

    def part(self, report: ReportContext) -> SectionContent | None:
        """Compute the part; `None` where runs measured only returns."""
        evidence = report.evidence
        if not has_measures(evidence):
            return None
        tasks = {t: list(measures(evidence.of_task(t), report.settings)) for t in evidence.tasks}
        blocks: list[Block] = []
        for number, (task, measured) in enumerate(tasks.items(), 1):
            blocks += _figure(number, task, measured, report.settings.level)
        every = [item for measured in tasks.values() for item in measured]
        blocks.append(_table(every, examined=is_examined(evidence)))
        return SectionContent(name="measures", title="Measures of episodes", blocks=tuple(blocks))


def _figure(
    number: int, task: str, measured: Sequence[MeasureEstimates], level: float
) -> Iterator[IntervalFigure]:
    names = dict.fromkeys(item.name for item in measured if item.held_out)
    panels = tuple(
        _panel(name, [item for item in measured if item.name == name]) for name in names
    )
    if panels:
        yield IntervalFigure(
            name=f"measures-{number}",
            title=f"{task}: measures of the final evaluation",
            panels=panels,
            note=f"{format_percentage(level)} intervals; dots are runs.",
        )


def _panel(name: str, measured: Sequence[MeasureEstimates]) -> Panel:
    # Other measures may use a tiny part of their possible range, so their axes follow the values.
    low, high = measured[0].ends if name == "success" else (None, None)
    return Panel(
        title=name,
        axis=Axis(title="mean of an episode", low=low, high=high),
        marks=tuple(
            IntervalMark(label=item.cell.label, interval=item.held_out, dots=item.runs)
            for item in measured
            if item.held_out
        ),
    )


def _table(every: Sequence[MeasureEstimates], *, examined: bool) -> Table:
    columns: tuple[TableColumn, ...] = (
        TableColumn(title="task"),
        TableColumn(title="measure"),
        TableColumn(title="label", label=True),
        TableColumn(title="runs"),
        TableColumn(title="held out" if examined else "mean", digits=_digits(every)),
        TableColumn(title="in distribution", digits=_digits(every)),
        REMARK_COLUMN,
    )
    rows = [_row(measured) for measured in every]
    if not examined:
        # Without episodes in distribution the column would be empty in every row.
        columns, rows = columns[:5] + columns[6:], [row[:5] + row[6:] for row in rows]
    meanings = [
        meaning for name, meaning in MEANINGS.items() if any(o.name == name for o in every)
    ]
    table = Table(
        name="measures",
        title="Measures of every label on every task",
        columns=columns,
        rows=tuple(rows),
        note=" ".join([ABOUT, *([f"Here {'; '.join(meanings)}."] if meanings else [])]),
    )
    return with_every_run(without_empty_remarks(table))


def _row(measured: MeasureEstimates) -> tuple[Value, ...]:
    runs = f"{measured.n:,} of {measured.cell.planned:,}"
    task, label = measured.cell.task, measured.cell.label
    return (
        task,
        measured.name,
        label,
        runs,
        measured.held_out,
        measured.in_distribution,
        measured.remark,
    )


def _digits(every: Sequence[MeasureEstimates]) -> int:
    """Digits for the measure that varies the least between runs: two or three."""
    spans = [measured.runs[-1] - measured.runs[0] for measured in every if measured.runs]
    return min(3, max(2, decimals_for_span(min([s for s in spans if s > 0], default=0.0))))
