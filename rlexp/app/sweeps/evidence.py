"""A sweep as evidence of a report: trials, choice and cost, read from its folder."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import accumulate
from typing import Any

from rlexp.app.sweeps.progress import reason_of
from rlexp.app.sweeps.state import Closed, resume
from rlexp.app.workspace import Workspace
from rlexp.engine.progress import Progress
from rlexp.engine.sweeping import Sweeping
from rlexp.protocol.experiment import Experiment
from rlexp.protocol.seeds import Phase
from rlexp.protocol.spec import RunSpec
from rlexp.records.run import RunRecord
from rlexp.records.trial import TrialState
from rlexp.reports.evidence.sweeps import (
    Importance,
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
    """Everything that a sweep's folder says of it; `runs` are those in it.

    Raises:
        RlexpError: A file of it is damaged.
    """
    sweeping = resume(paths, experiment, runs, workspace, Closed())
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
        reference=experiment.default.reference,
    )


def _trials(sweeping: Sweeping, records: Mapping[str, RunRecord]) -> Iterator[TrialEvidence]:
    able = {candidate.number for candidate in sweeping.ranked()}
    entries, screening = sweeping.search.entries, sweeping.search.question.screening
    runs = [sweeping.runs_of(e.proposal.number) for e in entries]
    # What trials of one configuration share is the first one's.
    own = [specs if e.twin is None else [] for e, specs in zip(entries, runs, strict=True)]
    first = [_spent(specs[:screening], records) for specs in own]
    # What goes on to further seeds does so when every trial has been screened.
    later = [_spent(specs[screening:], records) for specs in own]
    screened, promoted = list(accumulate(first)), list(accumulate(later, initial=sum(first)))
    for number, entry in enumerate(entries):
        elder = number if entry.twin is None else entry.twin.proposal.number
        yield _trial(
            entry,
            sweeping,
            {s.seed: records[s.id] for s in runs[number] if s.id in records},
            eligible=elder in able,
            spent=first[number] + later[number],
            ended_at=promoted[elder + 1] if later[elder] else screened[number],
        )


def _spent(specs: Iterable[RunSpec], records: Mapping[str, RunRecord]) -> int:
    return sum(records[spec.id].spent for spec in specs if spec.id in records)


def _trial(
    entry: Progress,
    sweeping: Sweeping,
    records: Mapping[int, RunRecord],
    *,
    eligible: bool,
    spent: int,
    ended_at: int,
) -> TrialEvidence:
    trial, objectives = entry.trial, sweeping.search.question.objectives
    complete = trial is not None and trial.state is TrialState.COMPLETE
    values = objectives.oriented(trial.values) if trial is not None and complete else ()
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
        reason=reason_of(entry),
    )


def _importances(sweeping: Sweeping, experiment: Experiment) -> tuple[Importance, ...]:
    """Importance by what every trial was judged by, on the same seeds for all."""
    sweep, question = experiment.sweep, sweeping.search.question
    assert sweep is not None
    # A trial's values are such that greater is better, as importance wants them.
    pairs: list[tuple[Mapping[str, Any], float]] = [
        (e.trial.parameters, e.trial.values[0])
        for e in sweeping.search.entries
        if e.trial is not None and e.trial.values and e.proposal.steps == question.steps
    ]
    return tuple(
        Importance(
            method=i.method,
            shares=i.shares,
            quality=i.quality,
            reason=i.reason,
            pairs=i.pairs,
            note=i.note,
        )
        for i in importances(sweep.space, pairs, experiment.seeds.root)
    )


def _cost(records: Iterable[RunRecord], phase: Phase) -> PhaseCost:
    own = [r for r in records if r.spec.phase is phase and r.attempts]
    return PhaseCost(
        runs=len(own),
        steps=sum(r.spent for r in own),
        seconds=sum(r.seconds_spent for r in own),
    )
