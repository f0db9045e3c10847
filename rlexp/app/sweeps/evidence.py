"""Reads a sweep's trials, choice or front, and cost from its folder, as evidence for a report."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import accumulate, takewhile
from math import isfinite
from typing import Any

from rlexp.app.sweeps.state import ReadOnlyLedger, restore_sweep
from rlexp.app.workspace import Workspace
from rlexp.engine.failure_streak import trial_reason
from rlexp.engine.front_choice import hypervolumes, reference_point, searched_merits
from rlexp.engine.objectives import Objectives
from rlexp.engine.sweep_source import SweepSource
from rlexp.engine.trial_state import TrialProgress
from rlexp.engine.winner_choice import WinnerCandidate
from rlexp.protocol.experiment import Experiment
from rlexp.protocol.measures import known_values
from rlexp.protocol.seeds import Phase
from rlexp.protocol.spec import RunSpec
from rlexp.protocol.sweep import OBJECTIVES
from rlexp.protocol.value_schedule import is_scheduled, whole_values
from rlexp.records.run import RunRecord
from rlexp.records.selection import DEFAULT, configuration_name
from rlexp.records.trial import TrialState
from rlexp.reports.evidence.fronts import FrontEvidence, FrontPolicy, Vector
from rlexp.reports.evidence.sweeps import (
    ImportanceByMethod,
    PhaseCost,
    SweepEvidence,
    TrialEvidence,
)
from rlexp.store.layout import ExperimentPaths
from rlexp.store.runs import StoredRun
from rlexp.tuners.importance import importances

VECTOR_RETURN = "return/"
"""The beginning of the measures that are returns of the objectives of a vector reward."""


def read_sweep_evidence(
    paths: ExperimentPaths,
    experiment: Experiment,
    runs: Sequence[StoredRun],
    workspace: Workspace,
    *,
    with_importance: bool,
) -> SweepEvidence:
    """The evidence about a sweep in its folder; `runs` are the runs in it.

    Raises:
        RlexpError: A file in the folder is damaged.
    """
    sweeping = restore_sweep(paths, experiment, runs, workspace, ReadOnlyLedger())
    sweep = experiment.sweep
    assert sweep is not None
    by_id = {stored.record.spec.id: stored.record for stored in runs}
    trials = tuple(_trials(sweeping, by_id))
    question, bound = sweeping.search.question, sweeping.search.regret_bound
    return SweepEvidence(
        experiment=experiment.name,
        definition=sweep,
        steps=question.steps,
        tuning_seeds=experiment.seeds.seeds(Phase.TUNING),
        selection_seeds=experiment.seeds.seeds(Phase.SELECTION),
        trials=trials,
        selection=sweeping.selection,
        default=question.default,
        importances=_importances(sweeping, experiment) if with_importance else (),
        costs={str(phase): _cost(by_id.values(), phase) for phase in Phase},
        # Normalised scores have no known bounds, and are better the higher they are.
        reference={} if sweep.tasks else experiment.default.score_reference,
        minimised=experiment.minimised,
        score_minimised=not sweep.tasks and experiment.default.lower_is_better,
        imported=experiment.imported is not None,
        regret_bound=None if bound is None else bound.gain,
        front=read_front(sweeping, experiment, by_id),
    )


def _trials(sweeping: SweepSource, records: Mapping[str, RunRecord]) -> Iterator[TrialEvidence]:
    eligible = {candidate.number: candidate for candidate in sweeping.ranked()}
    entries, screening = sweeping.search.entries, sweeping.search.question.screening
    runs = [sweeping.runs_of(e.proposal.number) for e in entries]
    # Trials of the same configuration share their runs; the first trial pays for them.
    counted_runs = [
        specs if e.twin is None else [] for e, specs in zip(entries, runs, strict=True)
    ]
    screening_steps = [_spent(specs[:screening], records) for specs in counted_runs]
    # A promoted trial gets its further seeds once every trial has been screened: its cost is then
    # added after the screening of all trials.
    promotion_steps = [_spent(specs[screening:], records) for specs in counted_runs]
    screened, promoted = (
        list(accumulate(screening_steps)),
        list(accumulate(promotion_steps, initial=sum(screening_steps))),
    )
    for number, entry in enumerate(entries):
        first_twin = number if entry.twin is None else entry.twin.proposal.number
        yield _trial(
            entry,
            sweeping,
            {p: records[s.id] for p, s in enumerate(runs[number]) if s.id in records},
            candidate=eligible.get(first_twin),
            spent=screening_steps[number] + promotion_steps[number],
            ended_at=promoted[first_twin + 1] if promotion_steps[first_twin] else screened[number],
        )


def _spent(specs: Iterable[RunSpec], records: Mapping[str, RunRecord]) -> int:
    return sum(records[spec.id].spent for spec in specs if spec.id in records)


def _trial(
    entry: TrialProgress,
    sweeping: SweepSource,
    records: Mapping[int, RunRecord],
    *,
    candidate: WinnerCandidate | None,
    spent: int,
    ended_at: int,
) -> TrialEvidence:
    trial, objectives = entry.trial, sweeping.search.question.objectives
    complete = trial is not None and trial.state is TrialState.COMPLETE
    values = objectives.oriented(trial.values) if trial is not None and complete else ()
    # The stored values are those of the screening seeds; eligible trials are ranked on all seeds.
    if candidate is not None:
        values = candidate.values
    return TrialEvidence(
        number=entry.proposal.number,
        parameters=entry.proposal.parameters,
        steps=entry.proposal.steps,
        state=str(trial.state) if trial is not None else "unfinished",
        value=values[0] if values else None,
        values=values,
        scores=_scores(records, candidate, sweeping),
        by_task=_scores_by_task(records, objectives),
        eligible=candidate is not None,
        ended_at=ended_at,
        spent=spent,
        runs=tuple(record.spec.name for record in records.values()),
        reason=_remark(entry, sweeping),
        origin=entry.proposal.origin,
        schedules=_schedules(entry, sweeping),
    )


def _schedules(entry: TrialProgress, sweeping: SweepSource) -> dict[str, Any]:
    """The schedules of the searched parameters that changed while the runs of a trial trained."""
    parameters = entry.proposal.parameters
    schedules: dict[str, Any] = {}
    for configuration in sweeping.configurations.get(entry.proposal.number, ()):
        values = whole_values(configuration.parts(), parameters)
        schedules |= {key: value for key, value in values.items() if is_scheduled(value)}
    return schedules


def _scores(
    records: Mapping[int, RunRecord], candidate: WinnerCandidate | None, sweeping: SweepSource
) -> dict[int, float]:
    """The score of each tuning seed; see `TrialEvidence.scores`."""
    question = sweeping.search.question
    if not question.objectives.tasks:
        return {r.spec.seed: r.score for r in records.values() if r.score is not None}
    if candidate is not None:
        return dict(zip(sweeping.seeds.seeds(Phase.TUNING), candidate.scores, strict=True))
    if question.ranks:
        # A trial that cannot win has no rank among those that can.
        return {}
    scores = {}
    for number, seed in enumerate(sweeping.seeds.seeds(Phase.TUNING)):
        positions = range(number * question.tasks, (number + 1) * question.tasks)
        # Up to the first task without a run: a screened trial has few tasks.
        run = takewhile(lambda position: position in records, positions)
        if each := question.objectives.seed_scores([records[position] for position in run]):
            scores[seed] = each[0]
    return scores


def _scores_by_task(
    records: Mapping[int, RunRecord], objectives: Objectives
) -> dict[str, dict[int, float]]:
    """The scores of runs by task and seed; empty in a sweep on one task."""
    tasks = objectives.tasks
    scores: dict[str, dict[int, float]] = {task.task: {} for task in tasks}
    # The runs of a trial are ordered by seed, and by task within a seed.
    for position, record in records.items():
        if tasks and record.score is not None:
            scores[tasks[position % len(tasks)].task][record.spec.seed] = record.score
    return scores


def _remark(entry: TrialProgress, sweeping: SweepSource) -> str | None:
    """The place of a trial in a population, and why it failed or was pruned."""
    parts = (sweeping.search.place(entry.proposal.number), trial_reason(entry))
    return ": ".join(part for part in parts if part) or None


def _importances(sweeping: SweepSource, experiment: Experiment) -> tuple[ImportanceByMethod, ...]:
    """Parameter importances, computed from each trial's value on the seeds that all trials have."""
    sweep, question = experiment.sweep, sweeping.search.question
    assert sweep is not None
    if not sweep.space.parameters:
        # The candidates of a stream are points of no space.
        return ()
    # A trial's values are stored so that greater is better, which importance expects.
    parameters_and_values: list[tuple[Mapping[str, Any], float]] = [
        (e.trial.parameters, e.trial.values[0])
        for e in sweeping.search.entries
        # A member whose values changed belongs to no point of the space.
        if e.trial is not None
        and e.trial.values
        and e.proposal.steps == question.steps
        and not e.proposal.changing
    ]
    return tuple(
        ImportanceByMethod(
            method=importance.method,
            shares=importance.shares,
            quality=importance.quality,
            reason=importance.reason,
            pairs=importance.pairs,
            note=importance.note,
        )
        for importance in importances(sweep.space, parameters_and_values, experiment.seeds.root)
    )


