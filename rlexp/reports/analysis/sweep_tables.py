"""Tables and helpers of the sections about sweeps: protocol, settings, incumbents, test runs."""

import json
import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from rlexp.protocol.identity import PLUG_IN, full_name, without_names
from rlexp.protocol.seeds import Phase
from rlexp.protocol.space import Choice, Domain, Integer, Parameter
from rlexp.protocol.sweep import SweepTask
from rlexp.protocol.value_schedule import is_scheduled
from rlexp.records.selection import DEFAULT, TUNED, configuration_name
from rlexp.records.trial import TrialOrigin
from rlexp.reports.drawing.blocks import (
    Block,
    PointSeries,
    Table,
    TableColumn,
    Value,
    VerbatimText,
)
from rlexp.reports.evidence.runs import Evidence, LabelTaskRuns
from rlexp.reports.evidence.sweeps import (
    SweepEvidence,
    TrialEvidence,
    flat_settings,
    full_runs,
    hyperparameters,
    tuning_effort,
    value_text,
)
from rlexp.text import (
    format_count,
    format_parameter,
    format_percentage,
    format_ranges,
    format_score,
    join_names,
)

ALLOCATIONS = {
    "two_stage": "each configuration on one tuning seed, the best {share} of them on all",
    "fixed": "each configuration on all tuning seeds",
    "racing": "each configuration on one tuning seed after the other, until Wilcoxon's test finds "
    "it worse than the best",
}
ALLOCATIONS_OF_TASKS = {
    "two_stage": "each configuration on {first} and one tuning seed, the best {share} of them on all "
    "tasks and seeds",
    "fixed": "each configuration on all tasks and tuning seeds",
    "racing": "each configuration on one task and tuning seed after the other, until Wilcoxon's test "
    "finds it worse than the best",
}
FAILURES = {
    "worst": "a failed trial is reported to the tuner as worse than all others, and cannot win",
    "exclude": "failed trials are not reported to the tuner, and cannot win",
}


def search_protocol(sweep: SweepEvidence, evidence: Evidence) -> Iterator[Block]:
    """Tables of the search and its space as declared, and the space verbatim."""
    yield Table(
        name=f"search{name_suffix(sweep, evidence)}",
        title=sweep_title("Search", sweep, evidence),
        columns=(TableColumn(title="item"), TableColumn(title="value")),
        rows=tuple(_declared(sweep)),
        note="As the study of another tool records it."
        if sweep.imported
        else "As declared before the first trial, except for the spent budget.",
    )
    yield Table(
        name=f"ranges{name_suffix(sweep, evidence)}",
        title=sweep_title("Search space", sweep, evidence),
        columns=tuple(
            TableColumn(title=t) for t in ("parameter", "values", "condition", "default")
        ),
        rows=tuple(_ranges(sweep)),
    )
    yield VerbatimText(
        name=f"space{name_suffix(sweep, evidence)}",
        title=sweep_title("Search space, verbatim", sweep, evidence),
        text="\n".join(
            json.dumps(parameter, ensure_ascii=False)
            for parameter in sweep.definition.space.plain()
        ),
    )


def _declared(sweep: SweepEvidence) -> Iterator[tuple[Value, ...]]:
    plan = sweep.definition.plan
    share = format_percentage(plan.promoted)
    yield "tuner and pruner", tuner_in_words(sweep)
    yield "objective", objectives_in_words(sweep)
    if sweep.tasks:
        yield "tasks", join_names([task.task for task in sweep.tasks])
        yield "score on several tasks", _normalisation_in_words(sweep)
    if sweep.imported:
        yield "trials", str(len(sweep.trials))
        yield "seeds of a configuration", "not known"
        return
    yield "aggregate over tuning seeds", plan.aggregate
    yield "budget", budget_in_words(sweep)
    allocations = ALLOCATIONS_OF_TASKS if sweep.tasks else ALLOCATIONS
    screened = plan.screening_tasks or 1
    first = "the first task" if screened == 1 else f"the first {screened} tasks"
    words = allocations[plan.allocation].format(share=share, first=first)
    yield "seeds of a configuration", words
    if plan.screening_episodes is not None:
        yield "final episodes of a screening run", str(plan.screening_episodes)
    if plan.enqueue:
        yield "configurations tried first", str(len(plan.enqueue))
    if sweep.definition.earlier:
        yield "begun from the trials of", join_names([e.name for e in sweep.definition.earlier])
    yield from _origins(sweep)
    yield "tuning seeds", _seeds(sweep.tuning_seeds)
    yield "selection seeds", _seeds(sweep.selection_seeds)
    again = f"{plan.finalists} at most, scored again on the selection seeds"
    yield "finalists", again if sweep.selection_seeds else "the best trial wins, without selection"
    yield "failures", FAILURES[plan.failures]
    if plan.stop_at_regret is not None:
        yield "end of the search", _end_of_search(plan.stop_at_regret, sweep.regret_bound)
    if plan.lag is not None:
        yield (
            "lag",
            f"a trial is suggested without results of the {format_count(plan.lag, 'trial')} before it",
        )


