"""Intervals of the interquartile mean at each point of curves, of which whole runs are drawn."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from rlexp.stats.aggregate import Aggregate, interquartile_mean
from rlexp.stats.bootstrap import ENDS, ROUNDING, Resampled
from rlexp.stats.resampling import Resampling
from rlexp.stats.spread import no_spread, unbiased
from rlexp.stats.task_scores import TaskScores
from rlexp.stats.whole_runs import whole_run_replicates

Array = NDArray[np.float64]

CELLS = 2**23
"""Resampled values held at a time: 64 MiB."""
MIDDLE = Aggregate("interquartile mean")
NO_RUN = "a task has no run"
NO_WIDTH = "every resample gives the same"


@dataclass(frozen=True, slots=True, eq=False)
class Points:
    """Estimates and intervals at the points of a curve.

    Attributes:
        estimate: Of shape (T,).
        low: Of shape (T,), NaN where there is no interval.
        high: Of shape (T,), NaN where there is no interval.
        reasons: T of them: why there is no interval, or nothing where there is one.
    """

    estimate: Array
    low: Array
    high: Array
    reasons: tuple[str | None, ...]

    @classmethod
    def join(cls, parts: Sequence["Points"]) -> "Points":
        """The points of one part after those of another."""
        return cls(
            np.concatenate([part.estimate for part in parts]),
            np.concatenate([part.low for part in parts]),
            np.concatenate([part.high for part in parts]),
            tuple(reason for part in parts for reason in part.reasons),
        )

    @property
    def reasons_in_words(self) -> str | None:
        """Why points have no interval, and how many; nothing where all have one."""
        missing = [reason for reason in self.reasons if reason]
        if len(set(missing)) == 1 and len(missing) == len(self.reasons):
            return missing[0]
        told = [
            f"at {missing.count(reason)} of {len(self.reasons)} points {reason}"
            for reason in dict.fromkeys(missing)
        ]
        return "; ".join(told) or None


def points(curves: Array, sizes: tuple[int, ...], resampling: Resampling, method: str) -> Points:
    """The interquartile mean at each point, with an interval.

    Args:
        curves: Of shape (T, N): the runs of the first task, then those of the second, and so on.
        sizes: Runs of each task, m numbers that sum to N; where one is 0 nothing is estimated.
        resampling: Repetitions, level and seed.
        method: Of `bootstrap.METHODS`.
    """
    if 0 in sizes:
        nothing = np.full(len(curves), np.nan)
        return Points(nothing, nothing, nothing, (NO_RUN,) * len(curves))
    if 1 in sizes:
        return _without_ends(curves, sizes)
    step = max(1, CELLS // resampling.repetitions)
    blocks = [curves[first : first + step] for first in range(0, len(curves), step)]
    return Points.join([_with_ends(block, sizes, resampling, method) for block in blocks])


def _without_ends(curves: Array, sizes: tuple[int, ...]) -> Points:
    estimate = interquartile_mean(TaskScores(curves, sizes))
    reasons = tuple(no_spread(TaskScores(values, sizes)) for values in curves)
    nothing = np.full(len(curves), np.nan)
    return Points(estimate, nothing, nothing, reasons)


def _with_ends(
    curves: Array, sizes: tuple[int, ...], resampling: Resampling, method: str
) -> Points:
    """What is resampled at a time: so many points that their replicates fit into memory."""
    scores = [TaskScores(values, sizes) for values in curves]
    replicates = whole_run_replicates(_spread(scores, method), sizes, resampling)
    estimate = interquartile_mean(TaskScores(curves, sizes))
    found = [
        _ends(Resampled(one, MIDDLE, float(middle), values), resampling, method)
        for one, middle, values in zip(scores, estimate, replicates, strict=True)
    ]
    low, high, reasons = zip(*found, strict=True)
    return Points(estimate, np.asarray(low), np.asarray(high), reasons)


def _spread(scores: Sequence[TaskScores], method: str) -> Array:
    """What is resampled, of shape (T, N): for t, where no one n is known, spread as samples are."""
    widened = method == "t" and not scores[0].balanced
    return np.stack([(unbiased(one) if widened else one).values for one in scores])


def _ends(one: Resampled, resampling: Resampling, method: str) -> tuple[float, float, str | None]:
    """Low and high end at a point, or NaN and why there are none."""
    reason = no_spread(one.scores)
    if reason is None and np.ptp(one.values) <= ROUNDING * np.abs(one.values).max():
        reason = NO_WIDTH
    ends = reason or ENDS[method](one, resampling)
    return (np.nan, np.nan, ends) if isinstance(ends, str) else (*ends, None)
