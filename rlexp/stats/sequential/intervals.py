"""Intervals of the difference of a pair, from the group-sequential test that decides it.

The interval holds the shifts of the first label that the test does not reject at any interim
analysis so far. Such repeated confidence intervals keep their coverage although a comparison stops
when its data look clear (Jennison and Turnbull 1989, "Interim analyses: the repeated confidence
interval approach").
"""

from dataclasses import dataclass
from typing import Self

import numpy as np
from numpy.typing import NDArray

from rlexp.stats.interval import Interval
from rlexp.stats.sequential.design import ROUNDING, Design, Relabellings
from rlexp.stats.sequential.looks import take_look, unspent

Array = NDArray[np.float64]

METHOD = "inverted group-sequential permutation test"
BISECTIONS = 18
"""Halvings of the bracket of an end: it is then within 1e-5 of the largest bracket."""
DOUBLINGS = 12
"""Doublings of the distance from the estimate before an end counts as unreachable."""


@dataclass(frozen=True, slots=True)
class ShiftTest:
    """The group-sequential relabelling test of one pair, under shifts of its first label.

    A shift changes the difference under a relabelling linearly, so that a new shift needs no new
    relabelling.

    Attributes:
        relabellings: The relabellings.
        interims: Largest number K of interims, over which the level is spent.
        differences: Summed differences up to each interim under each relabelling, (k, B).
        slopes: How a shift of 1 changes them, of shape (k, B).
        largest: Largest absolute score, for rounding.
    """

    relabellings: Relabellings
    interims: int
    differences: Array
    slopes: Array
    largest: float

    @classmethod
    def of(cls, design: Design, first: Array, second: Array) -> Self:
        """The test of a pair whose k blocks of n scores are of shape (k, n) on each side."""
        relabellings = design.relabellings
        # Sorted within a block, as the test itself does it; a shift does not change the order.
        sides = (np.sort(first, axis=-1), np.sort(second, axis=-1))
        of_scores = [
            relabellings.differences(a, b, k) for k, (a, b) in enumerate(zip(*sides, strict=True))
        ]
        ones, zeros = np.ones(design.group), np.zeros(design.group)
        of_shift = [relabellings.differences(ones, zeros, k) for k in range(len(of_scores))]
        return cls(
            relabellings=relabellings,
            interims=design.interims,
            differences=np.cumsum(of_scores, axis=0),
            slopes=np.cumsum(of_shift, axis=0),
            largest=float(max(np.abs(side).max(initial=0.0) for side in sides)),
        )

    @property
    def estimate(self) -> float:
        """The mean difference of all blocks."""
        return float(self.differences[-1, 0] / len(self.differences))

    def rejects(self, shift: float, alpha: float) -> bool:
        """Whether any interim rejects that the first label is the second plus a shift."""
        spending = unspent((), self.relabellings.count)
        slack = ROUNDING * len(self.differences) * (self.largest + abs(shift))
        for number, (differences, slopes) in enumerate(
            zip(self.differences, self.slopes, strict=True), 1
        ):
            values = np.abs(differences - shift * slopes)
            allowed = np.asarray(alpha * number / self.interims)
            spending, look = take_look(
                spending, values, values[..., 0], allowed, np.asarray(slack)
            )
            if look.rejected:
                return True
        return False

    def end(self, alpha: float, direction: int) -> float | None:
        """The end of the interval below (−1) or above (1) the estimate; None if it is unbounded."""
        inside, step = self.estimate, self._step()
        for _ in range(DOUBLINGS):
            outside = self.estimate + direction * step
            if self.rejects(outside, alpha):
                break
            inside, step = outside, 2 * step
        else:
            return None
        for _ in range(BISECTIONS):
            middle = (inside + outside) / 2
            if self.rejects(middle, alpha):
                outside = middle
            else:
                inside = middle
        # The outer end: a rejected shift is excluded only up to the width of the last bracket.
        return outside

    def _step(self) -> float:
        """A first distance from the estimate: the largest change of the difference by relabelling."""
        spread = float(np.ptp(self.differences[-1])) / len(self.differences)
        return spread or max(abs(self.estimate), 1.0)


def repeated_interval(
    design: Design, first: Array, second: Array, *, excludes_zero: bool
) -> Interval:
    """The difference of a pair with its interval at the level of the comparison.

    The level is that of Bonferroni over all pairs. A pair that the closed test decides at a less
    strict level gets the interval of the strictest level that excludes 0, so that interval and
    decision agree.

    Args:
        design: The design of all pairs.
        first: Scores of the first label, of shape (k, n), k ≥ 1.
        second: Scores of the second label, of the same shape.
        excludes_zero: Whether the comparison has decided the pair.
    """
    test = ShiftTest.of(design, first, second)
    pairs = len(design.pairs)
    # With maxt there is one joint test, of which no pair has a level of its own.
    sizes = range(pairs, 0, -1)
    size = next((s for s in sizes if test.rejects(0.0, design.alpha / s)), pairs)
    alpha = design.alpha / (size if excludes_zero else pairs)
    low, high = test.end(alpha, -1), test.end(alpha, 1)
    bounded = low is not None and high is not None
    return Interval(
        estimate=test.estimate,
        low=low if bounded else None,
        high=high if bounded else None,
        level=1 - alpha,
        method=METHOD,
        repetitions=test.relabellings.count,
        n=first.size + second.size,
        seed=design.seed,
        reason=None if bounded else f"too few runs for an interval at level {1 - alpha:.4g}",
    )
