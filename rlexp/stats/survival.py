"""How long runs take to a threshold, when some never reach it: survival analysis."""

import math
from dataclasses import dataclass
from statistics import NormalDist

import numpy as np
from numpy.typing import ArrayLike, NDArray

from rlexp.stats import coverage
from rlexp.stats.interval import Interval

Array = NDArray[np.float64]
Integers = NDArray[np.int64]

COVERAGE = {3: 0.908, 5: 0.921, 10: 0.942, 20: 0.948}
"""Share of 95 % intervals of a restricted mean that held the truth, by runs.

Simulated with exponential times, followed for two of their means, so that 14 % are censored
(60,000 samples each; the 5 % of those of three runs that have no interval do not count).
"""
ROUNDING = 1e-12
"""What a product of shares may be off by."""


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class SurvivalCurve:
    """Share of runs that have not reached the threshold yet (Kaplan and Meier 1958).

    Attributes:
        times: Of shape (K,), rising: those at which a run reached the threshold.
        survival: Of shape (K,): the share from each of them on; before the first it is 1.
        standard_error: Of shape (K,), by Greenwood's formula; NaN where no run is left.
        low: Of shape (K,); NaN where the share is 0 and where there is one run.
        high: Of shape (K,); NaN where the share is 0 and where there is one run.
        at_risk: Of shape (K,): runs that were still on their way.
        events: Of shape (K,): runs that reached it then.
        follow_up: How long the run was followed that was followed longest.
        level: Of the interval at each time, on the scale of log(−log S).
        n: Runs, all of them.
    """

    times: Array
    survival: Array
    standard_error: Array
    low: Array
    high: Array
    at_risk: Integers
    events: Integers
    follow_up: float
    level: float
    n: int

    def at(self, time: float) -> float:
        """Share of runs that have not reached the threshold at a time."""
        after = int(np.searchsorted(self.times, time, "right"))
        return float(self.survival[after - 1]) if after else 1.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Median:
    """Time at which half of the runs have reached the threshold, and its interval.

    Each is nothing where the runs do not say it: the median if fewer than half of them reach the
    threshold, an end of the interval if its curve never falls to one half.
    """

    estimate: float | None
    low: float | None
    high: float | None
    level: float
    n: int


def kaplan_meier(times: ArrayLike, observed: ArrayLike, level: float = 0.95) -> SurvivalCurve:
    """The share of runs that have not reached the threshold, over time, of all runs.

    A run that never reached it counts for as long as it was followed. That it ended must say
    nothing about when it would have: true of a run whose budget is spent, doubtful of a failure.
    Intervals are Greenwood's on the scale of log(−log S), within 0 and 1 (Kalbfleisch and Prentice
    2002, "The Statistical Analysis of Failure Time Data", §1.4).

    Args:
        times: Of each run, of shape (n,), n ≥ 1: when it reached the threshold, or its last
            evaluation.
        observed: Of shape (n,): whether it reached it.
        level: Of the interval at each time.

    Raises:
        ValueError: There is no run, a time is negative or not finite, their numbers differ, or
            the level is not between 0 and 1.
    """
    followed, reached = checked_runs(times, observed)
    z = normal_quantile(level)
    at = np.unique(followed[reached])
    at_risk = (followed[:, np.newaxis] >= at).sum(axis=0)
    events = (followed[reached][:, np.newaxis] == at).sum(axis=0)
    survival = np.cumprod(1 - events / at_risk)
    error = np.sqrt(np.cumsum(_greenwood(at_risk, events)))
    low, high = _log_log(survival, error, z) if len(followed) > 1 else (survival * np.nan,) * 2
    return SurvivalCurve(
        times=at,
        survival=survival,
        standard_error=survival * error,
        low=low,
        high=high,
        at_risk=at_risk,
        events=events,
        follow_up=float(followed.max()),
        level=level,
        n=len(followed),
    )


def median_time(curve: SurvivalCurve) -> Median:
    """First time at which at least half of the runs have reached the threshold.

    The interval holds the times at which the interval of the curve holds one half (Brookmeyer and
    Crowley 1982, "A Confidence Interval for the Median Survival Time").
    """
    return Median(
        estimate=_first(curve.times, curve.survival),
        low=_first(curve.times, curve.low),
        high=_first(curve.times, curve.high),
        level=curve.level,
        n=curve.n,
    )


