"""Which runs each repetition of a bootstrap draws, block by block."""

from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from rlexp.stats.resampling import Resampling

BLOCK = 100_000
"""Drawn runs of a block of repetitions: what is computed at a time stays in a core's cache."""


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
