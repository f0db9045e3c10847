"""Reads a sweep's trials, choice and cost from its folder, as evidence for a report."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import accumulate
from typing import Any

from rlexp.app.sweeps.state import ReadOnlyLedger, restore_sweep
from rlexp.app.workspace import Workspace
from rlexp.engine.failure_streak import trial_reason
from rlexp.engine.sweep_source import SweepSource
from rlexp.engine.trial_state import TrialProgress
from rlexp.protocol.experiment import Experiment
from rlexp.protocol.seeds import Phase
from rlexp.protocol.spec import RunSpec
from rlexp.records.run import RunRecord
from rlexp.records.trial import TrialState
from rlexp.reports.evidence.sweeps import (
    ImportanceByMethod,
    PhaseCost,
    SweepEvidence,
    TrialEvidence,
)
from rlexp.store.layout import ExperimentPaths
from rlexp.store.runs import StoredRun
from rlexp.tuners.importance import importances


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
    question = sweeping.search.question
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
        reference=experiment.default.score_reference,
        minimised=experiment.minimised,
        score_minimised=experiment.default.lower_is_better,
        imported=experiment.imported is not None,
    )


def _trials(sweeping: SweepSource, records: Mapping[str, RunRecord]) -> Iterator[TrialEvidence]:
    eligible_numbers = {candidate.number for candidate in sweeping.ranked()}
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
            {s.seed: records[s.id] for s in runs[number] if s.id in records},
            eligible=first_twin in eligible_numbers,
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
    eligible: bool,
    spent: int,
    ended_at: int,
) -> TrialEvidence:
    trial, objectives = entry.trial, sweeping.search.question.objectives
    complete = trial is not None and trial.state is TrialState.COMPLETE
    values = objectives.oriented(trial.values) if trial is not None and complete else ()
    # The stored values are those of the screening seeds; eligible trials are ranked on all seeds.
    if eligible and (promoted := objectives.values(list(records.values()))):
        values = promoted
    return TrialEvidence(
        number=entry.proposal.number,
        parameters=entry.proposal.parameters,
        steps=entry.proposal.steps,
        state=str(trial.state) if trial is not None else "unfinished",
        value=values[0] if values else None,
        values=values,
        scores={seed: r.score for seed, r in records.items() if r.score is not None},
        eligible=eligible,
        ended_at=ended_at,
        spent=spent,
        runs=tuple(r.spec.name for r in records.values()),
        reason=_remark(entry, sweeping),
    )


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
