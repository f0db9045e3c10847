"""Ranks as values: how a configuration compares with others on the same tasks and seeds.

A rank is no property of a configuration alone. It is computed again from the records for every set of
configurations that are compared, so that the same records always give the same ranks.
"""

from bisect import bisect_left, bisect_right
from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import replace

from rlexp.engine.objectives import Objectives
from rlexp.engine.trial_state import TrialProgress
from rlexp.records.run import RunRecord
from rlexp.records.trial import Trial, TrialState


def rank_shares(values: Sequence[float]) -> list[float]:
    """The share of the other values that each value is greater than; an equal one adds one half.

    Args:
        values: Of n configurations on one task and seed, greater is better.

    Returns:
        n shares from 0 (the worst) to 1 (the best); one half for a single value.
    """
    others, rising = len(values) - 1, sorted(values)
    if others < 1:
        return [0.5] * len(values)
    below = ((bisect_left(rising, v), bisect_right(rising, v)) for v in values)
    return [(less + (upto - less - 1) / 2) / others for less, upto in below]


def ranked_merits(
    runs: Mapping[int, Sequence[RunRecord]], objectives: Objectives
) -> dict[int, tuple[float, ...]]:
    """The rank share of each run among the runs on the same task and seed, by configuration.

    A configuration is left out if one of its runs has no score.

    Args:
        runs: The runs of each configuration, in the same order of seeds and tasks.
        objectives: The objectives with their tasks.
    """
    merits = {number: objectives.merits(records) for number, records in runs.items()}
    scored = {number: shares for number, shares in merits.items() if shares}
    columns = [rank_shares(column) for column in zip(*scored.values(), strict=True)]
    rows = zip(*columns, strict=True)
    return dict(zip(scored, rows, strict=True))


def ranked_trials(
    entries: Sequence[TrialProgress], objectives: Objectives, screening: int
) -> list[Trial]:
    """The trials that have ended, with their ranks among them as values.

    Trials are compared with those of as many environment steps.

    Args:
        entries: The trials that are compared.
        objectives: The objectives with their tasks.
        screening: Number of runs of a trial before it is compared with the other trials.
    """
    ended = [e.trial for e in entries if e.trial is not None]
    runs: dict[int, dict[int, Sequence[RunRecord]]] = defaultdict(dict)
    for entry in entries:
        if entry.trial is not None and entry.trial.state is TrialState.COMPLETE:
            judged = entry.judged_runs()[:screening]
            runs[entry.proposal.steps][entry.proposal.number] = judged
    values = {
        number: objectives.combine(objectives.by_seed(merits))
        for compared in runs.values()
        for number, merits in ranked_merits(compared, objectives).items()
    }
    return [
        replace(trial, values=(values[trial.number],)) if trial.number in values else trial
        for trial in ended
    ]