def _cost(records: Iterable[RunRecord], phase: Phase) -> PhaseCost:
    executed = [r for r in records if r.spec.phase is phase and r.attempts]
    return PhaseCost(
        runs=len(executed),
        steps=sum(r.spent for r in executed),
        seconds=sum(r.seconds_spent for r in executed),
    )


def read_front(
    sweeping: SweepSource, experiment: Experiment, records: Mapping[str, RunRecord]
) -> FrontEvidence | None:
    """The front of a sweep; None in a sweep of one objective, and before the first complete trial.

    Args:
        sweeping: The sweep.
        experiment: Its definition.
        records: The records of its runs, by id.
    """
    question, entries = sweeping.search.question, sweeping.search.entries
    if not question.has_front:
        return None
    chosen = None if sweeping.selection is None else sweeping.selection.front
    reference = reference_point(entries, question, chosen)
    if reference is None:
        return None
    objectives, plan = question.objectives, question.plan
    point, reference_rule = reference
    searched = dict(enumerate(searched_merits(entries, question)))
    return FrontEvidence(
        objectives=objectives.names,
        minimised=frozenset(n for n in objectives.names if n in objectives.minimised),
        reference=objectives.oriented(point),
        reference_rule=reference_rule,
        frozen=chosen is not None,
        searched={n: objectives.oriented(m) for n, m in searched.items() if m is not None},
        searched_seeds=question.screened_seeds,
        volumes={
            n: v
            for n, v in enumerate(hypervolumes(entries, question, point))
            if v is not None and isfinite(v)
        },
        policies=tuple(_policies(sweeping, records)),
        known={name: _known(name, experiment) for name in objectives.names},
        weights=plan.utility_weights,
        utility=plan.utility_weights is not None
        or all(name.startswith(VECTOR_RETURN) for name in objectives.names),
    )


