"""Interquartile means of resampled learning curves: whole runs are drawn."""

from collections.abc import Callable
from dataclasses import dataclass
from functools import lru_cache

import numpy as np
from numpy.typing import NDArray

from rlexp.stats.aggregate import Cut, pooled_order, run_weights
from rlexp.stats.block_threads import run_blocks, worthwhile_threads
from rlexp.stats.bootstrap_indices import Draws, blocks, draw, rows_of_block
from rlexp.stats.resampling import Resampling

Array = NDArray[np.float64]
Counts = NDArray[np.signedinteger]

TOGETHER = 4
"""Blocks of repetitions that are processed together: long rows need fewer NumPy calls."""
MOST_SHARED = 4_000_000
"""Most drawn runs that are kept for the next curve."""


@dataclass(frozen=True, slots=True)
class OrderedRuns:
    """The runs of all tasks at one point of the curves, sorted from lowest to highest.

    Attributes:
        values: Of shape (N,), ascending.
        weights: Integer weight of each run, of shape (N,).
        positions: Position of each run in the order task by task, of shape (N,).
    """

    values: Array
    weights: NDArray[np.int64]
    positions: NDArray[np.intp]

    @classmethod
    def of(cls, values: Array, weights: NDArray[np.int64]) -> "OrderedRuns":
        """Sort runs, given task by task in shape (N,), by score."""
        order = pooled_order(values, weights)
        return cls(values[order], weights[order], order)


def resampled_curves(
    curves: Array,
    sizes: tuple[int, ...],
    resampling: Resampling,
    *,
    cut: Cut = "exact",
    threads: int | None = None,
) -> Array:
    """Interquartile means, at each point, of resampled runs that are drawn with whole curves.

    A repetition draws n_j runs of each task with replacement and uses them at every point. The
    runs are sorted once for each point. A repetition counts how often each run is drawn, and the
    running sum of these counts gives the middle half: no repetition is sorted. The order of
    summation does not depend on the number of threads.

    Args:
        curves: Of shape (T, N): the runs of the first task, then those of the second, and so on.
        sizes: Runs of each task, m numbers that sum to N.
        resampling: Repetitions and seed.
        cut: The cut of the interquartile mean.
        threads: Number of threads; by default one per core if there is enough work.

    Returns:
        Of shape (T, repetitions).
    """
    weights = run_weights(sizes, cut)
    points = [OrderedRuns.of(values, weights) for values in curves]

    def means(drawn: Counts) -> Array:
        room = np.empty((len(weights) + 1, drawn.shape[1]), drawn.dtype)
        return np.stack([middle_means(runs, drawn, room) for runs in points])

    return statistic_of_drawn_weights(
        means, len(points), weights, sizes, resampling, threads=threads
    )


def statistic_of_drawn_weights(
    statistic: Callable[[Counts], Array],
    count: int,
    weights: NDArray[np.int64],
    sizes: tuple[int, ...],
    resampling: Resampling,
    *,
    threads: int | None = None,
) -> Array:
    """Values of a statistic of resamples that depends on the drawn weight of each run only.

    Args:
        statistic: Maps weights of shape (N, rows), task by task, to values of shape (count, rows).
        count: Number of values for each repetition.
        weights: Integer weight of each run, task by task, of shape (N,).
        sizes: Runs of each task, m numbers that sum to N.
        resampling: Repetitions and seed.
        threads: Number of threads; by default one per core if there is enough work.

    Returns:
        Of shape (count, repetitions).
    """
    numbers = blocks(sum(sizes), resampling)
    rows = rows_of_block(sum(sizes))
    values = np.empty((count, resampling.repetitions))

    shared = resampling.repetitions * len(weights) <= MOST_SHARED
    of_group = _shared_weights if shared else _shared_weights.__wrapped__

    def fill(group: int) -> None:
        first = group * TOGETHER
        members = numbers[first : first + TOGETHER]
        drawn = of_group(sizes, resampling, tuple(weights.tolist()), members, rows)
        values[:, first * rows : first * rows + drawn.shape[1]] = statistic(drawn)

    groups = range(-(-len(numbers) // TOGETHER))
    run_blocks(fill, groups, threads or worthwhile_threads(values.size * len(weights)))
    return values


@lru_cache(maxsize=128)
def _shared_weights(
    sizes: tuple[int, ...],
    resampling: Resampling,
    weights: tuple[int, ...],
    members: range,
    _: int,
) -> Counts:
    """The drawn weights of some blocks, of shape (N, rows); labels with as many runs share them.

    The last argument is the number of repetitions in a block, on which the draws depend.
    """
    of_runs = np.asarray(weights)
    drawn = np.hstack([drawn_weights(draw(sizes, resampling, b), of_runs) for b in members])
    drawn.setflags(write=False)
    return drawn


def drawn_weights(draws: Draws, weights: NDArray[np.int64]) -> Counts:
    """Weight of each run times its number of draws, of shape (N, rows).

    Args:
        draws: Of shape (rows, N).
        weights: Weight of each run, task by task, of shape (N,).
    """
    rows, n = draws.bits.shape
    cells = draws.positions * rows + np.arange(rows)[:, np.newaxis]
    counted = np.bincount(cells.ravel(), minlength=n * rows).reshape(n, rows)
    # The smallest signed type that holds the total: less memory traffic, and still exact.
    smallest = np.min_scalar_type(-int(weights.sum()))
    return (counted * weights[:, np.newaxis]).astype(smallest)


def middle_means(runs: OrderedRuns, drawn: Counts, above: Counts) -> Array:
    """Interquartile mean of the drawn runs, of shape (rows,), as in `interquartile_mean`.

    Args:
        runs: The N runs, sorted.
        drawn: Drawn weight of each run, task by task, of shape (N, rows).
        above: Buffer of shape (N + 1, rows), overwritten: for each run the drawn weight from that
            run upwards, less the quarter that is cut at the top.
    """
    total = int(runs.weights.sum())
    quarter = total // 4
    middle = total - 2 * quarter
    above[0] = total - quarter
    for rank, position in enumerate(runs.positions):
        np.subtract(above[rank], drawn[position], out=above[rank + 1])
    # The mean is the value of the central run plus the steps between neighbouring runs, each
    # weighted by the kept weight beyond it. An outlier that is cut has weight 0, so that its size
    # costs no digit of the result.
    centre = len(runs.values) // 2
    kept = np.clip(above[1:-1], 0, middle)
    kept[:centre] -= middle
    summed = np.einsum("i,ib->b", np.diff(runs.values), kept)
    return np.asarray(runs.values[centre] + summed / middle)
