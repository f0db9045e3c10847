"""The section of slices: the objective of a sweep against each single parameter."""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from rlexp.protocol.space import Choice, Integer, Parameter
from rlexp.reports.analysis.report_context import ReportContext
from rlexp.reports.analysis.sweep_tables import (
    clouds,
    name_suffix,
    objective,
    shown,
    sweep_title,
    valued,
)
from rlexp.reports.drawing.blocks import Axis, Block, ScatterFigure, SectionContent, Text
from rlexp.reports.evidence.runs import Evidence
from rlexp.reports.evidence.sweeps import SweepEvidence, TrialEvidence
from rlexp.text import join_first_names

MOST = 12
"""Maximal number of parameters with a figure; the most important ones have one."""


@dataclass(frozen=True, slots=True)
class SlicesSection:
    """Figure for each parameter of each sweep."""

    def part(self, report: ReportContext) -> SectionContent | None:
        """Compute the part; `None` where no trial of a sweep has a value."""
        evidence = report.evidence
        blocks = tuple(
            block
            for sweep in evidence.sweeps
            if valued(sweep)
            for block in _blocks(sweep, evidence)
        )
        if not blocks:
            return None
        return SectionContent(name="slices", title="Slices", blocks=blocks, folded=True)


def _blocks(sweep: SweepEvidence, evidence: Evidence) -> list[Block]:
    ordered = _ordered(sweep)
    figures: list[Block] = [_figure(p, sweep, evidence) for p in ordered[:MOST]]
    if rest := [p.key for p in ordered[MOST:]]:
        text = f"The {MOST} most important parameters; not drawn: {join_first_names(rest)}."
        figures.append(Text(text=text))
    return figures


def _ordered(sweep: SweepEvidence) -> list[Parameter]:
    """Parameters by importance (first method that has shares), or in the order of the space."""
    # Methods may disagree: the order follows only the first one.
    shares = next((i.shares for i in sweep.importances if i.shares), {})
    parameters = sweep.definition.space.parameters
    importance = {p.key: shares[p.key].estimate if p.key in shares else 0.0 for p in parameters}
    return sorted(parameters, key=lambda p: -importance[p.key])


def _figure(parameter: Parameter, sweep: SweepEvidence, evidence: Evidence) -> ScatterFigure:
    trials, domain = valued(sweep), parameter.domain
    values = {t.number: t.parameters[parameter.key] for t in trials if _has(t, parameter)}
    ticks: tuple[str, ...] = ()
    if isinstance(domain, Choice):
        # The default's value may lie outside the searched choices, so it gets a tick as well.
        ticks = tuple(dict.fromkeys(map(shown, (*domain.values, *values.values()))))
        x = {number: float(ticks.index(shown(value))) for number, value in values.items()}
        axis = Axis(title=parameter.key)
    else:
        x = _numbers(values)
        log = domain.log if isinstance(domain, Integer) else domain.scale == "log"
        axis = Axis(title=parameter.key, log=log)
    return ScatterFigure(
        name=f"slice-{parameter.key}{name_suffix(sweep, evidence)}",
        title=sweep_title(parameter.key, sweep, evidence),
        x=axis,
        y=Axis(title=objective(sweep)),
        clouds=clouds(trials, x, sweep),
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
    return f"{absent} of {len(trials)} trials have no value on this axis." if absent else ""
