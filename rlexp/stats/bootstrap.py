"""Intervals of statistics of few runs, by the stratified bootstrap."""

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass

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
"""What a denominator of the continued fraction is replaced by where it would be 0."""
PRECISION = 3e-16
"""Relative change at which the continued fraction and Newton's method have converged."""
MOST_STEPS = 1_000
MOST_FREEDOM = 200
"""Degrees of freedom beyond which rounding costs digits here, and SciPy computes."""


def student_quantile(probability: float, freedom: float) -> float:
    """The quantile of Student's t distribution.

    Newton's method on the distribution function, from a start that it cannot overshoot: to the
    right of the median the function is concave.

    Args:
        probability: Between 0 and 1.
        freedom: Degrees of freedom, above 0; any real number.

    Raises:
        ValueError: The probability or the degrees of freedom are out of range.
    """
    if not 0 < probability < 1 or not freedom > 0:
        raise ValueError("a probability between 0 and 1 and degrees of freedom above 0 are needed")
    if freedom > MOST_FREEDOM:
        from scipy.special import stdtrit

        return float(stdtrit(freedom, probability))
    if probability == 0.5:
        return 0.0
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
    share, rest = freedom / (freedom + t * t), t * t / (freedom + t * t)
    return 0.5 * _incomplete_beta(share, rest, freedom / 2, 0.5)


def _density(t: float, freedom: float) -> float:
    scale = math.lgamma((freedom + 1) / 2) - math.lgamma(freedom / 2)
    log = scale - 0.5 * math.log(freedom * math.pi)
    return math.exp(log - (freedom + 1) / 2 * math.log1p(t * t / freedom))


def _incomplete_beta(x: float, rest: float, a: float, b: float) -> float:
    """The regularised incomplete beta function at `x`, where `rest` is 1 − x to full precision."""
    front = math.exp(
        math.lgamma(a + b) - math.lgamma(a) - math.lgamma(b) + a * math.log(x) + b * math.log(rest)
    )
    if x < (a + 1) / (a + b + 2):
        return front * _continued_fraction(x, a, b) / a
    return 1 - front * _continued_fraction(rest, b, a) / b


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
"""Both ends of an interval, or why there are none."""

METHODS = {
    "t": "t with bootstrap standard error",
    "percentile": "percentile bootstrap",
    "basic": "basic bootstrap",
    "bca": "BCa bootstrap",
}
"""Methods by name, and what an interval of each is called."""
ROUNDING = 1e-12
"""Values that differ by no more than this share of the largest are equal."""


@dataclass(frozen=True, slots=True)
class Resampled:
    """A statistic of scores, of shape (N,), and its values on resamples of them."""

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
    """Statistics with their intervals, all from the same resamples of the runs.

    Runs are drawn with replacement within each task; tasks are fixed. The methods:

    - t: estimate ± t_ν s √(n/(n−1)), where s is the deviation of the resampled statistic, and ν
      are Satterthwaite's degrees of freedom. Where tasks have different numbers of runs, those are
      spread by √(n_j/(n_j−1)) about the mean of their task instead.
    - percentile: quantiles of the resampled statistic, as rliable's.
    - basic: those, mirrored at the estimate.
    - bca: bias-corrected and accelerated (Efron 1987, "Better Bootstrap Confidence Intervals"),
      with the jackknife by single runs of a task, so that the order of the runs does not matter.

    Args:
        scores: Of shape (N,).
        metrics: Statistics by name.
        resampling: Repetitions, level and seed.
        method: Of `METHODS`.
        threads: Of the computation, which do not change the result.

    Returns:
        An interval for each metric; without ends, and with a reason, where none is possible.

    Raises:
        ValueError: There is no such method.
    """
    if method not in METHODS:
        raise ValueError(f"there is no method {method!r}; methods: {', '.join(METHODS)}")
    if reason := no_spread(scores):
        return {
            k: _without_ends(scores, m, resampling, method, reason) for k, m in metrics.items()
        }
    values = _resampled(scores, metrics, resampling, method, threads)
    found = {k: Resampled(scores, m, float(m(scores)), values[k]) for k, m in metrics.items()}
    return {k: _described(one, resampling, method) for k, one in found.items()}


def interval(
    scores: TaskScores,
    statistic: Statistic,
    resampling: Resampling,
    *,
    method: str = "t",
    threads: int | None = None,
) -> Interval:
    """One statistic with its interval: see `intervals`."""
    found = intervals(scores, {"": statistic}, resampling, method=method, threads=threads)
    return found[""]


