"""Regression forests: splits, leaves and predictions."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from rlexp.stats.sensitivity import regression_forest
from rlexp.stats.sensitivity.regression_forest import (
    LEAST,
    Forest,
    ForestPredictor,
    UnitGrid,
    bagged,
    grow,
)

SIZES = (5, 3, 8)


def random_forest(seed: int, trials: int = 40) -> tuple[Forest, UnitGrid]:
    """Three trees of random trials."""
    generator = np.random.default_rng(seed)
    grid = UnitGrid.from_unit(generator.random((trials, 3)), SIZES)
    values = generator.standard_normal(trials)
    return grow(grid, values, bagged(np.arange(trials), 3, generator)), grid


def test_a_step_is_found() -> None:
    """Values that step from 1 to 5 at the cell 3 give two leaves."""
    cells = np.repeat(np.arange(6), 4)[:, np.newaxis]
    values = np.where(cells[:, 0] < 3, 1.0, 5.0)
    forest = grow(UnitGrid(cells, (6,)), values, np.arange(24)[np.newaxis])
    assert [[0], [3]] == forest.low.tolist()
    assert [[3], [6]] == forest.high.tolist()
    assert [1.0, 5.0] == pytest.approx(list(forest.value))
    assert list(values) == pytest.approx(list(forest.predictions[0]))


def test_a_split_stands_in_the_middle_of_a_gap() -> None:
    """Between trials in the cells 0 and 9 the boundary is at 5, as in CART."""
    cells = np.repeat([0, 9], 5)[:, np.newaxis]
    forest = grow(UnitGrid(cells, (10,)), np.repeat([0.0, 1.0], 5), np.arange(10)[np.newaxis])
    assert [[0], [5]] == forest.low.tolist()


def test_equal_values_are_one_leaf() -> None:
    """A tree of trials with equal values has a single leaf."""
    cells = np.arange(10)[:, np.newaxis]
    forest = grow(UnitGrid(cells, (10,)), np.full(10, 0.1), np.arange(10)[np.newaxis])
    assert [0.1] == pytest.approx(list(forest.value))


def test_a_leaf_holds_three_drawn_trials_or_more() -> None:
    """Four trials cannot be divided into leaves, six can."""
    cells = np.arange(6)[:, np.newaxis]
    values = np.arange(6.0)
    grid = UnitGrid(cells, (6,))
    assert 1 == len(grow(grid, values, np.arange(2 * LEAST - 2)[np.newaxis]).value)
    assert 2 == len(grow(grid, values, np.arange(2 * LEAST)[np.newaxis]).value)


@given(st.integers(0, 1000))
def test_the_leaves_of_a_tree_fill_the_grid(seed: int) -> None:
    """The leaves fill the grids of all trees, and predict the trials in them."""
    forest, grid = random_forest(seed)
    volumes = (forest.high - forest.low).prod(axis=1)
    assert forest.trees * np.prod(SIZES) == volumes.sum()
    for trial, cell in enumerate(grid.cells):
        inside = ((forest.low <= cell) & (cell < forest.high)).all(axis=1)
        assert sorted(forest.value[inside]) == sorted(forest.predictions[:, trial])


def test_trees_do_not_depend_on_the_batch() -> None:
    """A tree is the same if it grows alone or in a batch."""
    generator = np.random.default_rng(3)
    grid = UnitGrid.from_unit(generator.random((900, 2)), (32, 32))
    values = generator.standard_normal(900)
    draws = bagged(np.arange(900), 9, generator)
    separate = [grow(grid, values, draws[k : k + 1]).predictions[0].tolist() for k in range(9)]
    assert separate == grow(grid, values, draws).predictions.tolist()


def test_cells_are_of_equal_width() -> None:
    """0 and 1 are in the first and last cell; a missing value is in the middle."""
    points = np.array([[0.0], [0.24], [0.25], [1.0], [np.nan]])
    assert [[0], [0], [1], [3], [2]] == UnitGrid.from_unit(points, [4]).cells.tolist()


def test_prediction_at_the_trials_is_that_of_the_trees() -> None:
    """At the trials, the mean is the mean of the predictions of the trees."""
    generator = np.random.default_rng(3)
    grid = UnitGrid.from_unit(generator.random((40, 3)), SIZES)
    values = generator.standard_normal(40)
    forest = grow(grid, values, bagged(np.arange(40), 7, generator))
    prediction = ForestPredictor.of(forest, grid, values).predict(grid.cells)
    assert list(forest.predictions.mean(axis=0)) == pytest.approx(list(prediction.mean))
    assert (prediction.variance > 0).any()


def test_variance_of_a_prediction_by_hand() -> None:
    """The variance is the mean variance of the leaves plus the variance of their means."""
    grid = UnitGrid(np.array([[0], [0], [1], [1]]), (2,))
    values = np.array([0.0, 2.0, 5.0, 5.0])
    # The first tree has two leaves, the second one has one.
    low, high = np.array([[0], [1], [0]]), np.array([[1], [2], [2]])
    forest = Forest(low, high, np.array([1.0, 5.0, 3.0]), 2, np.empty((2, 4)))
    prediction = ForestPredictor.of(forest, grid, values).predict(np.array([[0], [1]]))
    whole = float(np.var(values))
    assert [2.0, 4.0] == pytest.approx(list(prediction.mean))
    assert [(1 + whole) / 2 + 1, whole / 2 + 1] == pytest.approx(list(prediction.variance))


def test_size_of_the_parts_changes_no_split(monkeypatch: pytest.MonkeyPatch) -> None:
    """Features that are tried together give the same forest as features that are tried alone."""
    together, _ = random_forest(5)
    monkeypatch.setattr(regression_forest, "CELLS_AT_A_TIME", 1)
    alone, _ = random_forest(5)
    for name in ("low", "high", "value", "predictions"):
        assert getattr(together, name).tolist() == getattr(alone, name).tolist()