def _origins(sweep: SweepEvidence) -> Iterator[tuple[Value, ...]]:
    """The trials whose configurations do not come from the tuner alone."""
    for origin in TrialOrigin:
        numbers = [t.number for t in sweep.trials if t.origin is origin]
        if numbers:
            yield f"configurations {origin.text}", f"trials {format_ranges(numbers)}"


def _end_of_search(limit: float, bound: float | None) -> str:
    """When the search ends, and what more trials could gain."""
    words = f"when more trials could gain at most {format_score(limit)}"
    if bound is None:
        return f"{words}; there are too few trials for a bound"
    ended = "which was reached" if bound <= limit else "which was not reached"
    return f"{words}, {ended}: the bound is {format_score(bound)}"


def objectives_in_words(sweep: SweepEvidence) -> str:
    """Text of the objectives of a sweep."""
    return join_names(map(objective_text, sweep.definition.plan.objectives))


def _normalisation_in_words(sweep: SweepEvidence) -> str:
    """How scores on several tasks become comparable."""
    if sweep.ranks:
        return (
            "the share of the other compared trials that a run is better than, on the same task and "
            "seed; the mean over tasks, then the aggregate over seeds"
        )
    scales = "; ".join(f"{t.task}: {t.low:g} is 0, {t.high:g} is 1" for t in sweep.tasks)
    return f"normalised ({scales}); the mean over tasks, then the aggregate over seeds"


def _ranges(sweep: SweepEvidence) -> Iterator[tuple[Value, ...]]:
    default = sweep.default
    for parameter in sweep.definition.space.parameters:
        conditions = [
            f"{key} is {' or '.join(map(shown, values))}" for key, values in parameter.when.items()
        ]
        yield (
            parameter.key,
            range_in_words(parameter.domain) + _prior_in_words(parameter),
            " and ".join(conditions) or None,
            value_of(parameter, default),
        )


def _prior_in_words(parameter: Parameter) -> str:
    """The guess of a parameter and its width; nothing without a prior."""
    prior = parameter.prior
    return "" if prior is None else f"; guess {shown(prior.guess)}, width {prior.width:g}"


def _seeds(seeds: tuple[int, ...]) -> str:
    return f"{format_ranges(seeds)} ({len(seeds)})" if seeds else "none"


FINALISTS = 3
"""Maximal number of finalists with a column, besides the winner."""


def settings_table(sweep: SweepEvidence, evidence: Evidence) -> Table:
    """Table of the searched parameters, then of all other settings of agent and algorithm."""
    chosen = _columns(sweep)
    searched = [
        (
            p.key,
            range_in_words(p.domain),
            value_of(p, sweep.default),
            *(value_of(p, {**t.parameters, **t.schedules}) for t in chosen),
        )
        for p in sweep.definition.space.parameters
    ]
    rest = _other_settings(sweep, evidence)
    others = [(key, None, default, won, *[None] * (len(chosen) - 1)) for key, default, won in rest]
    titles = [_title(t, sweep) for t in chosen]
    return Table(
        name=f"winner-settings{name_suffix(sweep, evidence)}",
        title=sweep_title("Every hyperparameter", sweep, evidence),
        columns=tuple(TableColumn(title=t) for t in ("parameter", "searched", "default", *titles)),
        rows=(*searched, *(others if chosen else [row[:3] for row in others])),
        note=_note(rest),
    )


