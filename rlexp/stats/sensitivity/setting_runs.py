"""The runs of every setting of an algorithm on every task, in an order that is theirs."""

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike, NDArray

from rlexp.stats.sensitivity.settings import order_of
from rlexp.stats.task_scores import TaskScores

Array = NDArray[np.float64]


@dataclass(frozen=True, slots=True)
class SettingRuns:
    """Runs in an order that is theirs: settings by their levels, tasks by their scores.

    Attributes:
        runs: Of all settings on all tasks where they ran, one after the other.
        there: Of shape (S, T): where they ran.
        levels: Of shape (S, p).
    """

    runs: TaskScores
    there: NDArray[np.bool_]
    levels: Array

    @classmethod
    def of(cls, table: Array, levels: Array) -> "SettingRuns":
        """Put runs of shape (S, T, n), NaN where there are fewer, in that order."""
        order = order_of(levels)
        ordered = np.sort(table[order], axis=-1)
        # Only so have equal scores equal bytes: NaN and 0 have several.
        ordered = np.where(np.isnan(ordered), np.nan, ordered) + 0.0
        tasks = sorted(range(table.shape[1]), key=lambda task: ordered[:, task].tobytes())
        ordered = ordered[:, tasks]
        counts = np.isfinite(ordered).sum(axis=-1)
        sizes = tuple(counts[counts > 0].tolist())
        return cls(TaskScores(ordered[np.isfinite(ordered)], sizes), counts > 0, levels[order])

    def without_spread(self) -> str | None:
        """Why no interval is possible, if none is."""
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
    """Mean score of each setting on each task, of shape (S, T), in any order of the runs.

    Args:
        runs: Of shape (S, T, n); NaN where there are fewer.
    """
    ordered = np.sort(np.asarray(runs, dtype=np.float64), axis=-1)
    counts = np.isfinite(ordered).sum(axis=-1)
    with np.errstate(over="ignore"):
        sums = np.nan_to_num(ordered).sum(axis=-1)
    return np.where(counts, sums / np.maximum(counts, 1), np.nan)


def resampled_means(runs: TaskScores) -> Callable[[NDArray[np.uint32]], Array]:
    """From the words of draws, of shape (rows, N), to the mean of each cell: (rows, cells).

    Here are more cells than `Draws` is made for, so what is the same for all draws is kept.
    """
    sizes = np.asarray(runs.sizes)
    starts = np.cumsum([0, *sizes[:-1]])
    spans, offsets = np.repeat(sizes, sizes), np.repeat(starts, sizes)

    def of(words: NDArray[np.uint32]) -> Array:
        drawn = words.astype(np.int64)
        drawn *= spans
        drawn >>= 32
        drawn += offsets
        return np.asarray(np.add.reduceat(runs.values[drawn], starts, axis=1) / sizes)

    return of
