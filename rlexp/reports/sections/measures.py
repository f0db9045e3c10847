"""Measures: success, cost, violations and whatever else was measured of each final episode."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from rlexp.reports.analysis.every_run import with_every_run
from rlexp.reports.analysis.generalisation import Measured, measures
from rlexp.reports.analysis.held_out_episodes import has_measures, is_examined
from rlexp.reports.analysis.inquiry import Inquiry
from rlexp.reports.drawing.blocks import (
    REMARK,
    Axis,
    Block,
    Column,
    Intervals,
    Mark,
    Panel,
    Part,
    Table,
    Value,
    remarked,
)
from rlexp.text import digits_for, per_cent

ABOUT = (
    "Of each run the mean over the episodes of its final evaluation, then the mean over the runs, "
    "which intervals are about."
)
MEANINGS = {
    "success": "success is the share of the episodes that succeeded",
    "cost": "cost is the sum over an episode",
    "violations": "violations are the share of the steps of an episode that break a constraint",
}


@dataclass(frozen=True, slots=True)
class Measures:
    """A figure for each task, and a table of every measure of every label."""

    def part(self, inquiry: Inquiry) -> Part | None:
        """Compute the part; nothing where nothing but returns was measured."""
        evidence = inquiry.evidence
        if not has_measures(evidence):
            return None
        tasks = {t: list(measures(evidence.of_task(t), inquiry.settings)) for t in evidence.tasks}
        blocks: list[Block] = []
        for number, (task, found) in enumerate(tasks.items(), 1):
            blocks += _figure(number, task, found, inquiry.settings.level)
        every = [one for found in tasks.values() for one in found]
        blocks.append(_table(every, examined=is_examined(evidence)))
        return Part(name="measures", title="Measures of episodes", blocks=tuple(blocks))


def _figure(
    number: int, task: str, found: Sequence[Measured], level: float
) -> Iterator[Intervals]:
    names = dict.fromkeys(one.name for one in found if one.held_out)
    panels = tuple(_panel(name, [one for one in found if one.name == name]) for name in names)
    if panels:
        yield Intervals(
            name=f"measures-{number}",
            title=f"{task}: measures of the final evaluation",
            panels=panels,
            note=f"{per_cent(level)} intervals; dots are runs.",
        )


def _panel(name: str, found: Sequence[Measured]) -> Panel:
    low, high = found[0].ends if name == "success" else (None, None)
    return Panel(
        title=name,
        axis=Axis(title="mean of an episode", low=low, high=high),
        marks=tuple(
            Mark(label=one.cell.label, interval=one.held_out, dots=one.runs)
            for one in found
            if one.held_out
        ),
    )


def _table(every: Sequence[Measured], *, examined: bool) -> Table:
    columns: tuple[Column, ...] = (
        Column(title="task"),
        Column(title="measure"),
        Column(title="label", label=True),
        Column(title="runs"),
        Column(title="held out" if examined else "mean", digits=_digits(every)),
        Column(title="in distribution", digits=_digits(every)),
        REMARK,
    )
    rows = [_row(one) for one in every]
    if not examined:
        columns, rows = columns[:5] + columns[6:], [row[:5] + row[6:] for row in rows]
    told = [words for name, words in MEANINGS.items() if any(o.name == name for o in every)]
    table = Table(
        name="measures",
        title="Measures of every label on every task",
        columns=columns,
        rows=tuple(rows),
        note=" ".join([ABOUT, *([f"Here {'; '.join(told)}."] if told else [])]),
    )
    return with_every_run(remarked(table))


def _row(one: Measured) -> tuple[Value, ...]:
    runs = f"{one.n:,} of {one.cell.planned:,}"
    task, label = one.cell.task, one.cell.label
    return (task, one.name, label, runs, one.held_out, one.in_distribution, one.remark)


def _digits(every: Sequence[Measured]) -> int:
    """Enough for the measure that varies the least over labels and runs, up to three."""
    spans = [one.runs[-1] - one.runs[0] for one in every if one.runs]
    return min(3, max(2, digits_for(min([s for s in spans if s > 0], default=0.0))))
