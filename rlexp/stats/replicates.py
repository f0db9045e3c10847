"""Values of statistics on resampled runs: the same bytes on one thread or many."""

import os
from collections.abc import Callable, Mapping
from concurrent.futures import ThreadPoolExecutor
from threading import Event

import numpy as np
from numpy.typing import NDArray

from rlexp.stats.aggregate import Aggregate, Statistic, aggregate_of
from rlexp.stats.compiled import Sums, kernel
from rlexp.stats.draws import BLOCK, Draws, blocks, distinct_draws, draw, rows_of_block
from rlexp.stats.resampling import Resampling
from rlexp.stats.task_scores import TaskScores
from rlexp.stats.whole_numbers import PooledRuns, TaskSums, fits

Array = NDArray[np.float64]
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
