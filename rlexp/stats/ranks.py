"""Where the runs of one label stand among those of another, and who wins in resamples."""

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

Array = NDArray[np.float64]
Counts = NDArray[np.floating[Any]]
"""Whole numbers, in a precision that holds them and their sums exactly."""


@dataclass(frozen=True, slots=True)
class Ranks:
    """Where each sorted run of x would stand among the k sorted runs of y, on one task.

    Attributes:
        below: How many of y each run of x is above, of shape (n,).
        reached: How many it is above or equal to, of shape (n,).
        k: Runs of y.
    """

    below: NDArray[np.intp]
    reached: NDArray[np.intp]
    k: int

    @classmethod
    def of(cls, x: Array, y: Array) -> "Ranks":
        """Those of x, of shape (n,), and y, of shape (k,), both sorted."""
        return cls(np.searchsorted(y, x, "left"), np.searchsorted(y, x, "right"), len(y))

    @property
    def sizes(self) -> tuple[int, int]:
        """Runs of x and of y."""
        return len(self.below), self.k

    @property
    def mean(self) -> float:
        """How often a run of x beats one of y, ties counting half."""
        doubled = int(self.below.sum() + self.reached.sum())
        return doubled / (len(self.below) * self.k) / 2

    @property
    def alike(self) -> bool:
        """Whether every run of x is above every run of y, or below, or all are equal."""
        ends = int(self.below[0]), int(self.reached[-1])
        wide = self.below[0] == self.below[-1] and self.reached[0] == self.reached[-1]
        return bool(wide) and ends in {(self.k, self.k), (0, 0), (0, self.k)}

    def doubled_wins(self, c: Counts, d: Counts) -> Counts:
        """Twice the wins of resamples, ties counting half, of shape (rows,).

        Args:
            c: How often each run of x is drawn, of shape (n, rows).
            d: How often the first 0, 1, … k of y are, in sum, of shape (k + 1, rows).
        """
        wins = np.einsum("ib,ib->b", c, np.take(d, self.below, axis=0, mode="clip"))
        if (self.below == self.reached).all():
            return np.asarray(2 * wins)
        return np.asarray(
            wins + np.einsum("ib,ib->b", c, np.take(d, self.reached, axis=0, mode="clip"))
        )
