"""TPE: suggestions from complete, pruned and failed trials."""

from dataclasses import replace
from statistics import mean
from typing import Any

import pytest
from in_full import IN_FULL
from optuna.trial import FrozenTrial
from searches import MIXED, NUMERIC, SPACES, STEPS, best, complete, drawn, ended, problem, value

from rlexp.protocol.space import Choice, Parameter, Real, Space
from rlexp.records.trial import Trial, TrialState
from rlexp.tuners import Suggester, Suggestion
from rlexp.tuners.optuna_trials import distributions, frozen_trial
from rlexp.tuners.random import RandomSearch
from rlexp.tuners.sobol import SobolSequence
from rlexp.tuners.tpe import TPE, without_excess_failures

TUNER = TPE(startup=10, candidates=24, multivariate=True)
AXIS = "algorithm.clip_range"
SEEDS = 4 if IN_FULL else 2


def trial_failing_above(number: int, above: float) -> Trial:
    """A trial that fails if `AXIS` is above a limit; its value does not depend on `AXIS`."""
    values = drawn(NUMERIC, number)
    trial = complete(NUMERIC, number, values, (value(NUMERIC, {**values, AXIS: 0.3}),))
    return replace(trial, state=TrialState.FAILED, values=()) if values[AXIS] > above else trial


def share_above(suggester: Suggester, trials: list[Trial], limit: float) -> float:
    """The share of twenty suggestions whose `AXIS` is above a limit."""
    numbers = range(len(trials) + 10, len(trials) + 30)
    result = [suggester.suggest(trials, number) for number in numbers]
    return mean(item is not None and item.parameters[AXIS] > limit for item in result)


def test_first_trials_are_sobol_points() -> None:
    """The model is used as soon as it has enough trials."""
    trials = [complete(NUMERIC, i, drawn(NUMERIC, i)) for i in range(12)]
    tpe, sobol = TUNER.open(problem(NUMERIC)), SobolSequence().open(problem(NUMERIC))
    points = {number: sobol.suggest((), number) for number in (1, 10, 11, 30)}
    assert points[1] == tpe.suggest(trials[:1], 1)
    assert points[10] == tpe.suggest(trials, 10)
    assert points[30] == tpe.suggest(trials[:9], 30)
    assert points[11] != tpe.suggest(trials[:10], 11)


@pytest.mark.parametrize("kind", ["numeric", "mixed"])
def test_tpe_beats_random_search(kind: str) -> None:
    """After fifty trials, the best trial is half as far from the optimum as in random search."""
    space = SPACES[kind]
    tpe_mean, random_mean = (
        mean(best(tuner, problem(space, seed=seed), 50) for seed in range(SEEDS))
        for tuner in (TUNER, RandomSearch())
    )
    assert tpe_mean > random_mean / 2


@pytest.mark.parametrize(("count", "limit"), [(12, 0.5), (30, 0.5), (200, 0.5), (200, 0.1)])
def test_failing_regions_are_avoided(count: int, limit: float) -> None:
    """TPE avoids regions of failed trials, in short and in long histories."""
    trials = [trial_failing_above(number, limit) for number in range(count)]
    assert share_above(TUNER.open(problem(NUMERIC)), trials, limit) < (1 - limit) / 4


@pytest.mark.parametrize("multivariate", [True, False])
def test_regions_of_early_pruning_are_avoided(multivariate: bool) -> None:
    """Trials that are pruned later rank higher; at equal steps the value decides."""
    tuner = replace(TUNER, multivariate=multivariate).open(problem(NUMERIC))
    early_pruned, low_values = [], []
    for number in range(60):
        trial = replace(trial_failing_above(number, 1.0), state=TrialState.PRUNED, values=())
        is_bad = trial.parameters[AXIS] > 0.5
        early_pruned.append(replace(trial, intermediate={100 if is_bad else 900: 1.0}))
        low_values.append(replace(trial, intermediate={100: 5.0, 900: -9.0 if is_bad else 1.0}))
    assert share_above(tuner, early_pruned, 0.5) < 0.1
    assert share_above(tuner, low_values, 0.5) < 0.1


def test_a_failed_trial_ranks_below_a_pruned_one() -> None:
    """TPE avoids a region of failed trials in favour of a region of pruned trials."""
    states = [TrialState.FAILED, TrialState.PRUNED]
    for bad_index, good_index in ((0, 1), (1, 0)):
        trials = []
        for number in range(60):
            values = drawn(NUMERIC, number)
            state = states[bad_index if values[AXIS] > 0.5 else good_index]
            steps = {100: 0.0} if state is TrialState.PRUNED else {}
            trials.append(
                Trial(
                    number=number, parameters=values, steps=STEPS, state=state, intermediate=steps
                )
            )
        share = share_above(TUNER.open(problem(NUMERIC)), trials, 0.5)
        assert share < 0.1 if bad_index == 0 else share > 0.9


