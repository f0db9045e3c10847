"""An estimate with its interval, and the settings that reproduce it."""

from dataclasses import dataclass, replace
from typing import TypeVar

FEWEST = 3
"""Smallest number of runs with an interval: two scores say more than an interval of them."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Interval:
    """An estimate with a confidence interval.

    `low` and `high` are None if no interval is possible, and `reason` says why. `n` counts the
    runs of all tasks. `coverage` is the simulated probability that an interval of this method, n
    and number of tasks contains the true value; it is None where no simulation applies, for
    example if tasks have different numbers of runs. An exact interval has no seed and no
    repetitions.
    """

    estimate: float
    low: float | None
    high: float | None
    level: float
    method: str
    repetitions: int
    n: int
    tasks: int = 1
    seed: int | None = None
    coverage: float | None = None
    reason: str | None = None


AnyInterval = TypeVar("AnyInterval", bound=Interval)


TOO_FEW = "too few runs for an interval"
"""The beginning of the reason why few runs have no interval."""


def too_few(n: int) -> str | None:
    """The reason why n runs have no interval; None if n is large enough."""
    return f"{TOO_FEW} (n = {n})" if n < FEWEST else None


def limited(
    interval: AnyInterval, least: float | None = None, greatest: float | None = None
) -> AnyInterval:
    """The interval as it is shown: cut to the possible values, and removed below three runs.

    Cutting impossible values loses no coverage. If the estimate itself is beyond a bound, this bound
    must be wrong, and does not cut; the other one does.

    Args:
        interval: The interval as it was computed.
        least: Smallest possible value, if known.
        greatest: Largest possible value, if known.
    """
    if reason := too_few(interval.n):
        return replace(
            interval, low=None, high=None, repetitions=0, seed=None, coverage=None, reason=reason
        )
    if interval.low is None or interval.high is None or (least is None and greatest is None):
        return interval
    low, high = interval.low, interval.high
    if least is not None and least <= interval.estimate:
        low = max(low, least)
    if greatest is not None and interval.estimate <= greatest:
        high = min(high, greatest)
    # The interval of an estimate that is corrected for bias may lie beyond a bound as a whole.
    return replace(interval, low=low, high=high) if low <= high else interval
