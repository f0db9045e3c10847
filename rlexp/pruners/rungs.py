"""The rungs of successive halving: steps at which trials are compared, and which continue."""

from collections.abc import Iterable
from fractions import Fraction
from functools import cache
from math import ceil, inf, isfinite

from rlexp.pruners import PruningPoint


def descending(values: Iterable[float]) -> list[float]:
    """The values in descending order; values that are not finite come last."""
    return sorted(map(finite_or_worst, values), reverse=True)


def finite_or_worst(value: float) -> float:
    """The value; −∞ if it is not finite."""
    return value if isfinite(value) else -inf


def robust_median(values: Iterable[float]) -> float:
    """The median, which is never NaN and never overflows.

    Raises:
        IndexError: There are no values.
    """
    ranked = descending(values)
    above, below = ranked[(len(ranked) - 1) // 2], ranked[len(ranked) // 2]
    # Halved before adding: the sum of two huge values would be infinite.
    return above / 2 + below / 2


def rung_at(point: PruningPoint, minimum: float, eta: int, skipped: int = 0) -> int | None:
    """The rung that is decided at this point, from 0; None if there is none.

    Rung k lies at minimum · ηᵏ of the budget. It is decided at the first evaluation at or after
    this share, on the first seed of a trial, exactly once. The full budget is not a rung. If
    several rungs fall on one evaluation, the last one counts.

    Args:
        point: The state of the trial.
        minimum: Share of the budget at rung 0.
        eta: Reduction factor η.
        skipped: Number of lowest rungs that are skipped.
    """
    if point.position > 0 or point.ends_run:
        return None
    decided = None
    for rung, share in enumerate(rungs(minimum, eta)):
        at = ceil(share * point.steps / point.every) * point.every
        if rung >= skipped and point.step == at:
            decided = rung
    return decided


@cache
def rungs(minimum: float, eta: int) -> tuple[Fraction, ...]:
    """The shares minimum · ηᵏ of the budget for k = 0, 1, …, up to the full budget."""
    # Exact decimal arithmetic: in floats 0.1 · 3 exceeds 0.3, which would move a rung to the next
    # evaluation.
    shares, share = [], Fraction(str(minimum))
    while share <= 1:
        shares.append(share)
        share *= eta
    return tuple(shares)


def stops_at_rung(point: PruningPoint, peers: list[float], rung: int, eta: int) -> str | None:
    """The reason to end a trial at a rung; None if it is among the best 1 / η of its trials.

    max(⌊n / η⌋, 1) of n trials continue, the trial itself included, and all that tie with the
    last of them, as in Optuna's asynchronous successive halving.
    """
    ranked = descending([*peers, point.value])
    promoted = max(len(ranked) // eta, 1)
    if finite_or_worst(point.value) >= ranked[promoted - 1]:
        return None
    return (
        f"its value {point.value:g} at {point.step:,} steps is not among the best {promoted} of "
        f"{len(ranked)} trials at rung {rung}"
    )
