"""Importance: how much the objective depends on each parameter."""

from collections.abc import Iterator
from dataclasses import dataclass

from rlexp.reports.analysis.inquiry import Inquiry
from rlexp.reports.analysis.sweep_tables import suffix, titled
from rlexp.reports.drawing.blocks import Block, Column, Notice, Part, Table, Text, Tone, Value
from rlexp.reports.evidence.runs import Evidence
from rlexp.reports.evidence.sweeps import Importance, SweepEvidence

WHY_THEY_DIFFER = (
    "PED-ANOVA says which parameters tell the best tenth of the trials from all of them; fANOVA "
    "says how much the objective varies with each parameter over the whole space, bad regions "
    "included. So they differ where a parameter matters only for being among the best, or only "
    "for not failing. Shares of each method sum to 1."
)


@dataclass(frozen=True, slots=True)
class ParameterImportance:
    """A table for each sweep, with a column for each method."""

    def part(self, inquiry: Inquiry) -> Part | None:
        """Compute the part; nothing where no sweep has trials enough to ask."""
        evidence = inquiry.evidence
        own = [sweep for sweep in evidence.sweeps if sweep.importances]
        if not own:
            return None
        blocks = [block for sweep in own for block in _blocks(sweep, evidence)]
        explained = (Text(text=WHY_THEY_DIFFER),) if _any_shares(own) else ()
        title = "Importance of parameters"
        return Part(name="importance", title=title, blocks=(*explained, *blocks))


def _any_shares(sweeps: list[SweepEvidence]) -> bool:
    return any(i.shares for own in sweeps for i in own.importances)


def _blocks(own: SweepEvidence, evidence: Evidence) -> Iterator[Block]:
    known = [i for i in own.importances if i.shares]
    if known:
        yield _table(own, known, evidence)
    if pairs := [i for i in known if i.pairs]:
        yield _pairs(own, pairs, evidence)
    for importance in own.importances:
        if importance.reason:
            where = f" of {own.experiment}" if len(evidence.sweeps) > 1 else ""
            text = f"No importance{where} by {importance.method}: {importance.reason}."
            yield Notice(tone=Tone.NOTE, text=text)


def _table(own: SweepEvidence, known: list[Importance], evidence: Evidence) -> Table:
    first = known[0].shares
    keys = sorted(own.sweep.space.keys, key=lambda k: -first[k].estimate if k in first else 0.0)
    rows: list[tuple[Value, ...]] = [(key, *(i.shares.get(key) for i in known)) for key in keys]
    told = [f"{i.method}: {_quality(i)}{i.note}".strip() for i in known]
    return Table(
        name=f"importance{suffix(own, evidence)}",
        title=titled("Importance of parameters", own, evidence),
        columns=(Column(title="parameter"), *(Column(title=i.method, digits=2) for i in known)),
        rows=tuple(rows),
        note=" ".join(told),
    )


def _quality(importance: Importance) -> str:
    if importance.quality is None:
        return ""
    return f"cross-validated R² {importance.quality:.2f}. "


def _pairs(own: SweepEvidence, known: list[Importance], evidence: Evidence) -> Table:
    return Table(
        name=f"importance-pairs{suffix(own, evidence)}",
        title=titled("What two parameters do together", own, evidence),
        columns=(
            Column(title="parameter"),
            Column(title="with"),
            Column(title="method"),
            Column(title="share", digits=3),
        ),
        rows=tuple((a, b, i.method, share) for i in known for (a, b), share in i.pairs.items()),
        note="Of all that parameters do alone and in pairs; the largest pairs only.",
    )
