"""A reliability metric of all runs: in one number with an interval, or a reason why there is none."""

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from rlexp.stats.aggregate import interquartile_mean
from rlexp.stats.bootstrap import interval
from rlexp.stats.curve_bootstrap import Counts, of_drawn_weights
from rlexp.stats.interval import Interval
from rlexp.stats.reliability.risk import worst_count
from rlexp.stats.resampling import Resampling
from rlexp.stats.task_scores import TaskScores

Array = NDArray[np.float64]
Better = Literal["higher", "lower"]
Name = tuple[str, Better]
"""What a metric is called, and whether higher or lower is better."""

METHOD = "percentile bootstrap of whole runs"


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Reliability:
    """One metric of one label on one task.

    Attributes:
        metric: Its name.
        better: Whether higher or lower is better.
        interval: The metric of all runs, with its interval; nothing where `reason` says why.
        values: Of each run, rising, of shape (n,), or at each of `steps`, of shape (P,).
        steps: Where the metric was taken across runs, of shape (P,).
        note: What one must know to read it.
        reason: Why the metric is not possible.
    """

    metric: str
    better: Better
    interval: Interval | None = None
    values: Array | None = None
    steps: Array | None = None
    note: str | None = None
    reason: str | None = None


def impossible(name: Name, reason: str) -> Reliability:
    """A metric that cannot be taken, and why."""
    return Reliability(metric=name[0], better=name[1], reason=reason)


def checked_baseline(baseline: float | None) -> float | None:
    """What is to be divided by, if anything was given.

    Raises:
        ValueError: It is not above 0.
    """
    if baseline is not None and not 0 < baseline < np.inf:
        raise ValueError(f"a baseline of {baseline:g} divides nothing: give one above 0")
    return baseline


def scale(found: Array, baseline: float | None, fault: str) -> Array:
    """What each run's metric is divided by, of shape (n,).

    Raises:
        ValueError: No baseline is given, and what was found of a run is not above 0.
    """
    if baseline is not None:
        return np.full(len(found), baseline)
    if (found <= 0).any():
        raise ValueError(
            f"{(found <= 0).sum()} of {len(found)} runs {fault}, so shares of that mean nothing: "
            "give a baseline"
        )
    return found


def one_worst(n: int, word: str) -> str | None:
    """What to know of a risk of so few that the worst 5 % are one."""
    if n < 1 or worst_count(n) > 1:
        return None
    return f"the worst 5 % of {n} {word}{'' if n == 1 else 's'} is the worst one alone"


def of_runs(
    name: Name,
    compute: Callable[[], Array],
    resampling: Resampling,
    note: str | None = None,
) -> Reliability:
    """A metric of each run, with the interquartile mean over runs.

    What is better if lower is never below 0, and neither are the intervals.

    Args:
        name: And whether higher or lower is better.
        compute: The metric of each run, of shape (n,); raises ValueError where it is impossible.
        resampling: Of the interval.
        note: What to know.
    """
    try:
        values = np.sort(compute())
    except ValueError as error:
        return impossible(name, str(error))
    found = interval(TaskScores.from_tasks([values]), interquartile_mean, resampling)
    if found.low is not None and name[1] == "lower":
        found = replace(found, low=max(found.low, 0.0))
    return Reliability(metric=name[0], better=name[1], interval=found, values=values, note=note)


def of_points(
    name: Name,
    at: tuple[Array, Array],
    resampled: Callable[[Counts], Array],
    resampling: Resampling,
    *,
    runs: int,
    no_interval: str | None,
    note: str | None = None,
) -> Reliability:
    """A metric across runs at several steps, with its median over those.

    Args:
        name: And whether higher or lower is better.
        at: Steps of shape (P,), and the metric there, of the same shape.
        resampled: The metric of resamples, of shape (P, rows), from how often they draw each run,
            of shape (n, rows).
        resampling: Of the interval.
        runs: Number n of runs.
        no_interval: Why there is none.
        note: What to know.
    """
    steps, values = at
    estimate = float(np.median(values))
    ends, reason = (None, None), no_interval
    if not reason:
        # One thread: many small steps would only wait for one another.
        drawn = of_drawn_weights(resampled, len(steps), (runs,), resampling, threads=1)
        drawn = np.median(drawn, axis=0)
        ends = np.quantile(drawn, [resampling.tail, 1 - resampling.tail]).tolist()
        if np.ptp(drawn) == 0:
            ends, reason = (None, None), "every resample gives the same"
    found = Interval(
        estimate=estimate,
        low=ends[0],
        high=ends[1],
        level=resampling.level,
        method=METHOD,
        repetitions=0 if no_interval else resampling.repetitions,
        n=runs,
        seed=None if no_interval else resampling.seed,
        reason=reason,
    )
    return Reliability(
        metric=name[0], better=name[1], interval=found, values=values, steps=steps, note=note
    )
