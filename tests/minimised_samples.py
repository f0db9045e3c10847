"""Evidence of runs that are scored by a cost, which is better the lower it is."""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

from evidence_samples import CARTPOLE, PENDULUM, configured, evidence, scored

from rlexp.protocol.experiment import Configuration
from rlexp.records.events import Evaluated
from rlexp.reports.evidence.runs import Evidence, PlannedRun

COSTS = {
    ("ppo", CARTPOLE): (10.0, 11.0, 12.5, 13.0, 14.0),
    ("a2c", CARTPOLE): (20.0, 21.5, 22.0, 23.0, 24.0),
}
SEVERAL = {
    **COSTS,
    ("ppo", PENDULUM): (1.0, 2.0, 3.0, 4.0, 5.5),
    ("a2c", PENDULUM): (5.0, 6.0, 7.0, 8.0, 9.0),
}
DECLARED: Mapping[str, Any] = {
    "direction": "minimise",
    "random": 40.0,
    "threshold": 12.0,
    "minimum": 0.0,
    "maximum": 50.0,
}
Scores = Mapping[tuple[str, str], Sequence[float]]


def of_costs(scores: Scores = COSTS, measure: str = "cost", **changes: Any) -> Evidence:
    """The evidence of completed runs with these costs; `changes` change the declaration."""
    declared = {**DECLARED, **changes}
    runs = [
        _measured(run, replace(run.configuration, measures={measure: declared}), measure)
        for (label, task), values in scores.items()
        for run in scored(configured(label, task, score=measure), values)
    ]
    return evidence(runs)


def _measured(run: PlannedRun, configuration: Configuration, measure: str) -> PlannedRun:
    """The run with the values of its returns as a measure, and with returns of 0."""

    def with_measure(event: Evaluated) -> Evaluated:
        nothing = (0.0,) * len(event.returns)
        return replace(event, returns=nothing, measures={measure: event.returns})

    record = run.record
    assert record.final is not None
    record = replace(
        record,
        evaluations=tuple(map(with_measure, record.evaluations)),
        final=with_measure(record.final),
    )
    return replace(run, record=record, configuration=configuration)
