"""Sums of runs that are drawn without replacement, for many samples by the same draws."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

Array = NDArray[np.float64]
Sample = tuple[Array, int]
"""Scores, of shape (N,), and how many of them are drawn."""

BLOCK = 2**22
"""Random numbers that are held at once."""


@dataclass(frozen=True, slots=True)
class _Alike:
    """Samples of the same sizes.

    Attributes:
        rows: Their places among all samples, of shape (P,).
        whole: Their scores in whole numbers, of shape (P, N).
        exponents: Powers of two that one of each stands for, of shape (P, 1).
        wanted: How many are still to be drawn in each repetition, of shape (repetitions,).
        sums: Of those that were drawn, of shape (P, repetitions).
    """

    rows: list[int]
    whole: Array
    exponents: NDArray[np.intc]
    wanted: Array
    sums: Array

    @classmethod
    def of(cls, rows: list[int], samples: Sequence[Sample], repetitions: int) -> "_Alike":
        scores = np.stack([samples[row][0] for row in rows])
        # Any sum of whole numbers below 2⁵³ is exact, in whatever order a machine adds up.
        exponents = np.frexp(scores.shape[1] * np.abs(scores).max(axis=1, keepdims=True))[1] - 53
        whole = np.rint(np.ldexp(scores, -exponents))
        wanted = np.full(repetitions, float(samples[rows[0]][1]))
        return cls(rows, whole, exponents, wanted, np.zeros((len(rows), repetitions)))

    def draw(self, first: int, uniform: Array) -> None:
        """Add up those of the scores from the first on that are drawn.

        Args:
            first: Scores that had their turn.
            uniform: Random numbers for each of the next ones, of shape (scores, repetitions).
        """
        n = self.whole.shape[1]
        chosen = np.empty((max(0, min(len(uniform), n - first)), uniform.shape[1]))
        for row, (left, numbers) in enumerate(zip(range(n - first, 0, -1), uniform, strict=False)):
            np.less(numbers * left, self.wanted, out=chosen[row], casting="unsafe")
            self.wanted[:] -= chosen[row]
        self.sums[:] += self.whole[:, first : first + len(chosen)] @ chosen


def random_sums(
    samples: Sequence[Sample], repetitions: int, generator: np.random.Generator
) -> Array:
    """Sums of scores drawn without replacement (Knuth, TAOCP 2, 3.4.2, algorithm S).

    Every sample is drawn from by the same random numbers, as it is when it is alone: samples of
    the same sizes have the same places drawn. Scores are rounded to a share of N / 2⁵³ of the
    largest.

    Args:
        samples: P of them.
        repetitions: How often to draw.
        generator: Gives a random number for each score and repetition, scores outermost.

    Returns:
        Of shape (P, repetitions).
    """
    sizes: dict[tuple[int, int], list[int]] = {}
    for row, (scores, wanted) in enumerate(samples):
        sizes.setdefault((len(scores), wanted), []).append(row)
    groups = [_Alike.of(rows, samples, repetitions) for rows in sizes.values()]
    longest, step = max(n for n, _ in sizes), max(1, BLOCK // repetitions)
    for first in range(0, longest, step):
        uniform = generator.random((min(step, longest - first), repetitions))
        for group in groups:
            group.draw(first, uniform)
    found = np.empty((len(samples), repetitions))
    for group in groups:
        found[group.rows] = np.ldexp(group.sums, group.exponents)
    return found
