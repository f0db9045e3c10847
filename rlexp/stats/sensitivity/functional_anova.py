"""Functional ANOVA: how much a forest's prediction varies with each parameter, and each pair."""

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import combinations

import numpy as np
from numpy.typing import NDArray

Numbers = NDArray[np.float64]
Places = NDArray[np.intp]

LEAST = 3
"""Drawn trials in a leaf, at least: single ones would carry their noise into the forest."""
AT_A_TIME = 4_000
"""Drawn trials of the trees that are grown together, which bounds memory."""
ROUNDING = 1e-12
"""Share of the sum of squares below which a split explains nothing."""


@dataclass(frozen=True, slots=True)
class Grid:
    """Where trials stand: a cell of each parameter's range.

    Attributes:
        cells: Of shape (trials, parameters), from 0 to below `sizes`.
        sizes: Cells of each parameter's range, of shape (parameters,).
    """

    cells: Places
    sizes: tuple[int, ...]

    @classmethod
    def from_unit(cls, points: Numbers, sizes: Sequence[int]) -> "Grid":
        """Cells of equal width; the middle one where a point has no value.

        Args:
            points: In the unit cube, of shape (trials, parameters); NaN for no value.
            sizes: Cells of each parameter's range.
        """
        last = np.array(sizes) - 1
        cells = np.floor(np.nan_to_num(points, nan=0.5) * np.array(sizes)).astype(np.intp)
        return cls(np.clip(cells, 0, last), tuple(sizes))


@dataclass(frozen=True, slots=True)
class Forest:
    """The leaves of all trees: boxes on the grid, which in each tree fill it.

    Attributes:
        low: First cell of each box, of shape (leaves, parameters).
        high: The cell after its last one, of the same shape.
        value: What is predicted there, of shape (leaves,).
        trees: How many there are.
        predictions: Of each tree for each trial of the grid, of shape (trees, trials), whether or
            not the tree has seen it.
    """

    low: Places
    high: Places
    value: Numbers
    trees: int
    predictions: Numbers


def bagged(rows: Places, trees: int, generator: np.random.Generator) -> Places:
    """Which trials each tree draws, with replacement: of shape (trees, rows).

    Args:
        rows: The trials that may be drawn; one that is there twice is drawn twice as often.
        trees: How many.
        generator: Of the draws.
    """
    return rows[generator.integers(0, len(rows), size=(trees, len(rows)))]


