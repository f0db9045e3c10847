"""Slices: the objective against each parameter, one at a time."""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from rlexp.protocol.space import Choice, Integer, Parameter
from rlexp.reports.analysis.inquiry import Inquiry
from rlexp.reports.analysis.sweep_tables import clouds, objective, shown, suffix, titled, valued
from rlexp.reports.drawing.blocks import Axis, Block, Part, Scatter, Text
from rlexp.reports.evidence.runs import Evidence
from rlexp.reports.evidence.sweeps import SweepEvidence, TrialEvidence
from rlexp.text import shortened

MOST = 12
"""Parameters that have a figure, those that matter most."""


@dataclass(frozen=True, slots=True)
class Slices:
    """A figure for each parameter of each sweep."""

    def part(self, inquiry: Inquiry) -> Part | None:
        """Compute the part; nothing where no trial of a sweep has a value."""
        evidence = inquiry.evidence
        blocks = tuple(
            block for own in evidence.sweeps if valued(own) for block in _blocks(own, evidence)
        )
        if not blocks:
            return None
        return Part(name="slices", title="Slices", blocks=blocks, folded=True)


def _blocks(own: SweepEvidence, evidence: Evidence) -> list[Block]:
    ordered = _ordered(own)
    figures: list[Block] = [_figure(p, own, evidence) for p in ordered[:MOST]]
    if rest := [p.key for p in ordered[MOST:]]:
        text = f"The {MOST} parameters that matter most; not drawn: {shortened(rest)}."
        figures.append(Text(text=text))
    return figures


def _ordered(own: SweepEvidence) -> list[Parameter]:
    """Parameters by the first method that tells their importance, or else as in the space."""
    shares = next((i.shares for i in own.importances if i.shares), {})
    found = own.sweep.space.parameters
    known = {p.key: shares[p.key].estimate if p.key in shares else 0.0 for p in found}
    return sorted(found, key=lambda p: -known[p.key])


def _figure(parameter: Parameter, own: SweepEvidence, evidence: Evidence) -> Scatter:
    trials, domain = valued(own), parameter.domain
    there = {t.number: t.parameters[parameter.key] for t in trials if _has(t, parameter)}
    ticks: tuple[str, ...] = ()
    if isinstance(domain, Choice):
        ticks = tuple(dict.fromkeys(map(shown, (*domain.values, *there.values()))))
        x = {number: float(ticks.index(shown(value))) for number, value in there.items()}
        axis = Axis(title=parameter.key)
    else:
        x = _numbers(there)
        log = domain.log if isinstance(domain, Integer) else domain.scale == "log"
        axis = Axis(title=parameter.key, log=log)
    return Scatter(
        name=f"slice-{parameter.key}{suffix(own, evidence)}",
        title=titled(parameter.key, own, evidence),
        x=axis,
        y=Axis(title=objective(own)),
        clouds=clouds(trials, x, own),
        ticks=ticks,
        note=_note(trials, x),
    )


def _has(trial: TrialEvidence, parameter: Parameter) -> bool:
    return parameter.key in trial.parameters


def _numbers(values: Mapping[int, Any]) -> dict[int, float]:
    return {
        number: float(value)
        for number, value in values.items()
        if isinstance(value, int | float) and not isinstance(value, bool) and math.isfinite(value)
    }


def _note(trials: Sequence[TrialEvidence], x: Mapping[int, float]) -> str:
    absent = sum(t.number not in x for t in trials)
    return f"{absent} of {len(trials)} trials do not have it as a number." if absent else ""
