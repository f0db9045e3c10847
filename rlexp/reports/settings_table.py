"""Every hyperparameter of the winner of a sweep, with the default and the finalists beside it."""

from collections.abc import Mapping, Sequence

from rlexp.records.selection import DEFAULT
from rlexp.reports.analysis.sweep_tables import (
    by_number,
    incumbents,
    range_in_words,
    suffix,
    test_cell,
    titled,
    value_of,
)
from rlexp.reports.drawing.blocks import Column, Table
from rlexp.reports.evidence.runs import Cell, Evidence
from rlexp.reports.evidence.sweeps import SweepEvidence, TrialEvidence
from rlexp.reports.leaves import leaves

FINALISTS = 3
"""Finalists besides the winner that have a column, at most."""


def settings_table(own: SweepEvidence, evidence: Evidence) -> Table:
    """What was searched first, then all other settings of agent and algorithm."""
    chosen = _columns(own)
    searched = [
        (
            p.key,
            range_in_words(p.domain),
            value_of(p, own.default),
            *(value_of(p, t.parameters) for t in chosen),
        )
        for p in own.sweep.space.parameters
    ]
    rest = _other_settings(own, evidence)
    others = [(key, None, default, won, *[None] * (len(chosen) - 1)) for key, default, won in rest]
    titles = [f"trial {t.number}{_role(t, own)}" for t in chosen]
    return Table(
        name=f"winner-settings{suffix(own, evidence)}",
        title=titled("Every hyperparameter", own, evidence),
        columns=tuple(Column(title=t) for t in ("parameter", "searched", "default", *titles)),
        rows=(*searched, *(others if chosen else [row[:3] for row in others])),
        note=_note(rest),
    )


def _columns(own: SweepEvidence) -> list[TrialEvidence]:
    """The winner, or the best so far, then other finalists; the default has a column anyway."""
    if own.selection is None:
        return incumbents(own)[-1:]
    others = [f.number for f in own.selection.finalists if f.number != own.selection.winner]
    numbers = (own.selection.winner, *[n for n in others if n != DEFAULT][:FINALISTS])
    return [trial for n in numbers if (trial := by_number(own, n)) is not None]


def _role(trial: TrialEvidence, own: SweepEvidence) -> str:
    if own.selection is None:
        return " (best so far)"
    return " (winner)" if trial.number == own.selection.winner else ""


def _other_settings(
    own: SweepEvidence, evidence: Evidence
) -> Sequence[tuple[str, str | None, str | None]]:
    """Settings that were not searched, as the test runs have them: name, default, winner."""
    default = _settings(test_cell(own, evidence, tuned=False))
    winner = _settings(test_cell(own, evidence, tuned=True))
    searched = set(own.sweep.space.keys)
    names = sorted({*default, *winner} - searched)
    return [(name, default.get(name), winner.get(name)) for name in names]


def _settings(cell: Cell | None) -> Mapping[str, str]:
    if cell is None:
        return {}
    spec = cell.members[0].record.spec
    return dict([*leaves(spec.algorithm, "algorithm"), *leaves(spec.agent, "agent")])


def _note(rest: Sequence[tuple[str, str | None, str | None]]) -> str:
    if not rest:
        return "Of what was searched; everything else is the same in all trials."
    return (
        "A setting without a range was not searched. What has no value is not there, or is unset. "
        "Provenance lists everything that defines a run."
    )
