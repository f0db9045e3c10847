"""Tuned scores if only some of the parameters are re-tuned on each task."""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

Array = NDArray[np.float64]

ROUNDING = 1e-12
"""Scores that differ by no more than this fraction of the largest count as equal."""


@dataclass(frozen=True, slots=True)
class NestedSettings:
    """The complete settings, grouped by the parameters in which they differ from the best one.

    Attributes:
        rows: Complete settings, sorted by mask, of shape (S',).
        starts: First index of each mask among the rows, of shape (M,).
        masks: Distinct masks, ascending, of shape (M,); bit i is set if parameter i differs.
        parameters: Number of parameters p.
    """

    rows: NDArray[np.intp]
    starts: NDArray[np.intp]
    masks: NDArray[np.int64]
    parameters: int


@dataclass(frozen=True, slots=True)
class Retuned:
    """Tuned scores for k = 0 … p re-tuned parameters, (…, p + 1), and the masks of the subsets."""

    scores: Array
    masks: NDArray[np.int64]


def nest_settings(levels: Array, complete: NDArray[np.bool_], best: int) -> NestedSettings:
    """The complete settings by their differences from the best one; levels of shape (S, p)."""
    parameters = levels.shape[1]
    rows = np.flatnonzero(complete)
    differs = levels[rows] != levels[best]
    masks = differs @ (1 << np.arange(parameters, dtype=np.int64))
    order = np.argsort(masks, kind="stable")
    unique, starts = np.unique(masks[order], return_index=True)
    return NestedSettings(rows[order], starts, unique, parameters)


def retuned_scores(scores: Array, grid: NestedSettings) -> Retuned:
    """Tuned scores if k = 0 … p parameters are re-tuned on each task; scores (…, S, T)."""
    count = grid.parameters
    by_subset = _subset_scores(scores, grid)
    sizes = np.array([mask.bit_count() for mask in range(2**count)])
    chosen = np.stack([_best_of_size(by_subset, sizes == k) for k in range(count + 1)], axis=-1)
    values = np.take_along_axis(by_subset, chosen, axis=-1)
    # With all parameters re-tuned, settings that ran on some tasks only count too.
    tops = np.fmax.reduce(scores, axis=-2)
    values[..., -1] = task_mean(tops)
    return Retuned(values, chosen)


def task_mean(scores: Array) -> Array:
    """Mean over the last axis, summed in the order of the scores: the task order is irrelevant."""
    return np.asarray(np.sort(scores, axis=-1).mean(axis=-1))


def reaches_share(curve: Array, share: float) -> NDArray[np.bool_]:
    """Mask of the scores, of shape (…, p + 1), that reach a share of the last score."""
    goal = share * curve[..., -1:]
    return np.asarray(curve >= goal - ROUNDING * np.abs(goal))


def _subset_scores(scores: Array, grid: NestedSettings) -> Array:
    """Tuned score of every subset of parameters, by its mask, of shape (…, 2^p)."""
    count, tasks = grid.parameters, scores.shape[-1]
    tops = np.maximum.reduceat(scores[..., grid.rows, :], grid.starts, axis=-2)
    table = np.full((*scores.shape[:-2], 2**count, tasks), -np.inf)
    table[..., grid.masks, :] = tops
    for bit in range(count):
        # A subset with the parameter includes all settings of the same subset without it. Taking
        # the maximum parameter by parameter visits 2^p subsets p times, not all pairs of them.
        pairs = table.reshape(*scores.shape[:-2], -1, 2, 2**bit, tasks)
        np.maximum(pairs[..., 1, :, :], pairs[..., 0, :, :], out=pairs[..., 1, :, :])
    return task_mean(table)


def _best_of_size(by_subset: Array, of_size: NDArray[np.bool_]) -> NDArray[np.int64]:
    masks = np.flatnonzero(of_size)
    return np.asarray(masks[np.argmax(by_subset[..., masks], axis=-1)])