def _resampled(
    scores: TaskScores,
    metrics: Mapping[str, Statistic],
    resampling: Resampling,
    method: str,
    threads: int | None,
) -> dict[str, Array]:
    if method != "t" or scores.balanced:
        return replicates(scores, metrics, resampling, threads=threads)
    found: dict[str, Array] = {}
    for name, statistic in metrics.items():
        spread, same = _spread(scores, statistic)
        found |= replicates(spread, {name: same}, resampling, threads=threads)
    return found


def _spread(scores: TaskScores, statistic: Statistic) -> tuple[TaskScores, Statistic]:
    """Scores with the variance of a sample, and what varies on them as the statistic does."""
    aggregate = aggregate_of(statistic)
    if aggregate is None or aggregate.cap is None:
        return unbiased(scores), statistic
    return unbiased(aggregate.capped(scores)), Aggregate(aggregate.centre)


def _described(one: Resampled, resampling: Resampling, method: str) -> Interval:
    ends = _ends(one, resampling, method)
    low, high = (None, None) if isinstance(ends, str) else ends
    return Interval(
        estimate=one.estimate,
        low=low,
        high=high,
        level=resampling.level,
        method=METHODS[method],
        repetitions=resampling.repetitions,
        n=one.scores.n,
        tasks=len(one.scores.sizes),
        seed=resampling.seed,
        coverage=None if low is None else _coverage(one, resampling, method),
        reason=ends if isinstance(ends, str) else None,
    )


def _without_ends(
    scores: TaskScores, statistic: Statistic, resampling: Resampling, method: str, reason: str
) -> Interval:
    """What is said where nothing was resampled."""
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


def _coverage(one: Resampled, resampling: Resampling, method: str) -> float | None:
    """Where it was simulated: of tasks that all have as many runs."""
    aggregate = aggregate_of(one.statistic)
    simulated = resampling.level == coverage.LEVEL
    simulated &= resampling.repetitions >= coverage.REPETITIONS and one.scores.balanced
    if aggregate is None or aggregate.cap is not None or not simulated:
        return None
    sizes = one.scores.sizes
    return coverage.expected_coverage(method, aggregate.centre, sizes[0], len(sizes))


def _ends(one: Resampled, resampling: Resampling, method: str) -> Ends:
    if not np.isfinite(one.values).all():
        return "a resample gives no finite number"
    if np.ptp(one.values) <= ROUNDING * np.abs(one.values).max():
        return "every resample gives the same"
    return ENDS[method](one, resampling)


def _t(one: Resampled, resampling: Resampling) -> Ends:
    largest = np.abs(one.values - one.estimate).max()
    error = largest * ((one.values - one.estimate) / largest).std()
    if one.scores.balanced:
        n = one.scores.sizes[0]
        error *= np.sqrt(n / (n - 1))
    freedom = degrees_of_freedom(one.scores, aggregate_of(one.statistic))
    half = float(student_quantile(1 - resampling.tail, freedom) * error)
    return one.estimate - half, one.estimate + half


def _percentile(one: Resampled, resampling: Resampling) -> Ends:
    return _quantiles(one.values, resampling.tail, 1 - resampling.tail)


def _basic(one: Resampled, resampling: Resampling) -> Ends:
    low, high = _quantiles(one.values, resampling.tail, 1 - resampling.tail)
    return 2 * one.estimate - high, 2 * one.estimate - low


def _bca(one: Resampled, resampling: Resampling) -> Ends:
    return bca_ends(one, resampling, acceleration(one.scores, one.statistic))


def bca_ends(one: Resampled, resampling: Resampling, accelerated: float) -> Ends:
    """Ends by Efron's BCa method with a given acceleration."""
    from scipy.special import ndtr, ndtri

    # Of a typical value: beside one far away all others would lie at the estimate.
    slack = ROUNDING * np.median(np.abs(one.values))
    below = float((one.values < one.estimate - slack).mean())
    if below in {0, 1}:
        return "every resample lies on one side of the estimate"
    bias = ndtri(below)
    moved = bias + ndtri([resampling.tail, 1 - resampling.tail])
    shares = ndtr(bias + moved / (1 - accelerated * moved))
    return _quantiles(one.values, *shares)


def _quantiles(values: Array, low: float, high: float) -> tuple[float, float]:
    found = np.quantile(values, [low, high])
    return float(found[0]), float(found[1])


ENDS: dict[str, Callable[[Resampled, Resampling], Ends]] = {
    "t": _t,
    "percentile": _percentile,
    "basic": _basic,
    "bca": _bca,
}
