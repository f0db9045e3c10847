"""Racing: whether a configuration is worse than the best one on the seeds that both had."""

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray


def worse_than_best(own: Sequence[float], best: Sequence[float], threshold: float) -> float | None:
    """The p-value by which own scores are worse than the best's on the same seeds, if they are.

    By the one-sided signed-rank test of Wilcoxon 1945, "Individual comparisons by ranking
    methods", which needs seeds that both sides share. Never where the own mean is as good.

    Args:
        own: Scores by seed, of shape (n,); greater is better.
        best: Scores of the best configuration on the same seeds in the same order, of shape
            (k,); only the first min(n, k) of both are compared.
        threshold: The p-value below which the own scores count as worse.

    Raises:
        ValueError: A score is not finite: a failure is no score.
    """
    pairs = np.array(list(zip(own, best, strict=False)), dtype=np.float64).reshape(-1, 2)
    if not np.isfinite(pairs).all():
        raise ValueError("a score must be a finite number; a failure is no score")
    differences = pairs[:, 0] - pairs[:, 1]
    if len(differences) == 0 or differences.mean() >= 0:
        return None
    p = signed_rank_p(differences)
    return p if p < threshold else None


def signed_rank_p(differences: NDArray[np.float64]) -> float:
    """Exact one-sided p-value that paired differences tend to be negative.

    The share of all sign patterns whose positive ranks sum to no more than the observed ones.
    Tied differences share their mean rank, which keeps it exact; those of zero say nothing and
    are left out. With n differences that are not zero it is 2⁻ⁿ at least, 1 without any.

    Args:
        differences: Of pairs, of shape (n,).
    """
    moved = differences[differences != 0]
    if len(moved) == 0:
        return 1.0
    ranks = _doubled_ranks(np.abs(moved))
    # Python's whole numbers, for there are 2ⁿ patterns.
    patterns = _patterns_by_sum(ranks)
    observed = sum(rank for rank, moves in zip(ranks, moved, strict=True) if moves > 0)
    return sum(patterns[: observed + 1]) / (1 << len(ranks))


def _doubled_ranks(sizes: NDArray[np.float64]) -> list[int]:
    """Twice the rank of each size from 1; ties share the mean of theirs. Of shape (n,)."""
    _, where, counts = np.unique(sizes, return_inverse=True, return_counts=True)
    return [int(rank) for rank in (2 * np.cumsum(counts) - counts + 1)[where]]


def _patterns_by_sum(ranks: Sequence[int]) -> list[int]:
    """How many subsets of the ranks have each sum, from 0 to that of all of them."""
    counts = [1]
    for rank in ranks:
        without, within = counts + [0] * rank, [0] * rank + counts
        counts = [a + b for a, b in zip(without, within, strict=True)]
    return counts
