"""What the runs cost: environment steps, core-hours, attempts, wall-clock."""

from collections.abc import Sequence
from dataclasses import dataclass
from math import fsum

from rlexp.reports.blocks import Column, Part, Table, Text, Value
from rlexp.reports.evidence import Cell, Evidence, Member
from rlexp.reports.inquiry import Inquiry
from rlexp.reports.sentences import counted

HOUR = 3600.0
COLUMNS = (
    Column(title="task"),
    Column(title="label", label=True),
    Column(title="runs", digits=0),
    Column(title="attempts", digits=0),
    Column(title="environment steps", digits=0),
    Column(title="core-hours", digits=3),
    Column(title="hours of runs", digits=3),
    Column(title="longest run, seconds", digits=1),
)


@dataclass(frozen=True, slots=True)
class Cost:
    """A row for each label on each task, and their sum."""

    def part(self, inquiry: Inquiry) -> Part | None:
        """Compute the part; nothing where nothing was run."""
        evidence = inquiry.evidence
        started = [m for m in evidence.members if m.record.attempts]
        if not started:
            return None
        cells = [cell for task in evidence.tasks for cell in evidence.of_task(task)]
        rows = [(cell.task, cell.label, *_cost(cell.members)) for cell in cells]
        rows.append(("all", None, *_cost(_ordered(cells))))
        table = Table(
            name="cost",
            title="Cost",
            columns=COLUMNS,
            rows=tuple(rows),
            note="Of the last attempt of each run that was started. Core-hours: seconds × threads "
            "of the run. Evaluations are part of the time, and not of the steps. Energy was not "
            "measured.",
        )
        return Part(name="cost", title="Cost", blocks=(Text(text=_text(evidence)), table))


def _ordered(cells: Sequence[Cell]) -> list[Member]:
    return [member for cell in cells for member in cell.members]


def _cost(members: Sequence[Member]) -> tuple[Value, ...]:
    records = [m.record for m in members if m.record.attempts]
    timed = [(r.seconds, r.spec.compute["threads"]) for r in records if r.seconds is not None]
    return (
        len(records),
        sum(r.attempts for r in records),
        sum(r.step for r in records),
        fsum(s * threads for s, threads in timed) / HOUR if timed else None,
        fsum(s for s, _ in timed) / HOUR if timed else None,
        max(s for s, _ in timed) if timed else None,
    )


def _text(evidence: Evidence) -> str:
    records = [m.record for m in evidence.members if m.record.attempts]
    steps = sum(r.step for r in records)
    seconds = [r.seconds * r.spec.compute["threads"] for r in records if r.seconds is not None]
    untimed = len(records) - len(seconds)
    told = f"{counted(len(records), 'run')} took {steps:,} environment steps"
    hours = f" and {fsum(seconds) / HOUR:,.3g} core-hours" if seconds else ""
    lacking = f"; of {counted(untimed, 'run')} no time is known" if untimed else ""
    again = sum(r.attempts - 1 for r in records)
    more = (
        f", besides {counted(again, 'earlier attempt')}, whose time is not counted"
        if again
        else ""
    )
    return f"{told}{hours}{lacking}{more}."
