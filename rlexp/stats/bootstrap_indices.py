"""Which runs each repetition of a bootstrap draws, block by block."""

from dataclasses import dataclass
from functools import cached_property, lru_cache
from math import comb, prod

import numpy as np
from numpy.typing import NDArray

from rlexp.stats.resampling import Resampling

BLOCK = 100_000
"""Drawn runs of a block of repetitions: what is computed at a time stays in a core's cache."""

MOST_DISTINCT = 2_000
"""Different draws of few runs that are kept, at most: 7 runs of one task have 1,716 of them."""
MOST_CODED = 15
"""Runs whose places make one whole number of 64 bits, at most."""
SHARED = 10
"""Repetitions for each different draw from which on it pays to look for those that are alike."""


@dataclass(frozen=True)
class Draws:
    """Runs drawn with replacement within each task.

    Attributes:
        words: Of shape (rows, N), random 32-bit words: word w draws run ⌊w n / 2³²⌋ of a task of
            n, which favours no run by more than n / 2³² (Lemire 2019, "Fast Random Integer
            Generation in an Interval", without its rejection step).
        sizes: Runs of each task, m numbers that sum to N.
    """

    words: NDArray[np.uint32]
    sizes: tuple[int, ...]

    @cached_property
    def positions(self) -> NDArray[np.int64]:
        """Place of each drawn run among the runs of all tasks, of shape (rows, N)."""
        drawn = self.words.astype(np.int64)
        drawn *= np.repeat(self.sizes, self.sizes)
        drawn >>= 32
        drawn += np.repeat(self.starts, self.sizes)
        return drawn

    @property
    def starts(self) -> NDArray[np.int64]:
        """Place of the first run of each task, of shape (m,)."""
        return np.cumsum((0, *self.sizes[:-1]))


def rows_of_block(n: int) -> int:
    """Repetitions of a block, of n runs each."""
    return max(1, BLOCK // n)


def blocks(n: int, resampling: Resampling) -> range:
    """Numbers of the blocks that hold all repetitions, of n runs each."""
    return range(-(-resampling.repetitions // rows_of_block(n)))


def draw(sizes: tuple[int, ...], resampling: Resampling, block: int) -> Draws:
    """The draws of one block, from a generator of its own."""
    n = sum(sizes)
    rows = rows_of_block(n)
    rows = min(rows, resampling.repetitions - block * rows)
    pairs = -(-rows * n // 2)
    generator = resampling.generator(block)
    words = generator.integers(0, 2**64, size=pairs, dtype=np.uint64).astype("<u8", copy=False)
    halves = words.view("<u4").astype(np.uint32, copy=False)
    return Draws(halves[: rows * n].reshape(rows, n), sizes)


@dataclass(frozen=True, slots=True)
class DistinctDraws:
    """The draws of all repetitions, each of them once whatever the order of its runs.

    Attributes:
        draws: Of shape (k, N): those that differ.
        places: Of shape (repetitions,): which of them each repetition drew.
    """

    draws: Draws
    places: NDArray[np.intp]


@lru_cache(maxsize=16)
def distinct_draws(sizes: tuple[int, ...], resampling: Resampling) -> DistinctDraws | None:
    """The draws of few runs, which repeat; nothing where too many of them differ.

    A statistic of them is then computed once for thousands of repetitions, and the draws are the
    same for all labels with as many runs.
    """
    most, n = prod(comb(2 * size - 1, size) for size in sizes), sum(sizes)
    if n > MOST_CODED or most > MOST_DISTINCT or most * SHARED > resampling.repetitions:
        return None
    every = [draw(sizes, resampling, block) for block in blocks(n, resampling)]
    ordered = np.concatenate([np.sort(drawn.positions, axis=1) for drawn in every])
    codes = ordered @ (n ** np.arange(n, dtype=np.int64))
    _, first, places = np.unique(codes, return_index=True, return_inverse=True)
    words = np.concatenate([drawn.words for drawn in every])[first]
    return DistinctDraws(Draws(words, sizes), places.reshape(-1))
