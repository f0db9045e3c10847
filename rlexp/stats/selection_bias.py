"""Selection bias of tuning: the winner's tuning score against its test score."""

from collections.abc import Sequence
from dataclasses import dataclass
from math import erfc, pi, sqrt

import numpy as np
from numpy.typing import ArrayLike, NDArray

from rlexp.stats.interval import Interval
from rlexp.stats.pairs.difference import difference_interval
from rlexp.stats.resampling import Resampling
from rlexp.stats.task_scores import TaskScores

FURTHEST = 12.0
"""Limit of integration: beyond it the normal density is below 1e-31."""
POINTS = 4_801
"""Points of the integration."""


@dataclass(frozen=True, slots=True, kw_only=True)
class TuningModel:
    """Gaussian model of tuning: normal means of configurations, and normal runs about each mean.

    Attributes:
        configurations: Number of configurations K.
        seeds: Tuning runs n of each configuration.
        noise: Standard deviation σ of the runs of one configuration.
        spread: Standard deviation τ of the true means of the configurations.
        mean: Mean μ of the true means.
    """

    configurations: int
    seeds: int
    noise: float
    spread: float
    mean: float = 0.0

    def __post_init__(self) -> None:
        """Refuse counts below 1 and standard deviations that are negative or not finite."""
        if self.configurations < 1 or self.seeds < 1:
            raise ValueError("at least one configuration and one seed are needed")
        if not (0 <= self.noise < np.inf and 0 <= self.spread < np.inf):
            raise ValueError("noise and spread are standard deviations: give finite numbers ≥ 0")

    @property
    def reliability(self) -> float:
        """Fraction τ² / (τ² + σ²/n) of the variance of tuning scores that is due to true means."""
        total = self.spread**2 + self.noise**2 / self.seeds
        # Without any variance each tuning score is the true mean.
        return self.spread**2 / total if total else 1.0

    @property
    def deviation(self) -> float:
        """Standard deviation √(τ² + σ²/n) of the tuning scores of configurations."""
        return sqrt(self.spread**2 + self.noise**2 / self.seeds)

    @property
    def expected_optimism(self) -> float:
        """Expected difference between the winner's tuning score and its true mean."""
        excess = expected_maximum(self.configurations) * self.deviation
        return excess * (1 - self.reliability)

    def shrunken(self, tuning_score: float) -> float:
        """Expected true mean given a tuning score: a diagnostic, not a test score."""
        return self.mean + self.reliability * (tuning_score - self.mean)


def expected_maximum(count: int) -> float:
    """Expected maximum of independent standard normal numbers.

    E = ∫ x K φ(x) Φ(x)^(K−1) dx, by the trapezoidal rule. The integrand is smooth and vanishes at both
    ends, so that the rule is exact to 1e-9.

    Args:
        count: Number K of normal numbers, 1 or more.
    """
    if count == 1:
        return 0.0
    x = np.linspace(-FURTHEST, FURTHEST, POINTS)
    # 1 − Φ(x) from `erfc`, because Φ(x)^K would lose all digits where Φ(x) is close to 1.
    above = np.array([erfc(value / sqrt(2)) / 2 for value in x.tolist()])
    with np.errstate(divide="ignore"):
        power = np.exp((count - 1) * np.log1p(-above))
    density = count * np.exp(-(x**2) / 2) / sqrt(2 * pi) * power
    return float((x * density).sum() * (x[1] - x[0]))


def expected_optimism(configurations: int, seeds: int, noise: float, spread: float) -> float:
    """Expected difference between the best tuning score and the true mean of its configuration.

    m_K (σ²/n) / √(τ² + σ²/n), with m_K the expected maximum of K standard normal numbers: the
    winner's curse in the Gaussian model.

    Args:
        configurations: Number of configurations K.
        seeds: Tuning runs n of each configuration.
        noise: Standard deviation σ of the runs of one configuration.
        spread: Standard deviation τ of the true means of the configurations.

    Raises:
        ValueError: A count is below 1, or a standard deviation negative.
    """
    model = TuningModel(configurations=configurations, seeds=seeds, noise=noise, spread=spread)
    return model.expected_optimism


