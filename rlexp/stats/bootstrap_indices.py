"""The runs that each repetition of a bootstrap draws, block by block."""

from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property, lru_cache
from math import comb, prod
from typing import Any

import numpy as np
from numpy.typing import NDArray

from rlexp.stats.resampling import Resampling

BLOCK = 100_000
"""Drawn runs in a block of repetitions: a block fits into the cache of a processor core."""

MOST_DISTINCT = 2_000
"""Largest number of distinct draws that are kept: 7 runs of one task have 1,716."""
MOST_CODED = 15
"""Largest number of runs whose sorted positions fit into one 64-bit integer."""
LEAST_REPEATS = 10
"""Repetitions per distinct draw from which on finding equal draws saves time."""


@dataclass(frozen=True)
class Draws:
    """Runs drawn with replacement within each task.

    Attributes:
        bits: Random 32-bit words, of shape (rows, N). Word w draws run ⌊w n / 2³²⌋ of a task of n
            runs. No run is favoured by more than n / 2³² (Lemire 2019, "Fast Random Integer
            Generation in an Interval", without its rejection step).
        sizes: Runs of each task, m numbers that sum to N.
    """

    bits: NDArray[np.uint32]
    sizes: tuple[int, ...]

    @cached_property
    def positions(self) -> NDArray[np.int64]:
        """Position of each drawn run among the runs of all tasks, of shape (rows, N)."""
        # The product of a 32-bit word and a number of runs fits into 64 bits.
        drawn = self.bits.astype(np.int64)
        drawn *= np.repeat(self.sizes, self.sizes)
        drawn >>= 32
        drawn += np.repeat(self.starts, self.sizes)
        return drawn

    @property
    def starts(self) -> NDArray[np.int64]:
        """Position of the first run of each task, of shape (m,)."""
        return np.cumsum((0, *self.sizes[:-1]))


def rows_of_block(n: int) -> int:
    """Number of repetitions in a block if each draws n runs."""
    return max(1, BLOCK // n)


def blocks(n: int, resampling: Resampling) -> range:
    """Numbers of the blocks that hold all repetitions if each draws n runs."""
    return range(-(-resampling.repetitions // rows_of_block(n)))


Fill = Callable[[NDArray[np.uint64], NDArray[np.uint64]], None]
"""The compiled `fill_words`."""


def fill_words(state: NDArray[np.uint64], words: NDArray[np.uint64]) -> None:
    """Fill an array with the words of NumPy's SFC64 generator, which this function repeats.

    Compiled, it takes three quarters of the time of NumPy, which calls a function for each word.

    Args:
        state: The generator's state, of shape (4,): three words and a counter.
        words: Output, of any length.
    """
    a, b, c, counter = state[0], state[1], state[2], state[3]
    for k in range(len(words)):
        word = a + b + counter
        counter += np.uint64(1)
        a = b ^ (b >> np.uint64(11))
        b = c + (c << np.uint64(3))
        c = ((c << np.uint64(24)) | (c >> np.uint64(40))) + word
        words[k] = word


def _words(generator: np.random.Generator, count: int, fill: Fill | None) -> NDArray[np.uint64]:
    """The next 64-bit words of a new SFC64 generator, of shape (count,)."""
    if fill is None:
        return generator.integers(0, 2**64, size=count, dtype=np.uint64)
    state: Any = generator.bit_generator.state["state"]
    words = np.empty(count, np.uint64)
    fill(state["state"].astype(np.uint64), words)
    return words


def draw(
    sizes: tuple[int, ...], resampling: Resampling, block: int, fill: Fill | None = None
) -> Draws:
    """The draws of one block; each block has its own generator, so that order is irrelevant.

    `fill` is the compiled `fill_words`, which gives the same bits faster.
    """
    n = sum(sizes)
    rows = rows_of_block(n)
    rows = min(rows, resampling.repetitions - block * rows)
    pairs = -(-rows * n // 2)
    generator = resampling.generator(block)
    # Each 64-bit number gives two 32-bit words. The explicit little-endian order makes every
    # machine split it in the same way, and so draw the same runs.
    bits = _words(generator, pairs, fill).astype("<u8", copy=False)
    halves = bits.view("<u4").astype(np.uint32, copy=False)
    return Draws(halves[: rows * n].reshape(rows, n), sizes)


@dataclass(frozen=True, slots=True)
class DistinctDraws:
    """The distinct draws of all repetitions; draws that differ only in order are the same draw.

    Attributes:
        draws: The k distinct draws, of shape (k, N).
        index: For each repetition, the index of its draw, of shape (repetitions,).
    """

    draws: Draws
    index: NDArray[np.intp]


@lru_cache(maxsize=16)
def distinct_draws(sizes: tuple[int, ...], resampling: Resampling) -> DistinctDraws | None:
    """The distinct draws of few runs; None if there are too many to be worth finding.

    With few runs the same draw occurs in thousands of repetitions, and its statistic is computed
    once. The result is cached because all labels with the same numbers of runs share it.
    """
    # n runs have C(2n − 1, n) different draws of n runs if the order is irrelevant.
    most, n = prod(comb(2 * size - 1, size) for size in sizes), sum(sizes)
    if n > MOST_CODED or most > MOST_DISTINCT or most * LEAST_REPEATS > resampling.repetitions:
        return None
    every = [draw(sizes, resampling, block) for block in blocks(n, resampling)]
    ordered = np.concatenate([np.sort(drawn.positions, axis=1) for drawn in every])
    # Sorted positions as digits of base n: `unique` is much faster on integers than on rows.
    codes = ordered @ (n ** np.arange(n, dtype=np.int64))
    _, first, index = np.unique(codes, return_index=True, return_inverse=True)
    bits = np.concatenate([drawn.bits for drawn in every])[first]
    # NumPy 2.0 returns the inverse as a column, every other version as a vector.
    return DistinctDraws(Draws(bits, sizes), index.reshape(-1))
