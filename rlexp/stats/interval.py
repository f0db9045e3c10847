"""An estimate with its interval, and everything that is needed to compute it again."""

from dataclasses import dataclass, replace
from typing import TypeVar

FEWEST = 3
"""Runs from which on there is an interval: one of two runs hides what they say."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Interval:
    """An estimate and where its true value may lie.

    `low` and `high` are missing where no interval is possible, and `reason` says why. `n` counts
    the runs of all tasks. `coverage` is how often an interval of this method holds the true value
    at this n and number of tasks, as simulations showed it; nothing where it is not known, as where
    tasks have different numbers of runs. An exact interval has no seed and no repetitions.
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


def too_few(n: int) -> str | None:
    """Why so many runs have no interval; nothing where they are enough."""
    return f"too few runs for an interval (n = {n})" if n < FEWEST else None


def limited(
    interval: AnyInterval, least: float | None = None, greatest: float | None = None
) -> AnyInterval:
    """The interval as it may be shown: not of fewer than three runs, and not of what is impossible.

    To leave out what is impossible loses no coverage. Where the estimate itself lies beyond an
    end, the end is declared wrongly: then nothing is cut.

    Args:
        interval: The interval as it was computed.
        least: No value is less than this; nothing where that is not known.
        greatest: No value is greater than this; nothing where that is not known.
    """
    if reason := too_few(interval.n):
        return replace(
            interval, low=None, high=None, repetitions=0, seed=None, coverage=None, reason=reason
        )
    if interval.low is None or interval.high is None:
        return interval
    low = interval.low if least is None else max(interval.low, least)
    high = interval.high if greatest is None else min(interval.high, greatest)
    return replace(interval, low=low, high=high) if low <= interval.estimate <= high else interval
