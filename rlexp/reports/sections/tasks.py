"""Every label on every task, with each run as a dot."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from rlexp.metrics.estimate_words import too_narrow
from rlexp.reports.analysis.estimates import Estimates, is_capped, per_task
from rlexp.reports.analysis.every_run import with_every_run
from rlexp.reports.analysis.inquiry import Inquiry
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
"""Known scores of a task that figures mark."""


@dataclass(frozen=True, slots=True)
class Tasks:
    """A table and a figure of the leading metric of each label on each task."""

    def part(self, inquiry: Inquiry) -> Part | None:
        """Compute the part; nothing where there is no task."""
        name = _leading(inquiry)
        found = per_task(replace(inquiry, metrics={name: inquiry.metrics[name]}))
        if not found:
            return None
        blocks: list[Block] = [*_narrow(name, found)]
        if any(own.intervals for own in found):
            blocks.append(_figure(name, found, inquiry))
        blocks.append(_table(name, found, inquiry))
        return Part(name="tasks", title="Task by task", blocks=tuple(blocks))


def _leading(inquiry: Inquiry) -> str:
    """The first metric that raw scores have, or else the first."""
    raw = [name for name, metric in inquiry.metrics.items() if not is_capped(metric)]
    return (raw or list(inquiry.metrics))[0]


def _unit(name: str, inquiry: Inquiry) -> str:
    return "normalised score" if is_capped(inquiry.metrics[name]) else "return"


def _narrow(name: str, found: Sequence[Estimates]) -> Iterator[Notice]:
    """Which intervals are known to hold the true value less often than they promise."""
    narrow = [i for own in found if (i := own.intervals.get(name)) and too_narrow(i)]
    shares = sorted({i.coverage for i in narrow if i.coverage is not None})
    if shares:
        text = (
            f"{len(narrow)} of {len(found)} intervals below are too narrow: with so few runs of a "
            f"task, {per_cent(narrow[0].level)} intervals held the true value in "
            f"{per_cent(shares[0])} of simulations."
        )
        yield Notice(tone=Tone.WARNING, text=text)


def _figure(name: str, found: Sequence[Estimates], inquiry: Inquiry) -> Intervals:
    tasks = [t for t in inquiry.evidence.tasks if any(_is_on(own, t) for own in found)]
    return Intervals(
        name="tasks-figure",
        title=f"{inquiry.metrics[name].title} by task",
        panels=tuple(_panel(name, task, found, inquiry) for task in tasks),
        note=f"{per_cent(inquiry.settings.level)} intervals; dots are runs.",
    )


def _is_on(own: Estimates, task: str) -> bool:
    return own.tasks == (task,) and bool(own.intervals)


def _panel(name: str, task: str, found: Sequence[Estimates], inquiry: Inquiry) -> Panel:
    raw = not is_capped(inquiry.metrics[name])
    reference: Mapping[str, Any] = inquiry.evidence.reference(task) if raw else {}
    return Panel(
        title=task,
        axis=Axis(title=_unit(name, inquiry)),
        marks=tuple(
            Mark(label=own.label, interval=own.intervals[name], dots=own.scores if raw else ())
            for own in found
            if _is_on(own, task)
        ),
        marked=tuple(
            (word, float(reference[word])) for word in MARKED if reference.get(word) is not None
        ),
    )


def _table(name: str, found: Sequence[Estimates], inquiry: Inquiry) -> Table:
    spans = [own.scores[-1] - own.scores[0] for own in found if own.scores]
    digits = digits_for(min([span for span in spans if span > 0], default=0.0))
    title = inquiry.metrics[name].title
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
        rows=tuple(_row(name, own) for own in found),
        note=f"Runs: with a score, of those asked for. {_units(name, inquiry)}"
        f"{_counted_as_worst(inquiry)}",
    )
    return with_every_run(table)


def _units(name: str, inquiry: Inquiry) -> str:
    if not is_capped(inquiry.metrics[name]):
        return "In units of the return."
    return f"{inquiry.metrics[name].title} of normalised scores, runs in units of the return."


def _row(name: str, own: Estimates) -> tuple[Value, ...]:
    ends = (own.scores[0], own.scores[-1]) if own.scores else (None, None)
    runs = f"{own.n:,} of {own.planned:,}"
    return (*own.tasks, own.label, runs, own.intervals.get(name), *ends, own.reasons.get(name))


def _counted_as_worst(inquiry: Inquiry) -> str:
    """Where failed runs stand among the scores."""
    told = [
        f"{cell.label} on {cell.task} ({cell.counted_as_worst})"
        for cell in inquiry.evidence.cells.values()
        if cell.counted_as_worst
    ]
    return f" Failed runs that count as the task's minimum: {listed(told)}." if told else ""
