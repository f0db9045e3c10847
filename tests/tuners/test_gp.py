"""Bayesian optimisation: the data of the Gaussian process, and its suggestions."""

from dataclasses import replace
from statistics import mean

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from in_full import IN_FULL, long
from searches import BRANCHED, NUMERIC, SPACES, STEPS, best, complete, drawn, problem

from rlexp.records.trial import Trial, TrialState
from rlexp.tuners.gp import GaussianProcess, scaled_values, select_trials
from rlexp.tuners.random import RandomSearch
from rlexp.tuners.sobol import SobolSequence

TUNER = GaussianProcess(startup=10, most=100)
AXIS = "algorithm.clip_range"
SEEDS = (1, 2) if IN_FULL else (1,)


def test_first_trials_are_sobol_points() -> None:
    """The model is used after the first trials, if at least one is complete."""
    trials = [complete(NUMERIC, i, drawn(NUMERIC, i)) for i in range(12)]
    failed_trials = [replace(t, state=TrialState.FAILED, values=()) for t in trials]
    gp, sobol = TUNER.open(problem(NUMERIC)), SobolSequence().open(problem(NUMERIC))
    points = {number: sobol.suggest((), number) for number in (10, 11, 30)}
    assert points[10] == gp.suggest(trials, 10)
    assert points[30] == gp.suggest(trials[:9], 30)
    assert points[30] == gp.suggest(failed_trials, 30)
    assert points[11] != gp.suggest(trials[:10], 11)
    assert points[30] != gp.suggest([*failed_trials[:-1], trials[-1]], 30)


@pytest.mark.parametrize("kind", ["numeric", "mixed"])
def test_gp_beats_random_search(kind: str) -> None:
    """After 22 trials, the best trial is much nearer to the optimum than in random search."""
    space = SPACES[kind]
    gp_mean, random_mean = (
        mean(best(tuner, problem(space, seed=seed), 22) for seed in SEEDS)
        for tuner in (TUNER, RandomSearch())
    )
    assert gp_mean > 0.6 * random_mean


def trial_stopped_below(number: int, state: TrialState, limit: float) -> Trial:
    """A trial that ends in `state` below a limit of `AXIS`; otherwise lower values are better."""
    values = drawn(NUMERIC, number)
    trial = complete(NUMERIC, number, values)
    if values[AXIS] > limit:
        return trial
    return replace(trial, state=state, values=(), intermediate={STEPS // 2: 0.0})


@pytest.mark.parametrize(
    ("state", "count"),
    [
        (TrialState.FAILED, 40),
        (TrialState.PRUNED, 15),
        pytest.param(TrialState.FAILED, 15, marks=long),
        pytest.param(TrialState.PRUNED, 40, marks=long),
    ],
)
def test_failing_regions_are_avoided(state: TrialState, count: int) -> None:
    """The model avoids a region of failed or pruned trials, although it looks best."""
    trials = [trial_stopped_below(number, state, 0.4) for number in range(count)]
    suggester = TUNER.open(problem(NUMERIC))
    result = [suggester.suggest(trials, number) for number in range(50, 57)]
    assert mean(s is not None and s.parameters[AXIS] < 0.3 for s in result) < 0.2


def test_scaled_values() -> None:
    """The scaled value is 0 for the worst trial, 1 for the best, −0.1 for a failed trial."""
    values = [(10.0,), (), (30.0,), (), (20.0,), (50.0,), (40.0,)]
    pruned = [False, True, False, False, False, False, False]
    expected = [0, 0.25, 0.5, -0.1, 0.25, 1, 0.75]
    assert expected == pytest.approx(scaled_values(values, pruned)[:, 0])


def test_scaled_values_of_several_objectives() -> None:
    """Each objective has its own scale, also with huge and with equal values."""
    values = [(-1e308, 3.0), (1e308, 3.0), (), (0.0, 3.0)]
    result = scaled_values(values, [False, False, False, False])
    assert [[0, 0], [1, 0], [-0.1, -0.1], [0.5, 0]] == result.tolist()


@pytest.mark.parametrize(
    ("values", "most", "expected"),
    [
        ([[3], [1], [2]], 3, [0, 1, 2]),
        ([[3], [9], [2], [1], [0]], 4, [0, 1, 3, 4]),
        ([[5], [5], [5], [5], [5]], 2, [0, 4]),
        ([[0, 9], [9, 0], [1, 1], [5, 5], [0, 0], [2, 2]], 4, [0, 1, 4, 5]),
    ],
)
def test_selected_trials(values: list[list[float]], most: int, expected: list[int]) -> None:
    """A selection has the trials that the fewest others dominate, and the latest trials."""
    assert expected == select_trials(np.array(values, dtype=float), most)


@given(st.lists(st.integers(0, 5), min_size=1, max_size=40), st.integers(2, 40))
def test_selection_has_the_best_and_the_latest(values: list[int], most: int) -> None:
    """A selection is in order and has no duplicates; it has the best and the latest trial."""
    result = select_trials(np.array(values, dtype=float)[:, None], most)
    assert min(most, len(values)) == len(result)
    assert sorted(set(result)) == result
    assert values.index(max(values)) in result
    assert len(values) <= 1 or len(values) - 1 in result


def test_unselected_trials_do_not_matter() -> None:
    """Many trials and their selection lead to the same suggestion."""
    trials = [complete(NUMERIC, i, drawn(NUMERIC, i)) for i in range(60)]
    trials.append(complete(NUMERIC, 60, drawn(NUMERIC, 60), (-99.0,)))  # the worst value
    selected_trials = [trials[i] for i in select_trials(np.array([t.values for t in trials]), 20)]
    assert [20, 60] == [len(selected_trials), selected_trials[-1].number]
    capped_suggester = replace(TUNER, most=20).open(problem(NUMERIC))
    assert capped_suggester.suggest(trials, 70) == TUNER.open(problem(NUMERIC)).suggest(
        selected_trials, 70
    )
    assert capped_suggester.suggest(trials, 70) != TUNER.open(problem(NUMERIC)).suggest(trials, 70)


def test_branches_share_one_process() -> None:
    """The process suggests the best branch, with good values of its parameters."""
    trials = []
    for number in range(60):
        values = drawn(BRANCHED, number)
        score = -abs(values[AXIS] - 0.3) if values["algorithm"] == "ppo" else -2.0
        trials.append(complete(BRANCHED, number, values, (score,)))
    suggester = TUNER.open(problem(BRANCHED))
    result = [suggester.suggest(trials, number) for number in range(70, 76)]
    assert all(s is not None and s.parameters["algorithm"] == "ppo" for s in result)
    assert all(s is not None and abs(s.parameters[AXIS] - 0.3) < 0.15 for s in result)


def test_several_objectives_have_several_processes() -> None:
    """For two objectives with optima at 0.3 and 0.7, suggestions lie between the optima."""
    trials = []
    for number in range(30):
        values = drawn(NUMERIC, number)
        scores = (-((values[AXIS] - 0.3) ** 2), -((values[AXIS] - 0.7) ** 2))
        trials.append(complete(NUMERIC, number, values, scores))
    suggester = TUNER.open(problem(NUMERIC, objectives=2))
    result = [suggester.suggest(trials, number) for number in range(50, 53)]
    assert all(s is not None and 0.2 < s.parameters[AXIS] < 0.8 for s in result)
