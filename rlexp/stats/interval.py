"""An estimate with its interval, and everything that is needed to compute it again."""

from dataclasses import dataclass


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