@pytest.mark.parametrize(
    "changes",
    [
        {"steps": STEPS - 1},
        {"parameters": {**drawn(MIXED, 3), "agent.net_arch": [7]}},
        {"parameters": {**drawn(MIXED, 3), "algorithm.gamma": None}},
    ],
)
def test_cheaper_and_foreign_trials_are_left_out(changes: dict[str, Any]) -> None:
    """Trials with fewer steps or unknown values do not affect the suggestion."""
    trials = [complete(MIXED, i, drawn(MIXED, i)) for i in range(20)]
    last_trial = complete(MIXED, 20, drawn(MIXED, 3), (9.0,))
    tpe = TUNER.open(problem(MIXED))
    assert tpe.suggest(trials, 25) == tpe.suggest([*trials, replace(last_trial, **changes)], 25)
    assert tpe.suggest(trials, 25) != tpe.suggest([*trials, last_trial], 25)


def trial_of_kind(number: int, kind: str) -> FrozenTrial:
    """A trial that is (c)omplete, (p)runed or (f)ailed."""
    space_distributions = distributions(NUMERIC)
    if kind == "c":
        return frozen_trial(number, {}, space_distributions, values=[0.0])
    return frozen_trial(
        number, {}, space_distributions, intermediate={5: 0.0} if kind == "p" else {}
    )


@pytest.mark.parametrize(
    ("kinds", "expected"),
    [
        ("", ""),
        ("fff", ""),
        ("cpf", "cpf"),
        ("f" * 9 + "c", "f" * 9 + "c"),
        ("f" * 30 + "c", "f" * 9 + "c"),
        ("c" + "f" * 12 + "p" + "f" * 10, "c" + "f" * 8 + "p" + "f" * 10),
    ],
)
def test_failed_trials_are_nine_tenths_at_most(kinds: str, expected: str) -> None:
    """The oldest failed trials are dropped, so that the best tenth has no failed trial."""
    result = without_excess_failures([trial_of_kind(i, kind) for i, kind in enumerate(kinds)])
    assert expected == "".join(
        "c" if t.values else "p" if t.intermediate_values else "f" for t in result
    )
    assert sorted(t.number for t in result) == [t.number for t in result]


def test_excess_failed_trials_do_not_matter() -> None:
    """Beside two complete trials, the oldest of thirty failed trials have no effect."""
    trials = [trial_failing_above(number, -1.0) for number in range(30)]
    trials += [complete(NUMERIC, number, drawn(NUMERIC, number)) for number in (30, 31)]
    tpe = TUNER.open(problem(NUMERIC))
    assert tpe.suggest(trials, 40) == tpe.suggest(trials[12:], 40)


def test_branches_are_modelled_jointly() -> None:
    """TPE suggests joint values of two parameters that must both be high or both be low."""
    space = Space(
        parameters=(
            Parameter(key="algorithm", domain=Choice(("ppo", "dqn"))),
            *(
                Parameter(key=key, domain=Real(0, 1), when={"algorithm": ("ppo",)})
                for key in ("a", "b")
            ),
        )
    )
    trials = []
    for number in range(200):
        values = drawn(space, number)
        score = -abs(values["a"] - values["b"]) if "a" in values else -2.0
        trials.append(complete(space, number, values, (score,)))

    def distance(tuner: TPE) -> float:
        suggester = tuner.open(problem(space))
        result = [suggester.suggest(trials, number) for number in range(300, 340)]
        branch_values = [s.parameters for s in result if s is not None and "a" in s.parameters]
        assert len(branch_values) > 30
        return float(mean(abs(values["a"] - values["b"]) for values in branch_values))

    assert distance(TUNER) < 0.1 < distance(replace(TUNER, multivariate=False))


def test_several_objectives_are_optimised_together() -> None:
    """For two objectives with optima at 0.3 and 0.7, suggestions lie between the optima."""
    space = Space(parameters=tuple(Parameter(key=key, domain=Real(0, 1)) for key in "ab"))
    trials = [
        ended(space, 6 * number, Suggestion(drawn(space, number)), objectives=2)
        for number in range(100)
    ]
    suggester = TUNER.open(problem(space, objectives=2))
    result = [suggester.suggest(trials, number) for number in range(700, 740)]
    inside = [s is not None and 0.2 < s.parameters["a"] < 0.8 for s in result]
    assert mean(inside) > 0.8
