"""A reliability metric of one label: a number with an interval, or the reason why there is none."""

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from rlexp.stats.aggregate import Aggregate
from rlexp.stats.bootstrap import interval
from rlexp.stats.curve_bootstrap import Counts, statistic_of_drawn_weights
from rlexp.stats.interval import Interval
from rlexp.stats.reliability.risk import worst_count
from rlexp.stats.resampling import Resampling
from rlexp.stats.task_scores import TaskScores

Array = NDArray[np.float64]
Better = Literal["higher", "lower"]
Name = tuple[str, Better]
"""Name of a metric, and whether higher or lower is better."""

METHOD = "percentile bootstrap of whole runs"


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Reliability:
    """One reliability metric of one label on one task.

    Attributes:
        metric: Name of the metric.
        better: Whether higher or lower is better.
        interval: The metric of all runs, with its interval; None if it cannot be computed.
        values: The metric of each run, ascending, of shape (n,); or at each of `steps`, (P,).
        steps: Environment steps at which a metric across runs was computed, of shape (P,).
        note: A remark that is needed to interpret the metric.
        reason: Why the metric cannot be computed.
    """

    metric: str
    better: Better
    interval: Interval | None = None
    values: Array | None = None
    steps: Array | None = None
    note: str | None = None
    reason: str | None = None


def impossible(name: Name, reason: str) -> Reliability:
    """A metric that cannot be computed, with the reason."""
    return Reliability(metric=name[0], better=name[1], reason=reason)


def checked_baseline(baseline: float | None) -> float | None:
    """The given baseline, by which metrics are divided, or None.

    Raises:
        ValueError: The baseline is not a finite number above 0.
    """
    if baseline is not None and not 0 < baseline < np.inf:
        raise ValueError(f"the baseline must be a finite number above 0, not {baseline:g}")
    return baseline


def run_divisors(ranges: Array, baseline: float | None, fault: str) -> Array:
    """The number by which each run's metric is divided, of shape (n,).

    Args:
        ranges: The divisor of each run if no baseline is given, of shape (n,).
        baseline: The common divisor, if given.
        fault: What a range of 0 or less means, as the predicate of an error message.

    Raises:
        ValueError: No baseline is given, and a run's range is not above 0.
    """
    if baseline is not None:
        return np.full(len(ranges), baseline)
    if (ranges <= 0).any():
        raise ValueError(
            f"{(ranges <= 0).sum()} of {len(ranges)} runs {fault}, so the metric cannot be divided "
            "by it: give a baseline"
        )
    return ranges


def single_worst_note(n: int, noun: str) -> str | None:
    """A remark if the worst 5 % of n outcomes are a single one; None otherwise."""
    if n < 1 or worst_count(n) > 1:
        return None
    return f"the worst 5 % of {n} {noun}{'' if n == 1 else 's'} is the worst one alone"


def metric_of_runs(
    name: Name,
    compute: Callable[[], Array],
    resampling: Resampling,
    middle: Aggregate,
    note: str | None = None,
) -> Reliability:
    """A metric of each run, summarised by the interquartile mean over runs.

    Metrics for which lower is better are never negative; their intervals are cut at 0.

    Args:
        name: Name of the metric, and whether higher or lower is better.
        compute: Returns the metric of each run, of shape (n,); raises ValueError with the reason
            if it cannot be computed.
        resampling: Settings of the interval.
        middle: An interquartile mean.
        note: A remark that is needed to interpret the metric.
    """
    try:
        # Sorted, so that no sum depends on the order of the runs.
        values = np.sort(compute())
    except ValueError as error:
        return impossible(name, str(error))
    summary = interval(TaskScores.from_tasks([values]), middle, resampling)
    if summary.low is not None and name[1] == "lower":
        summary = replace(summary, low=max(summary.low, 0.0))
    return Reliability(metric=name[0], better=name[1], interval=summary, values=values, note=note)


def metric_across_runs(
    name: Name,
    at: tuple[Array, Array],
    resampled: Callable[[Counts], Array],
    resampling: Resampling,
    *,
    runs: int,
    no_interval: str | None,
    note: str | None = None,
) -> Reliability:
    """A metric across runs at several steps, summarised by the median over steps.

    Args:
        name: Name of the metric, and whether higher or lower is better.
        at: Steps of shape (P,), and the metric at each, of the same shape.
        resampled: Maps the number of draws of each run, of shape (n, rows), to the metric of the
            resamples, of shape (P, rows).
        resampling: Settings of the interval.
        runs: Number n of runs.
        no_interval: The reason why there is no interval, if there is none.
        note: A remark that is needed to interpret the metric.
    """
    steps, values = at
    estimate = float(np.median(values))
    ends, reason = (None, None), no_interval
    if not reason:
        # One thread: the NumPy calls are short and would mostly wait for the GIL.
        each_once = np.ones(runs, dtype=np.int64)
        drawn = statistic_of_drawn_weights(
            resampled, len(steps), each_once, (runs,), resampling, threads=1
        )
        drawn = np.median(drawn, axis=0)
        ends = np.quantile(drawn, [resampling.tail, 1 - resampling.tail]).tolist()
        if np.ptp(drawn) == 0:
            ends, reason = (None, None), "all resamples give the same value"
    summary = Interval(
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
        metric=name[0], better=name[1], interval=summary, values=values, steps=steps, note=note
    )
