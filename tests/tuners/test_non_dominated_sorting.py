"""Fronts and crowding distances follow the definitions of the paper."""

from collections.abc import Sequence
from math import inf

import numpy as np
import optuna
import pytest
from hypothesis import given
from hypothesis import strategies as st
from optuna.samplers.nsgaii._elite_population_selection_strategy import (
    _calc_crowding_distance,
)
from optuna.study._multi_objective import _fast_non_domination_rank

from rlexp.stats.pareto import crowding_distances, non_dominated_ranks

values_of_two_or_three = st.integers(2, 3).flatmap(
    lambda k: st.lists(
        st.lists(st.integers(-3, 3).map(float), min_size=k, max_size=k), min_size=1, max_size=25
    )
)


def brute_force_ranks(values: list[list[float]]) -> list[int]:
    """The ranks by definition: repeatedly remove the points that no other point dominates."""
    ranks: dict[int, int] = {}
    while remaining := [i for i in range(len(values)) if i not in ranks]:
        front = [
            i for i in remaining if not any(dominates(values[j], values[i]) for j in remaining)
        ]
        ranks |= dict.fromkeys(front, max(ranks.values(), default=-1) + 1)
    return [ranks[i] for i in range(len(values))]


def dominates(first: Sequence[float], second: Sequence[float]) -> bool:
    """Whether a point is no worse in all objectives and better in at least one."""
    pairs = list(zip(first, second, strict=True))
    return all(a >= b for a, b in pairs) and any(a > b for a, b in pairs)


def test_ranks_by_hand() -> None:
    """An example with two fronts and a third point behind them."""
    values = np.array([[1.0, 5.0], [3.0, 3.0], [5.0, 1.0], [2.0, 2.0], [1.0, 1.0], [3.0, 3.0]])
    assert [0, 0, 0, 1, 2, 0] == non_dominated_ranks(values).tolist()


@given(values_of_two_or_three)
def test_ranks_equal_the_definition_and_optuna(values: list[list[float]]) -> None:
    """Ranks equal the definition and those of Optuna, also with ties."""
    result = non_dominated_ranks(np.array(values)).tolist()
    assert brute_force_ranks(values) == result
    assert _fast_non_domination_rank(-np.array(values)).tolist() == result


def test_crowding_distances_by_hand() -> None:
    """The crowding distances of four points are infinite at the ends, and 1.4 and 1.6 between."""
    values = np.array([[5.0, 1.0], [0.0, 10.0], [10.0, 0.0], [2.0, 8.0]])
    assert pytest.approx([1.6, inf, inf, 1.4]) == crowding_distances(values).tolist()


def test_constant_objective_adds_no_distance() -> None:
    """A constant objective and a single point have distance 0."""
    values = np.array([[1.0, 5.0], [1.0, 3.0], [1.0, 4.0]])
    assert [inf, inf, 1.0] == crowding_distances(values).tolist()
    assert [0.0] == crowding_distances(values[:1]).tolist()


@given(st.permutations(range(9)), st.permutations(range(9)))
def test_crowding_distances_are_those_of_optuna(first: list[int], second: list[int]) -> None:
    """Distances are equal to Optuna's for values without ties."""
    values = [[float(a), float(b)] for a, b in zip(first, second, strict=True)]
    trials = [optuna.trial.create_trial(values=v, params={}, distributions={}) for v in values]
    for number, trial in enumerate(trials):
        trial.number = number
    expected = _calc_crowding_distance(list(trials))
    assert pytest.approx([expected[n] for n in range(9)]) == (
        crowding_distances(np.array(values)).tolist()
    )