def restricted_mean(curve: SurvivalCurve, horizon: float) -> Interval:
    """Mean time to the threshold within a horizon, which those count as that never reach it.

    It is the area under the curve up to the horizon. Its variance is Greenwood's, times d/(d−1)
    with d runs that reached the threshold (Kaplan and Meier 1958, §6.2); the interval is t's with
    d − 1 degrees of freedom, within 0 and the horizon: without censored runs it is Student's.

    Args:
        curve: Of all runs.
        horizon: Above 0, in the unit of the times: as long as a run was followed, or any if the
            curve has fallen to 0.

    Raises:
        ValueError: The horizon is not above 0, or what happens up to it is not known.
    """
    if not 0 < horizon < math.inf:
        raise ValueError(f"a horizon of {horizon} holds no time: take one above 0")
    if horizon > curve.follow_up and curve.at(curve.follow_up) > ROUNDING:
        raise ValueError(
            f"no run was followed beyond {curve.follow_up:g}: take a horizon of that or less"
        )
    areas = _areas_after(curve, horizon)
    before = curve.times <= horizon
    d = int(curve.events[before].sum())
    spread = areas[1:] ** 2 * np.nan_to_num(_greenwood(curve.at_risk, curve.events))[before]
    ends = _t_ends(float(areas[0]), float(spread.sum()), d, horizon, curve.level)
    return Interval(
        estimate=float(areas[0]),
        low=None if isinstance(ends, str) else ends[0],
        high=None if isinstance(ends, str) else ends[1],
        level=curve.level,
        method="t with Greenwood's standard error",
        repetitions=0,
        n=curve.n,
        coverage=None if isinstance(ends, str) else expected_coverage(curve.n, curve.level),
        reason=ends if isinstance(ends, str) else None,
    )


def expected_coverage(n: int, level: float) -> float | None:
    """How often the interval of a restricted mean of n runs holds the truth.

    That of the next smaller number that was simulated; nothing outside of them or at another level.
    """
    if level != coverage.LEVEL or not min(COVERAGE) <= n <= max(COVERAGE):
        return None
    return COVERAGE[max(runs for runs in COVERAGE if runs <= n)]


def checked_runs(times: ArrayLike, observed: ArrayLike) -> tuple[Array, NDArray[np.bool_]]:
    """Times of runs, and whether they reached the threshold then, each of shape (n,).

    Raises:
        ValueError: As of `kaplan_meier`.
    """
    followed = np.asarray(times, dtype=np.float64)
    reached = np.asarray(observed, dtype=np.bool_)
    if followed.ndim != 1 or not len(followed) or followed.shape != reached.shape:
        raise ValueError(
            f"{followed.shape} times and {reached.shape} observed: give one of each for each run"
        )
    if not (np.isfinite(followed) & (followed >= 0)).all():
        raise ValueError("a time must be finite and not negative: censor at the last evaluation")
    return followed, reached


def normal_quantile(level: float) -> float:
    """What a standard normal exceeds, in either direction, with probability 1 − level.

    Raises:
        ValueError: The level is not between 0 and 1.
    """
    if not 0 < level < 1:
        raise ValueError(f"a level of {level} makes no interval: choose one between 0 and 1")
    return NormalDist().inv_cdf((1 + level) / 2)


def _greenwood(at_risk: Integers, events: Integers) -> Array:
    """Terms of Greenwood's variance of log S, of shape (K,); NaN where no run is left."""
    left = at_risk - events
    return np.asarray(events / at_risk / np.where(left > 0, left, np.nan))


def _log_log(survival: Array, error: Array, z: float) -> tuple[Array, Array]:
    """Ends of the interval of S, from the standard error of log S; NaN where S is 0."""
    log = np.log(np.where(survival > 0, survival, np.nan))
    factor = np.exp(z * error / -log)
    return np.exp(log * factor), np.exp(log / factor)


def _first(times: Array, shares: Array) -> float | None:
    """First time at which a share is one half or less."""
    reached = np.flatnonzero(shares <= 0.5 + ROUNDING)
    return float(times[reached[0]]) if len(reached) else None


def _areas_after(curve: SurvivalCurve, horizon: float) -> Array:
    """Area up to the horizon from 0, and from each time before it: of shape (1 + k,)."""
    before = curve.times <= horizon
    edges = np.concatenate([[0.0], curve.times[before], [horizon]])
    heights = np.concatenate([[1.0], curve.survival[before]])
    return np.asarray(np.cumsum((np.diff(edges) * heights)[::-1])[::-1])


def _t_ends(
    mean: float, variance: float, d: int, horizon: float, level: float
) -> tuple[float, float] | str:
    """Ends of the interval of a restricted mean, or why there are none."""
    from scipy.special import stdtrit

    if d < 2:
        return f"{'one run' if d else 'no run'} reached the threshold within the horizon"
    if variance <= (ROUNDING * horizon) ** 2:
        return "all runs took as long"
    half = float(stdtrit(d - 1, (1 + level) / 2)) * math.sqrt(variance * d / (d - 1))
    return max(0.0, mean - half), min(float(horizon), mean + half)
