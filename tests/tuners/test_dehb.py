"""DEHB: evolution and promotion equal those of the reference implementation."""

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from generational_searches import (
    STEPS,
    complete,
    cube,
    failed,
    follow,
    is_clearly_greater,
    points,
    problem_in,
)
from hypothesis import given, settings
from hypothesis import strategies as st

from rlexp.errors import ConfigError
from rlexp.records.trial import Trial, TrialState
from rlexp.tuners import Suggestion
from rlexp.tuners.dehb import DEHB, Brackets, cross, fidelities, mutate, rand1, redraw_outside
from rlexp.tuners.unit_cube import trial_generator

GOLDEN = Path(__file__).parents[1] / "golden" / "dehb_operators.json"
REFERENCE = json.loads(GOLDEN.read_text())
TUNER = DEHB(minimum=0.1, eta=3, mutation_factor=0.5, crossover_probability=0.5)


@pytest.mark.parametrize("case", REFERENCE["operators"], ids=lambda c: str(c["seed"]))
def test_operators_are_those_of_the_reference(case: dict[str, Any]) -> None:
    """Equal draws give the mutants, children and points of the reference, bit for bit."""
    parent, mutant = np.array(case["parent"]), np.array(case["mutant"])
    random = [trial_generator(case["seed"], n) for n in (7, 8, 9)]
    new_mutant = mutate(np.array(case["pool"]), parent, case["factor"], random[0])
    child = cross(parent, mutant, case["probability"], random[1])
    inside = redraw_outside(np.array(case["outside"]), random[2])
    assert case["mutant"] == new_mutant.tolist()
    assert case["child"] == child.tolist()
    assert case["inside"] == inside.tolist()


def test_rand1_by_hand() -> None:
    """The mutant of three points is (0, 1) + ½ · ((1, 0) − (½, ½)) = (¼, ¾)."""
    first, second, third = np.array([[0.0, 1.0], [1.0, 0.0], [0.5, 0.5]])
    assert [0.25, 0.75] == rand1(first, second, third, 0.5).tolist()


def test_child_has_a_gene_of_the_mutant() -> None:
    """A child has at least one gene of the mutant, also with a crossover rate of 0."""
    parent, mutant = np.zeros(4), np.ones(4)
    assert {1.0} == {
        cross(parent, mutant, 0.0, trial_generator(seed, 1)).sum() for seed in range(20)
    }


@pytest.mark.parametrize("run", REFERENCE["runs"], ids=lambda r: f"{r['eta']}-{r['minimum']:.2f}")
def test_search_is_that_of_the_reference(run: dict[str, Any]) -> None:
    """A search has the points and fidelities of the reference, bit for bit."""
    tuner = replace(TUNER, minimum=run["minimum"], eta=run["eta"])
    expected = [(t["fidelity"], t["point"]) for t in run["trials"]]
    costs = [0.0, *(t["cost"] for t in run["trials"])]
    space = cube(len(run["trials"][0]["point"]))

    def judge(suggestion: Suggestion, number: int) -> Trial:
        return complete(number, suggestion, -costs[number])

    trials = follow(tuner, problem_in(space, run["seed"]), judge, len(costs))[1:]
    steps = fidelities(STEPS, run["minimum"], run["eta"])
    result = [(steps.index(t.steps), list(t.parameters.values())) for t in trials]
    assert expected == result


def test_the_reference_runs_are_whole_cycles() -> None:
    """The reference runs are whole cycles, with promotions and evolution on every rung."""
    result = [
        len(run["trials"]) / Brackets(rungs=run["rungs"], eta=run["eta"]).trials
        for run in REFERENCE["runs"]
    ]
    assert [2, 2, 3, 1] == result


def test_lowest_rung_does_not_wait_for_higher_rungs() -> None:
    """The lowest rung of a bracket depends on earlier lowest rungs only."""
    suggester = TUNER.open(problem_in(cube(2)))
    waits = {1: 0, 10: 10, 13: 13, 14: 13, 17: 17, 18: 18, 21: 10, 30: 30, 34: 33}
    assert waits == {number: suggester.needs(number) for number in waits}


def test_default_waits_for_no_trial() -> None:
    """The default, trial 0, waits for no other trial."""
    for minimum in (0.3, 0.1):
        assert 0 == replace(TUNER, minimum=minimum).open(problem_in(cube(2))).needs(0)


def sphere(suggestion: Suggestion, number: int) -> Trial:
    """A trial whose value has its maximum at 0.3 in every dimension, at every fidelity."""
    values = suggestion.parameters.values()
    return complete(number, suggestion, -sum((v - 0.3) ** 2 for v in values))


def test_later_trials_do_not_change_a_suggestion() -> None:
    """A suggestion depends only on the trials that it needs."""
    problem = problem_in(cube(3), seed=4)
    trials = follow(TUNER, problem, sphere, 61)
    suggester = TUNER.open(problem)
    suggestions = [suggester.suggest(trials, number) for number in range(60, 0, -1)][::-1]
    assert [t.parameters for t in trials[1:]] == [s.parameters for s in suggestions if s]


def test_best_trials_are_promoted() -> None:
    """A promoted trial has the same values and names its parent trial."""
    problem = problem_in(cube(3), seed=2)
    trials = follow(TUNER, problem, sphere, 14)
    best_trials = sorted(trials[1:10], key=lambda t: -t.values[0])[:3]
    suggester = TUNER.open(problem)
    promotions = [suggester.suggest(trials, number) for number in (10, 11, 12)]
    assert [(t.number, t.parameters, 9_000) for t in best_trials] == [
        (s.parent, s.parameters, s.steps) for s in promotions if s
    ]
    top_suggestion = suggester.suggest(trials, 13)
    assert top_suggestion == Suggestion(best_trials[0].parameters, 27_000, 10)


