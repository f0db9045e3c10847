"""Numbers of seeds with which a comparison can decide anything, and what it can find with some.

A permutation test has a smallest possible p-value, which depends on the numbers of runs only.
Nothing heavy is imported here, because every plan of runs asks for it.
"""

from dataclasses import dataclass
from enum import StrEnum
from math import comb

MOST_LABELS = 7
"""Largest number of labels for which every partition is tested (877 for 7 labels)."""


class Correction(StrEnum):
    """How p-values are adjusted for the number of pairs."""

    NONE = "one pair"
    CLOSED = "closed testing"
    STRETCHES = "stepwise testing"
    HOLM = "Holm"


@dataclass(frozen=True, slots=True, kw_only=True)
class DetectableDifferences:
    """The true differences that a comparison can find with some numbers of seeds.

    Attributes:
        seeds: Numbers of seeds of each label on each task, ascending.
        differences: The difference that each number finds, in units of the scores; None where no
            possible difference can be found.
        text: The same as a sentence without its final stop, or why there are no numbers.
    """

    seeds: tuple[int, ...] = ()
    differences: tuple[float | None, ...] = ()
    text: str


def correction_of(labels: int) -> Correction:
    """The correction for all pairs of labels that share their tasks."""
    if labels == 2:
        return Correction.NONE
    return Correction.CLOSED if labels <= MOST_LABELS else Correction.STRETCHES


def regw(p: float, size: int, count: int) -> float:
    """The adjusted p-value of a group of `size` among `count` labels (Einot and Gabriel 1975)."""
    return p if size >= count - 1 else float(1 - (1 - p) ** (count / size))


def smallest_adjusted_p(p: float, correction: Correction, pairs: int, labels: int) -> float:
    """The adjusted p-value of the clearest possible difference.

    Args:
        p: The smallest p-value of the test of one pair.
        correction: How p-values are adjusted.
        pairs: Number of pairs.
        labels: Number of labels.
    """
    if correction is Correction.HOLM:
        return min(1.0, pairs * p)
    return regw(p, 2, labels) if correction is Correction.STRETCHES else p


def smallest_p_of_seeds(n: int, tasks: int) -> float:
    """Smallest p-value of a permutation test of two labels with n seeds each on each task."""
    # A relabelling and its mirror image have the same statistic.
    return float(2 / comb(2 * n, n) ** tasks)


def seeds_to_decide(
    tasks: int, pairs: int, alpha: float, correction: Correction, labels: int
) -> int:
    """Fewest seeds of each label on each task with which a permutation test can decide.

    With fewer seeds, complete separation of all labels has an adjusted p-value above alpha.

    Args:
        tasks: Number of tasks of a pair.
        pairs: Number of pairs that are compared.
        alpha: Family-wise level.
        correction: How p-values are adjusted.
        labels: Number of labels.
    """
    n = 2
    while smallest_adjusted_p(smallest_p_of_seeds(n, tasks), correction, pairs, labels) > alpha:
        n += 1
    return n
