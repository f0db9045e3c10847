"""Shares of a whole, with intervals from resampled trials."""

from collections.abc import Iterator, Sequence

import numpy as np
from numpy.typing import NDArray

from rlexp.stats.interval import Interval

Numbers = NDArray[np.float64]
Rows = NDArray[np.intp]

LEVEL = 0.95


def seeded(seed: int, *number: int) -> np.random.Generator:
    """The generator of one of several draws of a seed."""
    return np.random.Generator(np.random.PCG64(np.random.SeedSequence([seed, *number])))


def resamples(
    count: int, repetitions: int, seed: int
) -> Iterator[tuple[Rows, np.random.Generator]]:
    """Rows of trials drawn with replacement, sorted, of shape (count,).

    Each with a generator of its own for what is made of them.
    """
    for number in range(repetitions):
        generator = seeded(seed, 3, number)
        yield np.sort(generator.integers(0, count, size=count)), generator


def summing_to_one(effects: Numbers) -> Numbers:
    """Effects as shares of their sum, or zeros where there is none; of the same shape."""
    total = effects.sum()
    return effects / total if total > 0 else np.zeros_like(effects)


def share_intervals(
    estimate: Numbers, resampled: Sequence[Numbers], count: int, seed: int
) -> list[Interval]:
    """Percentile intervals of shares.

    They are widened to hold the estimate where they would not: a resample holds fewer different
    trials than there are, which moves its shares.

    Args:
        estimate: The shares, of shape (parameters,).
        resampled: Those of each resample; one of zeros, where there was nothing to share, is
            left out.
        count: Trials, `n` of the intervals.
        seed: Of the resamples.
    """
    drawn = [one for one in resampled if one.any()]
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
        reason="in no resample of the trials was there anything to share",
    )
