"""Which relabellings a sequential permutation test tries: all of them, or as many as are asked for."""

from dataclasses import dataclass
from itertools import combinations
from math import comb

import numpy as np
from numpy.typing import NDArray

from rlexp.stats.resampling import Resampling

Array = NDArray[np.float64]


@dataclass(frozen=True, slots=True)
class Relabellings:
    """Ways to deal the 2n scores of two labels out to them anew, within each block.

    There are C(2n, n) ways in a block and C(2n, n)^k in k of them. As many blocks as `limit`
    allows are enumerated; in the later ones each relabelling is completed at random. The first
    relabelling is always the true one. The enumerated part takes every way equally often, so that
    a p-value is exact as long as the interims are enumerated; afterwards the test keeps its level
    exactly, whatever the limit: applied to data that were relabelled by one of them, the set has
    the same law (Hemerik and Goeman 2018, "Exact testing with random permutations", theorem 2).

    Attributes:
        group: Scores n of a label in a block.
        blocks: At most so many.
        limit: At most so many relabellings.
        seed: Of those drawn.
    """

    group: int
    blocks: int
    limit: int
    seed: int

    @property
    def ways(self) -> int:
        """C(2n, n): ways to deal out the scores of one block."""
        return comb(2 * self.group, self.group)

    @property
    def enumerated(self) -> int:
        """Blocks in which every way is taken."""
        fitting = range(1, self.blocks + 1)
        return max((k for k in fitting if self.ways**k <= self.limit), default=0)

    @property
    def count(self) -> int:
        """How many relabellings there are, B."""
        cycle: int = self.ways**self.enumerated
        return cycle if self.enumerated == self.blocks else self.limit // cycle * cycle

    def least_p(self, blocks: int) -> float:
        """The smallest p-value that a two-sided test of so many blocks can have.

        The true relabelling and its mirror image are as extreme as each other; where relabellings
        are drawn, the mirror image may be missing.
        """
        ways: int = self.ways**blocks
        return max(2 / ways, 1 / self.count)

    def signs(self, block: int) -> Array:
        """To whom each score of a block goes.

        Args:
            block: Its number, from 0.

        Returns:
            Of shape (B, 2n): 1 for the first label, -1 for the second; in the first row, the
            first n scores are the first label's.
        """
        if block < self.enumerated:
            number = np.arange(self.count) // self.ways**block % self.ways
            return np.asarray(_every_way(self.group)[number])
        signs = np.tile(np.repeat([1.0, -1.0], self.group), (self.count, 1))
        generator = Resampling(seed=self.seed).generator(block)
        generator.permuted(signs[1:], axis=1, out=signs[1:])
        return signs

    def differences(self, first: Array, second: Array, block: int) -> Array:
        """Mean of the first label minus mean of the second, under every relabelling of a block.

        Args:
            first: Scores of the first label in the block, of shape (…, n).
            second: Of the second, of the same shape.
            block: Its number, from 0.

        Returns:
            Of shape (…, B), the true difference first.
        """
        pooled = np.concatenate([first, second], axis=-1)
        # The origin cancels; scores far from 0 keep their digits, and equal ones differ by 0.
        moved = pooled - pooled.min(axis=-1, keepdims=True)
        return np.asarray(moved @ self.signs(block).T) / self.group


def _every_way(group: int) -> Array:
    """Signs of all ways to deal out 2n scores, of shape (C(2n, n), 2n), the true one first."""
    chosen = np.array(list(combinations(range(2 * group), group)))
    signs = np.full((len(chosen), 2 * group), -1.0)
    np.put_along_axis(signs, chosen, 1.0, axis=1)
    return signs
