"""The section of parallel coordinates: every trial as a line through all parameters."""

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from rlexp.protocol.space import Choice, Integer, Parameter
from rlexp.records.selection import TUNED
from rlexp.reports.analysis.report_context import ReportContext
from rlexp.reports.analysis.sweep_tables import (
    is_minimised,
    name_suffix,
    objective,
    point_name,
    shown,
    sweep_title,
    trial_kind,
    valued,
)
from rlexp.reports.drawing.blocks import (
    Axis,
    Coordinate,
    ParallelFigure,
    SectionContent,
    TrialLine,
)
from rlexp.reports.evidence.runs import Evidence
from rlexp.reports.evidence.sweeps import SweepEvidence, TrialEvidence

MOST = 500
"""Maximal number of trials in a figure; the best ones are drawn."""
MARKED = (TUNED, "default")


@dataclass(frozen=True, slots=True)
class ParallelCoordinatesSection:
    """Figure of each sweep, with lines coloured by the value of the trial."""

    def part(self, report: ReportContext) -> SectionContent | None:
        """Compute the part; `None` where no trial of a sweep has a value."""
        evidence = report.evidence
        blocks = tuple(_figure(sweep, evidence) for sweep in evidence.sweeps if valued(sweep))
        return (
            SectionContent(name="parallel", title="Parallel coordinates", blocks=blocks)
            if blocks
            else None
        )


def _figure(sweep: SweepEvidence, evidence: Evidence) -> ParallelFigure:
    trials, left_out = _drawn(sweep)
    values = [t.value for t in valued(sweep) if t.value is not None]
    parameters = sweep.definition.space.parameters
    coordinates = [_coordinate(p, trials) for p in parameters]
    colour = Axis(title=objective(sweep), low=min(values), high=max(values))
    height = Coordinate(title=objective(sweep), low=min(values), high=max(values))
    return ParallelFigure(
        name=f"parallel{name_suffix(sweep, evidence)}",
        title=sweep_title("Parallel coordinates", sweep, evidence),
        coordinates=(*coordinates, height),
        threads=tuple(_thread(t, sweep, coordinates) for t in trials),
        colour=colour,
        note=_note(left_out, sweep),
    )


def _drawn(sweep: SweepEvidence) -> tuple[list[TrialEvidence], int]:
    """The trials to draw in order of their numbers, and the number of the others.

    Trials without a value are left out first, then those with the worst values.
    """
    sign = -1 if is_minimised(sweep) else 1
    numbered = {t.number for t in valued(sweep)}

    def rank(trial: TrialEvidence) -> tuple[bool, bool, float, int]:
        value = trial.value if trial.number in numbered and trial.value is not None else 0.0
        marked = trial_kind(trial, sweep) in MARKED
        return not marked, trial.number not in numbered, -sign * value, trial.number

    # Browsers become slow with thousands of lines, so the worst trials are left out.
    kept = sorted(sweep.trials, key=rank)[:MOST]
    return sorted(kept, key=lambda t: t.number), len(sweep.trials) - len(kept)


def _coordinate(parameter: Parameter, trials: Sequence[TrialEvidence]) -> Coordinate:
    """The axis of a parameter: its range, extended to values that were tried outside it."""
    seen = [t.parameters[parameter.key] for t in trials if parameter.key in t.parameters]
    domain = parameter.domain
    if isinstance(domain, Choice):
        names = dict.fromkeys(map(shown, (*domain.values, *seen)))
        return Coordinate(title=parameter.key, names=tuple(names))
    numbers = [float(v) for v in seen if _is_number(v)]
    log = domain.log if isinstance(domain, Integer) else domain.scale == "log"
    # The default may be 0, which has no place on a logarithmic axis.
    ends = [*(n for n in numbers if n > 0 or not log), float(domain.low), float(domain.high)]
    return Coordinate(title=parameter.key, low=min(ends), high=max(ends), log=log)


def _thread(
    trial: TrialEvidence, sweep: SweepEvidence, coordinates: Sequence[Coordinate]
) -> TrialLine:
    role = trial_kind(trial, sweep)
    value = trial.value if trial.value is not None and math.isfinite(trial.value) else None
    return TrialLine(
        name=point_name(trial, sweep),
        values=(*(_place(c, trial.parameters) for c in coordinates), value),
        value=value,
        marked=role in MARKED,
    )


def _place(coordinate: Coordinate, values: Mapping[str, Any]) -> float | None:
    """Position of a trial on an axis; `None` where the axis cannot show its value."""
    if coordinate.title not in values:
        return None
    value = values[coordinate.title]
    if coordinate.names:
        return float(coordinate.names.index(shown(value)))
    placed = _is_number(value) and (value > 0 or not coordinate.log)
    return float(value) if placed else None


def _is_number(value: Any) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool) and math.isfinite(value)


def _note(left_out: int, sweep: SweepEvidence) -> str:
    return " ".join(_notes(left_out, sweep))


def _notes(left_out: int, sweep: SweepEvidence) -> Iterator[str]:
    if left_out:
        yield f"The best {MOST} of {len(sweep.trials):,} trials; {left_out:,} are not drawn."
    if any(p.when for p in sweep.definition.space.parameters):
        yield "A line is interrupted where its trial does not have the parameter."
