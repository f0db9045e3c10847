"""Shares of a total (such as hyperparameter importances), with bootstrap intervals over trials."""

from collections.abc import Iterator, Sequence

import numpy as np
from numpy.typing import NDArray

from rlexp.stats.interval import Interval

Numbers = NDArray[np.float64]
Rows = NDArray[np.intp]

LEVEL = 0.95


def seeded(seed: int, *number: int) -> np.random.Generator:
    """The generator of a numbered draw; equal seeds and numbers give equal generators."""
    return np.random.Generator(np.random.PCG64(np.random.SeedSequence([seed, *number])))


def resamples(
    count: int, repetitions: int, seed: int
) -> Iterator[tuple[Rows, np.random.Generator]]:
    """Bootstrap samples of trials: sorted row indices of shape (count,), each with a generator.

    The generator continues after the draw, so that a statistic of the sample can be random too.
    """
    for number in range(repetitions):
        # The numbers 0 to 2 belong to other draws from the same seed, those of the importances.
        generator = seeded(seed, 3, number)
        yield np.sort(generator.integers(0, count, size=count)), generator


def summing_to_one(effects: Numbers) -> Numbers:
    """Effects divided by their sum, or zeros if the sum is 0; of the same shape."""
    total = effects.sum()
    return effects / total if total > 0 else np.zeros_like(effects)


def share_intervals(
    estimate: Numbers, resampled: Sequence[Numbers], count: int, seed: int
) -> list[Interval]:
    """Percentile intervals of shares, widened to contain the estimate.

    Widening is needed because a resample has fewer distinct trials than the sample, which biases
    its shares.

    Args:
        estimate: The shares, of shape (parameters,).
        resampled: The shares of each resample; resamples with all shares 0 are left out.
        count: Number of trials, the `n` of the intervals.
        seed: Seed of the resamples.
    """
    drawn = [shares for shares in resampled if shares.any()]
    if not drawn:
        return [_without_ends(float(share), count) for share in estimate]
    low, high = np.quantile(drawn, [(1 - LEVEL) / 2, (1 + LEVEL) / 2], axis=0)
    return [
        Interval(
            estimate=float(share),
            low=float(min(below, share)),
            high=float(max(above, share)),
            level=LEVEL,
            method="percentile bootstrap of the trials",
            repetitions=len(drawn),
            n=count,
            seed=seed,
        )
        for share, below, above in zip(estimate, low, high, strict=True)
    ]


def _without_ends(share: float, count: int) -> Interval:
    return Interval(
        estimate=share,
        low=None,
        high=None,
        level=LEVEL,
        method="none",
        repetitions=0,
        n=count,
        reason="all effects are 0 in every resample of the trials",
    )