def fit_tuning_model(scores: Sequence[ArrayLike]) -> TuningModel:
    """The Gaussian model of a study, estimated from the moments of its tuning scores.

    σ² is the mean variance within configurations; τ² is the variance of the means less σ²/n, or 0
    if that is negative.

    Args:
        scores: For each of K configurations, its runs on the n tuning seeds, of shape (n,).

    Raises:
        ValueError: There are fewer than two configurations or two seeds, the configurations have
            different numbers of runs, or a score is not finite.
    """
    shapes = {np.shape(runs) for runs in scores}
    if len(shapes) > 1:
        raise ValueError(
            "the configurations have different numbers of runs: leave out those that were not run "
            "on all tuning seeds"
        )
    table = np.array([np.sort(np.asarray(runs, dtype=np.float64)) for runs in scores])
    _check(table)
    # Sorted rows make every sum independent of the order of configurations and runs.
    table = table[np.lexsort(table.T)]
    noise = float(table.var(axis=1, ddof=1).mean())
    means = table.mean(axis=1)
    seeds = table.shape[1]
    return TuningModel(
        configurations=len(table),
        seeds=seeds,
        noise=sqrt(noise),
        spread=sqrt(max(float(means.var(ddof=1)) - noise / seeds, 0.0)),
        mean=float(means.mean()),
    )


def _check(table: NDArray[np.float64]) -> None:
    if table.ndim != 2 or min(table.shape) < 2:
        raise ValueError(
            "noise and spread need at least two configurations and two tuning seeds: with one "
            "seed they cannot be separated"
        )
    if not np.isfinite(table).all():
        raise ValueError("a score must be a finite number: leave out failed runs")


def optimism(tuning: ArrayLike, test: ArrayLike, level: float = 0.95) -> Interval:
    """Tuning score of the winner minus its test score, with Welch's interval.

    A positive value means that tuning overstated the score, because the winner was selected for
    it. The interval expresses how precisely both means are known. There is no interval if a side
    has one run or no run varies.

    Args:
        tuning: Scores of the winner's tuning runs, of shape (n,), n ≥ 1.
        test: Scores of its test runs, on other seeds, of shape (k,), k ≥ 1.
        level: Nominal coverage.

    Raises:
        ValueError: A side has no score, or one is not finite.
    """
    first, second = (TaskScores.from_tasks([side]) for side in (tuning, test))
    return difference_interval(first, second, level=level)


@dataclass(frozen=True, slots=True, kw_only=True)
class ScoredConfiguration:
    """The scores of one configuration on one task, in brief.

    Attributes:
        runs: Number of runs n, 1 or more.
        mean: Mean score.
        deviation: Standard deviation of the scores with n − 1 in the denominator; None for one run.
    """

    runs: int
    mean: float
    deviation: float | None


def overstatement_of_best(
    scored: Sequence[ScoredConfiguration],
    resampling: Resampling,
    configurations: int | None = None,
) -> Interval | None:
    """How much better the best of several mean scores is expected to look than it is.

    Gaussian model: true means of standard deviation τ, runs of standard deviation σ about them. The
    expected difference between the best mean score and the true mean of its configuration is
    m_K v / √(τ² + v), with v = σ² · mean(1/n) and m_K the expected maximum of K standard normal
    numbers. σ² is the pooled variance within configurations, and τ² + v the variance of the means,
    but at least v.

    The interval is the generalised confidence interval of Weerahandi (1993): the two sums of
    squares divided by chi-squared numbers take the place of the variances. A test simulates its
    coverage. Where the seeds of a configuration have common effects, the estimate is too large.

    Args:
        scored: The configurations whose scores are known.
        resampling: Seed, repetitions and level of the interval.
        configurations: Number K of configurations; None for that of `scored`.

    Returns:
        None where it cannot be estimated: below two configurations, or with one run of each.
    """
    freedom = sum(each.runs - 1 for each in scored)
    if len(scored) < 2 or not freedom:
        return None
    within = sum((each.runs - 1) * (each.deviation or 0.0) ** 2 for each in scored) / freedom
    noise = within * float(np.mean([1 / each.runs for each in scored]))
    between = float(np.var([each.mean for each in scored], ddof=1))
    maximum = expected_maximum(configurations or len(scored))
    runs = sum(each.runs for each in scored)
    if not noise:
        reason = "the runs of each configuration have the same score"
        return _of_best(0.0, None, None, runs, resampling, reason)
    generator = resampling.generator()
    size = resampling.repetitions
    noises = noise * freedom / generator.chisquare(freedom, size)
    totals = between * (len(scored) - 1) / generator.chisquare(len(scored) - 1, size)
    drawn = maximum * noises / np.sqrt(np.maximum(totals, noises))
    low, high = np.quantile(drawn, [resampling.tail, 1 - resampling.tail])
    estimate = maximum * noise / sqrt(max(between, noise))
    return _of_best(estimate, float(low), float(high), runs, resampling)


def _of_best(
    estimate: float,
    low: float | None,
    high: float | None,
    runs: int,
    resampling: Resampling,
    reason: str | None = None,
) -> Interval:
    return Interval(
        estimate=estimate,
        low=low,
        high=high,
        level=resampling.level,
        method="generalised",
        repetitions=0 if low is None else resampling.repetitions,
        n=runs,
        seed=None if low is None else resampling.seed,
        reason=reason,
    )
