"""All trials of a search in a table."""

from dataclasses import dataclass
from math import isfinite

from rlexp.reports.analysis.inquiry import Inquiry
from rlexp.reports.analysis.sweep_tables import OBJECTIVES, kind, suffix, titled, value_of, valued
from rlexp.reports.drawing.blocks import REMARK, Column, Part, Table, Value, remarked
from rlexp.reports.evidence.runs import Evidence
from rlexp.reports.evidence.sweeps import SweepEvidence, TrialEvidence
from rlexp.text import digits_for


@dataclass(frozen=True, slots=True)
class Trials:
    """A row for each trial."""

    def part(self, inquiry: Inquiry) -> Part | None:
        """Compute the part; nothing where no sweep has a trial."""
        evidence = inquiry.evidence
        tables = tuple(_table(own, evidence) for own in evidence.sweeps if own.trials)
        return (
            Part(name="trials", title="All trials", blocks=tables, folded=True) if tables else None
        )


def _table(own: SweepEvidence, evidence: Evidence) -> Table:
    known = [v for t in valued(own) for v in t.values if isfinite(v)]
    digits = digits_for(max(known) - min(known)) if known else 2
    columns = (
        Column(title="trial", digits=0),
        Column(title="state"),
        *(Column(title=OBJECTIVES[name], digits=digits) for name in own.sweep.plan.objectives),
        Column(title="scores", digits=0),
        Column(title="steps of a run", digits=0),
        Column(title="steps spent", digits=0),
        *(Column(title=key) for key in own.sweep.space.keys),
        REMARK,
    )
    table = Table(
        name=f"trials{suffix(own, evidence)}",
        title=titled("All trials", own, evidence),
        columns=columns,
        rows=tuple(_row(t, own) for t in sorted(own.trials, key=lambda t: t.number)),
        note="Scores counts the tuning seeds that it was scored on, of "
        f"{len(own.tuning_seeds)}; a screened trial had fewer, or fewer steps, and could not win.",
    )
    return remarked(table)


def _row(trial: TrialEvidence, own: SweepEvidence) -> tuple[Value, ...]:
    count = len(own.sweep.plan.objectives)
    finite = [v if isfinite(v) else None for v in trial.values]
    values = finite if len(finite) == count else [None] * count
    return (
        trial.number,
        _state(trial, own),
        *values,
        len(trial.scores),
        trial.steps,
        trial.spent,
        *(value_of(p, trial.parameters) for p in own.sweep.space.parameters),
        trial.reason,
    )


def _state(trial: TrialEvidence, own: SweepEvidence) -> str:
    """How it ended, and what it is besides (`complete, winner`)."""
    role = kind(trial, own)
    if role in {"screened", trial.state}:
        return role
    return f"{trial.state}, {role}"
