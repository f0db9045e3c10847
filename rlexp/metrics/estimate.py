"""Estimates with intervals; every surface of rlexp computes its aggregates here and only here."""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, fields, is_dataclass, replace
from types import FunctionType
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from rlexp.protocol.measures import TRAINING_SHIFT
from rlexp.stats.aggregate import Statistic, aggregate_of
from rlexp.stats.bootstrap import METHODS, intervals
from rlexp.stats.interval import Interval, limited, too_few
from rlexp.stats.resampling import Resampling
from rlexp.stats.task_scores import TaskScores
from rlexp.text import decimals_for_span, format_number

FEW = 6
"""With fewer runs than this, the score of each run is shown beside the estimate."""

WORTH_KEEPING = 4_000_000
"""Runs drawn by all repetitions from which on intervals are kept: fewer take a few milliseconds."""

Ends = tuple[float | None, float | None]
"""Smallest and largest possible value; None where it is not known."""
UNKNOWN: Ends = (None, None)


@dataclass(frozen=True, slots=True, kw_only=True)
class Estimate(Interval):
    """An aggregate of runs with its interval, as every surface shows it.

    Attributes:
        digits: Digits after the decimal point, on every surface; with more than six of them, tiny
            numbers are written in powers of ten.
        sizes: Runs of each task.
        runs: Value of each run, ascending, for each task; empty if there are `FEW` runs or more.
        rliable: The interquartile mean that rliable gives, which cuts whole runs only; `None`
            where it has the same digits, and for other metrics.
    """

    digits: int = 2
    sizes: tuple[int, ...] = ()
    runs: tuple[tuple[float, ...], ...] = ()
    rliable: float | None = None


