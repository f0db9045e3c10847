"""An aggregate of scores with its interval: the only place where one is computed."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, fields
from typing import Any

import numpy as np
from numpy.typing import NDArray

from rlexp.stats.aggregate import Statistic, aggregate_of
from rlexp.stats.bootstrap import METHODS, intervals
from rlexp.stats.interval import Interval, limited, too_few
from rlexp.stats.resampling import Resampling
from rlexp.stats.task_scores import TaskScores
from rlexp.text import digits_for

FEW = 6
"""Runs below which each of them is shown beside the number that they make."""

Ends = tuple[float | None, float | None]
"""The least and the greatest value that is possible; nothing where that is not known."""
UNKNOWN: Ends = (None, None)


@dataclass(frozen=True, slots=True, kw_only=True)
class Estimate(Interval):
    """An aggregate of runs with its interval, as every surface shows it.

    Attributes:
        digits: After the point, on every surface.
        sizes: Runs of each task.
        runs: What each run alone gives, rising, for each task; empty from `FEW` runs on.
    """

    digits: int = 2
    sizes: tuple[int, ...] = ()
    runs: tuple[tuple[float, ...], ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Estimator:
    """How intervals are made: the same of every aggregate on every surface.

    Attributes:
        method: Of `rlexp.stats.bootstrap.METHODS`.
        resampling: Level, repetitions and seed.
    """

    method: str = "t"
    resampling: Resampling = field(default_factory=Resampling)

    def estimate(self, scores: TaskScores, metric: Statistic, ends: Ends = UNKNOWN) -> Estimate:
        """One metric of the scores: see `estimates`."""
        return self.estimates(scores, {"": metric}, ends)[""]

    def estimates(
        self, scores: TaskScores, metrics: Mapping[str, Statistic], ends: Ends = UNKNOWN
    ) -> dict[str, Estimate]:
        """Metrics of the runs of a label, all from the same resamples.

        Args:
            scores: Of shape (N,), raw ones of one task, or normalised ones.
            metrics: By name.
            ends: What is possible of a score. A metric with a cap ends at 0 and at the cap instead.
        """
        if reason := too_few(scores.n):
            computed = {name: self._alone(scores, m, reason) for name, m in metrics.items()}
        else:
            computed = intervals(scores, metrics, self.resampling, method=self.method)
        return {
            name: _estimate(scores, metric, limited(computed[name], *_ends_of(metric, ends)))
            for name, metric in metrics.items()
        }

    def _alone(self, scores: TaskScores, metric: Statistic, reason: str) -> Interval:
        """The value of a metric where there is no interval."""
        return Interval(
            estimate=float(metric(scores)),
            low=None,
            high=None,
            level=self.resampling.level,
            method=METHODS[self.method],
            repetitions=0,
            n=scores.n,
            tasks=len(scores.sizes),
            reason=reason,
        )


def declared_ends(reference: Mapping[str, Any]) -> Ends:
    """What a task declares possible of a return (`environment.reference`)."""
    least, greatest = (reference.get(key) for key in ("minimum", "maximum"))
    return (
        None if least is None else float(least),
        None if greatest is None else float(greatest),
    )


def common_ends(tasks: Iterable[Ends]) -> Ends:
    """The least and the greatest score of any task; nothing where one does not declare it."""
    least, greatest = zip(*tasks, strict=True)
    return (
        None if None in least else min(least),
        None if None in greatest else max(greatest),
    )


def largest_difference(tasks: Iterable[Ends]) -> float | None:
    """How far the means over tasks of two labels can be apart; nothing where a task has no end."""
    widths = [
        None if least is None or greatest is None else greatest - least
        for least, greatest in tasks
    ]
    known = [width for width in widths if width is not None]
    return sum(known) / len(known) if known and len(known) == len(widths) else None


def _ends_of(metric: Statistic, ends: Ends) -> Ends:
    aggregate = aggregate_of(metric)
    return ends if aggregate is None or aggregate.cap is None else (0.0, aggregate.cap)


def _estimate(scores: TaskScores, metric: Statistic, computed: Interval) -> Estimate:
    runs = tuple(tuple(values.tolist()) for values in _each_run(scores, metric))
    width = 0.0 if computed.low is None or computed.high is None else computed.high - computed.low
    every = [value for values in runs for value in values]
    return Estimate(
        **{f.name: getattr(computed, f.name) for f in fields(Interval)},
        digits=digits_for(width or max(every) - min(every)),
        sizes=scores.sizes,
        runs=runs if scores.n < FEW else (),
    )


def _each_run(scores: TaskScores, metric: Statistic) -> list[NDArray[np.float64]]:
    """What each run alone gives, rising, of shape (n_j,) for each task."""
    aggregate = aggregate_of(metric)
    if aggregate is None or aggregate.cap is None:
        return [np.sort(task) for task in scores.by_task()]
    return [np.sort(aggregate.cap - task) for task in aggregate.capped(scores).by_task()]
