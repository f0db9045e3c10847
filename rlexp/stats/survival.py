"""Survival analysis of the time to a threshold, with runs that never reach it as censored."""

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
"""Fraction of 95 % intervals of a restricted mean that contained the true value, by runs.

Simulated with exponential times and a follow-up of twice their mean, so that 14 % are censored
(60,000 samples each; the 5 % of samples of three runs without an interval are left out).
"""
ROUNDING = 1e-12
"""Rounding error of a product of fractions."""


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class SurvivalCurve:
    """Fraction of runs that have not reached the threshold (Kaplan and Meier 1958).

    Attributes:
        times: Times at which a run reached the threshold, ascending, of shape (K,).
        survival: Fraction of runs from each time on, of shape (K,); before the first it is 1.
        standard_error: By Greenwood's formula, of shape (K,); NaN where no run is left.
        low: Of shape (K,); NaN where the fraction is 0, and if there is one run only.
        high: Of shape (K,); NaN where the fraction is 0, and if there is one run only.
        at_risk: Runs that had not reached the threshold before each time, of shape (K,).
        events: Runs that reached the threshold at each time, of shape (K,).
        follow_up: Longest follow-up of a run.
        level: Level of the interval at each time, on the scale of log(−log S).
        n: Number of runs, censored ones included.
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
        """Fraction of runs that have not reached the threshold at a time."""
        after = int(np.searchsorted(self.times, time, "right"))
        return float(self.survival[after - 1]) if after else 1.0


@dataclass(frozen=True, slots=True, kw_only=True)
class MedianTime:
    """Median time to the threshold, with its interval.

    The median is None if fewer than half of the runs reach the threshold; an end of the interval
    is None if the corresponding bound of the survival curve never falls to one half.
    """

    estimate: float | None
    low: float | None
    high: float | None
    level: float
    n: int


def kaplan_meier(times: ArrayLike, observed: ArrayLike, level: float = 0.95) -> SurvivalCurve:
    """The Kaplan–Meier estimate of the fraction of runs that have not reached the threshold.

    A run that never reached the threshold is censored at its last evaluation. Censoring must be
    independent of the time that the run would have needed: this holds for a spent budget and is
    doubtful for a failure. Intervals are Greenwood's on the scale of log(−log S), within 0 and 1
    (Kalbfleisch and Prentice 2002, "The Statistical Analysis of Failure Time Data", §1.4).

    Args:
        times: Time at which each run reached the threshold, or its last evaluation, of shape
            (n,), n ≥ 1.
        observed: Whether each run reached the threshold, of shape (n,).
        level: Level of the interval at each time.

    Raises:
        ValueError: There is no run, a time is negative or not finite, their numbers differ, or
            the level is not between 0 and 1.
    """
    followed, reached = checked_runs(times, observed)
    z = normal_quantile(level)
    at = np.unique(followed[reached])
    # By convention a run that is censored at the time of an event is still at risk then.
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


def median_time(curve: SurvivalCurve) -> MedianTime:
    """First time at which at least half of the runs have reached the threshold.

    The interval consists of the times at which the interval of the curve contains one half
    (Brookmeyer and Crowley 1982, "A Confidence Interval for the Median Survival Time").
    """
    return MedianTime(
        estimate=_first(curve.times, curve.survival),
        low=_first(curve.times, curve.low),
        high=_first(curve.times, curve.high),
        level=curve.level,
        n=curve.n,
    )


def restricted_mean(curve: SurvivalCurve, horizon: float) -> Interval:
    """Restricted mean time to the threshold: each time above the horizon counts as the horizon.

    It is the area under the curve up to the horizon. Its variance is Greenwood's, times d/(d−1)
    with d runs that reached the threshold (Kaplan and Meier 1958, §6.2). The interval is a t
    interval with d − 1 degrees of freedom, clipped to 0 and the horizon; without censored runs it
    is Student's.

    Args:
        curve: The survival curve of all runs.
        horizon: Above 0, in the unit of the times; at most the longest follow-up, unless the
            curve has fallen to 0.

    Raises:
        ValueError: The horizon is not above 0, or it exceeds the longest follow-up.
    """
    if not 0 < horizon < math.inf:
        raise ValueError(f"the horizon must be a finite number above 0, not {horizon}")
    if horizon > curve.follow_up and curve.at(curve.follow_up) > ROUNDING:
        raise ValueError(
            f"the horizon {horizon:g} exceeds the longest follow-up of a run: "
            f"use at most {curve.follow_up:g}"
        )
    areas = _areas_after(curve, horizon)
    before = curve.times <= horizon
    d = int(curve.events[before].sum())
    # Greenwood's term is NaN where no run is left. The area after that time is 0 anyway.
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
    """Expected coverage of the interval of a restricted mean of n runs.

    It is that of the next smaller simulated number of runs; None outside of the simulated numbers
    and at other levels.
    """
    if level != coverage.LEVEL or not min(COVERAGE) <= n <= max(COVERAGE):
        return None
    return COVERAGE[max(runs for runs in COVERAGE if runs <= n)]


def checked_runs(times: ArrayLike, observed: ArrayLike) -> tuple[Array, NDArray[np.bool_]]:
    """Times of runs, and whether each run reached the threshold, both of shape (n,).

    Raises:
        ValueError: As in `kaplan_meier`.
    """
    followed = np.asarray(times, dtype=np.float64)
    reached = np.asarray(observed, dtype=np.bool_)
    if followed.ndim != 1 or not len(followed) or followed.shape != reached.shape:
        raise ValueError(
            f"times of shape {followed.shape} and observed of shape {reached.shape}: "
            "give one value of each for each run"
        )
    if not (np.isfinite(followed) & (followed >= 0)).all():
        raise ValueError(
            "a time must be a finite number ≥ 0: use the last evaluation of a censored run"
        )
    return followed, reached


def normal_quantile(level: float) -> float:
    """The two-sided critical value of the standard normal distribution at a level.

    Raises:
        ValueError: The level is not between 0 and 1.
    """
    if not 0 < level < 1:
        raise ValueError(f"the level of an interval must be between 0 and 1, not {level}")
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
    """First time at which a fraction is one half or less."""
    # A product of fractions that is exactly one half may be rounded up.
    reached = np.flatnonzero(shares <= 0.5 + ROUNDING)
    return float(times[reached[0]]) if len(reached) else None


def _areas_after(curve: SurvivalCurve, horizon: float) -> Array:
    """Areas under the survival curve from each start to the horizon, of shape (1 + k,).

    The starts are 0 and the k event times up to the horizon.
    """
    before = curve.times <= horizon
    edges = np.concatenate([[0.0], curve.times[before], [horizon]])
    heights = np.concatenate([[1.0], curve.survival[before]])
    return np.asarray(np.cumsum((np.diff(edges) * heights)[::-1])[::-1])


def _t_ends(
    mean: float, variance: float, d: int, horizon: float, level: float
) -> tuple[float, float] | str:
    """Ends of the interval of a restricted mean, or the reason why there are none."""
    from scipy.special import stdtrit

    if d < 2:
        return f"{'one run' if d else 'no run'} reached the threshold within the horizon"
    if variance <= (ROUNDING * horizon) ** 2:
        return "all runs took the same time"
    half = float(stdtrit(d - 1, (1 + level) / 2)) * math.sqrt(variance * d / (d - 1))
    return max(0.0, mean - half), min(float(horizon), mean + half)
