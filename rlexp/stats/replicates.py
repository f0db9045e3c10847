"""Values of statistics on resampled runs: the same bytes on one thread or many."""

import os
import warnings
from collections.abc import Callable, Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from functools import cache
from importlib.util import find_spec
from threading import Event

import numpy as np
from numpy.typing import NDArray

from rlexp.stats.aggregate import Aggregate, Statistic, aggregate_of, pooled_order, run_weights
from rlexp.stats.bootstrap_indices import BLOCK, Draws, blocks, distinct_draws, draw, rows_of_block
from rlexp.stats.resampling import Resampling
from rlexp.stats.task_scores import TaskScores

BITS = 61
"""Of a weighted score as a whole number, more than a float holds; sums of all stay below 2⁶³."""


TYPICAL = 2.0**20
"""As much larger than half of the others a score may be: 40 bits of these are kept."""


LEAST = 2.0**30
"""As much larger than any other: 30 bits are kept of each."""


def fits(scores: TaskScores) -> bool:
    """Whether scores, of shape (N,), are near enough in size for whole numbers of one unit.

    One far away sets the unit, in which the digits of all others would be lost.
    """
    size = np.abs(scores.values)
    some = size[size > 0]
    if not len(some):
        return True
    return bool(some.max() <= min(TYPICAL * np.median(some), LEAST * some.min()))


Integers = NDArray[np.int64]


Array = NDArray[np.float64]


@dataclass(frozen=True, slots=True)
class TaskSums:
    """Scores, each weighted by 1/(m n_j), as whole numbers of a tiny unit.

    Attributes:
        values: Of shape (N,), task by task.
        exponent: The unit is 2 to this power.
    """

    values: Integers
    exponent: int

    @classmethod
    def of(cls, scores: TaskScores) -> "TaskSums":
        """Round the weighted scores, of shape (N,)."""
        runs_beside = len(scores.sizes) * np.repeat(scores.sizes, scores.sizes)
        exponent = int(np.frexp(np.abs(scores.values).max())[1]) - BITS
        values = np.rint(np.ldexp(scores.values / runs_beside, -exponent))
        return cls(values.astype(np.int64), exponent)

    def mean(self, draws: Draws) -> Array:
        """Mean of the tasks' means, of shape (rows,)."""
        return self.scaled(self.values.take(draws.positions).sum(axis=-1))

    def median(self, draws: Draws) -> Array:
        """Median of the tasks' means, of shape (rows,)."""
        sums = np.add.reduceat(self.values.take(draws.positions), draws.starts, axis=-1)
        return np.asarray(np.median(self.scaled(sums), axis=-1) * len(draws.sizes))

    def scaled(self, sums: Integers) -> Array:
        """Sums in the unit of the scores."""
        return np.asarray(np.ldexp(sums.astype(np.float64), self.exponent))


Sums = Callable[..., None]


@cache
def compiled() -> Sums | None:
    """`count_and_walk`, compiled; nothing where numba is missing or does not work here."""
    if find_spec("numba") is None:
        return None
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        # The second time without a cache: no folder for it may be writable.
        return _compiled(cache=True) or _compiled(cache=False)


