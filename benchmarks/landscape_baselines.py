"""Searches on landscapes as ordinary users of Optuna run them: TPE with its defaults, best value wins.

A suggestion becomes the nearest configuration that was not tried yet, as for the tuners of rlexp, and
Optuna is told that configuration with its score.
"""

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
import optuna
from landscape_searches import SearchDraws
from landscape_table import Landscape
from optuna.pruners import BasePruner, HyperbandPruner, NopPruner
from optuna.trial import TrialState

from rlexp.protocol.space import Parameter
from rlexp.tuners.optuna_trials import distribution, from_internal, internal_values


@dataclass(frozen=True, slots=True)
class Baseline:
    """A search with Optuna's TPE.

    Attributes:
        seeds: Runs of each configuration; its value is their mean.
        hyperband: Whether Hyperband prunes, at the checkpoints of the landscape.
    """

    seeds: int = 1
    hyperband: bool = False


@dataclass(frozen=True, slots=True)
class Tried:
    """A configuration that Optuna was told.

    Attributes:
        row: Its number in the landscape.
        value: Mean score; −∞ if a run crashed or was pruned.
        runs: Cost in whole runs.
    """

    row: int
    value: float
    runs: float


def baseline_winners(
    baseline: Baseline, draws: SearchDraws, budgets: tuple[int, ...]
) -> list[float]:
    """The true score of the configuration with the best value within each budget."""
    before = optuna.logging.get_verbosity()
    optuna.logging.set_verbosity(optuna.logging.ERROR)
    try:
        return _winners(baseline, draws, budgets)
    finally:
        # Other users of Optuna in this process keep their messages.
        optuna.logging.set_verbosity(before)


def _winners(baseline: Baseline, draws: SearchDraws, budgets: tuple[int, ...]) -> list[float]:
    winners = []
    spent, best = 0.0, Tried(draws.default, -np.inf, 0.0)
    search = _search(baseline, draws)
    for budget in budgets:
        while spent + baseline.seeds <= budget:
            tried = next(search, None)
            if tried is None:
                break
            spent += tried.runs
            # Of equal values, the first wins, as in Optuna.
            best = tried if tried.value > best.value else best
        winners.append(float(draws.test[best.row]))
    return winners


def _search(baseline: Baseline, draws: SearchDraws) -> Iterator[Tried]:
    landscape = draws.landscape
    study = optuna.create_study(
        direction="maximize",
        sampler=optuna.samplers.TPESampler(seed=draws.number),
        pruner=_pruner(baseline, landscape),
        # Hyperband computes the bracket of a trial from the name of the study.
        study_name=str(draws.number),
    )
    # The default configuration is the first trial, as for the tuners of rlexp.
    row = draws.default
    rows: list[int] = []
    while len(rows) < len(landscape.rows):
        rows.append(row)
        study.enqueue_trial(internal_values(landscape.space, landscape.rows[row]) or {})
        trial = study.ask()
        _values(trial, landscape)
        yield _run(study, trial, baseline, draws, row)
        proposal = study.ask()
        row = landscape.nearest(_values(proposal, landscape), rows)
        # What was proposed is not trained: the next trial is the nearest configuration.
        study.tell(proposal, state=TrialState.FAIL)


def _pruner(baseline: Baseline, landscape: Landscape) -> BasePruner:
    if not baseline.hyperband:
        return NopPruner()
    checkpoints = landscape.returns.shape[2]
    return HyperbandPruner(min_resource=1, max_resource=checkpoints, reduction_factor=3)


def _values(trial: optuna.Trial, landscape: Landscape) -> dict[str, object]:
    """The values of the active parameters that a trial suggests."""
    values: dict[str, object] = {}
    for parameter in landscape.space.parameters:
        if parameter.is_active(values):
            values[parameter.key] = _suggested(trial, parameter)
    return values


def _suggested(trial: optuna.Trial, parameter: Parameter) -> object:
    # The public methods are these with the ends of the distribution as arguments.
    suggested = trial._suggest(parameter.key, distribution(parameter.domain))  # noqa: SLF001
    return from_internal(parameter.domain, suggested)


def _run(
    study: optuna.Study, trial: optuna.Trial, baseline: Baseline, draws: SearchDraws, row: int
) -> Tried:
    curve = draws.landscape.returns[row, draws.order[0]]
    if baseline.hyperband:
        for step, score in enumerate(curve[: np.isfinite(curve).sum()]):
            trial.report(float(score), step)
            if trial.should_prune():
                study.tell(trial, state=TrialState.PRUNED)
                return Tried(row, -np.inf, (step + 1) / len(curve))
    value = float(draws.tuning[row, : baseline.seeds].mean())
    if np.isfinite(value):
        study.tell(trial, value)
    else:
        study.tell(trial, state=TrialState.FAIL)
    return Tried(row, value, float(baseline.seeds))
