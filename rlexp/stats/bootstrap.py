"""Confidence intervals for statistics of few runs, by the stratified bootstrap."""

import math
from collections.abc import Callable, Hashable, Mapping
from dataclasses import dataclass
from functools import lru_cache

import numpy as np
from numpy.typing import NDArray

from rlexp.stats import coverage
from rlexp.stats.aggregate import Aggregate, Statistic, aggregate_of
from rlexp.stats.interval import Interval
from rlexp.stats.replicates import replicates
from rlexp.stats.resampling import Resampling
from rlexp.stats.standard_error import acceleration, degrees_of_freedom, no_spread, unbiased
from rlexp.stats.task_scores import TaskScores

TINY = 1e-300
"""Replaces a denominator of the continued fraction that would be 0."""
PRECISION = 3e-16
"""Relative change at which the continued fraction and Newton's method have converged."""
MOST_STEPS = 1_000
MOST_DEGREES_OF_FREEDOM = 200
"""Above this many degrees of freedom the method here loses digits, and SciPy is used."""


def student_quantile(probability: float, freedom: float) -> float:
    """The quantile of Student's t distribution.

    It is found by Newton's method on the distribution function, started at the median. The
    function is concave to the right of the median, so that no step overshoots.

    Args:
        probability: Between 0 and 1.
        freedom: Degrees of freedom, above 0; any real number.

    Raises:
        ValueError: The probability or the degrees of freedom are out of range.
    """
    if not 0 < probability < 1 or not freedom > 0:
        raise ValueError("a probability between 0 and 1 and degrees of freedom above 0 are needed")
    # SciPy is imported only where it is needed: the import is slow.
    if freedom > MOST_DEGREES_OF_FREEDOM:
        from scipy.special import stdtrit

        return float(stdtrit(freedom, probability))
    if probability == 0.5:
        return 0.0
    # The distribution is symmetric: only the half right of the median is solved.
    tail, t = min(probability, 1 - probability), 0.0
    for _ in range(MOST_STEPS):
        step = (upper_tail(t, freedom) - tail) / _density(t, freedom)
        t += step
        if abs(step) <= 4 * PRECISION * abs(t):
            break
    return -t if probability < 0.5 else t


def upper_tail(t: float, freedom: float) -> float:
    """The probability that Student's t is above `t`, for t ≥ 0.

    Half the regularised incomplete beta function at ν / (ν + t²) with parameters ν/2 and 1/2
    (Abramowitz and Stegun 1964, 26.5.27).
    """
    if t == 0:
        return 0.5
    share, complement = freedom / (freedom + t * t), t * t / (freedom + t * t)
    return 0.5 * _incomplete_beta(share, complement, freedom / 2, 0.5)


def _density(t: float, freedom: float) -> float:
    scale = math.lgamma((freedom + 1) / 2) - math.lgamma(freedom / 2)
    log = scale - 0.5 * math.log(freedom * math.pi)
    return math.exp(log - (freedom + 1) / 2 * math.log1p(t * t / freedom))


def _incomplete_beta(x: float, complement: float, a: float, b: float) -> float:
    """The regularised incomplete beta function at `x`, where `complement` is 1 − x.

    The complement is passed because 1 − x would lose digits where x is close to 1.
    """
    front = math.exp(
        math.lgamma(a + b)
        - math.lgamma(a)
        - math.lgamma(b)
        + a * math.log(x)
        + b * math.log(complement)
    )
    # Below this point the fraction of x converges fast; above it that of 1 − x does.
    if x < (a + 1) / (a + b + 2):
        return front * _continued_fraction(x, a, b) / a
    return 1 - front * _continued_fraction(complement, b, a) / b


def _continued_fraction(x: float, a: float, b: float) -> float:
    """The continued fraction of the incomplete beta function, by Lentz's method (DLMF 8.17.22)."""
    c, d = 1.0, 1 / _away_from_zero(1 - (a + b) * x / (a + 1))
    total = d
    for m in range(1, MOST_STEPS):
        even = m * (b - m) * x / ((a + 2 * m - 1) * (a + 2 * m))
        odd = -(a + m) * (a + b + m) * x / ((a + 2 * m) * (a + 2 * m + 1))
        for term in (even, odd):
            d = 1 / _away_from_zero(1 + term * d)
            c = _away_from_zero(1 + term / c)
            total *= c * d
        if abs(c * d - 1) <= PRECISION:
            break
    return total


def _away_from_zero(value: float) -> float:
    return value if abs(value) > TINY else TINY


Array = NDArray[np.float64]
Ends = tuple[float, float] | str
"""Both ends of an interval, or the reason why the interval has none."""

