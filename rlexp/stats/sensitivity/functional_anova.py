"""Functional ANOVA: variance of a forest's prediction by parameter and by pair of parameters."""

from itertools import combinations

import numpy as np
from numpy.typing import NDArray

from rlexp.stats.sensitivity.regression_forest import Forest, Places, UnitGrid, bagged, grow

Numbers = NDArray[np.float64]

FOLDS = 5


def main_effects(forest: Forest, sizes: tuple[int, ...]) -> Numbers:
    """Variance of the main effect of each parameter, of shape (parameters,).

    Hutter, Hoos and Leyton-Brown 2014, "An Efficient Approach for Assessing Hyperparameter
    Importance": f_d is the mean of the prediction over all other parameters, V_d the variance of
    f_d. All cells of the grid have the same weight. The marginals are those of the whole forest:
    the variances of single trees would include their noise, which does not average out.

    Args:
        forest: A forest whose boxes fill the grid.
        sizes: Number of cells of each parameter.
    """
    return np.array([float(np.var(_marginal(forest, sizes, d))) for d in range(len(sizes))])


def pair_effects(forest: Forest, sizes: tuple[int, ...]) -> dict[tuple[int, int], float]:
    """Variance of the interaction of each pair of parameters, beyond their main effects."""
    alone = [_marginal(forest, sizes, d) for d in range(len(sizes))]
    effects = {}
    for a, b in combinations(range(len(sizes)), 2):
        both = _joint_marginal(forest, sizes, (a, b))
        effects[a, b] = float(np.var(both - alone[a][:, np.newaxis] - alone[b]))
    return effects


def cross_validated_r2(
    grid: UnitGrid, values: Numbers, trees: int, generator: np.random.Generator
) -> float:
    """R² = 1 − Σ (y − ŷ)² / Σ (y − ȳ)² by five-fold cross-validation.

    Args:
        grid: The trials on the grid.
        values: Value of each trial, of shape (trials,), not all equal.
        trees: Number of trees of each fold's forest.
        generator: Generator of the folds and of the forests.
    """
    fold = generator.permutation(np.arange(len(values)) % FOLDS)
    unseen = np.empty(len(values))
    for k in range(FOLDS):
        draws = bagged(np.flatnonzero(fold != k), trees, generator)
        unseen[fold == k] = grow(grid, values, draws).predictions.mean(axis=0)[fold == k]
    squares = ((values - unseen) ** 2).sum() / ((values - values.mean()) ** 2).sum()
    return float(1 - squares)


def _marginal(forest: Forest, sizes: tuple[int, ...], d: int) -> Numbers:
    """Mean of the prediction over all other parameters, of shape (cells,)."""
    # Each box adds its value from its first cell on and subtracts it after its last one; the
    # cumulative sum fills the boxes.
    weight = forest.value * _shares(forest, sizes, (d,)) / forest.trees
    # One more place than cells: a box that reaches the last cell ends after it.
    length = sizes[d] + 1
    steps = np.bincount(forest.low[:, d], weight, length)
    steps -= np.bincount(forest.high[:, d], weight, length)
    return np.asarray(np.cumsum(steps)[:-1], dtype=np.float64)


def _joint_marginal(forest: Forest, sizes: tuple[int, ...], pair: tuple[int, int]) -> Numbers:
    """Mean of the prediction over all parameters except a pair, of shape (cells, cells)."""
    # As in `_marginal`, in two dimensions: four corners of each box.
    a, b = pair
    weight = forest.value * _shares(forest, sizes, pair) / forest.trees
    shape = (sizes[a] + 1, sizes[b] + 1)
    steps = np.zeros(shape[0] * shape[1])
    corners: tuple[tuple[Places, Places, int], ...] = (
        (forest.low, forest.low, 1),
        (forest.low, forest.high, -1),
        (forest.high, forest.low, -1),
        (forest.high, forest.high, 1),
    )
    for first, second, sign in corners:
        key = first[:, a] * shape[1] + second[:, b]
        steps += np.bincount(key, sign * weight, len(steps))
    return steps.reshape(shape).cumsum(axis=0).cumsum(axis=1)[:-1, :-1]


def _shares(forest: Forest, sizes: tuple[int, ...], apart: tuple[int, ...]) -> Numbers:
    """Fraction of the space of the other parameters that each box fills, of shape (leaves,)."""
    lengths = (forest.high - forest.low) / np.array(sizes)
    others = [d for d in range(len(sizes)) if d not in apart]
    return np.asarray(lengths[:, others].prod(axis=1))