def grow(grid: Grid, values: Numbers, draws: Places) -> Forest:
    """Grow a tree for each row of draws (Breiman 2001, "Random Forests", all features tried).

    Args:
        grid: Where the trials stand.
        values: Of the trials, of shape (trials,).
        draws: The trials that each tree is grown from, of shape (trees, drawn).
    """
    step = max(1, AT_A_TIME // len(values))
    rows = [draws[first : first + step] for first in range(0, len(draws), step)]
    parts = [_Growth(grid, values, own).forest() for own in rows]
    return Forest(
        low=np.concatenate([p.low for p in parts]),
        high=np.concatenate([p.high for p in parts]),
        value=np.concatenate([p.value for p in parts]),
        trees=len(draws),
        predictions=np.concatenate([p.predictions for p in parts]),
    )


@dataclass(frozen=True, slots=True)
class _Splits:
    """What becomes of the nodes of a level; all of shape (nodes,)."""

    divided: NDArray[np.bool_]
    feature: Places
    cell: Places
    mean: Numbers


class _Growth:
    """Some trees while they grow: the boxes of the present level, and who is in which."""

    def __init__(self, grid: Grid, values: Numbers, draws: Places) -> None:
        trees, trials = len(draws), len(values)
        self.grid = grid
        self.values = values - values.mean()
        self.origin = values.mean()
        own = draws + trials * np.arange(trees)[:, np.newaxis]
        self.weight = np.bincount(own.ravel(), minlength=trees * trials).astype(np.float64)
        self.predictions = np.zeros(trees * trials)
        self.place = np.arange(trees * trials)
        self.node = np.repeat(np.arange(trees), trials)
        self.low = np.zeros((trees, len(grid.sizes)), dtype=np.intp)
        self.high = np.tile(np.array(grid.sizes, dtype=np.intp), (trees, 1))
        self.leaves: list[tuple[Places, Places, Numbers]] = []

    def forest(self) -> Forest:
        trees = len(self.low)
        while len(self.low):
            self._descend(self._splits())
        low, high, value = (np.concatenate(parts) for parts in zip(*self.leaves, strict=True))
        predictions = self.predictions.reshape(trees, -1) + self.origin
        return Forest(low, high, value + self.origin, trees, predictions)

    def _splits(self) -> _Splits:
        """The split of each node that leaves the least squares."""
        trial = self.place % len(self.values)
        weight = self.weight[self.place]
        product = weight * self.values[trial]
        count, total = (_sums(self.node, own, len(self.low)) for own in (weight, product))
        best = _Best(len(self.low))
        for feature, size in enumerate(self.grid.sizes):
            key = self.node * size + self.grid.cells[trial, feature]
            left, sums = (
                _sums(key, own, len(count) * size).reshape(-1, size).cumsum(axis=1)[:, :-1]
                for own in (weight, product)
            )
            best.try_feature(feature, left, sums, count, total)
        explained = total**2 / count
        divided = best.gain > explained + ROUNDING * float(self.values @ self.values)
        return _Splits(divided, best.feature, best.cell, total / count)

    def _descend(self, splits: _Splits) -> None:
        """Close the nodes that are leaves, and go on with the two halves of the others."""
        done = ~splits.divided
        self.leaves.append((self.low[done], self.high[done], splits.mean[done]))
        ended = done[self.node]
        self.predictions[self.place[ended]] = splits.mean[self.node[ended]]
        feature, cell = splits.feature[splits.divided], splits.cell[splits.divided]
        self.place, node = self.place[~ended], self.node[~ended]
        trial = self.place % len(self.values)
        right = self.grid.cells[trial, splits.feature[node]] >= splits.cell[node]
        number = np.cumsum(splits.divided) - 1
        self.node = number[node] + len(feature) * right
        low, high = self.low[splits.divided], self.high[splits.divided]
        rows = np.arange(len(feature))
        upper, lower = low.copy(), high.copy()
        upper[rows, feature], lower[rows, feature] = cell, cell
        self.low, self.high = np.concatenate([low, upper]), np.concatenate([lower, high])


def _sums(key: Places, weight: Numbers, count: int) -> Numbers:
    return np.asarray(np.bincount(key, weight, count), dtype=np.float64)


class _Best:
    """The best split of each node among the features that were tried."""

    def __init__(self, nodes: int) -> None:
        self.gain = np.full(nodes, -np.inf)
        self.feature = np.zeros(nodes, dtype=np.intp)
        self.cell = np.zeros(nodes, dtype=np.intp)

    def try_feature(
        self, feature: int, left: Numbers, sums: Numbers, count: Numbers, total: Numbers
    ) -> None:
        """Take the feature where it explains more; `left` and `sums` are up to each cell."""
        if not left.shape[1]:
            return
        right = count[:, np.newaxis] - left
        allowed = (left >= LEAST) & (right >= LEAST)
        with np.errstate(divide="ignore", invalid="ignore"):
            gain = sums**2 / left + (total[:, np.newaxis] - sums) ** 2 / right
        gain = np.where(allowed, gain, -np.inf)
        first = gain.argmax(axis=1)
        rows = np.arange(len(first))
        better = gain[rows, first] > self.gain
        # Cells without trials between two that have some: the split is in the middle, as in CART.
        same = (left == left[rows, first][:, np.newaxis]).sum(axis=1)
        self.gain[better] = gain[rows, first][better]
        self.feature[better] = feature
        self.cell[better] = (first + 1 + (same - 1) // 2)[better]


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
