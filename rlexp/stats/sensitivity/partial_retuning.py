"""Tuned scores where only some parameters are re-tuned on each task."""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

Array = NDArray[np.float64]

ROUNDING = 1e-12
"""Scores that differ by no more than this share of the largest are equal."""


@dataclass(frozen=True, slots=True)
class Nested:
    """The complete settings, by the parameters in which they differ from a best one.

    Attributes:
        rows: Of shape (S',): complete settings, those with equal masks together.
        starts: Of shape (M,): where each mask begins among them.
        masks: Of shape (M,): bit i says that parameter i differs, rising.
        parameters: p.
    """

    rows: NDArray[np.intp]
    starts: NDArray[np.intp]
    masks: NDArray[np.int64]
    parameters: int


@dataclass(frozen=True, slots=True)
class Retuned:
    """Scores of shape (…, p + 1) and the masks of the subsets that reach them, likewise."""

    scores: Array
    masks: NDArray[np.int64]


def nested(levels: Array, complete: NDArray[np.bool_], best: int) -> Nested:
    """Sort the complete settings by their differences from the best; levels of shape (S, p)."""
    parameters = levels.shape[1]
    rows = np.flatnonzero(complete)
    differs = levels[rows] != levels[best]
    masks = differs @ (1 << np.arange(parameters, dtype=np.int64))
    order = np.argsort(masks, kind="stable")
    unique, starts = np.unique(masks[order], return_index=True)
    return Nested(rows[order], starts, unique, parameters)


def retuned(scores: Array, grid: Nested) -> Retuned:
    """Tuned scores where k = 0 … p parameters are re-tuned on each task; scores (…, S, T)."""
    count = grid.parameters
    found = _of_subsets(scores, grid)
    sizes = np.array([mask.bit_count() for mask in range(2**count)])
    chosen = np.stack([_best_of_size(found, sizes == k) for k in range(count + 1)], axis=-1)
    values = np.take_along_axis(found, chosen, axis=-1)
    tops = np.fmax.reduce(scores, axis=-2)
    values[..., -1] = task_mean(tops)
    return Retuned(values, chosen)


def task_mean(scores: Array) -> Array:
    """Mean over the last axis, in an order that is that of the scores, not of the tasks."""
    return np.asarray(np.sort(scores, axis=-1).mean(axis=-1))


def reached(curve: Array, share: float) -> NDArray[np.bool_]:
    """Which of the scores, of shape (…, p + 1), reach the share of the last one."""
    goal = share * curve[..., -1:]
    return np.asarray(curve >= goal - ROUNDING * np.abs(goal))


def _of_subsets(scores: Array, grid: Nested) -> Array:
    """Tuned score of every subset of parameters, by its mask: of shape (…, 2^p)."""
    count, tasks = grid.parameters, scores.shape[-1]
    tops = np.maximum.reduceat(scores[..., grid.rows, :], grid.starts, axis=-2)
    table = np.full((*scores.shape[:-2], 2**count, tasks), -np.inf)
    table[..., grid.masks, :] = tops
    for bit in range(count):
        # A subset with a parameter has every setting that the one without it has.
        pairs = table.reshape(*scores.shape[:-2], -1, 2, 2**bit, tasks)
        np.maximum(pairs[..., 1, :, :], pairs[..., 0, :, :], out=pairs[..., 1, :, :])
    return task_mean(table)


def _best_of_size(found: Array, chosen: NDArray[np.bool_]) -> NDArray[np.int64]:
    masks = np.flatnonzero(chosen)
    return np.asarray(masks[np.argmax(found[..., masks], axis=-1)])
