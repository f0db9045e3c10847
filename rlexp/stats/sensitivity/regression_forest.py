"""Regression forests on a grid: all trees grow together, and their leaves are boxes."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Self

import numpy as np
from numpy.typing import NDArray

Numbers = NDArray[np.float64]
Places = NDArray[np.intp]

LEAST = 3
"""Fewest drawn trials in a leaf: the noise of a single trial would enter the forest."""
AT_A_TIME = 4_000
"""Drawn trials of all trees that are grown together; this bounds memory."""
ROUNDING = 1e-12
"""Fraction of the sum of squares that a split must explain at least."""


@dataclass(frozen=True, slots=True)
class UnitGrid:
    """Trials on a grid: each parameter's range is divided into cells of equal width.

    Attributes:
        cells: Cell of each trial and parameter, from 0 to below `sizes`, (trials, parameters).
        sizes: Number of cells of each parameter, of shape (parameters,).
    """

    cells: Places
    sizes: tuple[int, ...]

    @classmethod
    def from_unit(cls, points: Numbers, sizes: Sequence[int]) -> Self:
        """The grid of points; a missing value is put into the middle cell.

        Args:
            points: In the unit cube, of shape (trials, parameters); NaN for a missing value.
            sizes: Number of cells of each parameter.
        """
        last = np.array(sizes) - 1
        cells = np.floor(np.nan_to_num(points, nan=0.5) * np.array(sizes)).astype(np.intp)
        return cls(np.clip(cells, 0, last), tuple(sizes))


@dataclass(frozen=True, slots=True)
class Forest:
    """A regression forest as the leaves of all trees: boxes that fill the grid in each tree.

    Attributes:
        low: First cell of each box, of shape (leaves, parameters).
        high: Cell after the last cell of each box, of the same shape.
        value: ForestPrediction in each box, of shape (leaves,).
        trees: Number of trees.
        predictions: ForestPrediction of each tree for each trial, in or out of its sample, of shape
            (trees, trials).
    """

    low: Places
    high: Places
    value: Numbers
    trees: int
    predictions: Numbers


@dataclass(frozen=True, slots=True)
class ForestPrediction:
    """The prediction of a forest at some points; all fields are of shape (points,).

    Attributes:
        mean: Mean over the trees.
        variance: Variance within the leaves and between the trees, in squared units of the mean.
        between: The part of the variance between the trees.
    """

    mean: Numbers
    variance: Numbers
    between: Numbers


def bagged(rows: Places, trees: int, generator: np.random.Generator) -> Places:
    """The trials that each tree draws with replacement, of shape (trees, rows).

    Args:
        rows: The trials to draw from; a trial that occurs twice is drawn twice as often.
        trees: Number of trees.
        generator: Generator of the draws.
    """
    return rows[generator.integers(0, len(rows), size=(trees, len(rows)))]


def grow(grid: UnitGrid, values: Numbers, draws: Places) -> Forest:
    """A forest with a tree for each row of draws (Breiman 2001, "Random Forests").

    Every split tries all features.

    Args:
        grid: The trials on the grid.
        values: Value of each trial, of shape (trials,).
        draws: The trials from which each tree is grown, of shape (trees, drawn).
    """
    step = max(1, AT_A_TIME // len(values))
    groups = [draws[first : first + step] for first in range(0, len(draws), step)]
    parts = [_Growth(grid, values, group).forest() for group in groups]
    return Forest(
        low=np.concatenate([p.low for p in parts]),
        high=np.concatenate([p.high for p in parts]),
        value=np.concatenate([p.value for p in parts]),
        trees=len(draws),
        predictions=np.concatenate([p.predictions for p in parts]),
    )


@dataclass(frozen=True, slots=True)
class _Splits:
    """The splits of all nodes of a level; all fields are of shape (nodes,)."""

    divided: NDArray[np.bool_]
    feature: Places
    cell: Places
    mean: Numbers


class _Growth:
    """Trees that grow together, level by level: boxes of the current level and their trials.

    All trees are grown at once, so that each level needs a few NumPy calls only.
    """

    def __init__(self, grid: UnitGrid, values: Numbers, draws: Places) -> None:
        trees, trials = len(draws), len(values)
        self.grid = grid
        # Centred values keep digits: the squares of a large common offset would hide the gains.
        self.values = values - values.mean()
        self.origin = values.mean()
        # One number for tree and trial together, so that a single `bincount` counts all draws.
        flat = draws + trials * np.arange(trees)[:, np.newaxis]
        self.weight = np.bincount(flat.ravel(), minlength=trees * trials).astype(np.float64)
        self.predictions = np.zeros(trees * trials)
        self.member = np.arange(trees * trials)
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
        """The split of each node that minimises the sum of squares."""
        trial = self.member % len(self.values)
        weight = self.weight[self.member]
        product = weight * self.values[trial]
        count, total = (_sums(self.node, terms, len(self.low)) for terms in (weight, product))
        best = _Best(len(self.low))
        for feature, size in enumerate(self.grid.sizes):
            key = self.node * size + self.grid.cells[trial, feature]
            left, sums = (
                _sums(key, terms, len(count) * size).reshape(-1, size).cumsum(axis=1)[:, :-1]
                for terms in (weight, product)
            )
            best.try_feature(feature, left, sums, count, total)
        explained = total**2 / count
        # Rounding can make a useless split look better by a few bits: it must gain more than that.
        divided = best.gain > explained + ROUNDING * float(self.values @ self.values)
        return _Splits(divided, best.feature, best.cell, total / count)

    def _descend(self, splits: _Splits) -> None:
        """Store the nodes that are leaves, and replace the others by their two halves."""
        done = ~splits.divided
        self.leaves.append((self.low[done], self.high[done], splits.mean[done]))
        ended = done[self.node]
        self.predictions[self.member[ended]] = splits.mean[self.node[ended]]
        feature, cell = splits.feature[splits.divided], splits.cell[splits.divided]
        self.member, node = self.member[~ended], self.node[~ended]
        trial = self.member % len(self.values)
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
    """The best split of each node among the features tried so far."""

    def __init__(self, nodes: int) -> None:
        self.gain = np.full(nodes, -np.inf)
        self.feature = np.zeros(nodes, dtype=np.intp)
        self.cell = np.zeros(nodes, dtype=np.intp)

    def try_feature(
        self, feature: int, left: Numbers, sums: Numbers, count: Numbers, total: Numbers
    ) -> None:
        """Use the feature for the nodes in which it explains more.

        Args:
            feature: Number of the feature.
            left: Drawn trials of each node up to each cell, of shape (nodes, cells - 1).
            sums: Sums of their values, of the same shape.
            count: Drawn trials of each node, of shape (nodes,).
            total: Sums of their values, of shape (nodes,).
        """
        if not left.shape[1]:
            return
        right = count[:, np.newaxis] - left
        allowed = (left >= LEAST) & (right >= LEAST)
        # Empty sides divide by 0. Such splits are not allowed and are replaced below.
        with np.errstate(divide="ignore", invalid="ignore"):
            gain = sums**2 / left + (total[:, np.newaxis] - sums) ** 2 / right
        gain = np.where(allowed, gain, -np.inf)
        first = gain.argmax(axis=1)
        rows = np.arange(len(first))
        better = gain[rows, first] > self.gain
        # Empty cells between two cells with trials: the split is in their middle, as in CART.
        same = (left == left[rows, first][:, np.newaxis]).sum(axis=1)
        self.gain[better] = gain[rows, first][better]
        self.feature[better] = feature
        self.cell[better] = (first + 1 + (same - 1) // 2)[better]


def predict(forest: Forest, grid: UnitGrid, values: Numbers, cells: Places) -> ForestPrediction:
    """Mean and variance of the prediction of a forest at further points.

    The variance is that of a mixture with one part for each tree (Hutter et al. 2014, "Algorithm
    runtime prediction: Methods & evaluation", section 4.3.2): the mean of the variances in the leaves,
    plus the variance of the means of the leaves.

    Args:
        forest: The forest.
        grid: The trials from which it was grown.
        values: Value of each trial, of shape (trials,).
        cells: Cell of each point and parameter, of shape (points, parameters).
    """
    masks = _leaf_masks(forest, grid.sizes)
    trials = _leaves_of(masks, grid.cells, len(forest.value))
    count = np.maximum(trials.sum(axis=0), 1.0)
    means = (values @ trials) / count
    noise = np.maximum((values**2 @ trials) / count - means**2, 0.0)
    terms = np.stack([forest.value, forest.value**2 + noise], axis=1) / forest.trees
    inside = _leaves_of(masks, cells, len(forest.value))
    mean, square = (inside @ terms).T
    # A product of its own: the bits of the other two, and so all suggestions, stay as they were.
    between = inside @ (forest.value**2 / forest.trees) - mean**2
    return ForestPrediction(
        mean, np.maximum(square - mean**2, 0.0), np.asarray(np.maximum(between, 0.0))
    )


def _leaf_masks(forest: Forest, sizes: tuple[int, ...]) -> list[NDArray[np.uint8]]:
    """For each parameter, the leaves that hold each cell, of shape (cells, leaves / 8) as bits."""
    # Eight leaves in a byte: the membership of many points is then a few operations on bytes.
    return [
        np.packbits((low <= cell) & (cell < high), axis=1)
        for low, high, cell in (
            (forest.low[:, d], forest.high[:, d], np.arange(size)[:, np.newaxis])
            for d, size in enumerate(sizes)
        )
    ]


def _leaves_of(masks: Sequence[NDArray[np.uint8]], cells: Places, leaves: int) -> Numbers:
    """Whether each leaf holds each point, of shape (points, leaves), as 0 and 1."""
    inside = masks[0][cells[:, 0]]
    for d, mask in enumerate(masks[1:], 1):
        inside &= mask[cells[:, d]]
    return np.unpackbits(inside, axis=1, count=leaves).astype(np.float64)
