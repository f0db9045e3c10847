"""Interquartile means of resampled learning curves, of which whole runs are drawn."""

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from rlexp.stats.aggregate import pooled_order, run_weights
from rlexp.stats.bootstrap_indices import Draws, blocks, draw, rows_of_block
from rlexp.stats.replicates import over_blocks, worthwhile_threads
from rlexp.stats.resampling import Resampling

Array = NDArray[np.float64]
Counts = NDArray[np.signedinteger]

TOGETHER = 4
"""Blocks of repetitions that are walked at a time, so that rows are long and calls are few."""


@dataclass(frozen=True, slots=True)
class OrderedRuns:
    """The runs of all tasks at one point, from the lowest to the highest.

    Attributes:
        values: Of shape (N,), ascending.
        weights: Of shape (N,): of the runs, in whole numbers.
        places: Of shape (N,): where each run stands, task by task.
    """

    values: Array
    weights: NDArray[np.int64]
    places: NDArray[np.intp]

    @classmethod
    def of(cls, values: Array, weights: NDArray[np.int64]) -> "OrderedRuns":
        """Order runs, of shape (N,) task by task, by score."""
        places = pooled_order(values, weights)
        return cls(values[places], weights[places], places)


def whole_run_replicates(
    curves: Array, sizes: tuple[int, ...], resampling: Resampling, *, threads: int | None = None
) -> Array:
    """Interquartile means at each point of resampled runs, drawn with their whole curves.

    A repetition draws n_j runs of each task, with replacement, and keeps them at every point. The
    runs are sorted once for each point; a repetition only counts how often each of them is drawn,
    and the middle half follows from the running sum of these counts: nothing is sorted again. The
    sums run over all repetitions of a block at once, in an order that does not depend on threads.

    Args:
        curves: Of shape (T, N): the runs of the first task, then those of the second, and so on.
        sizes: Runs of each task, m numbers that sum to N.
        resampling: Repetitions and seed.
        threads: Of the computation; by default one for each core where that pays.

    Returns:
        Of shape (T, repetitions).
    """
    weights = run_weights(sizes)
    points = [OrderedRuns.of(values, weights) for values in curves]

    def means(drawn: Counts) -> Array:
        room = np.empty((len(weights) + 1, drawn.shape[1]), drawn.dtype)
        return np.stack([middle_means(runs, drawn, room) for runs in points])

    return of_drawn_weights(means, len(points), sizes, resampling, threads=threads)


def of_drawn_weights(
    statistic: Callable[[Counts], Array],
    count: int,
    sizes: tuple[int, ...],
    resampling: Resampling,
    *,
    threads: int | None = None,
) -> Array:
    """What follows of resamples from how much the draws of each run weigh.

    Args:
        statistic: Of weights, of shape (N, rows), task by task, in the shape (count, rows).
        count: Its numbers for each repetition.
        sizes: Runs of each task, m numbers that sum to N.
        resampling: Repetitions and seed.
        threads: Of the computation; by default one for each core where that pays.

    Returns:
        Of shape (count, repetitions).
    """
    weights = run_weights(sizes)
    numbers = blocks(sum(sizes), resampling)
    rows = rows_of_block(sum(sizes))
    found = np.empty((count, resampling.repetitions))

    def fill(group: int) -> None:
        first = group * TOGETHER
        own = numbers[first : first + TOGETHER]
        drawn = np.hstack([drawn_weights(draw(sizes, resampling, b), weights) for b in own])
        found[:, first * rows : first * rows + drawn.shape[1]] = statistic(drawn)

    groups = range(-(-len(numbers) // TOGETHER))
    over_blocks(fill, groups, threads or worthwhile_threads(found.size * len(weights)))
    return found


def drawn_weights(draws: Draws, weights: NDArray[np.int64]) -> Counts:
    """What the draws of each run weigh: of shape (N, rows), in the smallest type that holds all.

    Args:
        draws: Of shape (rows, N).
        weights: Of shape (N,): of each run, task by task.
    """
    rows, n = draws.words.shape
    cells = draws.positions * rows + np.arange(rows)[:, np.newaxis]
    counted = np.bincount(cells.ravel(), minlength=n * rows).reshape(n, rows)
    whole = np.min_scalar_type(-int(weights.sum()))
    return (counted * weights[:, np.newaxis]).astype(whole)


def middle_means(runs: OrderedRuns, drawn: Counts, above: Counts) -> Array:
    """Mean of the middle half of the drawn runs, of shape (rows,), as `interquartile_mean` has it.

    Args:
        runs: N of them.
        drawn: Of shape (N, rows), task by task: what the draws of each run weigh.
        above: Of shape (N + 1, rows), overwritten: for each run what the drawn ones from it on
            weigh, short of the quarter that is dropped at the top.
    """
    total = int(runs.weights.sum())
    quarter = total // 4
    middle = total - 2 * quarter
    above[0] = total - quarter
    for rank, place in enumerate(runs.places):
        np.subtract(above[rank], drawn[place], out=above[rank + 1])
    # A value is that of a run in the middle and the steps from there: each step counts for what
    # lies beyond it. A run far away that is cut adds nothing, so no digit is lost to it.
    centre = len(runs.values) // 2
    kept = np.clip(above[1:-1], 0, middle)
    kept[:centre] -= middle
    summed = np.einsum("i,ib->b", np.diff(runs.values), kept)
    return np.asarray(runs.values[centre] + summed / middle)
