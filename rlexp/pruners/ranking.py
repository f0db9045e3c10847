"""How pruners compare a trial with those before it: ranks only, so no scale matters."""

from collections.abc import Iterable
from math import inf, isfinite


def comparable(values: Iterable[float]) -> list[float]:
    """The values from the greatest down; what is no finite number stands below all others."""
    return sorted(map(or_worst, values), reverse=True)


def or_worst(value: float) -> float:
    """The value, or what is worse than every value where it is no finite number."""
    return value if isfinite(value) else -inf


def middle(values: Iterable[float]) -> float:
    """The median, computed such that it is no NaN and overflows nowhere.

    Raises:
        IndexError: There are no values.
    """
    ranked = comparable(values)
    above, below = ranked[(len(ranked) - 1) // 2], ranked[len(ranked) // 2]
    return above / 2 + below / 2