def _columns(sweep: SweepEvidence) -> list[TrialEvidence]:
    """The winner, or the best so far, then other finalists without the default."""
    if sweep.selection is None:
        return incumbents(sweep)[-1:]
    others = [f.number for f in sweep.selection.finalists if f.number != sweep.selection.winner]
    numbers = (sweep.selection.winner, *[n for n in others if n != DEFAULT][:FINALISTS])
    return [trial for n in numbers if (trial := by_number(sweep, n)) is not None]


def _title(trial: TrialEvidence, sweep: SweepEvidence) -> str:
    if sweep.selection is None:
        return f"trial {trial.number} (best so far)"
    return point_name(trial, sweep)


def _other_settings(
    sweep: SweepEvidence, evidence: Evidence
) -> Sequence[tuple[str, str | None, str | None]]:
    """Settings of the test runs that were not searched: name, default value, winner's value."""
    default = _settings(test_cell(sweep, evidence, tuned=False))
    winner = _settings(test_cell(sweep, evidence, tuned=True))
    searched = set(sweep.definition.space.keys)
    # How the runs of another program were imported is the same for all, and no hyperparameter.
    every = {name for name in {*default, *winner} if not name.startswith("algorithm.imported.")}
    names = sorted(every - searched)
    return [(name, default.get(name), winner.get(name)) for name in names]


def _settings(cell: LabelTaskRuns | None) -> Mapping[str, str]:
    if cell is None:
        return {}
    spec = cell.members[0].record.spec
    return hyperparameters(spec)


def _note(rest: Sequence[tuple[str, str | None, str | None]]) -> str:
    if not rest:
        return "Searched parameters; all other settings are the same in all trials."
    return (
        "A setting without a range was not searched. An empty cell is an absent or unset setting. "
        "Provenance lists all settings that define a run."
    )


KINDS = ("complete", "screened", "pruned", "failed", "unfinished", "default", TUNED)
"""Kinds of trials in drawing order; a screened trial could not win."""
OBJECTIVES = {
    "score": "score",
    "lowest_score": "score (lower is better)",
    "final": "mean return of the final policy",
    "auc": "mean height of the curve of evaluations",
    "last_window": "mean return in the last tenth of training",
    "spread": "standard deviation of the scores over tuning seeds",
    "steps_to_threshold": "environment steps to the threshold",
}


def name_suffix(sweep: SweepEvidence, evidence: Evidence) -> str:
    """Suffix that makes block names of a sweep unique; empty for a single sweep."""
    return f"-{sweep.experiment}" if len(evidence.sweeps) > 1 else ""


def sweep_title(title: str, sweep: SweepEvidence, evidence: Evidence) -> str:
    """Title of a block, with the name of the sweep if there are several."""
    return f"{title}: {sweep.experiment}" if len(evidence.sweeps) > 1 else title


def objective(sweep: SweepEvidence) -> str:
    """Text of the first objective."""
    if sweep.tasks:
        return f"mean {'rank' if sweep.ranks else 'normalised score'} over tasks"
    return objective_text(sweep.definition.plan.objectives[0])


def objective_text(name: str) -> str:
    """An objective in words; a measure is named."""
    return OBJECTIVES.get(name, f"{name} of the final policy")


def is_minimised(sweep: SweepEvidence) -> bool:
    """Whether lower values of the first objective are better."""
    return sweep.definition.plan.objectives[0] in sweep.minimised


def trial_kind(trial: TrialEvidence, sweep: SweepEvidence) -> str:
    """Kind of a trial, one of `KINDS`."""
    if _is_default(trial, sweep):
        return "default"
    if sweep.selection is not None and sweep.selection.winner == trial.number:
        return TUNED
    return "screened" if trial.state == "complete" and not trial.eligible else trial.state


def _is_default(trial: TrialEvidence, sweep: SweepEvidence) -> bool:
    """Whether a trial is the default configuration, which imported sweeps do not have."""
    return trial.number == DEFAULT and not sweep.imported


def valued(sweep: SweepEvidence) -> list[TrialEvidence]:
    """The trials with a finite value, in order of their numbers."""
    trials = [t for t in sweep.trials if t.value is not None and math.isfinite(t.value)]
    return sorted(trials, key=lambda t: t.number)


