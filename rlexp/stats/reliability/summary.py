"""How reliably runs learn and policies act: every metric of Chan et al. 2020 in one number."""

from bisect import bisect_left
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike, NDArray

from rlexp.stats.curve_bootstrap import Counts, OrderedRuns
from rlexp.stats.reliability.estimates import (
    Name,
    Reliability,
    checked_baseline,
    impossible,
    of_points,
    of_runs,
    one_worst,
    scale,
)
from rlexp.stats.reliability.metrics import (
    LEAST_DIFFERENCES,
    LearningCurves,
    Window,
    curve_range,
    dispersion_across_runs,
    dispersion_across_time,
    equal_windows,
    interquartile_range,
    long_term_risk,
    low_pass,
    median_performance,
    risk_across_runs,
    short_term_risk,
)
from rlexp.stats.reliability.risk import SHARE, cvar, worst_count
from rlexp.stats.resampling import Resampling
from rlexp.stats.task_scores import TaskScores

Array = NDArray[np.float64]


@dataclass(frozen=True, slots=True)
class DrawnRanks:
    """Resamples of n runs at one point, counted from the lowest run on.

    Attributes:
        runs: All of them, from the lowest to the highest.
        drawn: Of shape (n, rows): how often each run is drawn, in the order in which they came.
        reached: Of shape (n, rows): how many are drawn up to each run, from the lowest on.
    """

    runs: OrderedRuns
    drawn: Counts
    reached: Counts

    @classmethod
    def of(cls, values: Array, drawn: Counts, room: Counts) -> "DrawnRanks":
        """Count the draws of n runs; `room` is that of `room_for`, and overwritten."""
        runs = OrderedRuns.of(values, np.ones(len(values), dtype=np.int64))
        room[0] = drawn[runs.places[0]]
        for rank, place in enumerate(runs.places[1:]):
            np.add(room[rank], drawn[place], out=room[rank + 1])
        return cls(runs, drawn, room)

    def places_of(self, number: int) -> NDArray[np.intp]:
        """Place of the drawn run that so many drawn ones lie below, of shape (rows,)."""
        n = len(self.reached)
        # All rows have passed these places, none has come to those.
        first = bisect_left(range(n), number + 1, key=lambda i: int(self.reached[i].max()))
        last = bisect_left(range(n), number + 1, key=lambda i: int(self.reached[i].min()))
        below = (self.reached[first:last] <= number).sum(axis=0, dtype=np.intp)
        return np.asarray(first + below)

    def quantile(self, share: float) -> Array:
        """The quantile of a share, linearly interpolated as NumPy does, of shape (rows,)."""
        place = share * (len(self.reached) - 1)
        number = int(place)
        low = self.runs.values[self.places_of(number)]
        if number + 1 == len(self.reached):
            return np.asarray(low)
        high, part = self.runs.values[self.places_of(number + 1)], place - number
        step = high - low
        return np.asarray(low + step * part if part < 1 / 2 else high - step * (1 - part))

    def worst_mean(self, share: float = SHARE) -> Array:
        """Mean of the drawn runs at or below the quantile of a share: see `risk.cvar`."""
        # Above the lowest: a mean of equal values is that value, to the last bit.
        lowest, values = self.runs.values[0], self.runs.values
        above = values - lowest
        ends = np.searchsorted(values, values, side="right") - 1
        last = ends[self.places_of(worst_count(len(values), share) - 1)]
        most = int(last.max()) + 1
        sums = np.cumsum(self.drawn[self.runs.places[:most]] * above[:most, np.newaxis], axis=0)
        rows = np.arange(len(last))
        return np.asarray(lowest + sums[last, rows] / self.reached[last, rows])


def room_for(drawn: Counts) -> Counts:
    """An array like `drawn`, of shape (n, rows), that holds numbers up to n."""
    return np.empty(drawn.shape, np.min_scalar_type(-len(drawn) - 1))


def resampled_dispersion(data: Array, drawn: Counts) -> Array:
    """Interquartile range over drawn runs at each point, by the median of their ranges.

    Args:
        data: Of shape (n, P + 1): values at P points, and in the last column the ranges.
        drawn: Of shape (n, rows).

    Returns:
        Of shape (P, rows).
    """
    room = room_for(drawn)
    ranges = DrawnRanks.of(data[:, -1], drawn, room).quantile(1 / 2)
    points = (DrawnRanks.of(values, drawn, room) for values in data[:, :-1].T)
    return np.stack([point.quantile(3 / 4) - point.quantile(1 / 4) for point in points]) / ranges


def resampled_risk(data: Array, drawn: Counts) -> Array:
    """Mean of the worst 5 % of the drawn runs at each point.

    Args:
        data: Of shape (n, P).
        drawn: Of shape (n, rows).

    Returns:
        Of shape (P, rows).
    """
    room = room_for(drawn)
    return np.stack([DrawnRanks.of(values, drawn, room).worst_mean() for values in data.T])


DISPERSION: Name = ("dispersion across runs", "lower")


RISK: Name = ("risk across runs", "higher")


LEAST_RUNS = 5
"""From fewer, a bootstrap of the dispersion across runs misses it: with 3 runs in 86 of 100
simulated studies of normal scores, with 5 in 12, with 10 in 5."""


