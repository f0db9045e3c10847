"""Many random searches at once: tuning scores and test scores of their winners."""

from dataclasses import dataclass
from math import ceil

import numpy as np
from landscape_table import Landscape
from numpy.typing import NDArray

TUNING_SEEDS = 5
"""Of a landscape, at most; the others are for the test."""


@dataclass(frozen=True, slots=True)
class Winners:
    """Winners of many searches: tuning and test scores, each of shape (repeats,)."""

    tuning: NDArray[np.float64]
    test: NDArray[np.float64]

    @property
    def gap(self) -> float:
        """By how much the tuning score overstates, on average: the optimism of the search."""
        return float((self.tuning - self.test).mean())

    @property
    def true_score(self) -> float:
        """Mean test score."""
        return float(self.test.mean())

    @property
    def overstated(self) -> float:
        """Share of the searches whose tuning score is above their test score."""
        return float((self.tuning > self.test).mean())


def gaussian_winners(
    configurations: int,
    seeds: int,
    *,
    noise: float,
    spread: float,
    repeats: int,
    generator: np.random.Generator,
) -> Winners:
    """Winners of searches in the Gaussian model, where the test score is the true mean.

    Args:
        configurations: K that are tried.
        seeds: Tuning runs n of each.
        noise: Standard deviation σ of the runs of one configuration.
        spread: Standard deviation τ of the true means of the configurations.
        repeats: Searches.
        generator: Of the draws.
    """
    true = spread * generator.standard_normal((repeats, configurations))
    runs = generator.standard_normal((repeats, configurations, seeds))
    means = true + noise * runs.mean(axis=2)
    best = means.argmax(axis=1)[:, None]
    return Winners(*(np.take_along_axis(scores, best, 1)[:, 0] for scores in (means, true)))


def fixed_winners(
    landscape: Landscape, configurations: int, seeds: int, repeats: int, number: int
) -> Winners:
    """Winners where each of some configurations runs on as many seeds; scores are normalised.

    Args:
        landscape: Where.
        configurations: K of its configurations, drawn without replacement.
        seeds: Tuning runs n of each, 5 at most; the test is on 5 others.
        repeats: Searches.
        number: Decides all draws.
    """
    drawn = _drawn(landscape, configurations, repeats, number)
    means = _ranked(drawn)[:, :, :seeds].mean(axis=2)
    return _of_best(landscape, drawn, means)


def two_stage_winners(
    landscape: Landscape, configurations: int, promoted: float, repeats: int, number: int
) -> Winners:
    """Winners where one seed screens, and the best go on to all tuning seeds.

    Args:
        landscape: Where.
        configurations: K of its configurations, drawn without replacement.
        promoted: Share of them that goes on.
        repeats: Searches.
        number: Decides all draws.
    """
    drawn = _drawn(landscape, configurations, repeats, number)
    scores = _ranked(drawn)
    order = np.argsort(-scores[:, :, 0], axis=1, kind="stable")
    chosen = order[:, : ceil(promoted * configurations), None]
    means = np.take_along_axis(scores, chosen, 1)[:, :, :TUNING_SEEDS].mean(axis=2)
    return _of_best(landscape, np.take_along_axis(drawn, chosen, 1), means)


def _drawn(
    landscape: Landscape, configurations: int, repeats: int, number: int
) -> NDArray[np.float64]:
    """Scores of drawn configurations with shuffled seeds: (repeats, configurations, seeds)."""
    generator = np.random.Generator(np.random.PCG64(np.random.SeedSequence([number])))
    rows, seeds = (
        generator.permuted(np.tile(np.arange(count), (repeats, 1)), axis=1)
        for count in landscape.final.shape
    )
    return np.asarray(landscape.final[rows[:, :configurations, None], seeds[:, None, :]])


def _ranked(scores: NDArray[np.float64]) -> NDArray[np.float64]:
    """The scores, with crashes below all other scores."""
    return np.where(np.isnan(scores), -np.inf, scores)


def _of_best(
    landscape: Landscape, drawn: NDArray[np.float64], means: NDArray[np.float64]
) -> Winners:
    best = means.argmax(axis=1)[:, None]
    runs = np.take_along_axis(drawn, best[:, :, None], 1)[:, 0, TUNING_SEEDS:]
    test = np.where(np.isnan(runs), landscape.scores.min(), runs).mean(axis=1)
    tuning = np.take_along_axis(means, best, 1)[:, 0]
    low, high = landscape.ends
    return Winners((tuning - low) / (high - low), (test - low) / (high - low))
