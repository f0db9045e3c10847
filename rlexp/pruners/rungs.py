"""The rungs of successive halving: where trials are compared, and which of them go on."""

from collections.abc import Iterable
from fractions import Fraction
from functools import cache
from math import ceil, inf, isfinite

from rlexp.pruners import Point


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


def rung_at(point: Point, minimum: float, eta: int, skipped: int = 0) -> int | None:
    """Which rung is decided at this point, counted from 0, if one is.

    Rung k lies at minimum · ηᵏ of the budget and is decided at the first evaluation at or after
    it: at exactly one point of a trial, on its first seed. The full budget is no rung. Where
    several rungs fall on one evaluation it is the last of them.

    Args:
        point: Where the trial stands.
        minimum: Share of the budget of rung 0.
        eta: Reduction factor η.
        skipped: Rungs at the bottom that are not decided.
    """
    if point.position > 0 or point.ends_run:
        return None
    found = None
    for rung, share in enumerate(rungs(minimum, eta)):
        at = ceil(share * point.steps / point.every) * point.every
        if rung >= skipped and point.step == at:
            found = rung
    return found


@cache
def rungs(minimum: float, eta: int) -> tuple[Fraction, ...]:
    """The shares minimum · ηᵏ of the budget, from k = 0, that are no more than all of it."""
    # As it is written: 0.1 · 3 is 0.3, where no rung may slip to the next evaluation.
    shares, share = [], Fraction(str(minimum))
    while share <= 1:
        shares.append(share)
        share *= eta
    return tuple(shares)


def stops_at_rung(point: Point, peers: list[float], rung: int, eta: int) -> str | None:
    """Why a trial ends at a rung: it is not among the best 1 / η of those that came to it.

    max(⌊n / η⌋, 1) of n trials go on, the trial itself counted; what equals the last of them
    does too. As Optuna's asynchronous successive halving.
    """
    ranked = comparable([*peers, point.value])
    promoted = max(len(ranked) // eta, 1)
    if or_worst(point.value) >= ranked[promoted - 1]:
        return None
    return (
        f"its value {point.value:g} at {point.step:,} steps is not among the best {promoted} of "
        f"{len(ranked)} that came to rung {rung}"
    )
