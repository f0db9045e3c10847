"""What the sections about a sweep share: kinds of trials, incumbents, its runs on test seeds."""

import json
import math
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from rlexp.protocol.identity import PLUG_IN, full_name, without_names
from rlexp.protocol.seeds import Phase
from rlexp.protocol.space import Choice, Domain, Integer, Parameter
from rlexp.protocol.sweep import MINIMISED
from rlexp.records.selection import DEFAULT
from rlexp.reports.drawing.blocks import Block, Cloud, Column, Listing, Table, Value
from rlexp.reports.evidence.runs import Cell, Evidence
from rlexp.reports.evidence.sweeps import (
    SweepEvidence,
    TrialEvidence,
    full_runs,
    leaves,
    tuning_effort,
    value_text,
)
from rlexp.text import counted, listed, numbers

ALLOCATIONS = {
    "two_stage": "each configuration on one tuning seed, the best {share} of them on all",
    "fixed": "each configuration on all tuning seeds",
    "racing": "each configuration on one tuning seed after the other, until Wilcoxon's test finds "
    "it worse than the best",
}
FAILURES = {
    "worst": "a failed trial is worse than every other to the tuner, and cannot win",
    "exclude": "the tuner does not hear of failed trials, and they cannot win",
}


def search_protocol(sweep: SweepEvidence, evidence: Evidence) -> Iterator[Block]:
    """The search as it was declared, then its space: in words, and verbatim."""
    yield Table(
        name=f"search{name_suffix(sweep, evidence)}",
        title=sweep_title("Search", sweep, evidence),
        columns=(Column(title="what"), Column(title="how")),
        rows=tuple(_declared(sweep)),
        note="As declared before the first trial, but for what was spent.",
    )
    yield Table(
        name=f"ranges{name_suffix(sweep, evidence)}",
        title=sweep_title("Search space", sweep, evidence),
        columns=tuple(Column(title=t) for t in ("parameter", "values", "only where", "default")),
        rows=tuple(_ranges(sweep)),
    )
    yield Listing(
        name=f"space{name_suffix(sweep, evidence)}",
        title=sweep_title("Search space, verbatim", sweep, evidence),
        text="\n".join(
            json.dumps(parameter, ensure_ascii=False)
            for parameter in sweep.definition.space.plain()
        ),
    )


def _declared(sweep: SweepEvidence) -> Iterator[tuple[Value, ...]]:
    plan = sweep.definition.plan
    share = f"{100 * plan.promoted:.3g} %"
    yield "tuner and pruner", tuner_in_words(sweep)
    yield "objective", listed(OBJECTIVES[name] for name in plan.objectives)
    yield "aggregate over tuning seeds", plan.aggregate
    yield "budget", budget_in_words(sweep)
    yield "seeds of a configuration", ALLOCATIONS[plan.allocation].format(share=share)
    yield "tuning seeds", _seeds(sweep.tuning_seeds)
    yield "selection seeds", _seeds(sweep.selection_seeds)
    again = f"{plan.finalists} at most, scored again on the selection seeds"
    yield "finalists", again if sweep.selection_seeds else "the best trial wins, without selection"
    yield "failures", FAILURES[plan.failures]
    if plan.lag is not None:
        yield "lag", f"a trial is suggested without the {counted(plan.lag, 'trial')} before it"


def _ranges(sweep: SweepEvidence) -> Iterator[tuple[Value, ...]]:
    default = sweep.default
    for parameter in sweep.definition.space.parameters:
        conditions = [
            f"{key} is {' or '.join(map(shown, values))}" for key, values in parameter.when.items()
        ]
        yield (
            parameter.key,
            range_in_words(parameter.domain),
            " and ".join(conditions) or None,
            value_of(parameter, default),
        )


def _seeds(seeds: tuple[int, ...]) -> str:
    return f"{numbers(seeds)} ({len(seeds)})" if seeds else "none"


FINALISTS = 3
"""Finalists besides the winner that have a column, at most."""


def settings_table(sweep: SweepEvidence, evidence: Evidence) -> Table:
    """What was searched first, then all other settings of agent and algorithm."""
    chosen = _columns(sweep)
    searched = [
        (
            p.key,
            range_in_words(p.domain),
            value_of(p, sweep.default),
            *(value_of(p, t.parameters) for t in chosen),
        )
        for p in sweep.definition.space.parameters
    ]
    rest = _other_settings(sweep, evidence)
    others = [(key, None, default, won, *[None] * (len(chosen) - 1)) for key, default, won in rest]
    titles = [f"trial {t.number}{_role(t, sweep)}" for t in chosen]
    return Table(
        name=f"winner-settings{name_suffix(sweep, evidence)}",
        title=sweep_title("Every hyperparameter", sweep, evidence),
        columns=tuple(Column(title=t) for t in ("parameter", "searched", "default", *titles)),
        rows=(*searched, *(others if chosen else [row[:3] for row in others])),
        note=_note(rest),
    )


def _columns(sweep: SweepEvidence) -> list[TrialEvidence]:
    """The winner, or the best so far, then other finalists; the default has a column anyway."""
    if sweep.selection is None:
        return incumbents(sweep)[-1:]
    others = [f.number for f in sweep.selection.finalists if f.number != sweep.selection.winner]
    numbers = (sweep.selection.winner, *[n for n in others if n != DEFAULT][:FINALISTS])
    return [trial for n in numbers if (trial := by_number(sweep, n)) is not None]


def _role(trial: TrialEvidence, sweep: SweepEvidence) -> str:
    if sweep.selection is None:
        return " (best so far)"
    return " (winner)" if trial.number == sweep.selection.winner else ""


