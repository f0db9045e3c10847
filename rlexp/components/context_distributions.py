"""Distributions of a context parameter: a range, a list of values, or a constant."""

import itertools
import math
from dataclasses import dataclass
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from rlexp.environments.task_bins import TaskBins
from rlexp.errors import ConfigError

BINS = 20
"""Bins of a range of contexts, in which those of a training are counted."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Range:
    """All numbers between two bounds, in units of the parameter."""

    low: float
    high: float
    scale: Literal["uniform", "log_uniform"] = "uniform"
    """Whether the number itself (`uniform`) or its logarithm (`log_uniform`) is uniform."""


Distribution = Range | tuple[float, ...] | float
"""A range, a list of equally likely values, or a constant."""


def check_distribution(distribution: Distribution, key: str) -> None:
    """Refuse an empty distribution and one with infinite, unordered or repeated numbers.

    Args:
        distribution: The distribution of one parameter.
        key: Its configuration key, for the error.

    Raises:
        ConfigError: The distribution is invalid; the message says why.
    """
    numbers = _numbers(distribution)
    if not numbers:
        raise ConfigError(f"{key}=[] holds no value: name one at least")
    for number in numbers:
        if not math.isfinite(number):
            raise ConfigError(f"{key}: {number} is no finite number")
    if isinstance(distribution, Range):
        low, high = distribution.low, distribution.high
        if low >= high:
            raise ConfigError(
                f"{key}: low={low} must be below high={high}; one value is written as a number"
            )
        if distribution.scale == "log_uniform" and low <= 0:
            raise ConfigError(f"{key}: low={low} must be above 0 where scale=log_uniform")
    elif len(set(numbers)) < len(numbers):
        raise ConfigError(f"{key}={list(numbers)} names a value twice")


def bounds(distribution: Distribution) -> tuple[float, float]:
    """Return the least and the greatest number."""
    numbers = _numbers(distribution)
    return min(numbers), max(numbers)


def values(distribution: Distribution) -> tuple[float, ...] | None:
    """Return all values, or None for a range."""
    return None if isinstance(distribution, Range) else _numbers(distribution)


def axis(distribution: Distribution, points: int) -> tuple[float, ...]:
    """Return evenly spaced numbers: `points` of a range, else all values."""
    if not isinstance(distribution, Range):
        return _numbers(distribution)
    low, high = distribution.low, distribution.high
    spaced = np.geomspace if distribution.scale == "log_uniform" else np.linspace
    if points == 1:
        # The middle of three points is the middle on the scale of the range.
        return (_rounded(spaced(low, high, 3)[1]),)
    inner = spaced(low, high, points)[1:-1]
    # The bounds themselves, because geomspace may miss its ends by a rounding error.
    return (low, *map(_rounded, inner), high)


def draw(distribution: Distribution, generator: np.random.Generator) -> float:
    """Draw a number; a constant is returned without a draw from the generator."""
    if isinstance(distribution, Range):
        low, high = distribution.low, distribution.high
        if distribution.scale == "uniform":
            return float(generator.uniform(low, high))
        # Rounding of exp and log may leave the range by a bit.
        drawn = math.exp(generator.uniform(math.log(low), math.log(high)))
        return min(max(drawn, low), high)
    numbers = _numbers(distribution)
    return numbers[0] if len(numbers) == 1 else numbers[int(generator.integers(len(numbers)))]


def is_drawn(distribution: Distribution) -> bool:
    """Whether the distribution has more than one number."""
    return isinstance(distribution, Range) or len(_numbers(distribution)) > 1


def normalised(distribution: Distribution, number: float) -> float:
    """Scale a number so that the distribution ranges from -1 to 1; a constant becomes 0."""
    low, high = bounds(distribution)
    if low == high:
        # A constant has no width, so a test value is shown relative to the constant itself.
        return (number - low) / (abs(low) or 1.0)
    if isinstance(distribution, Range) and distribution.scale == "log_uniform":
        low, high, number = math.log(low), math.log(high), math.log(number)
    return 2 * (number - low) / (high - low) - 1


def nearest(distribution: Distribution, number: float) -> float:
    """Return the nearest value of a list; for a range, the number itself."""
    if isinstance(distribution, Range):
        return number
    return min(_numbers(distribution), key=lambda value: abs(value - number))


def bins_of(training: Distribution, test: Distribution) -> TaskBins:
    """Return bins over two distributions of a parameter, with the share of each in `test`.

    Where one is a range, 20 bins of equal width reach over both; on the logarithmic scale, if the
    range of `test` has it and all numbers are above 0. Otherwise each value has a bin.
    """
    numbers = sorted({*_numbers(training), *_numbers(test)})
    low, high = numbers[0], numbers[-1]
    if low == high:
        return TaskBins(np.array([low, np.nextafter(high, np.inf)]), np.ones(1))
    if isinstance(training, Range) or isinstance(test, Range):
        logarithmic = isinstance(test, Range) and test.scale == "log_uniform" and low > 0
        spaced = np.geomspace if logarithmic else np.linspace
        edges = np.asarray(spaced(low, high, BINS + 1), dtype=np.float64)
    else:
        middles = [(left + right) / 2 for left, right in itertools.pairwise(numbers)]
        edges = np.array([low, *middles, high])
    return TaskBins(edges, _shares(test, edges))


def _shares(distribution: Distribution, edges: NDArray[np.float64]) -> NDArray[np.float64]:
    """Return the share of each bin in a distribution (bins)."""
    if isinstance(distribution, Range):
        inside = np.clip(edges, distribution.low, distribution.high)
        scaled = np.log(inside) if distribution.scale == "log_uniform" else inside
        lengths = np.diff(scaled)
    else:
        bins = TaskBins(edges, np.zeros(len(edges) - 1))
        places = [bins.position(number) for number in _numbers(distribution)]
        lengths = np.bincount(places, minlength=len(edges) - 1).astype(np.float64)
    shares: NDArray[np.float64] = lengths / lengths.sum()
    return shares


def _rounded(number: float) -> float:
    """Round to 12 digits, so that people read 0.6 instead of 0.6000000000000001."""
    return float(f"{number:.12g}")


def _numbers(distribution: Distribution) -> tuple[float, ...]:
    if isinstance(distribution, Range):
        return distribution.low, distribution.high
    return distribution if isinstance(distribution, tuple) else (distribution,)