def by_number(sweep: SweepEvidence, number: int) -> TrialEvidence | None:
    """The trial with a number; `None` where there is none."""
    return next((t for t in sweep.trials if t.number == number), None)


def incumbents(sweep: SweepEvidence) -> list[TrialEvidence]:
    """The eligible trials that were the best so far at their end, in this order."""
    sign = -1 if is_minimised(sweep) else 1
    improving: list[TrialEvidence] = []
    best = -math.inf
    # Trials run in parallel: the incumbent depends on when they ended, not on their numbers.
    for trial in sorted(valued(sweep), key=lambda t: (t.ended_at, t.number)):
        if trial.eligible and trial.value is not None and sign * trial.value > best:
            best = sign * trial.value
            improving.append(trial)
    return improving


def clouds(
    trials: Sequence[TrialEvidence], x: Mapping[int, float], sweep: SweepEvidence
) -> tuple[PointSeries, ...]:
    """Values of trials as points, grouped by the kind of trial.

    Args:
        trials: Trials with a value.
        x: Position of each trial by number; trials without one are not drawn.
        sweep: The sweep of the trials.
    """
    series = []
    for name in KINDS:
        points = [t for t in trials if trial_kind(t, sweep) == name and t.number in x]
        if points:
            series.append(
                PointSeries(
                    label=name,
                    x=tuple(float(x[t.number]) for t in points),
                    y=tuple(t.value for t in points if t.value is not None),
                    names=tuple(point_name(t, sweep) for t in points),
                )
            )
    return tuple(series)


def point_name(trial: TrialEvidence, sweep: SweepEvidence) -> str:
    """Name of a trial's configuration: its role and its number."""
    if sweep.imported:
        return f"trial {trial.number}"
    selection = sweep.selection
    if selection is None:
        return configuration_name(trial.number, None)
    rival = selection.rival
    label = rival.label if rival is not None and rival.number == trial.number else None
    return configuration_name(trial.number, selection.winner, label)


def test_cells(sweep: SweepEvidence, evidence: Evidence, *, tuned: bool) -> list[LabelTaskRuns]:
    """Test runs of the winner (`tuned`) or the default configuration, by task; empty if none are planned.

    If the default itself won, both are the same runs.
    """
    if evidence.phase is not Phase.TEST:
        return []
    of_sweep = [c for c in evidence.cells.values() if c.members[0].experiment == sweep.experiment]
    further = _further_labels(sweep)
    cells = [c for c in of_sweep if c.members[0].configuration.label not in further]
    if sweep.selection is None or sweep.selection.winner != DEFAULT:
        cells = [c for c in cells if (c.members[0].configuration.label == TUNED) is tuned]
    if not sweep.tasks:
        return cells[:1]
    by_task = {cell.task: cell for cell in cells}
    return [by_task[task.task] for task in sweep.tasks if task.task in by_task]


def test_cell(sweep: SweepEvidence, evidence: Evidence, *, tuned: bool) -> LabelTaskRuns | None:
    """The first of `test_cells`, whose settings are those on all tasks; `None` if there is none."""
    return next(iter(test_cells(sweep, evidence, tuned=tuned)), None)


@dataclass(frozen=True, slots=True, kw_only=True)
class SeedScores:
    """Test scores of a configuration of a sweep, one for each seed.

    Attributes:
        label: The label of its runs.
        planned: Number of planned seeds.
        scores: Rising; of several tasks, the mean normalised score over the tasks on each seed that
            has a score on all of them.
    """

    label: str
    planned: int
    scores: tuple[float, ...]


def test_scores(sweep: SweepEvidence, evidence: Evidence, *, tuned: bool) -> SeedScores | None:
    """The test scores of the winner (`tuned`) or the default configuration.

    `None` if no test runs are planned, and where trials are compared by ranks: a test score has none.
    """
    cells = test_cells(sweep, evidence, tuned=tuned)
    if not cells or (sweep.tasks and (sweep.ranks or len(cells) < len(sweep.tasks))):
        return None
    label = cells[0].label
    if not sweep.tasks:
        return _seed_scores(cells[0])
    shares = [_shares_by_seed(c, task) for c, task in zip(cells, sweep.tasks, strict=True)]
    common = set.intersection(*(set(each) for each in shares))
    means = sorted(math.fsum(each[seed] for each in shares) / len(shares) for seed in common)
    planned = max(cell.planned for cell in cells)
    return SeedScores(label=label, planned=planned, scores=tuple(means))


