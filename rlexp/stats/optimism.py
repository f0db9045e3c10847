"""What tuning overstates: the score that made a configuration win, against its test score."""

from collections.abc import Sequence
from dataclasses import dataclass
from math import sqrt

import numpy as np
from numpy.typing import ArrayLike, NDArray

from rlexp.stats.difference import difference_interval
from rlexp.stats.interval import Interval
from rlexp.stats.task_scores import TaskScores

FURTHEST = 40.0
"""Deviations beyond which a normal density is no more than the smallest number."""


@dataclass(frozen=True, slots=True, kw_only=True)
class TuningModel:
    """Tuning as a draw: the means of configurations are normal, and so are runs about them.

    Attributes:
        configurations: How many were tried, K.
        seeds: Tuning runs of each, n.
        noise: Standard deviation of the runs of one configuration, σ.
        spread: Standard deviation of the true means of the configurations, τ.
        mean: Of those means, μ.
    """

    configurations: int
    seeds: int
    noise: float
    spread: float
    mean: float = 0.0

    def __post_init__(self) -> None:
        """Refuse what is no model."""
        if self.configurations < 1 or self.seeds < 1:
            raise ValueError("a configuration and a seed or more are needed")
        if not (0 <= self.noise < np.inf and 0 <= self.spread < np.inf):
            raise ValueError("noise and spread are standard deviations: 0 or more, and finite")

    @property
    def reliability(self) -> float:
        """Share τ² / (τ² + σ²/n) of the variance of tuning scores that the true means make."""
        total = self.spread**2 + self.noise**2 / self.seeds
        return self.spread**2 / total if total else 1.0

    @property
    def deviation(self) -> float:
        """Standard deviation √(τ² + σ²/n) of the tuning scores of configurations."""
        return sqrt(self.spread**2 + self.noise**2 / self.seeds)

    @property
    def expected_optimism(self) -> float:
        """By how much the winner's tuning score exceeds its true mean, on average."""
        excess = expected_maximum(self.configurations) * self.deviation
        return excess * (1 - self.reliability)

    def shrunken(self, tuning_score: float) -> float:
        """What a tuning score lets expect of the true mean: a diagnostic, never a test score."""
        return self.mean + self.reliability * (tuning_score - self.mean)


def expected_maximum(count: int) -> float:
    """Expected maximum of so many standard normal numbers.

    E = ∫₀^∞ (1 − Φ(x)^K) dx − ∫₋∞^0 Φ(x)^K dx, by quadrature to 1e-9.

    Args:
        count: K, 1 or more.
    """
    from scipy.integrate import quad
    from scipy.special import log_ndtr

    def above(x: float) -> float:
        return float(-np.expm1(count * log_ndtr(x)))

    def below(x: float) -> float:
        return float(np.exp(count * log_ndtr(-x)))

    # The step from 1 to 0 lies near √(2 ln K), where the quadrature must not miss it.
    step = sqrt(2 * np.log(count)) if count > 1 else 1.0
    positive = quad(above, 0, FURTHEST, points=[step], epsabs=1e-11, limit=200)[0]
    return float(positive - quad(below, 0, FURTHEST, epsabs=1e-11, limit=200)[0])


def expected_optimism(configurations: int, seeds: int, noise: float, spread: float) -> float:
    """By how much the best tuning score exceeds the true mean of its configuration, on average.

    m_K (σ²/n) / √(τ² + σ²/n), with m_K the expected maximum of K standard normal numbers: the
    winner's curse in the Gaussian model.

    Args:
        configurations: K that were tried.
        seeds: Tuning runs n of each.
        noise: Standard deviation σ of the runs of one configuration.
        spread: Standard deviation τ of the true means of the configurations.

    Raises:
        ValueError: A count is below 1, or a standard deviation negative.
    """
    model = TuningModel(configurations=configurations, seeds=seeds, noise=noise, spread=spread)
    return model.expected_optimism


def fit_tuning_model(scores: Sequence[ArrayLike]) -> TuningModel:
    """The Gaussian model of a study, by the moments of its tuning scores.

    σ² is the mean variance within configurations; τ² what the variance of their means exceeds
    σ²/n by, if anything.

    Args:
        scores: For each of K configurations, its runs on the n tuning seeds, of shape (n,).

    Raises:
        ValueError: There are fewer than two configurations or two seeds, the configurations do
            not all have as many runs, or a score is not finite.
    """
    shapes = {np.shape(runs) for runs in scores}
    if len(shapes) > 1:
        raise ValueError(
            "configurations have different numbers of runs: leave out those that were not run on "
            "all tuning seeds"
        )
    table = np.array([np.sort(np.asarray(runs, dtype=np.float64)) for runs in scores])
    _check(table)
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
            "noise and spread need two configurations and two tuning seeds or more: with one seed "
            "they cannot be told apart"
        )
    if not np.isfinite(table).all():
        raise ValueError("a score must be a finite number; a failure is no score")


def optimism(tuning: ArrayLike, test: ArrayLike, level: float = 0.95) -> Interval:
    """Tuning score of the winner minus its test score, with Welch's interval.

    Positive where tuning overstated. The interval says how exactly both means are known; that the
    winner was selected for its tuning score is just what the difference shows. Where a run is
    alone on its side, or none varies, there is no interval, and a reason.

    Args:
        tuning: Scores of the winner's tuning runs, of shape (n,), n ≥ 1.
        test: Scores of its test runs, on other seeds, of shape (k,), k ≥ 1.
        level: Nominal coverage.

    Raises:
        ValueError: A side has no score, or one is not finite.
    """
    first, second = (TaskScores.from_tasks([side]) for side in (tuning, test))
    return difference_interval(first, second, level=level)
