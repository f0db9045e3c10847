"""NSGA-II: selection and variation follow the paper."""

from collections.abc import Sequence
from dataclasses import replace
from math import nan
from typing import Any

import numpy as np
import pytest
from generational_searches import (
    complete,
    cube,
    failed,
    follow,
    is_clearly_greater,
    points,
    problem_in,
)
from hypothesis import given
from hypothesis import strategies as st

from rlexp.errors import ConfigError
from rlexp.protocol.space import Choice, Integer, Parameter, Real, Space
from rlexp.records.trial import Trial, TrialState
from rlexp.tuners import Suggestion
from rlexp.tuners.generational import EvaluatedPoint
from rlexp.tuners.nsga2 import NSGA2, polynomial_mutation, ranked, tournament
from rlexp.tuners.unit_cube import random_point, trial_generator

TUNER = NSGA2(
    population=20, crossover_probability=0.9, mutation_probability=None, mutation_index=20.0
)
SMALL_TUNER = replace(TUNER, population=4)


def member(number: int, *values: float, state: TrialState = TrialState.COMPLETE) -> EvaluatedPoint:
    """An evaluated point with these values."""
    trial = complete(number, Suggestion({}), *values)
    steps = {100: 0.0} if state is TrialState.PRUNED else {}
    return EvaluatedPoint(number, (), replace(trial, state=state, intermediate=steps))


def test_selection_by_hand() -> None:
    """The order is fronts, crowding, numbers, then pruned trials, then failed trials."""
    members = [
        member(1, state=TrialState.FAILED),
        member(2, 1.0, 1.0),
        member(3, state=TrialState.PRUNED),
        member(4, 2.0, 8.0),
        member(5, 5.0, 1.0),
        member(6, 10.0, 0.0),
        member(7, 0.0, 10.0),
        EvaluatedPoint(8, (), None),
        member(9, nan, 99.0),
    ]
    expected = [(6, 0), (7, 0), (5, 0), (4, 0), (2, 1), (3, 2), (1, 3), (8, 3), (9, 3)]
    assert expected == [(individual.number, individual.rank) for individual in ranked(members)]


def test_a_tournament_is_won_by_the_better() -> None:
    """The worst individual never wins a tournament, and every other individual can."""
    population = ranked([member(n, float(n), float(n)) for n in range(4)])
    winners = {tournament(population, trial_generator(0, n)).number for n in range(200)}
    assert {1, 2, 3} == winners


def test_a_tournament_of_equals_is_won_by_either() -> None:
    """Either of two equal individuals can win a tournament."""
    population = ranked([member(1, 0.0, 1.0), member(2, 1.0, 0.0)])
    assert {1, 2} == {tournament(population, trial_generator(0, n)).number for n in range(50)}


@pytest.mark.parametrize(
    ("share", "draw", "expected"),
    [
        (0.3, 0.5, 0.3),
        (0.3, 0.0, 0.0),
        (0.0, 0.25, 0.0),
        (1.0, 0.75, 1.0),
        (0.2, 0.25, 0.1055385),
        (0.2, 0.75, 0.4788897),
    ],
)
def test_polynomial_mutation_by_hand(share: float, draw: float, expected: float) -> None:
    """With η = 1, a draw of ¼ leads from 0.2 to 0.2 + √(½ + ½ · 0.8²) − 1."""
    assert pytest.approx(expected) == polynomial_mutation(share, draw, 1.0)


@given(st.floats(0, 1), st.floats(0, 1, exclude_max=True), st.floats(0, 100))
def test_polynomial_mutation_stays_inside(share: float, draw: float, index: float) -> None:
    """A mutated share stays in [0, 1]; draws below ½ decrease it, draws above ½ increase it."""
    result = polynomial_mutation(share, draw, index)
    assert 0 <= result <= 1
    assert (result - share) * (draw - 0.5) >= -1e-12


def schaffer(suggestion: Suggestion, number: int) -> Trial:
    """A trial with two objectives; no point between their optima dominates another."""
    x = np.array(list(suggestion.parameters.values()))
    return complete(
        number, suggestion, -float(((x - 0.3) ** 2).sum()), -float(((x - 0.6) ** 2).sum())
    )


def test_generation_waits_for_the_previous_one() -> None:
    """The first generation has the default configuration and waits for no trial."""
    suggester = SMALL_TUNER.open(problem_in(cube(2), objectives=2))
    assert [0, 0, 0, 0, 0, 5, 5, 5, 5, 9] == [suggester.needs(number) for number in range(10)]


def test_the_first_generation_is_random() -> None:
    """Each point of the first generation depends on the seed and its number only."""
    trials = follow(SMALL_TUNER, problem_in(cube(3), 5, objectives=2), schaffer, 5)
    assert [random_point(3, 5, n).tolist() for n in range(1, 5)] == points(trials[1:]).tolist()


def test_the_default_can_be_a_parent() -> None:
    """If the default is the best trial, its values reappear in children."""

    def judge(suggestion: Suggestion, number: int) -> Trial:
        values = (0.0, 0.0) if number == 0 else (-1.0 - number, -1.0 - number)
        return complete(number, suggestion, *values)

    default = {f"x{i}": 0.123 for i in range(6)}
    trials = follow(SMALL_TUNER, problem_in(cube(6), objectives=2), judge, 9, default)
    assert 0 < sum(0.123 in t.parameters.values() for t in trials[5:])