def _other_settings(
    sweep: SweepEvidence, evidence: Evidence
) -> Sequence[tuple[str, str | None, str | None]]:
    """Settings that were not searched, as the test runs have them: name, default, winner."""
    default = _settings(test_cell(sweep, evidence, tuned=False))
    winner = _settings(test_cell(sweep, evidence, tuned=True))
    searched = set(sweep.definition.space.keys)
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


def name_suffix(sweep: SweepEvidence, evidence: Evidence) -> str:
    """What tells the blocks of a sweep from those of others: nothing where it is alone."""
    return f"-{sweep.experiment}" if len(evidence.sweeps) > 1 else ""


def sweep_title(title: str, sweep: SweepEvidence, evidence: Evidence) -> str:
    """A title that names the sweep where there are several."""
    return f"{title}: {sweep.experiment}" if len(evidence.sweeps) > 1 else title


def objective(sweep: SweepEvidence) -> str:
    """What was optimised, the first of several."""
    return OBJECTIVES[sweep.definition.plan.objectives[0]]


def is_minimised(sweep: SweepEvidence) -> bool:
    """Whether less of it is better."""
    return sweep.definition.plan.objectives[0] in MINIMISED


def trial_kind(trial: TrialEvidence, sweep: SweepEvidence) -> str:
    """What a trial is to a reader, of `KINDS`."""
    if trial.number == DEFAULT:
        return "default"
    if sweep.selection is not None and sweep.selection.winner == trial.number:
        return "winner"
    return "screened" if trial.state == "complete" and not trial.eligible else trial.state


def valued(sweep: SweepEvidence) -> list[TrialEvidence]:
    """The trials that have a finite value, in order of their numbers."""
    trials = [t for t in sweep.trials if t.value is not None and math.isfinite(t.value)]
    return sorted(trials, key=lambda t: t.number)


def by_number(sweep: SweepEvidence, number: int) -> TrialEvidence | None:
    """The trial of a number, where there is one."""
    return next((t for t in sweep.trials if t.number == number), None)


def incumbents(sweep: SweepEvidence) -> list[TrialEvidence]:
    """The trials that were the best so far when they ended; only eligible ones can be."""
    sign = -1 if is_minimised(sweep) else 1
    improving: list[TrialEvidence] = []
    best = -math.inf
    for trial in sorted(valued(sweep), key=lambda t: (t.ended_at, t.number)):
        if trial.eligible and trial.value is not None and sign * trial.value > best:
            best = sign * trial.value
            improving.append(trial)
    return improving


def clouds(
    trials: Sequence[TrialEvidence], x: Mapping[int, float], sweep: SweepEvidence
) -> tuple[Cloud, ...]:
    """The values of trials as points, a cloud for each kind.

    Args:
        trials: Those that have a value.
        x: Where each stands, by number; one that is not there is not drawn.
        sweep: The sweep of the trials.
    """
    series = []
    for name in KINDS:
        points = [t for t in trials if trial_kind(t, sweep) == name and t.number in x]
        if points:
            series.append(
                Cloud(
                    label=name,
                    x=tuple(float(x[t.number]) for t in points),
                    y=tuple(t.value for t in points if t.value is not None),
                    names=tuple(point_name(t, sweep) for t in points),
                )
            )
    return tuple(series)


def point_name(trial: TrialEvidence, sweep: SweepEvidence) -> str:
    """A trial by its number, and what it is besides."""
    won = sweep.selection is not None and sweep.selection.winner == trial.number
    roles = [w for w in ("default" * (trial.number == DEFAULT), "winner" * won) if w]
    return f"trial {trial.number}" + (f" ({', '.join(roles)})" if roles else "")


def test_cell(sweep: SweepEvidence, evidence: Evidence, *, tuned: bool) -> Cell | None:
    """The test runs of the winner, or of the default configuration, where some are planned.

    Where the default itself won, they are the same.
    """
    if evidence.phase is not Phase.TEST:
        return None
    cells = [c for c in evidence.cells.values() if c.members[0].experiment == sweep.experiment]
    if sweep.selection is not None and sweep.selection.winner == DEFAULT:
        return cells[0] if cells else None
    matching = [c for c in cells if (c.members[0].configuration.label == TUNED) is tuned]
    return matching[0] if matching else None


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
    return f"{value:.6g}" if is_number else value_text(value)


def value_of(parameter: Parameter, values: Mapping[str, Any]) -> str | None:
    """A parameter's value among others, or nothing where it is not there."""
    return shown(values[parameter.key]) if parameter.key in values else None


def tuner_in_words(sweep: SweepEvidence) -> str:
    """A sweep's tuner and pruner with their settings."""
    return f"tuner {_member(sweep.definition.tuner)}, pruner {_member(sweep.definition.pruner)}"


def budget_in_words(sweep: SweepEvidence) -> str:
    """What was asked for at most, and what was spent."""
    plan = sweep.definition.plan
    limits = [
        counted(plan.trials, "trial"),
        *([f"{plan.full_runs:g} full-run equivalents"] if plan.full_runs else []),
        *([f"{plan.steps:,} environment steps"] if plan.steps else []),
        *([f"{plan.hours:g} hours"] if plan.hours else []),
    ]
    return (
        f"at most {listed(limits)}; spent {full_runs(sweep):.3g} full-run equivalents of "
        f"{sweep.steps:,} steps, {tuning_effort(sweep)}, selection included"
    )


def _member(settings: Mapping[str, Any]) -> str:
    """A tuner or pruner by its name, with its settings."""
    name, kept = full_name(settings.get(PLUG_IN)), without_names(settings)
    shown = [f"{path.removeprefix('.')} = {value}" for path, value in leaves(kept, "")]
    return f"{name} ({', '.join(shown)})" if shown else name
