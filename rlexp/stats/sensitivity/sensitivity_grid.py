"""The runs of every setting of an algorithm on every task, in a canonical order."""

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike, NDArray

from rlexp.stats.sensitivity.settings import order_of
from rlexp.stats.task_scores import TaskScores

Array = NDArray[np.float64]


@dataclass(frozen=True, slots=True)
class SettingRuns:
    """Runs in a canonical order: settings sorted by their levels, tasks by their scores.

    Equal data in any order then give equal resamples and equal results.

    Attributes:
        runs: Runs of all settings and tasks with runs, one cell after the other.
        there: Mask of the settings and tasks with runs, of shape (S, T).
        levels: Of shape (S, p).
    """

    runs: TaskScores
    there: NDArray[np.bool_]
    levels: Array

    @classmethod
    def of(cls, table: Array, levels: Array) -> "SettingRuns":
        """The runs of a table of shape (S, T, n), NaN where a cell has fewer, in that order."""
        order = order_of(levels)
        ordered = np.sort(table[order], axis=-1)
        # Tasks are sorted by their bytes. NaN and 0 have several bit patterns each: this gives
        # equal scores equal bytes.
        ordered = np.where(np.isnan(ordered), np.nan, ordered) + 0.0
        tasks = sorted(range(table.shape[1]), key=lambda task: ordered[:, task].tobytes())
        ordered = ordered[:, tasks]
        counts = np.isfinite(ordered).sum(axis=-1)
        sizes = tuple(counts[counts > 0].tolist())
        return cls(TaskScores(ordered[np.isfinite(ordered)], sizes), counts > 0, levels[order])

    def without_spread(self) -> str | None:
        """The reason why no interval is possible; None if one is."""
        alone, all_ = self.runs.sizes.count(1), len(self.runs.sizes)
        if alone:
            return (
                f"{alone} of {all_} settings and tasks {'has' if alone == 1 else 'have'} one run, "
                "which shows no spread"
            )
        if all(np.ptp(cell) == 0 for cell in self.runs.by_task()):
            return "all runs of each setting on a task are equal"
        return None

    @property
    def complete(self) -> NDArray[np.bool_]:
        """Settings that ran on every task, of shape (S,)."""
        return np.asarray(self.there.all(axis=1))


def means(runs: ArrayLike) -> Array:
    """Mean score of each setting on each task, of shape (S, T); the run order is irrelevant.

    Args:
        runs: Of shape (S, T, n); NaN where a cell has fewer runs.
    """
    ordered = np.sort(np.asarray(runs, dtype=np.float64), axis=-1)
    counts = np.isfinite(ordered).sum(axis=-1)
    with np.errstate(over="ignore"):
        sums = np.nan_to_num(ordered).sum(axis=-1)
    return np.where(counts, sums / np.maximum(counts, 1), np.nan)


def resampled_means(runs: TaskScores) -> Callable[[NDArray[np.uint32]], Array]:
    """A function from the bits of draws, (rows, N), to the mean of each cell, (rows, cells).

    It computes the same positions as `Draws`. As there can be thousands of cells, it prepares
    everything that is equal for all draws once.
    """
    sizes = np.asarray(runs.sizes)
    starts = np.cumsum([0, *sizes[:-1]])
    spans, offsets = np.repeat(sizes, sizes), np.repeat(starts, sizes)

    def cell_means(bits: NDArray[np.uint32]) -> Array:
        drawn = bits.astype(np.int64)
        drawn *= spans
        drawn >>= 32
        drawn += offsets
        return np.asarray(np.add.reduceat(runs.values[drawn], starts, axis=1) / sizes)

    return cell_means