METHODS = {
    "t": "t with bootstrap standard error",
    "percentile": "percentile bootstrap",
    "basic": "basic bootstrap",
    "bca": "BCa bootstrap",
}
"""Methods by name, with the text that describes them in results."""
ROUNDING = 1e-12
"""Values that differ by no more than this fraction of the largest count as equal."""


@dataclass(frozen=True, slots=True)
class Resampled:
    """A statistic of scores of shape (N,), with its values on resamples of those scores."""

    scores: TaskScores
    statistic: Statistic
    estimate: float
    values: Array


def intervals(
    scores: TaskScores,
    metrics: Mapping[str, Statistic],
    resampling: Resampling,
    *,
    method: str = "t",
    threads: int | None = None,
) -> dict[str, Interval]:
    """Statistics with their intervals, all computed from the same resamples of the runs.

    Runs are drawn with replacement within each task; tasks are fixed. The methods:

    - t: estimate ± t_ν s √(n/(n−1)), where s is the standard deviation of the resampled statistic
      and ν are Satterthwaite's degrees of freedom. If tasks have different numbers of runs, the
      scores of task j are first spread by √(n_j/(n_j−1)) about their mean instead.
    - percentile: quantiles of the resampled statistic, as in rliable.
    - basic: the percentile interval mirrored at the estimate.
    - bca: bias-corrected and accelerated (Efron 1987, "Better Bootstrap Confidence Intervals").
      The jackknife leaves out one run of one task at a time: the order of the runs is irrelevant.

    Args:
        scores: Of shape (N,).
        metrics: Statistics by name.
        resampling: Repetitions, level and seed.
        method: A key of `METHODS`.
        threads: Number of threads; the result does not depend on it.

    The intervals are remembered: when a live page is computed again after one run has ended, the
    runs of most labels are the same.

    Returns:
        An interval for each metric. An interval that is not possible has no ends but a reason.

    Raises:
        ValueError: The method is unknown.
    """
    if method not in METHODS:
        raise ValueError(f"unknown method {method!r}; choose one of: {', '.join(METHODS)}")
    if threads is not None or not all(isinstance(m, Hashable) for m in metrics.values()):
        return _intervals(scores, metrics, resampling, method, threads)
    values = np.asarray(scores.values, dtype=np.float64).tobytes()
    return dict(
        _remembered_intervals(values, scores.sizes, tuple(metrics.items()), resampling, method)
    )


@lru_cache(maxsize=1024)
def _remembered_intervals(
    values: bytes,
    sizes: tuple[int, ...],
    metrics: tuple[tuple[str, Statistic], ...],
    resampling: Resampling,
    method: str,
) -> Mapping[str, Interval]:
    scores = TaskScores(np.frombuffer(values, dtype=np.float64), sizes)
    return _intervals(scores, dict(metrics), resampling, method, None)


def _intervals(
    scores: TaskScores,
    metrics: Mapping[str, Statistic],
    resampling: Resampling,
    method: str,
    threads: int | None,
) -> dict[str, Interval]:
    if reason := no_spread(scores):
        return {
            k: _without_ends(scores, m, resampling, method, reason) for k, m in metrics.items()
        }
    values = _resampled(scores, metrics, resampling, method, threads)
    return {
        name: _with_ends(Resampled(scores, m, float(m(scores)), values[name]), resampling, method)
        for name, m in metrics.items()
    }


def interval(
    scores: TaskScores,
    statistic: Statistic,
    resampling: Resampling,
    *,
    method: str = "t",
    threads: int | None = None,
) -> Interval:
    """One statistic with its interval: see `intervals`."""
    return intervals(scores, {"": statistic}, resampling, method=method, threads=threads)[""]


def _resampled(
    scores: TaskScores,
    metrics: Mapping[str, Statistic],
    resampling: Resampling,
    method: str,
    threads: int | None,
) -> dict[str, Array]:
    if method != "t" or scores.balanced:
        return replicates(scores, metrics, resampling, threads=threads)
    # No single factor √(n/(n−1)) exists if tasks have different n: the scores are widened instead.
    resampled: dict[str, Array] = {}
    for name, statistic in metrics.items():
        widened, equivalent = _widened(scores, statistic)
        resampled |= replicates(widened, {name: equivalent}, resampling, threads=threads)
    return resampled


def _widened(scores: TaskScores, statistic: Statistic) -> tuple[TaskScores, Statistic]:
    """Scores with unbiased variance, and a statistic that varies on them as the given one does."""
    aggregate = aggregate_of(statistic)
    if aggregate is None or aggregate.cap is None:
        return unbiased(scores), statistic
    # Capping comes first: a widened score could cross the cap and would lose its spread.
    return unbiased(aggregate.capped(scores)), Aggregate(aggregate.centre)


