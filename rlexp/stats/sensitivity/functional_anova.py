"""Functional ANOVA: how much a forest's prediction varies with each parameter, and each pair."""

from itertools import combinations

import numpy as np

from rlexp.stats.sensitivity.regression_forest import Forest, Grid, Numbers, Places, bagged, grow

FOLDS = 5


def main_effects(forest: Forest, sizes: tuple[int, ...]) -> Numbers:
    """Variance of what each parameter does alone, of shape (parameters,).

    Hutter, Hoos and Leyton-Brown 2014, "An Efficient Approach for Assessing Hyperparameter
    Importance": f_d is the mean of the prediction over all other parameters, V_d the variance of
    f_d. Every cell of the grid weighs the same. The marginals are those of the whole forest, not
    of its trees one by one, whose noise would not average out.

    Args:
        forest: Its boxes fill the grid.
        sizes: Cells of each parameter's range.
    """
    return np.array([float(np.var(_marginal(forest, sizes, d))) for d in range(len(sizes))])


def pair_effects(forest: Forest, sizes: tuple[int, ...]) -> dict[tuple[int, int], float]:
    """Variance of what two parameters do together beyond what each does alone, by pair."""
    alone = [_marginal(forest, sizes, d) for d in range(len(sizes))]
    found = {}
    for a, b in combinations(range(len(sizes)), 2):
        both = _joint_marginal(forest, sizes, (a, b))
        found[a, b] = float(np.var(both - alone[a][:, np.newaxis] - alone[b]))
    return found


def cross_validated_r2(
    grid: Grid, values: Numbers, trees: int, generator: np.random.Generator
) -> float:
    """1 − Σ (y − ŷ)² / Σ (y − ȳ)² of trials that the forest has not seen, in five folds.

    Args:
        grid: Where the trials stand.
        values: Of the trials, of shape (trials,), not all equal.
        trees: Of the forest of each fold.
        generator: Of the folds and of the forests.
    """
    fold = generator.permutation(np.arange(len(values)) % FOLDS)
    unseen = np.empty(len(values))
    for k in range(FOLDS):
        draws = bagged(np.flatnonzero(fold != k), trees, generator)
        unseen[fold == k] = grow(grid, values, draws).predictions.mean(axis=0)[fold == k]
    squares = ((values - unseen) ** 2).sum() / ((values - values.mean()) ** 2).sum()
    return float(1 - squares)


def _marginal(forest: Forest, sizes: tuple[int, ...], d: int) -> Numbers:
    """Mean of the prediction over the other parameters, of shape (cells,)."""
    weight = forest.value * _shares(forest, sizes, (d,)) / forest.trees
    length = sizes[d] + 1
    steps = np.bincount(forest.low[:, d], weight, length)
    steps -= np.bincount(forest.high[:, d], weight, length)
    return np.asarray(np.cumsum(steps)[:-1], dtype=np.float64)


def _joint_marginal(forest: Forest, sizes: tuple[int, ...], pair: tuple[int, int]) -> Numbers:
    """Mean of the prediction over all others, of shape (cells, cells)."""
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
    """Share of the space of the other parameters that each box takes, of shape (leaves,)."""
    lengths = (forest.high - forest.low) / np.array(sizes)
    others = [d for d in range(len(sizes)) if d not in apart]
    return np.asarray(lengths[:, others].prod(axis=1))
