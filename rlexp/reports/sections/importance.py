"""The section of parameter importance: how much the objective depends on each parameter."""

from collections.abc import Iterator
from dataclasses import dataclass

from rlexp.reports.analysis.report_context import ReportContext
from rlexp.reports.analysis.sweep_tables import name_suffix, sweep_title
from rlexp.reports.drawing.blocks import (
    Block,
    Callout,
    SectionContent,
    Table,
    TableColumn,
    Text,
    Tone,
    Value,
)
from rlexp.reports.evidence.runs import Evidence
from rlexp.reports.evidence.sweeps import ImportanceByMethod, SweepEvidence

WHY_THEY_DIFFER = (
    "PED-ANOVA shows which parameters distinguish the best tenth of the trials from all trials; "
    "fANOVA shows how much the objective varies with each parameter over the whole space, "
    "including bad regions. They differ where a parameter matters only among the best trials, or "
    "only for avoiding failures. Shares of each method sum to 1."
)


@dataclass(frozen=True, slots=True)
class ImportanceSection:
    """Table of each sweep with a column for each method."""

    def part(self, report: ReportContext) -> SectionContent | None:
        """Compute the part; `None` where no sweep has enough trials."""
        evidence = report.evidence
        sweeps = [sweep for sweep in evidence.sweeps if sweep.importances]
        if not sweeps:
            return None
        blocks = [block for sweep in sweeps for block in _blocks(sweep, evidence)]
        explained = (Text(text=WHY_THEY_DIFFER),) if _any_shares(sweeps) else ()
        title = "Importance of parameters"
        return SectionContent(name="importance", title=title, blocks=(*explained, *blocks))


def _any_shares(sweeps: list[SweepEvidence]) -> bool:
    return any(i.shares for sweep in sweeps for i in sweep.importances)


def _blocks(sweep: SweepEvidence, evidence: Evidence) -> Iterator[Block]:
    usable = [i for i in sweep.importances if i.shares]
    if usable:
        yield _table(sweep, usable, evidence)
    if pairs := [i for i in usable if i.pairs]:
        yield _pairs(sweep, pairs, evidence)
    for importance in sweep.importances:
        if importance.reason:
            where = f" of {sweep.experiment}" if len(evidence.sweeps) > 1 else ""
            text = f"No importance{where} by {importance.method}: {importance.reason}."
            yield Callout(tone=Tone.NOTE, text=text)


def _table(
    sweep: SweepEvidence, importances: list[ImportanceByMethod], evidence: Evidence
) -> Table:
    first = importances[0].shares
    keys = sorted(
        sweep.definition.space.keys, key=lambda k: -first[k].estimate if k in first else 0.0
    )
    rows: list[tuple[Value, ...]] = [
        (key, *(i.shares.get(key) for i in importances)) for key in keys
    ]
    notes = [f"{i.method}: {_quality(i)}{i.note}".strip() for i in importances]
    return Table(
        name=f"importance{name_suffix(sweep, evidence)}",
        title=sweep_title("Importance of parameters", sweep, evidence),
        columns=(
            TableColumn(title="parameter"),
            *(TableColumn(title=i.method, digits=2) for i in importances),
        ),
        rows=tuple(rows),
        note=" ".join(notes),
    )


def _quality(importance: ImportanceByMethod) -> str:
    if importance.quality is None:
        return ""
    return f"cross-validated R² {importance.quality:.2f}. "


def _pairs(
    sweep: SweepEvidence, importances: list[ImportanceByMethod], evidence: Evidence
) -> Table:
    return Table(
        name=f"importance-pairs{name_suffix(sweep, evidence)}",
        title=sweep_title("Interactions of two parameters", sweep, evidence),
        columns=(
            TableColumn(title="parameter"),
            TableColumn(title="with"),
            TableColumn(title="method"),
            TableColumn(title="share", digits=3),
        ),
        rows=tuple(
            (a, b, i.method, share) for i in importances for (a, b), share in i.pairs.items()
        ),
        note="Share of the total effect of single parameters and pairs; only the largest pairs.",
    )
