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
    found: AnyInterval, least: float | None = None, greatest: float | None = None
) -> AnyInterval:
    """The interval as it may be shown: not of fewer than three runs, and not of what is impossible.

    To leave out what is impossible loses no coverage. Where the estimate itself lies beyond an
    end, the end is declared wrongly: then nothing is cut.

    Args:
        found: The interval as it was computed.
        least: No value is less than this; nothing where that is not known.
        greatest: No value is greater than this; nothing where that is not known.
    """
    if reason := too_few(found.n):
        return replace(
            found, low=None, high=None, repetitions=0, seed=None, coverage=None, reason=reason
        )
    if found.low is None or found.high is None:
        return found
    low = found.low if least is None else max(found.low, least)
    high = found.high if greatest is None else min(found.high, greatest)
    return replace(found, low=low, high=high) if low <= found.estimate <= high else found
