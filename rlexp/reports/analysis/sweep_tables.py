"""What the sections about a sweep share: kinds of trials, incumbents, its runs on test seeds."""

import math
from collections.abc import Mapping, Sequence
from typing import Any

from rlexp.protocol.seeds import Phase
from rlexp.protocol.space import Choice, Domain, Integer, Parameter
from rlexp.protocol.sweep import MINIMISED
from rlexp.records.selection import DEFAULT
from rlexp.reports.drawing.blocks import Cloud
from rlexp.reports.evidence.runs import Cell, Evidence
from rlexp.reports.evidence.sweeps import SweepEvidence, TrialEvidence
from rlexp.reports.leaves import said

TUNED = "tuned"
"""Label of the winner's test runs; those of the default configuration have another one."""
KINDS = ("complete", "screened", "pruned", "failed", "unfinished", "default", "winner")
"""Kinds of trials, in the order in which they are drawn; a screened one could not win."""
OBJECTIVES = {
    "score": "score",
    "final": "mean return of the final policy",
    "auc": "mean height of the curve of evaluations",
    "last_window": "mean return in the last tenth of training",
    "spread": "standard deviation of the scores over tuning seeds",
    "steps_to_threshold": "environment steps to the threshold",
}


def suffix(own: SweepEvidence, evidence: Evidence) -> str:
    """What tells the blocks of a sweep from those of others: nothing where it is alone."""
    return f"-{own.experiment}" if len(evidence.sweeps) > 1 else ""


def titled(title: str, own: SweepEvidence, evidence: Evidence) -> str:
    """A title that names the sweep where there are several."""
    return f"{title}: {own.experiment}" if len(evidence.sweeps) > 1 else title


def objective(own: SweepEvidence) -> str:
    """What was optimised, the first of several."""
    return OBJECTIVES[own.sweep.plan.objectives[0]]


def is_minimised(own: SweepEvidence) -> bool:
    """Whether less of it is better."""
    return own.sweep.plan.objectives[0] in MINIMISED


def kind(trial: TrialEvidence, own: SweepEvidence) -> str:
    """What a trial is to a reader, of `KINDS`."""
    if trial.number == DEFAULT:
        return "default"
    if own.selection is not None and own.selection.winner == trial.number:
        return "winner"
    return "screened" if trial.state == "complete" and not trial.eligible else trial.state


def valued(own: SweepEvidence) -> list[TrialEvidence]:
    """The trials that have a finite value, in order of their numbers."""
    found = [t for t in own.trials if t.value is not None and math.isfinite(t.value)]
    return sorted(found, key=lambda t: t.number)


def by_number(own: SweepEvidence, number: int) -> TrialEvidence | None:
    """The trial of a number, where there is one."""
    return next((t for t in own.trials if t.number == number), None)


def incumbents(own: SweepEvidence) -> list[TrialEvidence]:
    """The trials that were the best so far when they ended; only eligible ones can be."""
    sign = -1 if is_minimised(own) else 1
    found: list[TrialEvidence] = []
    best = -math.inf
    for trial in sorted(valued(own), key=lambda t: (t.ended_at, t.number)):
        if trial.eligible and trial.value is not None and sign * trial.value > best:
            best = sign * trial.value
            found.append(trial)
    return found


def clouds(
    trials: Sequence[TrialEvidence], x: Mapping[int, float], own: SweepEvidence
) -> tuple[Cloud, ...]:
    """The values of trials as points, a cloud for each kind.

    Args:
        trials: Those that have a value.
        x: Where each stands, by number; one that is not there is not drawn.
        own: Their sweep.
    """
    found = []
    for name in KINDS:
        points = [t for t in trials if kind(t, own) == name and t.number in x]
        if points:
            found.append(
                Cloud(
                    label=name,
                    x=tuple(float(x[t.number]) for t in points),
                    y=tuple(t.value for t in points if t.value is not None),
                    names=tuple(point_name(t, own) for t in points),
                )
            )
    return tuple(found)


def point_name(trial: TrialEvidence, own: SweepEvidence) -> str:
    """A trial by its number, and what it is besides."""
    won = own.selection is not None and own.selection.winner == trial.number
    words = [w for w in ("default" * (trial.number == DEFAULT), "winner" * won) if w]
    return f"trial {trial.number}" + (f" ({', '.join(words)})" if words else "")


def test_cell(own: SweepEvidence, evidence: Evidence, *, tuned: bool) -> Cell | None:
    """The test runs of the winner, or of the default configuration, where some are planned.

    Where the default itself won, they are the same.
    """
    if evidence.phase is not Phase.TEST:
        return None
    cells = [c for c in evidence.cells.values() if c.members[0].experiment == own.experiment]
    if own.selection is not None and own.selection.winner == DEFAULT:
        return cells[0] if cells else None
    wanted = [c for c in cells if (c.members[0].configuration.label == TUNED) is tuned]
    return wanted[0] if wanted else None


def range_in_words(domain: Domain) -> str:
    """The values that a parameter may take (`1e-05 to 0.1, log`)."""
    match domain:
        case Choice():
            return f"one of {', '.join(map(shown, domain.values))}"
        case Integer():
            return f"{domain.low} to {domain.high}, whole" + ", log" * domain.log
        case _:
            scale = "" if domain.scale == "linear" else f", {domain.scale.replace('_', ' ')}"
            return f"{domain.low:g} to {domain.high:g}{scale}"


def shown(value: Any) -> str:
    """A parameter's value: numbers to six digits, texts as they are, all else as JSON."""
    is_number = isinstance(value, float) and math.isfinite(value)
    return f"{value:.6g}" if is_number else said(value)


def value_of(parameter: Parameter, values: Mapping[str, Any]) -> str | None:
    """A parameter's value among others, or nothing where it is not there."""
    return shown(values[parameter.key]) if parameter.key in values else None
