"""Time to a threshold: of one run, its comparison between labels, and the fraction of runs."""

import math
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike

from rlexp.stats.curves import Curve, checked_curve
from rlexp.stats.interval import Interval
from rlexp.stats.survival import checked_runs, normal_quantile


@dataclass(frozen=True, slots=True, kw_only=True)
class LogRank:
    """Result of the log-rank test of equal times to the threshold.

    Attributes:
        statistic: χ² with one degree of freedom; None if no test was possible.
        p_value: Two-sided, by the asymptotic distribution, which is rough for few runs.
        n: Runs of both labels.
        reason: Why no test was possible.
    """

    statistic: float | None
    p_value: float | None
    n: int
    reason: str | None = None


def time_to_threshold(curve: Curve, threshold: float, *, stays: int = 1) -> tuple[float, bool]:
    """Time at which a run reaches a threshold, and whether it reaches it.

    A run that does not reach the threshold is censored at its last evaluation.

    Args:
        curve: Steps and values of its evaluations, of shape (t,), t ≥ 1; NaN is below every
            threshold.
        threshold: In the unit of the values; a value equal to the threshold reaches it.
        stays: Number of consecutive evaluations that must reach the threshold; the first of them
            gives the time.

    Returns:
        The step of that evaluation and True, or the step of the last evaluation and False.

    Raises:
        ValueError: There is no evaluation, the curve is invalid, or `stays` is below 1.
    """
    steps, values = checked_curve(curve)
    if not len(steps):
        raise ValueError(
            "a run without evaluations has no time to a threshold: leave it out, and report it"
        )
    if stays < 1 or not math.isfinite(threshold):
        raise ValueError(
            f"threshold must be a finite number and stays at least 1, not {threshold} and {stays}"
        )
    # Differences of a running count give the hits in each window of `stays` evaluations at once.
    above = np.concatenate([[0], np.cumsum(values >= threshold)])
    starts = np.flatnonzero(above[stays:] - above[:-stays] == stays)
    return (float(steps[starts[0]]), True) if len(starts) else (float(steps[-1]), False)


def log_rank(times: tuple[ArrayLike, ArrayLike], observed: tuple[ArrayLike, ArrayLike]) -> LogRank:
    """Log-rank test of equal times to the threshold of two labels (Mantel 1966).

    Args:
        times: Times of the runs of each label, as in `kaplan_meier`.
        observed: Whether each run reached the threshold.

    Raises:
        ValueError: As in `kaplan_meier`.
    """
    (a, reached), (b, others) = (checked_runs(*side) for side in zip(times, observed, strict=True))
    n = len(a) + len(b)
    at = np.unique(np.concatenate([a[reached], b[others]]))
    risk_a, risk_b = ((side[:, np.newaxis] >= at).sum(axis=0) for side in (a, b))
    event_a = (a[reached][:, np.newaxis] == at).sum(axis=0)
    events = event_a + (b[others][:, np.newaxis] == at).sum(axis=0)
    risk = risk_a + risk_b
    excess = float((event_a - events * risk_a / risk).sum())
    # If one run is at risk, the numerator is 0 too: the maximum only prevents 0 / 0.
    ties = (risk - events) / np.maximum(risk - 1, 1)
    variance = float((events * ties * risk_a * risk_b / risk**2).sum())
    if variance == 0:
        reason = "no run reached the threshold" if not len(at) else "no time at which runs differ"
        return LogRank(statistic=None, p_value=None, n=n, reason=reason)
    statistic = excess**2 / variance
    # χ² with one degree of freedom is a squared normal number, whose tail needs no SciPy.
    return LogRank(statistic=statistic, p_value=math.erfc(math.sqrt(statistic / 2)), n=n)


def wilson(successes: int, n: int, level: float = 0.95) -> Interval:
    """The fraction of runs that succeed, with Wilson's interval (1927), which stays in [0, 1].

    Args:
        successes: Runs that reached the threshold.
        n: Number of all runs, 1 or more.
        level: Level of the interval.

    Raises:
        ValueError: The successes are not between 0 and n, n is below 1, or the level is not
            between 0 and 1.
    """
    if not 0 <= successes <= n or n < 1:
        raise ValueError(
            f"{successes} successes of {n} runs are impossible: n must count all runs, at least 1"
        )
    square = normal_quantile(level) ** 2
    share = successes / n
    centre = (share + square / (2 * n)) / (1 + square / n)
    spread = share * (1 - share) / n + square / (4 * n**2)
    half = math.sqrt(square * spread) / (1 + square / n)
    return Interval(
        estimate=share,
        # The formula gives exactly 0 or 1 at the extremes, but rounding would miss them.
        low=centre - half if successes else 0.0,
        high=centre + half if successes < n else 1.0,
        level=level,
        method="Wilson",
        repetitions=0,
        n=n,
    )
