"""Intervals by the bootstrap."""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from rlexp.stats.aggregate import interquartile_mean


@dataclass(frozen=True, slots=True)
class Interval:
    """An estimate and its interval, with everything that is needed to compute it again.

    `low` and `high` are missing where no interval is possible.
    """

    estimate: float
    low: float | None
    high: float | None
    level: float
    method: str
    repetitions: int
    n: int
    seed: int


def iqm_interval(
    scores: NDArray[np.float64],
    *,
    seed: int,
    level: float = 0.95,
    repetitions: int = 10_000,
) -> Interval:
    """The interquartile mean of the runs of one task, with a percentile bootstrap interval.

    The order of the runs does not matter. One run, or several equal ones, show no spread: no
    interval is possible then, and `method` says why.

    Args:
        scores: One of each run, of shape (n,), n ≥ 1.
        seed: Of the resampling.
        level: Nominal coverage; the true one is lower for few runs.
        repetitions: Resamples.
    """
    n = len(scores)
    ordered = np.sort(scores)
    estimate = float(interquartile_mean(ordered))
    if ordered[0] == ordered[-1]:
        reason = "one run alone shows no spread" if n == 1 else "all runs are equal"
        return Interval(estimate, None, None, level, reason, 0, n, seed)
    generator = np.random.default_rng(seed)
    drawn = ordered[generator.integers(0, n, size=(repetitions, n))]
    tail = (1 - level) / 2
    low, high = np.quantile(interquartile_mean(drawn), [tail, 1 - tail])
    return Interval(
        estimate, float(low), float(high), level, "percentile bootstrap", repetitions, n, seed
    )
