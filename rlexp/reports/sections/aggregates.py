"""Aggregates of every label over all tasks."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from rlexp.metrics.estimate_words import few_runs, too_narrow
from rlexp.reports.analysis.estimates import Estimates, aggregates, is_capped, unit
from rlexp.reports.analysis.every_run import with_every_run
from rlexp.reports.analysis.inquiry import Inquiry
from rlexp.reports.analysis.scale import scales
from rlexp.reports.drawing.blocks import (
    Axis,
    Block,
    Column,
    Intervals,
    Mark,
    Notice,
    Panel,
    Part,
    Table,
    Text,
    Tone,
    Value,
)
from rlexp.text import listed, per_cent, runs_by_task


@dataclass(frozen=True, slots=True)
class Aggregates:
    """A figure and a table of every metric of every label, with intervals."""

    def part(self, inquiry: Inquiry) -> Part | None:
        """Compute the part; nothing where there is no label."""
        found = aggregates(inquiry)
        if not found:
            return None
        blocks: list[Block] = [
            Text(text=_about(inquiry)),
            *_reasons(found),
            *_narrow(found, inquiry),
        ]
        if any(own.intervals for own in found):
            blocks.append(_figure(found, inquiry))
        blocks.append(_table(found, inquiry))
        if any(_normalised(name, inquiry) for own in found for name in own.intervals):
            blocks.append(_anchors(inquiry))
        return Part(name="aggregates", title="Aggregates", blocks=tuple(blocks))


def _about(inquiry: Inquiry) -> str:
    tasks = inquiry.evidence.tasks
    if len(tasks) == 1:
        return (
            f"All runs on {tasks[0]}, in units of its return. With one task, median and mean are "
            "the same: the mean over its runs."
        )
    return (
        f"All runs on {len(tasks)} tasks. Scores are normalised task by task: 0 and 1 stand for "
        "the scores in the table of anchors. Every task weighs the same."
    )


def _reasons(found: Sequence[Estimates]) -> Iterator[Notice]:
    """Why there is no aggregate, or no interval: once for all labels that it is true of."""
    for reason in dict.fromkeys(r for own in found for r in own.reasons.values()):
        tone = Tone.WARNING if any(own.intervals for own in found) else Tone.PROBLEM
        yield Notice(tone=tone, text=f"No aggregate: {reason}.")
    impossible: dict[str, list[str]] = {}
    for own in found:
        for reason in dict.fromkeys(i.reason for i in own.intervals.values() if i.reason):
            impossible.setdefault(reason, []).append(own.label)
    for reason, labels in impossible.items():
        text = f"No interval for {listed(labels)}: {reason}."
        yield Notice(tone=Tone.WARNING, text=text)


def _narrow(found: Sequence[Estimates], inquiry: Inquiry) -> Iterator[Notice]:
    """Metrics whose intervals are known to hold the true value less often than they promise."""
    sorted_: dict[tuple[str, ...], dict[str, float]] = {}
    for name, metric in inquiry.metrics.items():
        narrow = {e.label: i for e in found if (i := e.intervals.get(name)) and too_narrow(i)}
        shares = [i.coverage for i in narrow.values() if i.coverage is not None]
        if shares:
            sorted_.setdefault(tuple(narrow), {})[metric.title] = min(shares)
    for labels, shares_by_title in sorted_.items():
        yield Notice(
            tone=Tone.WARNING,
            text=f"Intervals of {listed(shares_by_title)} are too narrow for {listed(labels)}: at "
            f"this number of runs, {per_cent(inquiry.settings.level)} intervals held the true "
            f"value in {per_cent(min(shares_by_title.values()))} of simulations. More seeds mend "
            "that.",
        )


def _normalised(name: str, inquiry: Inquiry) -> bool:
    return len(inquiry.evidence.tasks) > 1 or is_capped(inquiry.metrics[name])


def _axis(name: str, inquiry: Inquiry) -> str:
    return "normalised score" if _normalised(name, inquiry) else unit(inquiry.evidence)


def _figure(found: Sequence[Estimates], inquiry: Inquiry) -> Intervals:
    names = [name for name in inquiry.metrics if any(name in own.intervals for own in found)]
    return Intervals(
        name="aggregates-figure",
        title="Aggregates with intervals",
        panels=tuple(_panel(name, found, inquiry) for name in names),
        note=f"{per_cent(inquiry.settings.level)} intervals{_dots(found)}.{_lower_is_better(names, inquiry)}",
    )


def _dots(found: Sequence[Estimates]) -> str:
    few = any(few_runs(i) for own in found for i in own.intervals.values())
    return "; dots are runs, where they are few" if few else ""


def _lower_is_better(names: Sequence[str], inquiry: Inquiry) -> str:
    lower = [inquiry.metrics[n].title for n in names if not inquiry.metrics[n].higher_is_better]
    return f" Of the {listed(lower)}, lower is better." if lower else ""


def _panel(name: str, found: Sequence[Estimates], inquiry: Inquiry) -> Panel:
    return Panel(
        title=inquiry.metrics[name].title,
        axis=Axis(title=_axis(name, inquiry)),
        marks=tuple(
            Mark(
                label=own.label,
                interval=own.intervals[name],
                dots=tuple(run for runs in own.intervals[name].runs for run in runs),
            )
            for own in found
            if name in own.intervals
        ),
    )


def _table(found: Sequence[Estimates], inquiry: Inquiry) -> Table:
    columns = [Column(title="label", label=True), Column(title="runs")]
    columns += [Column(title=metric.title) for metric in inquiry.metrics.values()]
    table = Table(
        name="aggregates",
        title="Aggregates",
        columns=tuple(columns),
        rows=tuple(_row(own, inquiry) for own in found),
        note=f"Runs: with a score, of those asked for. In units of the {unit(inquiry.evidence)}"
        f"{_other_units(inquiry)}.{_lower_is_better(list(inquiry.metrics), inquiry)}",
    )
    return with_every_run(table, next(iter(inquiry.metrics.values())).title)


def _other_units(inquiry: Inquiry) -> str:
    capped = [m.title for m in inquiry.metrics.values() if is_capped(m)]
    several = len(inquiry.evidence.tasks) > 1
    return f"; {listed(capped)} of normalised scores" if capped and not several else ""


def _row(own: Estimates, inquiry: Inquiry) -> tuple[Value, ...]:
    values = (own.intervals.get(name) for name in inquiry.metrics)
    return (own.label, _runs(own), *values)


def _runs(own: Estimates) -> str:
    """Runs with a score of those asked for; of several tasks, how many each of them has."""
    count = f"{own.n:,} of {own.planned:,}"
    sizes = next((i.sizes for i in own.intervals.values()), ())
    return f"{count}: {runs_by_task(sizes)}" if len(sizes) > 1 else count


def _anchors(inquiry: Inquiry) -> Block:
    known = scales(inquiry.evidence, inquiry.settings)
    rows = [(task, own.low, own.high, own.source) for task, own in known.items() if own]
    return Table(
        name="anchors",
        title="Scores that count as 0 and as 1",
        columns=(
            Column(title="task"),
            Column(title="counts as 0"),
            Column(title="counts as 1"),
            Column(title="source"),
        ),
        rows=tuple(rows),
        note="Normalised score: (score − low) / (high − low). Scores beyond the anchors stay "
        "beyond.",
    )