def _policies(sweeping: SweepSource, records: Mapping[str, RunRecord]) -> list[FrontPolicy]:
    """The finalists, and the default configuration where it is tested."""
    selection, objectives = sweeping.selection, sweeping.search.question.objectives
    ranked = {candidate.number: candidate for candidate in sweeping.ranked()}
    if selection is None or selection.front is None:
        members: dict[int, Vector] = {c.number: c.values for c in sweeping.finalists()}
        numbers, winner = list(members), None
    else:
        members = {m.number: m.selection or m.tuning for m in selection.front.members}
        numbers, winner = [f.number for f in selection.finalists], selection.winner
    policies = []
    for number in sorted({*numbers, DEFAULT} & set(sweeping.configurations)):
        runs = {p: _ended(number, p, sweeping, records) for p in Phase}
        whole = {p: objectives.values(each) if each else None for p, each in runs.items()}
        compared = members.get(number, ranked[number].values if number in ranked else ())
        policies.append(
            FrontPolicy(
                trial=number,
                name=configuration_name(number, winner),
                on_front=number in members,
                values={str(p): _vectors(each, objectives) for p, each in runs.items() if each},
                whole={str(p): vector for p, vector in whole.items() if vector is not None},
                planned={str(p): len(_planned(number, p, sweeping)) for p in Phase},
                chosen_by=compared or (float("nan"),) * len(objectives.names),
            )
        )
    return policies


def _planned(number: int, phase: Phase, sweeping: SweepSource) -> list[int]:
    """The seeds on which a trial is planned to run in a phase."""
    selection = sweeping.selection
    finalists = set() if selection is None else {f.number for f in selection.finalists}
    if phase is Phase.SELECTION and number not in finalists:
        return []
    if phase is Phase.TEST and (selection is None or number not in selection.tested):
        return []
    return list(sweeping.seeds.seeds(phase))


def _ended(
    number: int, phase: Phase, sweeping: SweepSource, records: Mapping[str, RunRecord]
) -> list[RunRecord]:
    """The runs of a trial in a phase that have a score and every objective, in order of their seeds."""
    if not _planned(number, phase, sweeping):
        return []
    ended = [records[s.id] for s in sweeping.runs_of(number, phase) if s.id in records]
    objectives = sweeping.search.question.objectives
    return [r for r in ended if r.score is not None and objectives.of_run(r) is not None]


def _vectors(records: Sequence[RunRecord], objectives: Objectives) -> dict[int, Vector]:
    """The objectives of each run, by seed."""
    vectors = {record.spec.seed: objectives.of_run(record) for record in records}
    return {seed: vector for seed, vector in vectors.items() if vector is not None}


def _known(name: str, experiment: Experiment) -> Mapping[str, Any]:
    """The known values of an objective, in its units; empty for steps and for other quantities."""
    default = experiment.default
    if name == "score":
        return default.score_reference
    if name in OBJECTIVES:
        return {}
    return known_values(name, default.reference, default.measures)
