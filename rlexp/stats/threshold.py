"""Whether and when a run reaches a threshold, and whether two labels differ in that."""

import math
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike

from rlexp.stats.curves import Curve, checked_curve
from rlexp.stats.interval import Interval
from rlexp.stats.survival import checked_runs, normal_quantile


@dataclass(frozen=True, slots=True, kw_only=True)
class LogRank:
    """A test of whether two labels take as long; nothing, and a reason, where there is none.

    Attributes:
        statistic: χ² with one degree of freedom.
        p_value: Two-sided, by the asymptotic distribution: rough with few runs.
        n: Runs of both.
        reason: Why there is no test.
    """

    statistic: float | None
    p_value: float | None
    n: int
    reason: str | None = None


def time_to_threshold(curve: Curve, threshold: float, *, stays: int = 1) -> tuple[float, bool]:
    """First evaluation of a run that reaches a threshold, and whether any does.

    A run that does not reach it is censored at its last evaluation: it took longer than that.

    Args:
        curve: Steps and values of its evaluations, of shape (t,), t ≥ 1; a NaN reaches nothing.
        threshold: In the unit of the values; a value equal to it reaches it.
        stays: Evaluations in a row that reach it, of which the first counts.

    Returns:
        The step of that evaluation and True, or of the last one and False.

    Raises:
        ValueError: There is no evaluation, the curve is none, or `stays` is below 1.
    """
    steps, values = checked_curve(curve)
    if not len(steps):
        raise ValueError(
            "a run without an evaluation was never followed: leave it out, and say so"
        )
    if stays < 1 or not math.isfinite(threshold):
        raise ValueError(
            f"threshold {threshold}, stays {stays}: a number, and 1 or more, are needed"
        )
    above = np.concatenate([[0], np.cumsum(values >= threshold)])
    starts = np.flatnonzero(above[stays:] - above[:-stays] == stays)
    return (float(steps[starts[0]]), True) if len(starts) else (float(steps[-1]), False)


def log_rank(times: tuple[ArrayLike, ArrayLike], observed: tuple[ArrayLike, ArrayLike]) -> LogRank:
    """Test whether two labels take as long to the threshold (Mantel 1966).

    Args:
        times: Of the runs of each label, as of `kaplan_meier`.
        observed: Whether they reached the threshold.

    Raises:
        ValueError: As of `kaplan_meier`.
    """
    (a, reached), (b, others) = (checked_runs(*side) for side in zip(times, observed, strict=True))
    n = len(a) + len(b)
    at = np.unique(np.concatenate([a[reached], b[others]]))
    risk_a, risk_b = ((own[:, np.newaxis] >= at).sum(axis=0) for own in (a, b))
    event_a = (a[reached][:, np.newaxis] == at).sum(axis=0)
    events = event_a + (b[others][:, np.newaxis] == at).sum(axis=0)
    risk = risk_a + risk_b
    excess = float((event_a - events * risk_a / risk).sum())
    ties = (risk - events) / np.maximum(risk - 1, 1)
    variance = float((events * ties * risk_a * risk_b / risk**2).sum())
    if variance == 0:
        reason = "no run reached the threshold" if not len(at) else "no time at which runs differ"
        return LogRank(statistic=None, p_value=None, n=n, reason=reason)
    statistic = excess**2 / variance
    return LogRank(statistic=statistic, p_value=math.erfc(math.sqrt(statistic / 2)), n=n)


def wilson(successes: int, n: int, level: float = 0.95) -> Interval:
    """The share of runs that succeed, with Wilson's interval (1927), which 0 and 1 bound.

    Args:
        successes: Runs that reached the threshold.
        n: Runs, all of them, 1 or more.
        level: Of the interval.

    Raises:
        ValueError: There are more successes than runs, fewer than none, no runs, or the level is
            not between 0 and 1.
    """
    if not 0 <= successes <= n or n < 1:
        raise ValueError(f"{successes} successes of {n} runs make no share: count all runs")
    square = normal_quantile(level) ** 2
    share = successes / n
    centre = (share + square / (2 * n)) / (1 + square / n)
    spread = share * (1 - share) / n + square / (4 * n**2)
    half = math.sqrt(square * spread) / (1 + square / n)
    return Interval(
        estimate=share,
        low=centre - half if successes else 0.0,
        high=centre + half if successes < n else 1.0,
        level=level,
        method="Wilson",
        repetitions=0,
        n=n,
    )