def test_first_members_are_never_evaluated() -> None:
    """The first members are parents only: each of the first trials is a child."""
    trials = follow(TUNER, problem_in(cube(3), seed=5), sphere, 10)
    members = trial_generator(5, 0).uniform(size=(9, 3)).tolist()
    assert [] == [p for p in points(trials[1:]).tolist() if p in members]


def test_default_is_not_a_member() -> None:
    """Trial 0 does not affect the search, even if it is the best trial."""
    problem = problem_in(cube(2), seed=5)
    trials = follow(TUNER, problem, sphere, 30)
    better_trials = [replace(trials[0], values=(1e9,)), *trials[1:]]
    numbers = range(1, 31)
    first, second = TUNER.open(problem), TUNER.open(problem)
    assert [first.suggest(trials, n) for n in numbers] == [
        second.suggest(better_trials, n) for n in numbers
    ]


def outcomes(**states: float | None) -> list[Trial]:
    """The first nine trials, of which some failed (None) or were pruned at a value."""
    trials = follow(TUNER, problem_in(cube(2), seed=7), sphere, 10)
    for name, value in states.items():
        number = int(name[1:])
        intermediate = {} if value is None else {1000: -9.0, 2000: value}
        state = TrialState.FAILED if value is None else TrialState.PRUNED
        trials[number] = replace(trials[number], state=state, values=(), intermediate=intermediate)
    return trials


def parents_of(trials: list[Trial]) -> list[int | None]:
    """The trials that are run again with more steps."""
    suggester = TUNER.open(problem_in(cube(2), seed=7))
    suggestions = [suggester.suggest(trials, number) for number in (10, 11, 12)]
    return [s.parent for s in suggestions if s]


def test_pruned_trial_has_its_last_value() -> None:
    """The fitness of a pruned trial is its last intermediate value, which may be the best."""
    assert 4 == parents_of(outcomes(t4=10.0))[0]
    assert 4 not in parents_of(outcomes(t4=-10.0))


def test_failed_trial_is_never_promoted() -> None:
    """A failed trial is not promoted; children fill the slots that remain."""
    seven_failures: dict[str, float | None] = {f"t{n}": None for n in range(1, 8)}
    assert {8, 9, None} == set(parents_of(outcomes(**seven_failures)))
    nine_failures: dict[str, float | None] = {f"t{n}": None for n in range(1, 10)}
    assert [None, None, None] == parents_of(outcomes(**nine_failures))


def test_excluded_trial_counts_as_failed() -> None:
    """A trial that the sweep excludes is treated as failed."""
    trials = outcomes(t2=None, t3=None, t9=None)
    remaining = [t for t in trials if t.state is not TrialState.FAILED]
    assert parents_of(trials) == parents_of(remaining)


@settings(max_examples=20)
@given(seed=st.integers(0, 50), failed_numbers=st.sets(st.integers(1, 40)))
def test_values_of_failed_trials_do_not_matter(seed: int, failed_numbers: set[int]) -> None:
    """The points of failed trials do not affect other suggestions."""
    problem = problem_in(cube(2), seed=seed)

    def judge(suggestion: Suggestion, number: int) -> Trial:
        return (
            failed(number, suggestion) if number in failed_numbers else sphere(suggestion, number)
        )

    trials = follow(TUNER, problem, judge, 41)
    moved_trials = [
        replace(t, parameters={"x0": 0.01, "x1": 0.01}) if t.number in failed_numbers else t
        for t in trials
    ]
    first, second = TUNER.open(problem), TUNER.open(problem)
    numbers = range(1, 41)
    assert [first.suggest(trials, n) for n in numbers] == [
        second.suggest(moved_trials, n) for n in numbers
    ]


@pytest.mark.parametrize(
    ("changes", "steps", "message"),
    [
        ({"minimum": 0.5}, 1000, "tuner.minimum = 0.5 leaves one rung"),
        ({"minimum": 0.01}, 30, "30 environment steps are too few for 5 rungs"),
        ({}, 1, "1 environment steps are too few for 3 rungs"),
    ],
)
def test_a_budget_without_rungs_is_refused(
    changes: dict[str, Any], steps: int, message: str
) -> None:
    """A budget with too few rungs is refused with a reason."""
    with pytest.raises(ConfigError, match=message):
        replace(TUNER, **changes).open(problem_in(cube(2), steps=steps))


def test_several_objectives_are_refused() -> None:
    """DEHB refuses several objectives and names the tuners for them."""
    with pytest.raises(ConfigError, match="choose tuner=nsga2 or tuner=tpe"):
        TUNER.open(problem_in(cube(2), objectives=2))


def test_dehb_beats_random_search_at_equal_cost() -> None:
    """Five cycles of DEHB find better values than random search with 40 full runs."""
    optimum = np.array([0.2, 0.7, 0.35, 0.85, 0.6])

    def judge(suggestion: Suggestion, number: int) -> Trial:
        x = np.array(list(suggestion.parameters.values()))
        bias = 0.1 * (1 - (suggestion.steps or STEPS) / STEPS) * x[0]
        return complete(number, suggestion, -float(((x - optimum) ** 2).sum() + bias))

    scores, random_scores = [], []
    for seed in range(30):
        trials = follow(TUNER, problem_in(cube(5), seed), judge, 101)[1:]
        assert pytest.approx(40) == sum(t.steps for t in trials) / STEPS
        scores.append(max(t.values[0] for t in trials if t.steps == STEPS))
        draws = np.random.default_rng([9, seed]).random((40, 5))
        random_scores.append(-float(((draws - optimum) ** 2).sum(axis=1).min()))
    assert is_clearly_greater(scores, random_scores)
