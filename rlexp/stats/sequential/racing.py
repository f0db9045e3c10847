"""Racing: test of whether a configuration is worse than the best one on their common seeds."""

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray


def worse_than_best(
    scores: Sequence[float], best: Sequence[float], threshold: float
) -> float | None:
    """p-value of a configuration that is significantly worse than the best one; else None.

    The test is Wilcoxon's one-sided signed-rank test (1945, "Individual comparisons by ranking
    methods") on the seeds that both share. A configuration whose mean is as good as the best is
    never worse.

    Args:
        scores: Scores of the configuration by seed, of shape (n,); greater is better.
        best: Scores of the best configuration on the same seeds in the same order, of shape
            (k,); only the first min(n, k) of both are compared.
        threshold: The p-value below which the configuration counts as worse.

    Raises:
        ValueError: A score is not finite.
    """
    pairs = np.array(list(zip(scores, best, strict=False)), dtype=np.float64).reshape(-1, 2)
    if not np.isfinite(pairs).all():
        raise ValueError("a score must be a finite number: leave out failed runs")
    differences = pairs[:, 0] - pairs[:, 1]
    if len(differences) == 0 or differences.mean() >= 0:
        return None
    p = signed_rank_p(differences)
    return p if p < threshold else None


def signed_rank_p(differences: NDArray[np.float64]) -> float:
    """Exact one-sided p-value of the hypothesis that paired differences tend to be negative.

    It is the fraction of all sign patterns whose sum of positive ranks is at most the observed
    one. Tied differences have their mean rank, with which the test stays exact; differences of 0
    are left out. The p-value of n other differences is at least 2⁻ⁿ; it is 1 if n is 0.

    Args:
        differences: Differences of the pairs, of shape (n,).
    """
    moved = differences[differences != 0]
    if len(moved) == 0:
        return 1.0
    ranks = _doubled_ranks(np.abs(moved))
    # Python integers have no limit: there are 2ⁿ patterns.
    patterns = _patterns_by_sum(ranks)
    observed = sum(rank for rank, moves in zip(ranks, moved, strict=True) if moves > 0)
    return sum(patterns[: observed + 1]) / (1 << len(ranks))


def _doubled_ranks(sizes: NDArray[np.float64]) -> list[int]:
    """Twice the rank of each size, from 1; ties have their mean rank. Of shape (n,)."""
    # Mean ranks are multiples of ½: their doubles are integers.
    _, where, counts = np.unique(sizes, return_inverse=True, return_counts=True)
    return [int(rank) for rank in (2 * np.cumsum(counts) - counts + 1)[where]]


def _patterns_by_sum(ranks: Sequence[int]) -> list[int]:
    """Number of subsets of the ranks with each sum, from 0 to the sum of all ranks."""
    counts = [1]
    for rank in ranks:
        without, within = counts + [0] * rank, [0] * rank + counts
        counts = [a + b for a, b in zip(without, within, strict=True)]
    return counts
