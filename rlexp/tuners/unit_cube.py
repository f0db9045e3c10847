"""Points of the unit cube by number, without a look at any trial."""

import numpy as np
from numpy.typing import NDArray

from rlexp.errors import ConfigError

MOST_DIMENSIONS = 21_201
"""As many as there are direction numbers (Joe and Kuo, 2008)."""
MOST_POINTS = 2**30
SCRAMBLING = 0
"""Trial 0 is never suggested, so that its stream is free for what all trials share."""


def generator(seed: int, number: int) -> np.random.Generator:
    """The stream of random numbers that belongs to a trial alone."""
    return np.random.Generator(np.random.PCG64(np.random.SeedSequence([seed, number])))


def random_point(dimensions: int, seed: int, number: int) -> NDArray[np.float64]:
    """A point drawn uniformly for trial `number`, of shape (dimensions,)."""
    return generator(seed, number).random(dimensions)


def check_sobol_point(dimensions: int, number: int) -> None:
    """Refuse a point that a Sobol' sequence lacks, without the half second that SciPy needs.

    Args:
        dimensions: Of the point.
        number: Of the point, from 1.

    Raises:
        ConfigError: The sequence has fewer dimensions or points than that.
    """
    if dimensions > MOST_DIMENSIONS or number > MOST_POINTS:
        raise ConfigError(
            f"a Sobol' sequence has {MOST_DIMENSIONS:,} parameters and {MOST_POINTS:,} points "
            "at most; take tuner=random"
        )


def sobol_point(dimensions: int, seed: int, number: int) -> NDArray[np.float64]:
    """Point `number`, from 1, of a scrambled Sobol' sequence, of shape (dimensions,).

    Raises:
        ConfigError: The sequence has fewer dimensions or points than that.
    """
    check_sobol_point(dimensions, number)
    from scipy.stats.qmc import Sobol

    sequence = Sobol(dimensions, scramble=True, seed=generator(seed, SCRAMBLING))
    if number > 1:
        sequence.fast_forward(number - 1)
    point: NDArray[np.float64] = sequence.random(1)[0]
    return point