@dataclass(frozen=True, slots=True)
class PooledRuns:
    """Runs of all tasks in the order of their scores, for interquartile means.

    Attributes:
        ranks: Of shape (N,), task by task: the place of each run in that order.
        weights: Of shape (N,), in that order: whole numbers.
        sums: Weighted scores, in that order.
        compiled: What sums them, where that pays.
    """

    ranks: NDArray[np.int32]
    weights: Integers
    sums: TaskSums
    compiled: Sums | None

    @classmethod
    def of(cls, scores: TaskScores, compiled: Sums | None) -> "PooledRuns":
        """Sort scores of shape (N,), once for all repetitions."""
        weights = run_weights(scores.sizes)
        order = pooled_order(scores.values, weights)
        ranks = np.argsort(order).astype(np.int32)
        sums = TaskSums.of(scores)
        return cls(ranks, weights[order], TaskSums(sums.values[order], sums.exponent), compiled)

    def interquartile_mean(self, draws: Draws) -> Array:
        """Interquartile mean of all runs, of shape (rows,)."""
        middle = self._walked(draws) if self.compiled else self._sorted(draws)
        total, low, below, high, above = middle
        kept = total - self._parts(low, below) - self._parts(high, above)
        weight = int(self.weights.sum())
        return np.asarray(self.sums.scaled(kept) / ((weight - 2 * self.quarter) / weight))

    @property
    def quarter(self) -> int:
        """The weight that is cut at each end."""
        return int(self.weights.sum()) // 4

    def _parts(self, places: Integers, cut: Integers) -> Integers:
        """Contributions of what is cut of the runs at some places, of shape (rows,)."""
        shares = cut / self.weights.take(places)
        return np.rint(shares * self.sums.values.take(places)).astype(np.int64)

    def _walked(self, draws: Draws) -> Integers:
        found = np.empty((5, len(draws.words)), np.int64)
        sizes = np.asarray(draws.sizes, np.int64)
        assert self.compiled is not None
        self.compiled(
            draws.words, sizes, self.ranks, self.weights, self.sums.values, self.quarter, found
        )
        return found

    def _sorted(self, draws: Draws) -> Integers:
        """What `compiled.count_and_walk` writes, of shape (5, rows)."""
        ranks = self.ranks.take(draws.positions)
        ranks.sort(axis=-1)
        if len(set(draws.sizes)) > 1:
            return self._weighed(ranks)
        found = np.zeros((5, len(ranks)), np.int64)
        middle = ranks[:, self.quarter : len(self.weights) - self.quarter]
        found[0] = self.sums.values.take(middle).sum(axis=-1)
        return found

    def _weighed(self, ranks: NDArray[np.int32]) -> Integers:
        """The same of runs that weigh differently, of shape (rows, N), in their order."""
        weights = self.weights.take(ranks)
        above = np.cumsum(weights, axis=-1) - self.quarter
        below = self.weights.sum() - 2 * self.quarter - above + weights
        inside = (above > 0) & (below > 0)
        total = (self.sums.values.take(ranks) * inside).sum(axis=-1)
        rows = np.arange(len(ranks))
        low = (rows, inside.argmax(axis=-1))
        high = (rows, inside.shape[1] - 1 - inside[:, ::-1].argmax(axis=-1))
        cut = (weights - above)[low], (weights - below)[high]
        return np.stack([total, ranks[low], cut[0], ranks[high], cut[1]])


SIGNATURE = (
    "void(uint32[:,::1], int64[::1], int32[::1], int64[::1], int64[::1], int64, int64[:,::1])"
)


WORTH_COMPILING = 6_000_000
"""Drawn runs from which on the kernel soon saves the time that it takes to import and compile."""


def count_and_walk(
    words: NDArray[np.uint32],
    sizes: Integers,
    ranks: NDArray[np.int32],
    weights: Integers,
    contributions: Integers,
    quarter: int,
    sums: Integers,
) -> None:
    """Sum the middle half of the runs that each row draws.

    The runs are sorted once. Each row counts how often it draws each of them, and walks the counts
    from both ends until the next run weighs more than is left of the quarter to cut: no row is
    sorted, and whole numbers sum to the same in any order.

    Args:
        words: Of shape (rows, N): random 32-bit words; each draws a run of its task.
        sizes: Of shape (m,): runs of each task.
        ranks: Of shape (N,): place of each run, task by task, in the order of scores.
        weights: Of shape (N,), in the order of scores.
        contributions: Of shape (N,), in the order of scores: weighted scores.
        quarter: What is cut at each end weighs this.
        sums: Of shape (5, rows), written: contributions of the runs that are not cut whole, the
            place of the lowest of them and what of its weight is cut, and those of the highest.
    """
    counts = np.zeros(len(ranks), np.int64)
    for row in range(len(words)):
        counts[:] = 0
        drawn = words[row]
        start = np.uint64(0)
        for size in sizes:
            end = start + np.uint64(size)
            for cell in range(start, end):
                run = start + ((np.uint64(drawn[cell]) * np.uint64(size)) >> np.uint64(32))
                counts[ranks[run]] += 1
            start = end
        low, room = np.uint64(0), quarter
        while counts[low] * weights[low] <= room:
            room -= counts[low] * weights[low]
            low += np.uint64(1)
        counts[low] -= room // weights[low]
        sums[1, row], sums[2, row] = np.int64(low), room % weights[low]
        high, room = np.uint64(len(counts) - 1), quarter
        while counts[high] * weights[high] <= room:
            room -= counts[high] * weights[high]
            high -= np.uint64(1)
        counts[high] -= room // weights[high]
        sums[3, row], sums[4, row] = np.int64(high), room % weights[high]
        total = np.int64(0)
        for place in range(low, high + np.uint64(1)):
            total += counts[place] * contributions[place]
        sums[0, row] = total


def kernel(cells: int) -> Sums | None:
    """The compiled `count_and_walk`, where there is one and so many drawn runs are worth it."""
    return compiled() if cells >= WORTH_COMPILING else None


