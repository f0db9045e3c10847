"""A family of pairs of labels, with p-values adjusted for multiple comparisons."""

from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum
from math import comb

import numpy as np
from numpy.typing import ArrayLike, NDArray

from rlexp.stats.comparison import PairwiseComparison, PrimaryTest


def bonferroni(p_values: ArrayLike) -> NDArray[np.float64]:
    """Bonferroni adjustment: the p-values of k tests, each multiplied by k.

    Args:
        p_values: Of shape (k,).

    Returns:
        Adjusted p-values in the given order, of shape (k,), at most 1.

    Raises:
        ValueError: A value is not a probability.
    """
    p = _checked(p_values)
    return np.minimum(p * len(p), 1)


def holm(p_values: ArrayLike) -> NDArray[np.float64]:
    """Step-down adjustment that controls the family-wise error rate under any dependence.

    Holm 1979, "A simple sequentially rejective multiple test procedure": the i-th smallest of k
    p-values is multiplied by k - i + 1, and adjusted p-values keep the order of the p-values.

    Args:
        p_values: Of shape (k,).

    Returns:
        Adjusted p-values in the given order, of shape (k,), at most 1.

    Raises:
        ValueError: A value is not a probability.
    """
    p = _checked(p_values)
    order = np.argsort(p, kind="stable")
    steps = np.maximum.accumulate(p[order] * np.arange(len(p), 0, -1))
    return _restored(steps, order)


def _checked(p_values: ArrayLike) -> NDArray[np.float64]:
    p = np.asarray(p_values, dtype=np.float64)
    if p.ndim != 1 or not ((p >= 0) & (p <= 1)).all():
        raise ValueError(
            "p-values must be a list of numbers from 0 to 1: "
            "leave out a test that was not possible, or give it p = 1"
        )
    return p


def _restored(steps: NDArray[np.float64], order: NDArray[np.intp]) -> NDArray[np.float64]:
    adjusted = np.empty_like(steps)
    adjusted[order] = np.minimum(steps, 1)
    return adjusted


class Verdict(StrEnum):
    """Decision about the first label of a pair, against the second."""

    BETTER = "better"
    WORSE = "worse"
    EQUIVALENT = "equivalent"
    UNDECIDED = "undecided"


@dataclass(frozen=True, slots=True, kw_only=True)
class FamilyMember:
    """One pair of a family, with its adjusted p-values.

    Attributes:
        comparison: All tests and effect sizes of the pair.
        primary: The test that decides.
        pairs: Number of pairs for which the p-values are adjusted, by Holm.
        alpha: Family-wise level.
        adjusted_p: Adjusted p-value of the primary test; None if the test was not possible.
        adjusted_smallest_p: The value of `adjusted_p` if every pair had the smallest p-value that
            its numbers of runs allow.
        adjusted_equivalence_p: Adjusted p-value of the test of equivalence; None if no margin was
            declared or the test was not possible.
    """

    comparison: PairwiseComparison
    primary: PrimaryTest
    pairs: int
    alpha: float
    adjusted_p: float | None
    adjusted_smallest_p: float
    adjusted_equivalence_p: float | None

    @property
    def different(self) -> bool:
        """Whether the primary test rejects equality."""
        return self.adjusted_p is not None and self.adjusted_p <= self.alpha

    @property
    def out_of_reach(self) -> bool:
        """Whether the numbers of runs are too small for any scores to show a difference."""
        return self.adjusted_smallest_p > self.alpha

    @property
    def verdict(self) -> Verdict:
        """The decision on the pair; equivalence takes precedence over a difference."""
        # A difference within the margin can be significant and still too small to matter.
        if self.adjusted_equivalence_p is not None and self.adjusted_equivalence_p <= self.alpha:
            return Verdict.EQUIVALENT
        if not self.different:
            return Verdict.UNDECIDED
        direction = self.comparison.direction(self.primary)
        if direction == 0:
            return Verdict.UNDECIDED
        return Verdict.BETTER if direction > 0 else Verdict.WORSE


def family(
    comparisons: Sequence[PairwiseComparison], *, primary: PrimaryTest, alpha: float
) -> list[FamilyMember]:
    """The pairs of a family, with p-values of `PairwiseComparison.deciding` adjusted by Holm.

    A pair that cannot be tested has no p-value, and counts in the adjustment as a pair with p = 1.
    """
    ready = [pair.deciding(primary) if pair.replicated else None for pair in comparisons]
    possible = holm([1.0 if test is None else test.smallest_p for test in ready])
    different = _adjusted([None if test is None else test.p for test in ready])
    within = _adjusted([c.equivalence.p if c.equivalence else None for c in comparisons])
    return [
        FamilyMember(
            comparison=comparison,
            primary=primary,
            pairs=len(comparisons),
            alpha=alpha,
            adjusted_p=different[i],
            adjusted_smallest_p=float(possible[i]),
            adjusted_equivalence_p=within[i],
        )
        for i, comparison in enumerate(comparisons)
    ]


def _adjusted(p_values: list[float | None]) -> list[float | None]:
    """p-values adjusted by Holm; a missing p-value counts as 1 and stays missing."""
    adjusted = holm([1.0 if p is None else p for p in p_values])
    return [None if p is None else float(a) for p, a in zip(p_values, adjusted, strict=True)]


def seeds_to_decide(tasks: int, pairs: int, alpha: float) -> int:
    """Fewest seeds of each label on each task with which a permutation test can decide.

    With fewer seeds, complete separation of all pairs has an adjusted p-value above alpha.

    Args:
        tasks: Number of tasks of a pair.
        pairs: Number of pairs that are compared.
        alpha: Family-wise level.
    """
    n = 2
    while 2 * pairs / alpha > comb(2 * n, n) ** tasks:
        n += 1
    return n