class KeptIntervals(Protocol):
    """Keeps intervals for later commands."""

    def recall(
        self, question: bytes, compute: Callable[[], dict[str, Interval]]
    ) -> dict[str, Interval]:
        """The intervals that answer a question; they are computed where none are kept."""

    def recall_number(self, question: bytes, compute: Callable[[], float | None]) -> float | None:
        """The number that answers a question; it is computed where none is kept."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Estimator:
    """Settings of the intervals, equal for every aggregate on every surface.

    Attributes:
        method: A key of `rlexp.stats.bootstrap.METHODS`.
        resampling: Level, repetitions and seed.
        kept: Keeps intervals that take long to compute; None keeps none.
    """

    method: str = "t"
    resampling: Resampling = field(default_factory=Resampling)
    kept: KeptIntervals | None = field(default=None, repr=False, compare=False)

    def estimate(self, scores: TaskScores, metric: Statistic, ends: Ends = UNKNOWN) -> Estimate:
        """The estimate of one metric; see `estimates`."""
        return self.estimates(scores, {"": metric}, ends)[""]

    def estimates(
        self, scores: TaskScores, metrics: Mapping[str, Statistic], ends: Ends = UNKNOWN
    ) -> dict[str, Estimate]:
        """The estimates of several metrics of a label, all from the same resamples.

        Args:
            scores: Of shape (N,): raw scores of one task, or normalised scores.
            metrics: Metrics by name.
            ends: Smallest and largest possible score. A metric with a cap is between 0 and the cap
                instead.
        """
        if reason := too_few(scores.n):
            computed = {name: self._alone(scores, m, reason) for name, m in metrics.items()}
        else:
            computed = self._intervals(scores, metrics)
        return {
            name: _estimate(scores, metric, limited(computed[name], *_ends_of(metric, ends)))
            for name, metric in metrics.items()
        }

    def _intervals(
        self, scores: TaskScores, metrics: Mapping[str, Statistic]
    ) -> dict[str, Interval]:
        """The intervals of the metrics, from those that are kept or computed."""

        def compute() -> dict[str, Interval]:
            return intervals(scores, metrics, self.resampling, method=self.method)

        names = [lasting_name(metric) for metric in metrics.values()]
        few = scores.n * self.resampling.repetitions < WORTH_KEEPING
        if self.kept is None or few or None in names:
            return compute()
        values = np.asarray(scores.values, dtype=np.float64).tobytes()
        named = list(zip(metrics, names, strict=True))
        question = repr((scores.sizes, named, self.method, self.resampling)).encode()
        return self.kept.recall(question + values, compute)

    def _alone(self, scores: TaskScores, metric: Statistic, reason: str) -> Interval:
        """The value of a metric without an interval."""
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


def lasting_name(metric: Statistic) -> str | None:
    """A text that stands for a metric of rlexp in every process; None for any other metric."""
    kind = metric if isinstance(metric, FunctionType) else type(metric)
    if kind.__module__.partition(".")[0] != "rlexp":
        return None
    name = f"{kind.__module__}.{kind.__qualname__}"
    if isinstance(metric, FunctionType):
        return name
    # The text of any other object may hold an address.
    return f"{name} {metric!r}" if is_dataclass(metric) else None


def declared_ends(reference: Mapping[str, Any]) -> Ends:
    """Smallest and largest return that a task declares as possible (`environment.reference`)."""
    least, greatest = (reference.get(key) for key in ("minimum", "maximum"))
    return (
        None if least is None else float(least),
        None if greatest is None else float(greatest),
    )


SHARES = ("success", "violations", TRAINING_SHIFT)
"""Measures between 0 and 1, unless their declaration says otherwise."""
COUNTS = ("cost", "violations")
"""Measures without negative values, like their parts (`cost/speed`)."""


def measure_ends(name: str, declared: Mapping[str, Any], values: Sequence[float]) -> Ends:
    """Smallest and largest possible value of a measure.

    A declared end counts. Without a declaration, a success rate lies in [0, 1] and a cost is not
    negative, if all values agree.

    Args:
        name: The name of the measure.
        declared: Its declaration, empty without one.
        values: Means of the measure in the runs.
    """
    low, high = declared_ends(declared)
    if low is not None or high is not None:
        return low, high
    kind = name.partition("/")[0]
    if kind in SHARES and all(0 <= value <= 1 for value in values):
        return 0.0, 1.0
    return (0.0, None) if kind in COUNTS and min(values, default=0.0) >= 0 else UNKNOWN


def has_other_anchors(reference: Mapping[str, Any]) -> bool:
    """Whether a task declares another random score than 0, or another threshold than 1.

    Its reference scores are then returns, even if the recorded scores are normalised already.
    """
    return reference.get("random") not in {None, 0} or reference.get("threshold") not in {None, 1}


def common_ends(tasks: Iterable[Ends]) -> Ends:
    """Smallest and largest possible score over all tasks; None if a task does not declare it."""
    least, greatest = zip(*tasks, strict=True)
    return (
        None if None in least else min(least),
        None if None in greatest else max(greatest),
    )


def largest_difference(tasks: Iterable[Ends]) -> float | None:
    """Largest possible difference of two means over tasks; None if a task declares no bounds."""
    widths = [
        None if least is None or greatest is None else greatest - least
        for least, greatest in tasks
    ]
    declared = [width for width in widths if width is not None]
    return sum(declared) / len(declared) if declared and len(declared) == len(widths) else None


def _ends_of(metric: Statistic, ends: Ends) -> Ends:
    aggregate = aggregate_of(metric)
    return ends if aggregate is None or aggregate.cap is None else (0.0, aggregate.cap)


def _estimate(scores: TaskScores, metric: Statistic, computed: Interval) -> Estimate:
    runs = tuple(tuple(values.tolist()) for values in _each_run(scores, metric))
    width = 0.0 if computed.low is None or computed.high is None else computed.high - computed.low
    every = [value for values in runs for value in values]
    digits = decimals_for_span(width or max(every) - min(every), max(map(abs, every)))
    return Estimate(
        **{f.name: getattr(computed, f.name) for f in fields(Interval)},
        digits=digits,
        sizes=scores.sizes,
        runs=runs if scores.n < FEW else (),
        rliable=_with_whole_runs_cut(scores, metric, computed.estimate, digits),
    )


def _with_whole_runs_cut(
    scores: TaskScores, metric: Statistic, estimate: float, digits: int
) -> float | None:
    """The value with rliable's cut, where it differs from an exact cut in the digits shown."""
    aggregate = aggregate_of(metric)
    if aggregate is None or aggregate.cut != "exact":
        return None
    value = float(replace(aggregate, centre="interquartile mean of whole runs")(scores))
    same = format_number(value, digits) == format_number(estimate, digits)
    return None if same else value


def _each_run(scores: TaskScores, metric: Statistic) -> list[NDArray[np.float64]]:
    """The value of the metric for each run, ascending, of shape (n_j,) for each task."""
    aggregate = aggregate_of(metric)
    if aggregate is None or aggregate.cap is None:
        return [np.sort(task) for task in scores.by_task()]
    return [np.sort(aggregate.cap - task) for task in aggregate.capped(scores).by_task()]


def mean_and_deviation(scores: Sequence[float]) -> tuple[float, float | None]:
    """The mean of scores and their sample standard deviation, for formats that have no interval.

    Args:
        scores: One score or more. With a single one there is no standard deviation.
    """
    values = np.asarray(scores, dtype=np.float64)
    return float(values.mean()), float(values.std(ddof=1)) if len(values) > 1 else None
