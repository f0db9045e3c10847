"""A sweep's trials as the mirror takes them."""

from collections.abc import Iterator, Mapping
from typing import Any, Literal

from rlexp.app.sweeps.progress import reason_of
from rlexp.engine.progress import Progress
from rlexp.engine.sweeping import Sweeping
from rlexp.exchange.optuna_trials import MirroredTrial
from rlexp.records.run import RunRecord
from rlexp.records.trial import TrialState

STATES: Mapping[TrialState, Literal["complete", "pruned", "failed"]] = {
    TrialState.COMPLETE: "complete",
    TrialState.PRUNED: "pruned",
    TrialState.FAILED: "failed",
}


def mirrored(sweeping: Sweeping) -> list[MirroredTrial]:
    """Every trial so far, in order."""
    return [_trial(entry, sweeping) for entry in sweeping.search.entries]


def _trial(entry: Progress, sweeping: Sweeping) -> MirroredTrial:
    trial, objectives = entry.trial, sweeping.search.question.objectives
    complete = trial is not None and trial.state is TrialState.COMPLETE
    # What was judged stays as it is: Optuna changes no trial that has ended.
    records = entry.judged_runs()
    return MirroredTrial(
        number=entry.proposal.number,
        parameters=entry.proposal.parameters,
        state="running" if trial is None else STATES[trial.state],
        values=objectives.oriented(trial.values) if trial is not None and complete else (),
        intermediate=dict(entry.intermediate) if trial is not None else {},
        attributes=dict(_attributes(entry, records)),
        started=min((r.started for r in records if r.started is not None), default=None),
        ended=max((r.ended for r in records if r.ended is not None), default=None),
    )


def _attributes(entry: Progress, records: list[RunRecord]) -> Iterator[tuple[str, Any]]:
    yield "steps", entry.proposal.steps
    yield "seeds", [r.spec.seed for r in records]
    yield "scores", [r.score for r in records]
    yield "runs", [r.spec.name for r in records]
    if entry.trial is not None and (reason := reason_of(entry)):
        yield "reason", reason
    if entry.proposal.parent is not None:
        yield "continues", entry.proposal.parent
