"""Functional ANOVA of forests, by hand and against known Sobol indices."""

import numpy as np
import pytest
from numpy.typing import NDArray

from rlexp.stats.sensitivity.functional_anova import (
    cross_validated_r2,
    main_effects,
    pair_effects,
)
from rlexp.stats.sensitivity.regression_forest import Forest, UnitGrid, bagged, grow
from rlexp.stats.share_intervals import seeded


def forest(boxes: list[tuple[list[int], list[int], float]], trees: int = 1) -> Forest:
    """A forest of leaves, each with its first cells, the cells after its last, and its value."""
    low, high, value = zip(*boxes, strict=True)
    return Forest(np.array(low), np.array(high), np.array(value), trees, np.empty((trees, 0)))


def grown_forest(
    points: NDArray[np.float64], values: NDArray[np.float64], cells: int = 32
) -> tuple[Forest, UnitGrid]:
    """A forest of 64 trees, grown from points of the unit cube."""
    grid = UnitGrid.from_unit(points, [cells] * points.shape[1])
    return grow(grid, values, bagged(np.arange(len(values)), 64, seeded(0, 2))), grid


def test_a_step_by_hand() -> None:
    """By hand: 0 on a quarter of the first range and 8 on the rest have variance 12."""
    step = forest([([0, 0], [1, 2], 0.0), ([1, 0], [4, 2], 8.0)])
    assert [12.0, 0.0] == list(main_effects(step, (4, 2)))
    assert {(0, 1): 0.0} == pair_effects(step, (4, 2))


def test_an_exclusive_or_by_hand() -> None:
    """In an exclusive or, the pair of parameters has the whole effect."""
    exclusive_or = forest(
        [
            ([0, 0], [1, 1], 1.0),
            ([1, 1], [2, 2], 1.0),
            ([0, 1], [1, 2], -1.0),
            ([1, 0], [2, 1], -1.0),
        ]
    )
    assert [0.0, 0.0] == list(main_effects(exclusive_or, (2, 2)))
    assert {(0, 1): 1.0} == pair_effects(exclusive_or, (2, 2))


def test_a_sum_by_hand() -> None:
    """By hand: terms of 0 or 4 and of 0 or 2 have variances 4 and 1, and no joint effect."""
    corners = [([a, b], [a + 1, b + 1], 4.0 * a + 2.0 * b) for a in (0, 1) for b in (0, 1)]
    sum_forest = forest(corners)
    assert [4.0, 1.0] == list(main_effects(sum_forest, (2, 2)))
    assert {(0, 1): 0.0} == pair_effects(sum_forest, (2, 2))


def test_trees_are_averaged_before_variances_are_taken() -> None:
    """Two trees that contradict each other have no effect."""
    up = [([0], [1], 0.0), ([1], [2], 2.0)]
    down = [([0], [1], 2.0), ([1], [2], 0.0)]
    assert [0.0] == list(main_effects(forest([*up, *down], trees=2), (2,)))
    assert [1.0] == list(main_effects(forest([*up, *up], trees=2), (2,)))


def test_the_ishigami_function() -> None:
    """The forest finds the Sobol indices 0.3139, 0.4424, 0, and 0.2437 of the first and third."""
    points = np.random.default_rng(0).random((3000, 3))
    x = (2 * points - 1) * np.pi
    values = np.sin(x[:, 0]) + 7 * np.sin(x[:, 1]) ** 2 + 0.1 * x[:, 2] ** 4 * np.sin(x[:, 0])
    ishigami_forest, grid = grown_forest(points, values)
    variance = 0.5 + 7**2 / 8 + 0.1 * np.pi**4 / 5 + 0.01 * np.pi**8 / 18
    alone = main_effects(ishigami_forest, grid.sizes) / variance
    together = pair_effects(ishigami_forest, grid.sizes)[0, 2] / variance
    assert [0.3139, 0.4424, 0.0] == pytest.approx(list(alone), abs=0.07)
    assert together == pytest.approx(0.2437, abs=0.05)


def test_r2_of_a_line_and_of_noise() -> None:
    """R² is above 0.95 for a straight line, and below 0.1 for noise."""
    generator = np.random.default_rng(1)
    points = generator.random((200, 2))
    grid = UnitGrid.from_unit(points, [32, 32])
    assert cross_validated_r2(grid, points[:, 0], 16, seeded(0, 1)) > 0.95
    assert cross_validated_r2(grid, generator.standard_normal(200), 16, seeded(0, 1)) < 0.1