def _compiled(*, cache: bool) -> Sums | None:
    try:
        from numba import njit

        made: Sums = njit(SIGNATURE, nogil=True, cache=cache)(count_and_walk)
    except Exception:  # noqa: BLE001 - numba refuses what it does not know in many ways
        return None
    return made


Evaluation = Callable[[Draws], Array]


WORTH_THREADS = 2_000_000
"""Drawn runs from which on threads save more time than they take to start."""


def replicates(
    scores: TaskScores,
    statistics: Mapping[str, Statistic],
    resampling: Resampling,
    *,
    threads: int | None = None,
) -> dict[str, Array]:
    """Statistics of resamples of the runs, drawn with replacement within each task.

    Tasks are fixed (stratified bootstrap: Agarwal et al. 2021), and all statistics see the same
    resamples. Memory is that of a block of them for each thread.

    Args:
        scores: Of shape (N,).
        statistics: By name.
        resampling: Says how many, from which seed.
        threads: Of the computation; by default one for each core where that pays.

    Returns:
        An array of shape (repetitions,) for each statistic.
    """
    if all(_is_exact(statistic, scores) for statistic in statistics.values()):
        few = distinct_draws(scores.sizes, resampling)
        if few is not None:
            return {
                k: _evaluation(s, scores, None)(few.draws)[few.places]
                for k, s in statistics.items()
            }
    cells = resampling.repetitions * scores.n
    sums = kernel(cells)
    evaluations = {name: _evaluation(s, scores, sums) for name, s in statistics.items()}
    found = {name: np.empty(resampling.repetitions) for name in statistics}
    rows = rows_of_block(scores.n)
    _keep_freed_memory()

    def fill(block: int) -> None:
        draws = draw(scores.sizes, resampling, block)
        for name, evaluate in evaluations.items():
            found[name][block * rows : (block + 1) * rows] = evaluate(draws)

    over_blocks(fill, blocks(scores.n, resampling), threads or worthwhile_threads(cells))
    return found


def over_blocks(work: Callable[[int], None], numbers: range, threads: int) -> None:
    """Do the work of every block; NumPy and compiled kernels let threads run side by side."""
    stopped = Event()

    def each(own: range) -> None:
        try:
            for number in own:
                if stopped.is_set():
                    return
                work(number)
        except BaseException:
            stopped.set()
            raise

    if threads == 1 or len(numbers) == 1:
        each(numbers)
        return
    with ThreadPoolExecutor(threads) as pool:
        # A share for each thread, for a block may take less time than a future.
        try:
            for _ in pool.map(each, [numbers[first::threads] for first in range(threads)]):
                pass
        finally:
            # After Ctrl-C nobody waits for the rest.
            stopped.set()


def _keep_freed_memory() -> None:
    """Let the arrays of one block become those of the next.

    The C library of Linux gives freed memory back to the system, which then maps it page by page
    for every block, unless something larger was freed before; that can double the time.
    """
    np.empty(64 * BLOCK, np.uint8)


def worthwhile_threads(cells: int) -> int:
    """Cores that this process may use, where threads pay."""
    if cells < WORTH_THREADS or not hasattr(os, "sched_getaffinity"):
        return 1
    return len(os.sched_getaffinity(0))


def _evaluation(statistic: Statistic, scores: TaskScores, sums: Sums | None) -> Evaluation:
    """How to compute a statistic of draws."""
    aggregate = aggregate_of(statistic)
    # That must not depend on what is installed, or on threads: the bytes would.
    if aggregate is None or not _is_exact(aggregate, scores):
        return lambda draws: statistic(TaskScores(scores.values[draws.positions], scores.sizes))
    centre = _centre(aggregate, sums)(aggregate.capped(scores))
    cap = aggregate.cap
    return centre if cap is None else lambda draws: cap - centre(draws)


def _is_exact(statistic: Statistic, scores: TaskScores) -> bool:
    """Whether a statistic is summed in whole numbers, so that the order of draws does not matter."""
    aggregate = aggregate_of(statistic)
    return aggregate is not None and fits(aggregate.capped(scores))


def _centre(aggregate: Aggregate, sums: Sums | None) -> Callable[[TaskScores], Evaluation]:
    if aggregate.centre == "mean":
        return lambda scores: TaskSums.of(scores).mean
    if aggregate.centre == "median":
        return lambda scores: TaskSums.of(scores).median
    return lambda scores: PooledRuns.of(scores, sums).interquartile_mean
