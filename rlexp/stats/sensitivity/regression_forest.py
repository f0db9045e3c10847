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
CELLS_AT_A_TIME = 50_000
"""Cells of all nodes and features in which splits are sought together: they fit into a cache."""
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
    """

    mean: Numbers
    variance: Numbers


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
        best = _Best(count, total)
        # Deep levels have many nodes that are too small for two leaves: they need no sums.
        large = count >= 2 * LEAST
        drawn = (weight > 0) & large[self.node]
        node, trial = (np.cumsum(large) - 1)[self.node[drawn]], trial[drawn]
        parts = _Best(count[large], total[large])
        cells, terms = self.grid.cells[trial], (weight[drawn], product[drawn])
        # Features of few cells are padded with empty ones: many features are then one NumPy call.
        width = max(self.grid.sizes)
        step = max(1, CELLS_AT_A_TIME // (width * max(1, len(parts.count))))
        for first in range(0, len(self.grid.sizes), step):
            some = cells[:, first : first + step]
            parts.try_features(first, *_cumulated(node, some, terms, len(parts.count), width))
        best.gain[large], best.feature[large], best.cell[large] = (
            parts.gain,
            parts.feature,
            parts.cell,
        )
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


def _cumulated(
    node: Places, cells: Places, terms: Sequence[Numbers], nodes: int, width: int
) -> tuple[Numbers, Numbers]:
    """Sums of two terms of the drawn trials up to each cell, of shape (nodes, features, cells - 1)."""
    features = cells.shape[1]
    key = ((node[:, np.newaxis] * features + np.arange(features)) * width + cells).ravel()
    left, sums = (
        _sums(key, np.repeat(term, features), nodes * features * width)
        .reshape(nodes, features, width)
        .cumsum(axis=2)[:, :, :-1]
        for term in terms
    )
    return left, sums


def _sums(key: Places, weight: Numbers, count: int) -> Numbers:
    return np.asarray(np.bincount(key, weight, count), dtype=np.float64)


class _Best:
    """The best split of each node among the features tried so far.

    Args:
        count: Drawn trials of each node, of shape (nodes,).
        total: Sums of their values, of shape (nodes,).
    """

    def __init__(self, count: Numbers, total: Numbers) -> None:
        self.count, self.total = count, total
        self.gain = np.full(len(count), -np.inf)
        self.feature = np.zeros(len(count), dtype=np.intp)
        self.cell = np.zeros(len(count), dtype=np.intp)

    def try_features(self, first: int, left: Numbers, sums: Numbers) -> None:
        """Use the best of some features for the nodes in which it explains more.

        Args:
            first: Number of the first of these features.
            left: Drawn trials of each node up to each cell, of shape (nodes, features, cells - 1).
            sums: Sums of their values, of the same shape.
        """
        if not left.size:
            return
        gain = self._gains(left, sums)
        split = gain.argmax(axis=2)
        highest = np.take_along_axis(gain, split[:, :, np.newaxis], 2)[:, :, 0]
        # Of equal features, the first one.
        feature = highest.argmax(axis=1)
        rows = np.arange(len(feature))
        cell = split[rows, feature]
        # Empty cells between two cells with trials: the split is in their middle, as in CART.
        of_feature = left[rows, feature]
        same = (of_feature == of_feature[rows, cell][:, np.newaxis]).sum(axis=1)
        better = highest[rows, feature] > self.gain
        self.gain[better] = highest[rows, feature][better]
        self.feature[better] = first + feature[better]
        self.cell[better] = (cell + 1 + (same - 1) // 2)[better]

    def _gains(self, left: Numbers, sums: Numbers) -> Numbers:
        """What each split explains; −∞ where a side would have too few trials."""
        right = self.count[:, np.newaxis, np.newaxis] - left
        # Empty sides divide by 0. Such splits are not allowed and are replaced below.
        with np.errstate(divide="ignore", invalid="ignore"):
            gain = sums * sums
            gain /= left
            others = self.total[:, np.newaxis, np.newaxis] - sums
            others *= others
            others /= right
            gain += others
        gain[(left < LEAST) | (right < LEAST)] = -np.inf
        return gain


@dataclass(frozen=True, slots=True)
class ForestPredictor:
    """Mean and variance of the prediction of a forest at any points.

    The variance is that of a mixture with one part for each tree (Hutter et al. 2014, "Algorithm
    runtime prediction: Methods & evaluation", section 4.3.2): the mean of the variances in the leaves,
    plus the variance of the means of the leaves.

    Attributes:
        masks: For each parameter, the leaves that hold each cell, of shape (cells, leaves / 8) as bits.
        terms: Share of each leaf in the mean and in the mean square, of shape (leaves, 2).
        squares: Share of each leaf in the mean square of the trees, of shape (leaves,).
    """

    masks: Sequence[NDArray[np.uint8]]
    terms: Numbers
    squares: Numbers

    @classmethod
    def of(cls, forest: Forest, grid: UnitGrid, values: Numbers) -> Self:
        """The predictor of a forest.

        Args:
            forest: The forest.
            grid: The trials from which it was grown.
            values: Value of each trial, of shape (trials,).
        """
        masks = _leaf_masks(forest, grid.sizes)
        trials = _leaves_of(masks, grid.cells, len(forest.value))
        count = np.maximum(trials.sum(axis=0), 1.0)
        means = (values @ trials) / count
        noise = np.maximum((values**2 @ trials) / count - means**2, 0.0)
        terms = np.stack([forest.value, forest.value**2 + noise], axis=1) / forest.trees
        return cls(masks, terms, forest.value**2 / forest.trees)

    def predict(self, cells: Places) -> ForestPrediction:
        """The prediction at points, given by the cell of each point and parameter."""
        mean, square = (_leaves_of(self.masks, cells, len(self.terms)) @ self.terms).T
        return ForestPrediction(mean, np.maximum(square - mean**2, 0.0))

    def between_trees(self, cells: Places) -> Numbers:
        """The part of the variance between the trees, of shape (points,)."""
        inside = _leaves_of(self.masks, cells, len(self.terms))
        return np.asarray(
            np.maximum(inside @ self.squares - (inside @ self.terms[:, 0]) ** 2, 0.0)
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