def test_failed_trial_is_not_a_parent() -> None:
    """Failed and excluded trials lead to the same children."""
    problem = problem_in(cube(3), 1, objectives=2)
    failed_numbers = {2, 3, 6}

    def judge(suggestion: Suggestion, number: int) -> Trial:
        return (
            failed(number, suggestion)
            if number in failed_numbers
            else schaffer(suggestion, number)
        )

    trials = follow(SMALL_TUNER, problem, judge, 13)
    remaining_trials = [t for t in trials if t.number not in failed_numbers]
    first, second = SMALL_TUNER.open(problem), SMALL_TUNER.open(problem)
    numbers = range(9, 13)
    assert [first.suggest(trials, n) for n in numbers] == [
        second.suggest(remaining_trials, n) for n in numbers
    ]
    genes = set(points([t for t in trials if t.number in {2, 3}]).ravel().tolist())
    children = points(trials[9:]).ravel().tolist()
    assert set() == genes & set(children)


@pytest.mark.parametrize(("probability", "has_two_parents"), [(1.0, True), (0.0, False)])
def test_children_have_the_genes_of_two_parents(probability: float, has_two_parents: bool) -> None:
    """With crossover, each gene comes from either parent; without, a child is a clone."""
    tuner = replace(SMALL_TUNER, crossover_probability=probability, mutation_probability=1e-12)
    trials = follow(tuner, problem_in(cube(6), 2, objectives=2), schaffer, 9)
    parents = points(trials[:5])
    sources = [
        [np.flatnonzero(parents[:, i] == gene) for i, gene in enumerate(child)]
        for child in points(trials[5:])
    ]
    assert all(len(parent_rows) == 1 for child in sources for parent_rows in child)
    assert {2 if has_two_parents else 1} == {
        len({int(parent_rows[0]) for parent_rows in child}) for child in sources
    }


def test_children_are_new() -> None:
    """In a space of few values, no child repeats an individual of the population."""
    space = Space(
        parameters=(
            Parameter(key="x0", domain=Choice(("a", "b", "c"))),
            Parameter(key="x1", domain=Integer(1, 20)),
        )
    )

    def judge(suggestion: Suggestion, number: int) -> Trial:
        size = suggestion.parameters["x1"]
        return complete(number, suggestion, size, -size * (suggestion.parameters["x0"] == "b"))

    trials = follow(SMALL_TUNER, problem_in(space, objectives=2), judge, 29, {"x0": "a", "x1": 3})
    for start in range(5, 29, 4):
        population = ranked([EvaluatedPoint(t.number, (), t) for t in trials[:start]])[:4]
        existing = [trials[item.number].parameters for item in population]
        assert [] == [t for t in trials[start : start + 4] if t.parameters in existing]


def test_mutation_of_choices_is_uniform() -> None:
    """Choices and short ranges of integers can reach all their values."""
    space = Space(
        parameters=(
            Parameter(key="x0", domain=Choice(("a", "b", "c", "d", "e"))),
            Parameter(key="x1", domain=Integer(1, 5)),
            Parameter(key="x2", domain=Real(0.0, 1.0)),
        )
    )
    tuner = replace(SMALL_TUNER, mutation_probability=1.0)

    def judge(suggestion: Suggestion, number: int) -> Trial:
        return complete(number, suggestion, *((1.0, 1.0) if number == 0 else (0.0, 0.0)))

    default: dict[str, Any] = {"x0": "a", "x1": 1, "x2": 0.5}
    trials = follow(tuner, problem_in(space, objectives=2), judge, 105, default)
    children = [t.parameters for t in trials[5:]]
    assert set("abcde") == {c["x0"] for c in children}
    assert set(range(1, 6)) == {c["x1"] for c in children}


def test_one_objective_is_refused() -> None:
    """NSGA-II refuses one objective and names the tuner for it."""
    with pytest.raises(ConfigError, match="choose tuner=tpe"):
        TUNER.open(problem_in(cube(2)))


def hypervolume(values: Sequence[tuple[float, ...]]) -> float:
    """The area between a set of pairs and (−1, −1); greater is better."""
    area, height = 0.0, -1.0
    for first, second in sorted(values, reverse=True):
        if first > -1 and second > height:
            area += (first + 1) * (second - height)
            height = second
    return area


def test_nsga2_beats_random_search() -> None:
    """After two hundred trials, the hypervolume is greater than that of random search."""
    areas, random_areas = [], []
    for seed in range(25):
        trials = follow(TUNER, problem_in(cube(6), seed, objectives=2), schaffer, 201)[1:]
        areas.append(hypervolume([t.values for t in trials]))
        draws = np.random.default_rng([9, seed]).random((200, 6))
        costs = [((draws - goal) ** 2).sum(axis=1) for goal in (0.3, 0.6)]
        random_areas.append(
            hypervolume([(-float(a), -float(b)) for a, b in zip(*costs, strict=True)])
        )
    assert is_clearly_greater(areas, random_areas)
