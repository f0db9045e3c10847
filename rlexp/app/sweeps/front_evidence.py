"""Reads the front of a sweep of several objectives from its records, as evidence for a report."""

from collections.abc import Mapping, Sequence
from math import isfinite
from typing import Any

from rlexp.engine.front_choice import hypervolumes, reference_point, searched_merits
from rlexp.engine.objectives import Objectives
from rlexp.engine.sweep_source import SweepSource
from rlexp.protocol.experiment import Experiment
from rlexp.protocol.measures import known_values
from rlexp.protocol.seeds import Phase
from rlexp.protocol.sweep import OBJECTIVES
from rlexp.records.run import RunRecord
from rlexp.records.selection import DEFAULT, configuration_name
from rlexp.reports.evidence.fronts import FrontEvidence, FrontPolicy, Vector

VECTOR_RETURN = "return/"
"""The beginning of the measures that are returns of the objectives of a vector reward."""


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
