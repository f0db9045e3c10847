"""What one parameter of a context may be: a range, a list of values, or one value."""

import math
from dataclasses import dataclass
from typing import Literal

import numpy as np

from rlexp.errors import ConfigError


@dataclass(frozen=True, slots=True, kw_only=True)
class Range:
    """Every number between two bounds, in units of the parameter."""

    low: float
    high: float
    scale: Literal["uniform", "log_uniform"] = "uniform"
    """Whether equal differences or equal factors are equally likely."""


Distribution = Range | tuple[float, ...] | float
"""A range, values that are equally likely, or a constant."""


def check_distribution(distribution: Distribution, place: str) -> None:
    """Refuse a distribution that holds nothing, or no finite number.

    Args:
        distribution: Of one parameter.
        place: Its name in the configuration.

    Raises:
        ConfigError: Says what is wrong with it.
    """
    numbers = _numbers(distribution)
    if not numbers:
        raise ConfigError(f"{place}=[] holds no value: name one at least")
    for number in numbers:
        if not math.isfinite(number):
            raise ConfigError(f"{place}: {number} is no finite number")
    if isinstance(distribution, Range):
        low, high = distribution.low, distribution.high
        if low >= high:
            raise ConfigError(
                f"{place}: low={low} must be below high={high}; one value is written as a number"
            )
        if distribution.scale == "log_uniform" and low <= 0:
            raise ConfigError(f"{place}: low={low} must be above 0 where scale=log_uniform")
    elif len(set(numbers)) < len(numbers):
        raise ConfigError(f"{place}={list(numbers)} names a value twice")


def bounds(distribution: Distribution) -> tuple[float, float]:
    """The least and the greatest number."""
    numbers = _numbers(distribution)
    return min(numbers), max(numbers)


def values(distribution: Distribution) -> tuple[float, ...] | None:
    """All numbers that there are; nothing for a range."""
    return None if isinstance(distribution, Range) else _numbers(distribution)


def axis(distribution: Distribution, points: int) -> tuple[float, ...]:
    """Numbers from one end to the other: `points` of a range, else all that there are."""
    if not isinstance(distribution, Range):
        return _numbers(distribution)
    low, high = distribution.low, distribution.high
    spaced = np.geomspace if distribution.scale == "log_uniform" else np.linspace
    if points == 1:
        return (_rounded(spaced(low, high, 3)[1]),)
    inner = spaced(low, high, points)[1:-1]
    # geomspace may miss its ends by a rounding.
    return (low, *map(_rounded, inner), high)


def draw(distribution: Distribution, generator: np.random.Generator) -> float:
    """One number; of a single one nothing is drawn."""
    if isinstance(distribution, Range):
        low, high = distribution.low, distribution.high
        if distribution.scale == "uniform":
            return float(generator.uniform(low, high))
        drawn = math.exp(generator.uniform(math.log(low), math.log(high)))
        return min(max(drawn, low), high)
    numbers = _numbers(distribution)
    return numbers[0] if len(numbers) == 1 else numbers[int(generator.integers(len(numbers)))]


def is_drawn(distribution: Distribution) -> bool:
    """Whether there is more than one number."""
    return isinstance(distribution, Range) or len(_numbers(distribution)) > 1


def normalised(distribution: Distribution, number: float) -> float:
    """A number on a scale on which the distribution goes from -1 to 1; a single number is 0."""
    low, high = bounds(distribution)
    if low == high:
        return (number - low) / (abs(low) or 1.0)
    if isinstance(distribution, Range) and distribution.scale == "log_uniform":
        low, high, number = math.log(low), math.log(high), math.log(number)
    return 2 * (number - low) / (high - low) - 1


def nearest(distribution: Distribution, number: float) -> float:
    """The number of a list that is nearest; of a range it is the number itself."""
    if isinstance(distribution, Range):
        return number
    return min(_numbers(distribution), key=lambda known: abs(known - number))


def _rounded(number: float) -> float:
    """Without what the last bits add to 0.6: such numbers are read, and compared."""
    return float(f"{number:.12g}")


def _numbers(distribution: Distribution) -> tuple[float, ...]:
    if isinstance(distribution, Range):
        return distribution.low, distribution.high
    return distribution if isinstance(distribution, tuple) else (distribution,)
