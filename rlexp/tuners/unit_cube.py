"""Random and quasi-random points of the unit cube, by trial number."""

import warnings
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from rlexp.errors import ConfigError

MAX_DIMENSIONS = 21_201
"""The number of available direction numbers (Joe and Kuo, 2008)."""
# SciPy computes the sequence with 30 bits by default.
MAX_POINTS = 2**30
SCRAMBLING_STREAM = 0
"""Trial 0 is never suggested, so its random stream scrambles the sequence for all trials."""


def trial_generator(seed: int, number: int) -> np.random.Generator:
    """The random generator of one trial, independent of those of other trials."""
    # PCG64 by name, because NumPy may give `default_rng` another generator in a later release.
    return np.random.Generator(np.random.PCG64(np.random.SeedSequence([seed, number])))


def random_point(dimensions: int, seed: int, number: int) -> NDArray[np.float64]:
    """A uniform random point for trial `number`, of shape (dimensions,)."""
    return trial_generator(seed, number).random(dimensions)


def check_sobol_point(dimensions: int, number: int) -> None:
    """Refuse a point that a Sobol' sequence does not have, without importing SciPy.

    Args:
        dimensions: The dimensions of the point.
        number: The number of the point, from 1.

    Raises:
        ConfigError: The sequence has fewer dimensions or fewer points.
    """
    if dimensions > MAX_DIMENSIONS or number > MAX_POINTS:
        raise ConfigError(
            f"a Sobol' sequence has at most {MAX_DIMENSIONS:,} parameters and {MAX_POINTS:,} "
            "points; choose tuner=random"
        )


def sobol_point(dimensions: int, seed: int, number: int) -> NDArray[np.float64]:
    """Point `number`, from 1, of a scrambled Sobol' sequence, of shape (dimensions,).

    Raises:
        ConfigError: The sequence has fewer dimensions or fewer points.
    """
    return SobolPoints(dimensions, seed, most=1).point(number)


@dataclass(slots=True)
class SobolPoints:
    """The points of a scrambled Sobol' sequence; those that follow each other are computed together.

    Attributes:
        dimensions: Number of dimensions.
        seed: The seed of the scrambling.
        most: Number of points that are computed at a time.
    """

    dimensions: int
    seed: int
    most: int = 64
    _first: int = 1
    _block: NDArray[np.float64] | None = None

    def point(self, number: int) -> NDArray[np.float64]:
        """Point `number`, from 1, of shape (dimensions,).

        Raises:
            ConfigError: The sequence has fewer dimensions or fewer points.
        """
        check_sobol_point(self.dimensions, number)
        first = number - (number - 1) % self.most
        if self._block is None or first != self._first:
            self._first, self._block = first, self._points(first)
        return np.asarray(self._block[number - first])

    def _points(self, first: int) -> NDArray[np.float64]:
        from scipy.stats.qmc import Sobol

        generator = trial_generator(self.seed, SCRAMBLING_STREAM)
        sequence = Sobol(self.dimensions, scramble=True, seed=generator)
        # In a fresh sequence, SciPy skips n − 1 points after the first, which is −1 for n = 0.
        if first > 1:
            sequence.fast_forward(first - 1)
        with warnings.catch_warnings():
            # SciPy warns where the number of points is no power of 2.
            warnings.simplefilter("ignore", UserWarning)
            points: NDArray[np.float64] = sequence.random(min(self.most, MAX_POINTS + 1 - first))
        return points
