"""The section of trials: all trials of a search in a table."""

from dataclasses import dataclass
from math import isfinite

from rlexp.reports.analysis.report_context import ReportContext
from rlexp.reports.analysis.sweep_tables import (
    name_suffix,
    objective,
    objective_text,
    sweep_title,
    trial_kind,
    value_of,
    valued,
)
from rlexp.reports.drawing.blocks import (
    REMARK_COLUMN,
    SectionContent,
    Table,
    TableColumn,
    Value,
    without_empty_remarks,
)
from rlexp.reports.evidence.runs import Evidence
from rlexp.reports.evidence.sweeps import SweepEvidence, TrialEvidence
from rlexp.text import decimals_for_span


@dataclass(frozen=True, slots=True)
class TrialsSection:
    """Table of each sweep with a row for each trial."""

    def part(self, report: ReportContext) -> SectionContent | None:
        """Compute the part; `None` where no sweep has a trial."""
        evidence = report.evidence
        tables = tuple(_table(sweep, evidence) for sweep in evidence.sweeps if sweep.trials)
        return (
            SectionContent(name="trials", title="All trials", blocks=tables, folded=True)
            if tables
            else None
        )


IMPORTED = (
    "Another tool made these trials. Each has one value, of seeds that are not known: the best of "
    "many such values promises more than it keeps. No trial was chosen or tested."
)


def _table(sweep: SweepEvidence, evidence: Evidence) -> Table:
    values = [v for t in valued(sweep) for v in t.values if isfinite(v)]
    digits = decimals_for_span(max(values) - min(values)) if values else 2
    columns = (
        TableColumn(title="trial", digits=0),
        TableColumn(title="state"),
        *(TableColumn(title=title, digits=digits) for title in _objectives(sweep)),
        TableColumn(title="scores", digits=0),
        TableColumn(title="steps of a run", digits=0),
        TableColumn(title="steps spent", digits=0),
        *(TableColumn(title=key) for key in sweep.definition.space.keys),
        REMARK_COLUMN,
    )
    table = Table(
        name=f"trials{name_suffix(sweep, evidence)}",
        title=sweep_title("All trials", sweep, evidence),
        columns=columns,
        rows=tuple(_row(t, sweep) for t in sorted(sweep.trials, key=lambda t: t.number)),
        note=IMPORTED
        if sweep.imported
        else "Scores: number of tuning seeds with a score, of "
        f"{len(sweep.tuning_seeds)}. A screened trial had fewer {_fewer(sweep)} and could not win.",
    )
    return without_empty_remarks(table)


def _objectives(sweep: SweepEvidence) -> tuple[str, ...]:
    """The titles of the columns of objectives."""
    if sweep.tasks:
        return (objective(sweep),)
    return tuple(map(objective_text, sweep.definition.plan.objectives))


def _fewer(sweep: SweepEvidence) -> str:
    return "tasks, seeds or steps" if sweep.tasks else "seeds or steps"


def _row(trial: TrialEvidence, sweep: SweepEvidence) -> tuple[Value, ...]:
    count = len(sweep.definition.plan.objectives)
    finite = [v if isfinite(v) else None for v in trial.values]
    values = finite if len(finite) == count else [None] * count
    return (
        trial.number,
        _state(trial, sweep),
        *values,
        len(trial.scores),
        trial.steps,
        trial.spent,
        *(value_of(p, trial.parameters) for p in sweep.definition.space.parameters),
        trial.reason,
    )


def _state(trial: TrialEvidence, sweep: SweepEvidence) -> str:
    """State of a trial and its role (`complete, winner`)."""
    role = trial_kind(trial, sweep)
    named = role if role in {"screened", trial.state} else f"{trial.state}, {role}"
    front = () if sweep.front is None else sweep.front.front
    return f"{named}, front" if trial.number in {p.trial for p in front} else named