def training_reliability(
    curves: LearningCurves,
    resampling: Resampling,
    *,
    baseline: float | None = None,
    windows: Sequence[Window] | None = None,
    points: int = 20,
    period: float | None = None,
) -> tuple[Reliability, ...]:
    """How reliably runs learn: dispersion and risk across time and across runs (Chan et al. 2020).

    Metrics of a run are summarised by the interquartile mean over runs; metrics across runs, by
    the median over the evaluations at which they are taken. All but the median performance are
    shares of a range: each run's own, or the median of those for the dispersion across runs.

    Args:
        curves: Of n runs.
        resampling: Of the intervals.
        baseline: What to divide by instead of the range, above 0; 1 for units of the return.
        windows: For the dispersion across time and the median performance; by default as many as
            hold ten evaluations each, 20 at most.
        points: Evaluations, evenly spread, at which runs are compared.
        period: The shortest change, in environment steps, that is kept before they are.

    Raises:
        ValueError: The baseline is not above 0, or there is no point.
    """
    if points < 1:
        raise ValueError(f"{points} points to compare runs at: give 1 or more")
    parts = equal_windows(curves) if windows is None else windows
    ranges = _range(curves, checked_baseline(baseline))
    performance = of_runs(
        ("median performance", "higher"),
        lambda: np.median(median_performance(curves, parts), axis=1),
        resampling,
    )
    return (
        *_within_runs(curves, parts, ranges, resampling),
        *_across_runs(lambda: _compared(curves, points, period), ranges, resampling),
        performance,
    )


def rollout_reliability(
    returns: Sequence[ArrayLike], resampling: Resampling, *, baseline: float | None = None
) -> tuple[Reliability, ...]:
    """How reliably fixed policies act: dispersion and risk across rollouts (Chan et al. 2020).

    Args:
        returns: Of the episodes of each run's final policy, of shape (E_i,).
        resampling: Of the intervals.
        baseline: What to divide by instead of the median return of each run, above 0; 1 for units
            of the return.

    Raises:
        ValueError: There is no run, a run has no episode, a return is not finite, or the baseline
            is not above 0.
    """
    runs = TaskScores.from_tasks(returns).by_task()
    fewest = min(len(run) for run in runs)
    given = checked_baseline(baseline)

    def medians() -> Array:
        found = np.array([np.median(run) for run in runs])
        return scale(found, given, "have a median return of 0 or less")

    return (
        of_runs(
            ("dispersion across rollouts", "lower"),
            lambda: np.array([_rollout_dispersion(run) for run in runs]) / medians(),
            resampling,
        ),
        of_runs(
            ("risk across rollouts", "higher"),
            lambda: np.array([float(cvar(run)) for run in runs]) / medians(),
            resampling,
            one_worst(fewest, "episode"),
        ),
    )


def _range(curves: LearningCurves, baseline: float | None) -> Callable[[], Array]:
    found = curve_range(curves.values)
    return lambda: scale(found, baseline, "hardly ever rise above their first value")


def _rollout_dispersion(run: Array) -> float:
    if len(run) < LEAST_DIFFERENCES:
        raise ValueError(
            f"a policy has {len(run)} final episodes: an interquartile range needs "
            f"{LEAST_DIFFERENCES}"
        )
    return float(interquartile_range(run))


def _within_runs(
    curves: LearningCurves,
    windows: Sequence[Window],
    ranges: Callable[[], Array],
    resampling: Resampling,
) -> tuple[Reliability, ...]:
    """Dispersion and risks across time."""
    count = len(curves.steps)
    return (
        of_runs(
            ("dispersion across time", "lower"),
            lambda: np.median(dispersion_across_time(curves, windows), axis=1) / ranges(),
            resampling,
        ),
        of_runs(
            ("short-term risk", "higher"),
            lambda: short_term_risk(curves) / ranges(),
            resampling,
            one_worst(count - 1, "difference"),
        ),
        of_runs(
            ("long-term risk", "lower"),
            lambda: long_term_risk(curves) / ranges(),
            resampling,
            one_worst(count, "evaluation"),
        ),
    )


def _compared(curves: LearningCurves, points: int, period: float | None) -> LearningCurves:
    """The evaluations at which runs are compared."""
    smooth = curves if period is None else low_pass(curves, period)
    last = len(curves.steps) - 1
    places = np.unique(np.round(np.linspace(0, last, min(points, last + 1))).astype(int))
    return LearningCurves(curves.steps[places], smooth.values[:, places])


def _across_runs(
    compared: Callable[[], LearningCurves], ranges: Callable[[], Array], resampling: Resampling
) -> tuple[Reliability, Reliability]:
    """Dispersion and risk across runs."""
    try:
        curves, divisors = compared(), ranges()[:, None]
    except ValueError as error:
        return impossible(DISPERSION, str(error)), impossible(RISK, str(error))
    n = len(divisors)
    if n == 1:
        reason = "one run says nothing of how runs differ: add seeds"
        return impossible(DISPERSION, reason), impossible(RISK, reason)
    few = f"resamples of {n} runs hardly show how much runs differ: {LEAST_RUNS} are needed"
    alone = one_worst(n, "run")
    beside, relative = np.hstack([curves.values, divisors]), curves.values / divisors
    dispersion = dispersion_across_runs(curves.values) / np.median(divisors)
    return (
        of_points(
            DISPERSION,
            (curves.steps, dispersion),
            lambda drawn: resampled_dispersion(beside, drawn),
            resampling,
            runs=n,
            no_interval=few if n < LEAST_RUNS else None,
        ),
        of_points(
            RISK,
            (curves.steps, risk_across_runs(relative)),
            lambda drawn: resampled_risk(relative, drawn),
            resampling,
            runs=n,
            no_interval=alone and f"{alone}, which resampling cannot vary as new runs would",
            note=alone,
        ),
    )