def further_scores(sweep: SweepEvidence, evidence: Evidence, trial: int) -> SeedScores | None:
    """The test scores of a rival in a population or of a policy of a front; `None` without any."""
    cells = further_cells(sweep, evidence)
    label = None if sweep.selection is None else sweep.selection.label(trial)
    cell = next((c for c in cells if c.members[0].configuration.label == label), None)
    return None if cell is None else _seed_scores(cell)


def _seed_scores(cell: LabelTaskRuns) -> SeedScores:
    scores = tuple(map(float, cell.scores))
    return SeedScores(label=cell.label, planned=cell.planned, scores=scores)


def _shares_by_seed(cell: LabelTaskRuns, task: SweepTask) -> dict[int, float]:
    """The normalised score of each run, by seed; failed runs count where they have a worst score."""
    scores = {
        m.record.spec.seed: m.score
        if m.score is not None or not m.record.scoreless
        else cell.worst
        for m in cell.members
    }
    return {seed: task.normalised(s) for seed, s in scores.items() if s is not None}


def further_cells(sweep: SweepEvidence, evidence: Evidence) -> list[LabelTaskRuns]:
    """Test runs besides those of winner and default: of the rival in a population, or of a front."""
    if evidence.phase is not Phase.TEST:
        return []
    labels = _further_labels(sweep)
    of_sweep = [c for c in evidence.cells.values() if c.members[0].experiment == sweep.experiment]
    return [c for c in of_sweep if c.members[0].configuration.label in labels]


def _further_labels(sweep: SweepEvidence) -> frozenset[str]:
    """The labels of test runs besides those of winner and default."""
    selection = sweep.selection
    if selection is None:
        return frozenset()
    return frozenset(map(selection.label, selection.further))


def range_in_words(domain: Domain) -> str:
    """Text of a parameter's range (`1e-05 to 0.1, log`)."""
    match domain:
        case Choice():
            return f"one of {', '.join(map(shown, domain.values))}"
        case Integer():
            return f"{domain.low} to {domain.high}, whole" + ", log" * domain.log
        case _:
            scale = "" if domain.scale == "linear" else f", {domain.scale.replace('_', ' ')}"
            return f"{domain.low:g} to {domain.high:g}{scale}"


def shown(value: Any) -> str:
    """Text of a parameter's value: numbers to six digits, strings as is, other values as JSON.

    A schedule is its values in their order.
    """
    if is_scheduled(value):
        return format_parameter(value)
    is_number = isinstance(value, float) and math.isfinite(value)
    return f"{value:.6g}" if is_number else value_text(value)


def value_of(parameter: Parameter, values: Mapping[str, Any]) -> str | None:
    """Text of a parameter's value among others; `None` where it is absent."""
    return shown(values[parameter.key]) if parameter.key in values else None


def tuner_in_words(sweep: SweepEvidence) -> str:
    """Text of a sweep's tuner and pruner with their settings."""
    return f"tuner {_member(sweep.definition.tuner)}, pruner {_member(sweep.definition.pruner)}"


def budget_in_words(sweep: SweepEvidence) -> str:
    """Text of the limits of the search, and of the spent budget."""
    plan = sweep.definition.plan
    limits = [
        format_count(plan.trials, "trial"),
        *([f"{plan.full_runs:g} full-run equivalents"] if plan.full_runs else []),
        *([f"{plan.steps:,} environment steps"] if plan.steps else []),
        *([f"{plan.hours:g} hours"] if plan.hours else []),
    ]
    return (
        f"at most {join_names(limits)}; spent {full_runs(sweep):.3g} full-run equivalents of "
        f"{sweep.steps:,} steps, {tuning_effort(sweep)}, including selection"
    )


def _member(settings: Mapping[str, Any]) -> str:
    """Text of a tuner or pruner: its name, with its settings."""
    name, kept = full_name(settings.get(PLUG_IN)), without_names(settings)
    shown = [f"{path.removeprefix('.')} = {value}" for path, value in flat_settings(kept, "")]
    return f"{name} ({', '.join(shown)})" if shown else name