def _with_ends(resampled: Resampled, resampling: Resampling, method: str) -> Interval:
    ends = _ends(resampled, resampling, method)
    low, high = (None, None) if isinstance(ends, str) else ends
    return Interval(
        estimate=resampled.estimate,
        low=low,
        high=high,
        level=resampling.level,
        method=METHODS[method],
        repetitions=resampling.repetitions,
        n=resampled.scores.n,
        tasks=len(resampled.scores.sizes),
        seed=resampling.seed,
        coverage=None if low is None else _coverage(resampled, resampling, method),
        reason=ends if isinstance(ends, str) else None,
    )


def _without_ends(
    scores: TaskScores, statistic: Statistic, resampling: Resampling, method: str, reason: str
) -> Interval:
    """The interval of a statistic for which nothing was resampled."""
    return Interval(
        estimate=float(statistic(scores)),
        low=None,
        high=None,
        level=resampling.level,
        method=METHODS[method],
        repetitions=0,
        n=scores.n,
        tasks=len(scores.sizes),
        reason=reason,
    )


def _coverage(resampled: Resampled, resampling: Resampling, method: str) -> float | None:
    """Expected coverage, which was simulated for equal numbers of runs per task only."""
    aggregate = aggregate_of(resampled.statistic)
    simulated = resampling.level == coverage.LEVEL
    simulated &= resampling.repetitions >= coverage.REPETITIONS and resampled.scores.balanced
    if aggregate is None or aggregate.cap is not None or not simulated:
        return None
    sizes = resampled.scores.sizes
    return coverage.expected_coverage(method, aggregate.centre, sizes[0], len(sizes))


def _ends(resampled: Resampled, resampling: Resampling, method: str) -> Ends:
    if not np.isfinite(resampled.values).all():
        return "a resample gives no finite number"
    # Equal values can differ by rounding errors, which would become a tiny interval.
    if np.ptp(resampled.values) <= ROUNDING * np.abs(resampled.values).max():
        return "all resamples give the same value"
    return ENDS[method](resampled, resampling)


def _t(resampled: Resampled, resampling: Resampling) -> Ends:
    # Squares of very large deviations overflow, and squares of tiny ones underflow.
    largest = np.abs(resampled.values - resampled.estimate).max()
    error = largest * ((resampled.values - resampled.estimate) / largest).std()
    if resampled.scores.balanced:
        # A resample of n runs has variance (n−1)/n times that of a new sample.
        n = resampled.scores.sizes[0]
        error *= np.sqrt(n / (n - 1))
    freedom = degrees_of_freedom(resampled.scores, aggregate_of(resampled.statistic))
    half = float(student_quantile(1 - resampling.tail, freedom) * error)
    return resampled.estimate - half, resampled.estimate + half


def _percentile(resampled: Resampled, resampling: Resampling) -> Ends:
    return _quantiles(resampled.values, resampling.tail, 1 - resampling.tail)


def _basic(resampled: Resampled, resampling: Resampling) -> Ends:
    low, high = _quantiles(resampled.values, resampling.tail, 1 - resampling.tail)
    return 2 * resampled.estimate - high, 2 * resampled.estimate - low


def _bca(resampled: Resampled, resampling: Resampling) -> Ends:
    return bca_ends(resampled, resampling, acceleration(resampled.scores, resampled.statistic))


def bca_ends(resampled: Resampled, resampling: Resampling, accelerated: float) -> Ends:
    """Ends of the interval by Efron's BCa method with a given acceleration."""
    from scipy.special import ndtr, ndtri

    # The tolerance is relative to a typical value. Relative to the largest, one outlier would
    # make all other values count as equal to the estimate.
    slack = ROUNDING * np.median(np.abs(resampled.values))
    below = float((resampled.values < resampled.estimate - slack).mean())
    # The normal quantile of 0 or 1 is infinite.
    if below in {0, 1}:
        return "every resample lies on one side of the estimate"
    bias = ndtri(below)
    moved = bias + ndtri([resampling.tail, 1 - resampling.tail])
    shares = ndtr(bias + moved / (1 - accelerated * moved))
    return _quantiles(resampled.values, *shares)


def _quantiles(values: Array, low: float, high: float) -> tuple[float, float]:
    quantiles = np.quantile(values, [low, high])
    return float(quantiles[0]), float(quantiles[1])


ENDS: dict[str, Callable[[Resampled, Resampling], Ends]] = {
    "t": _t,
    "percentile": _percentile,
    "basic": _basic,
    "bca": _bca,
}
