"""How often the resamples of one task draw each of its sorted runs, which all labels share.

A statistic of sorted runs depends on the ranks that a resample draws, whichever scores the runs have.
The ranks are drawn and counted once for a number of runs. Sums of scores over all resamples are then
products of matrices. They are exact, so that they have the bits of sums in any other order.
"""

from collections.abc import Callable
from dataclasses import dataclass
from functools import lru_cache

import numpy as np
from numpy.typing import NDArray

from rlexp.stats.block_threads import run_blocks, worthwhile_threads
from rlexp.stats.bootstrap_indices import blocks, draw, rows_of_block
from rlexp.stats.resampling import Resampling

Integers = NDArray[np.int64]
Counts = NDArray[np.integer]

MOST_COUNTED = 30_000_000
"""Most drawn runs whose counts are kept: each takes one byte, and two with those of the middle."""
LOW_BITS = 30
"""Bits of the lower part of an integer; products of the parts and counts are exact as floats."""


@dataclass(frozen=True, slots=True)
class CountedRanks:
    """How often each repetition counts each of n sorted runs.

    Attributes:
        blocks: The counts, in blocks of shape (n, rows).
    """

    blocks: tuple[Counts, ...]

    def sums(self, values: Integers) -> Integers:
        """The sum of the counted values of each repetition, of shape (repetitions,).

        Args:
            values: Of shape (n,), with sizes that sum to less than 2⁶² in each repetition.
        """
        # A count of at most n and a part of at most 31 bits: no sum reaches 2⁵³ below 2²² runs.
        parts = np.stack([values >> LOW_BITS, values & ((1 << LOW_BITS) - 1)]).astype(np.float64)
        room = np.empty(self.blocks[0].shape)
        sums = []
        for counts in self.blocks:
            counted = room[:, : counts.shape[1]]
            np.copyto(counted, counts)
            sums.append(parts @ counted)
        high, low = np.hstack(sums).astype(np.int64)
        return np.asarray((high << LOW_BITS) + low)


@dataclass(frozen=True, slots=True)
class MiddleRanks:
    """What is left of each repetition where a number of its drawn runs is cut at each end.

    Attributes:
        counts: How often each run is among the others.
        lowest: The rank of the lowest of the others, of shape (repetitions,).
        highest: The rank of the highest of them, of shape (repetitions,).
    """

    counts: CountedRanks
    lowest: NDArray[np.intp]
    highest: NDArray[np.intp]


@lru_cache(maxsize=2)
def counted_ranks(n: int, resampling: Resampling) -> CountedRanks:
    """How often each repetition draws each of n sorted runs of a task, by the draws of `draw`."""

    def count(block: int) -> Counts:
        drawn = draw((n,), resampling, block)
        rows = len(drawn.bits)
        cells = drawn.positions * rows + np.arange(rows)[:, np.newaxis]
        return np.bincount(cells.ravel(), minlength=n * rows).reshape(n, rows)

    return _counted(n, resampling, count)


@lru_cache(maxsize=4)
def middle_ranks(n: int, resampling: Resampling, cut: int) -> MiddleRanks:
    """The runs that are left where `cut` of the n drawn runs are cut at each end.

    Args:
        n: Runs of the task.
        resampling: Repetitions and seed.
        cut: Number of drawn runs below n / 2.
    """
    drawn = counted_ranks(n, resampling).blocks
    lowest, highest = (np.empty(resampling.repetitions, np.intp) for _ in range(2))
    rows = rows_of_block(n)
    # A signed type that holds n, as small as possible.
    kind = np.min_scalar_type(-n - 1)

    def middle(block: int) -> Counts:
        reached = np.cumsum(drawn[block], axis=0, dtype=kind)
        part = slice(block * rows, block * rows + reached.shape[1])
        lowest[part] = (reached <= cut).sum(axis=0)
        highest[part] = (reached < n - cut).sum(axis=0)
        kept = np.clip(reached, cut, n - cut)
        return np.asarray(np.diff(kept, axis=0, prepend=kind.type(cut)))

    return MiddleRanks(_counted(n, resampling, middle), lowest, highest)


def _counted(n: int, resampling: Resampling, count: Callable[[int], Counts]) -> CountedRanks:
    """The counts of all blocks, in as few bytes as hold them."""
    numbers = blocks(n, resampling)
    counted: dict[int, Counts] = {}

    def fill(block: int) -> None:
        counts = count(block)
        counted[block] = counts.astype(np.min_scalar_type(counts.max()))

    run_blocks(fill, numbers, worthwhile_threads(n * resampling.repetitions))
    return CountedRanks(tuple(counted[block] for block in numbers))
