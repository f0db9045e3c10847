"""Pairs of labels that are compared together, their p-values adjusted for being many."""

from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum
from math import comb

import numpy as np
from numpy.typing import ArrayLike, NDArray

from rlexp.stats.comparison import Comparison, PrimaryTest


def bonferroni(p_values: ArrayLike) -> NDArray[np.float64]:
    """p-values of k tests, times k.

    Args:
        p_values: Of shape (k,).

    Returns:
        Adjusted p-values in the order given, of shape (k,), none above 1.

    Raises:
        ValueError: One is not a probability; a test that could not be made has no p-value.
    """
    p = _checked(p_values)
    return np.minimum(p * len(p), 1)


def holm(p_values: ArrayLike) -> NDArray[np.float64]:
    """Step-down adjustment that holds the family-wise error rate under any dependence.

    Holm 1979, "A simple sequentially rejective multiple test procedure": the i-th smallest of k
    is multiplied by k - i + 1, and is never below a smaller one's.

    Args:
        p_values: Of shape (k,).

    Returns:
        Adjusted p-values in the order given, of shape (k,), none above 1.

    Raises:
        ValueError: One is not a probability; a test that could not be made has no p-value.
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
            "leave out a test that could not be made, or count it as 1"
        )
    return p


def _restored(steps: NDArray[np.float64], order: NDArray[np.intp]) -> NDArray[np.float64]:
    adjusted = np.empty_like(steps)
    adjusted[order] = np.minimum(steps, 1)
    return adjusted


class Verdict(StrEnum):
    """What is known about the first label of a pair."""

    BETTER = "better"
    WORSE = "worse"
    EQUIVALENT = "equivalent"
    UNDECIDED = "undecided"


@dataclass(frozen=True, slots=True, kw_only=True)
class FamilyMember:
    """One of the pairs that are compared together, with its place among them.

    Attributes:
        comparison: All numbers of the pair.
        primary: The test that decides.
        pairs: How many pairs the p-values are adjusted for, by Holm.
        alpha: Family-wise level.
        adjusted_p: Of the primary test; nothing where it was not possible.
        adjusted_smallest_p: What it would be had every pair the smallest p-value that its numbers
            of runs allow.
        adjusted_equivalence_p: Of the test of equivalence, adjusted over the same pairs; nothing
            where no margin was declared or the test was not possible.
    """

    comparison: Comparison
    primary: PrimaryTest
    pairs: int
    alpha: float
    adjusted_p: float | None
    adjusted_smallest_p: float
    adjusted_equivalence_p: float | None

    @property
    def different(self) -> bool:
        """Whether the primary test finds a difference."""
        return self.adjusted_p is not None and self.adjusted_p <= self.alpha

    @property
    def out_of_reach(self) -> bool:
        """Whether no scores of these numbers of runs could have shown a difference."""
        return self.adjusted_smallest_p > self.alpha

    @property
    def verdict(self) -> Verdict:
        """Equivalence goes first: a difference within the margin may be real, but does not matter."""
        if self.adjusted_equivalence_p is not None and self.adjusted_equivalence_p <= self.alpha:
            return Verdict.EQUIVALENT
        if not self.different:
            return Verdict.UNDECIDED
        direction = self.comparison.direction(self.primary)
        if direction == 0:
            return Verdict.UNDECIDED
        return Verdict.BETTER if direction > 0 else Verdict.WORSE


def family(
    comparisons: Sequence[Comparison], *, primary: PrimaryTest, alpha: float
) -> list[FamilyMember]:
    """Adjust the p-values of all comparisons of a family by Holm; one without counts as 1.

    They are those of `Comparison.deciding`.
    """
    ready = [found.deciding(primary) if found.replicated else None for found in comparisons]
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
    """Holm's, where a missing one counts as 1 and stays missing."""
    adjusted = holm([1.0 if p is None else p for p in p_values])
    return [None if p is None else float(a) for p, a in zip(p_values, adjusted, strict=True)]


def seeds_to_decide(tasks: int, pairs: int, alpha: float) -> int:
    """The fewest seeds of each label on each task with which a permutation test could decide.

    With fewer, even complete separation of all pairs has an adjusted p-value above alpha.

    Args:
        tasks: Of a pair.
        pairs: That are compared.
        alpha: Family-wise level.
    """
    n = 2
    while 2 * pairs / alpha > comb(2 * n, n) ** tasks:
        n += 1
    return n
