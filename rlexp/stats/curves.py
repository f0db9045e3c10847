"""Learning curves: alignment on a common grid, a band around their aggregate, and their area."""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache
from itertools import pairwise
from typing import Literal

import numpy as np
from numpy.typing import ArrayLike, NDArray

from rlexp.stats import coverage
from rlexp.stats.aggregate import Aggregate
from rlexp.stats.bootstrap import ENDS, METHODS, ROUNDING, Resampled
from rlexp.stats.curve_bootstrap import resampled_curves
from rlexp.stats.resampling import Resampling
from rlexp.stats.standard_error import no_spread, unbiased
from rlexp.stats.task_scores import TaskScores

CELLS = 2**23
"""Resampled values in memory at a time: 64 MiB."""

MIDDLE = Aggregate("interquartile mean")
NO_RUN = "a task has no run"
NO_WIDTH = "all resamples give the same value"
Array = NDArray[np.float64]


@dataclass(frozen=True, slots=True, eq=False)
class PointwiseIntervals:
    """Estimates and intervals at the points of a curve.

    Attributes:
        estimate: Of shape (T,).
        low: Of shape (T,), NaN where there is no interval.
        high: Of shape (T,), NaN where there is no interval.
        reasons: Of length T: the reason why a point has no interval, None if it has one.
    """

    estimate: Array
    low: Array
    high: Array
    reasons: tuple[str | None, ...]

    @classmethod
    def join(cls, parts: Sequence["PointwiseIntervals"]) -> "PointwiseIntervals":
        """The intervals of consecutive parts of a curve in one object."""
        return cls(
            np.concatenate([part.estimate for part in parts]),
            np.concatenate([part.low for part in parts]),
            np.concatenate([part.high for part in parts]),
            tuple(reason for part in parts for reason in part.reasons),
        )

    @property
    def reasons_text(self) -> str | None:
        """The reasons for missing intervals with their numbers of points; None if all exist."""
        missing = [reason for reason in self.reasons if reason]
        if len(set(missing)) == 1 and len(missing) == len(self.reasons):
            return missing[0]
        counted = [
            f"at {missing.count(reason)} of {len(self.reasons)} points {reason}"
            for reason in dict.fromkeys(missing)
        ]
        return "; ".join(counted) or None


def pointwise_intervals(
    curves: Array,
    sizes: tuple[int, ...],
    resampling: Resampling,
    method: str,
    middle: Aggregate = MIDDLE,
) -> PointwiseIntervals:
    """The interquartile mean at each point of the curves, with an interval.

    Args:
        curves: Of shape (T, N): the runs of the first task, then those of the second, and so on.
        sizes: Runs of each task, m numbers that sum to N; if one is 0, all estimates are NaN.
        resampling: Repetitions, level and seed.
        method: A key of `bootstrap.METHODS`.
        middle: An interquartile mean without a cap.

    The intervals are remembered, as those of `bootstrap.intervals` are.
    """
    values = np.asarray(curves, dtype=np.float64)
    # Sums depend on the order in memory in their last digit.
    order: Literal["C", "F"] = "F" if values.flags.f_contiguous else "C"
    return _remembered_intervals(
        values.tobytes(order), values.shape, order, sizes, resampling, method, middle
    )


@lru_cache(maxsize=1024)
def _remembered_intervals(
    values: bytes,
    shape: tuple[int, ...],
    order: Literal["C", "F"],
    sizes: tuple[int, ...],
    resampling: Resampling,
    method: str,
    middle: Aggregate,
) -> PointwiseIntervals:
    curves = np.frombuffer(values, dtype=np.float64).reshape(shape, order=order)
    computed = _pointwise_intervals(curves, sizes, resampling, method, middle)
    for array in (computed.estimate, computed.low, computed.high):
        # Every caller gets the same arrays.
        array.flags.writeable = False
    return computed


def _pointwise_intervals(
    curves: Array, sizes: tuple[int, ...], resampling: Resampling, method: str, middle: Aggregate
) -> PointwiseIntervals:
    if 0 in sizes:
        nothing = np.full(len(curves), np.nan)
        return PointwiseIntervals(nothing, nothing, nothing, (NO_RUN,) * len(curves))
    if 1 in sizes:
        return _without_ends(curves, sizes, middle)
    step = max(1, CELLS // resampling.repetitions)
    blocks = [curves[first : first + step] for first in range(0, len(curves), step)]
    return PointwiseIntervals.join(
        [_with_ends(block, sizes, resampling, method, middle) for block in blocks]
    )


def _without_ends(curves: Array, sizes: tuple[int, ...], middle: Aggregate) -> PointwiseIntervals:
    estimate = middle(TaskScores(curves, sizes))
    reasons = tuple(no_spread(TaskScores(values, sizes)) for values in curves)
    nothing = np.full(len(curves), np.nan)
    return PointwiseIntervals(estimate, nothing, nothing, reasons)


def _with_ends(
    curves: Array, sizes: tuple[int, ...], resampling: Resampling, method: str, middle: Aggregate
) -> PointwiseIntervals:
    """Estimates and intervals of so many points that their replicates fit into memory."""
    scores = [TaskScores(values, sizes) for values in curves]
    assert middle.cut is not None
    replicates = resampled_curves(
        _resampled_values(scores, method), sizes, resampling, cut=middle.cut
    )
    estimate = middle(TaskScores(curves, sizes))
    ends = [
        _ends(Resampled(at_point, middle, float(value), values), resampling, method)
        for at_point, value, values in zip(scores, estimate, replicates, strict=True)
    ]
    low, high, reasons = zip(*ends, strict=True)
    return PointwiseIntervals(estimate, np.asarray(low), np.asarray(high), reasons)


def _resampled_values(scores: Sequence[TaskScores], method: str) -> Array:
    """The values that are resampled, of shape (T, N).

    The t interval needs unbiased variances; if the tasks differ in n, the values are widened.
    """
    widened = method == "t" and not scores[0].balanced
    return np.stack([(unbiased(point) if widened else point).values for point in scores])


def _ends(
    resampled: Resampled, resampling: Resampling, method: str
) -> tuple[float, float, str | None]:
    """Low and high end at a point with None, or NaN twice with the reason for it."""
    reason = no_spread(resampled.scores)
    values = resampled.values
    if reason is None and np.ptp(values) <= ROUNDING * np.abs(values).max():
        reason = NO_WIDTH
    ends = reason or ENDS[method](resampled, resampling)
    return (np.nan, np.nan, ends) if isinstance(ends, str) else (*ends, None)


Curve = tuple[ArrayLike, ArrayLike]
"""Environment steps of a run's evaluations, ascending, and their values, both of shape (t,)."""


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Band:
    """An aggregate of learning curves, with an interval at each point of their grid.

    Attributes:
        estimate: Of shape (T,); NaN where a task has no run.
        low: Of shape (T,); NaN where no interval is possible.
        high: Of shape (T,); NaN where no interval is possible.
        runs: Number of runs of all tasks with a value at the point, of shape (T,).
        level: Level of each pointwise interval.
        method: Method of the intervals.
        repetitions: Number of resamples; 0 if no point has an interval.
        n: Runs of all tasks.
        tasks: Number of tasks.
        seed: Seed of the resampling; None if no point has an interval.
        coverage: Simulated coverage of this method at the point with fewest runs, among the points
            at which all tasks have the same number of runs; None where it was not simulated.
        reason: Why no point has an interval.
        gaps: If only some points have no interval: how many, and why.
    """

    estimate: Array
    low: Array
    high: Array
    runs: NDArray[np.int64]
    level: float
    method: str
    repetitions: int
    n: int
    tasks: int
    seed: int | None
    coverage: float | None
    reason: str | None
    gaps: str | None


def align(curves: Sequence[Curve], grid: ArrayLike) -> Array:
    """Values of runs on a common grid: each evaluation is valid until the next one.

    Nothing is extrapolated: a run has no value before its first evaluation, after its last one,
    and while its latest evaluation is NaN.

    Args:
        curves: The curve of each run; a run without evaluations has no value anywhere.
        grid: Of shape (T,), in the unit of the steps.

    Returns:
        Of shape (n, T), NaN where a run has no value.

    Raises:
        ValueError: Steps and values differ in number, steps do not rise, or a value is infinite.
    """
    at = np.asarray(grid, dtype=np.float64).ravel()
    aligned = np.full((len(curves), len(at)), np.nan)
    checked = _valid_curves(curves) or list(map(checked_curve, curves))
    for row, (steps, values) in zip(aligned, checked, strict=True):
        if len(steps):
            inside = (steps[0] <= at) & (at <= steps[-1])
            # "right" minus one is the latest evaluation at or before the step.
            row[inside] = values[np.searchsorted(steps, at[inside], "right") - 1]
    return aligned


def common_grid(curves: Sequence[Curve], points: int = 200) -> Array:
    """Steps at which any run was evaluated and all runs have a value: at most `points` of them.

    The grid is empty if a run has no evaluation. If there are too many steps, a subset at even
    distances is kept, with the first and the last one.

    Args:
        curves: The curve of each run, of all tasks and labels that are shown together.
        points: Largest number of steps, 2 or more.

    Returns:
        Of shape (T,), ascending; empty if no step is common to all runs.

    Raises:
        ValueError: A curve is invalid, as in `align`, or `points` is below 2.
    """
    if points < 2:
        raise ValueError(f"a grid of at most {points} points shows no curve: take 2 or more")
    steps = [checked_curve(curve)[0] for curve in curves]
    if not steps or not all(map(len, steps)):
        return np.empty(0)
    union = np.unique(np.concatenate(steps))
    first, last = max(run[0] for run in steps), min(run[-1] for run in steps)
    common = union[(first <= union) & (union <= last)]
    if len(common) <= points:
        return np.asarray(common)
    return np.asarray(common[np.linspace(0, len(common) - 1, points).round().astype(np.intp)])


def area_under_curve(steps: ArrayLike, values: ArrayLike) -> Array:
    """Mean height of curves by the trapezoidal rule, in the unit of the values.

    The area is one number per run, so that an interval of its aggregate resamples whole runs.
    Resampling each step separately, as rliable does with curves, averages the noise of a run away
    along the curve and gives intervals that are about ten times too narrow.

    Args:
        steps: Of shape (t,), ascending, t ≥ 2; evaluations that are further apart weigh more.
        values: Of shape (…, t).

    Returns:
        Of shape (…); NaN for a curve with a NaN.

    Raises:
        ValueError: There are fewer than two evaluations, or the curve is invalid as in `align`.
    """
    at, height = np.asarray(steps, dtype=np.float64), np.asarray(values, dtype=np.float64)
    _check(at, height)
    if len(at) < 2:
        raise ValueError("an area needs at least two evaluations: evaluate the run more often")
    return np.asarray(np.trapezoid(height, at, axis=-1) / (at[-1] - at[0]))


def band(
    tasks: Sequence[ArrayLike],
    resampling: Resampling,
    *,
    method: str = "t",
    middle: Aggregate = MIDDLE,
) -> Band:
    """Interquartile mean over runs × tasks at each point, with intervals from whole runs.

    A run is resampled with its whole curve, within its task; tasks are fixed. The intervals are
    pointwise: the level holds for each point, not for all points at once.

    The default method is t with the bootstrap standard error (see `bootstrap.intervals`). The
    percentile interval of the literature is too narrow for few runs, because it never leaves the
    range of the runs. The field `coverage` gives the share of such intervals that contained the
    true value in simulations (see `stats.coverage`).

    A run that has ended has no value. From there on the band is computed from the remaining runs
    only, and `runs` counts them. If runs end because they perform badly, the remaining runs are
    too optimistic: apply a policy for failures before.

    Args:
        tasks: Values of the runs of each task, of shape (n_j, T), n_j ≥ 1, NaN where missing.
        resampling: Repetitions, level and seed.
        method: A key of `bootstrap.METHODS`.
        middle: An interquartile mean without a cap.

    Raises:
        ValueError: The method is unknown, there is no task, a task has no run, tasks have
            different numbers of points, or a value is infinite.
    """
    if method not in METHODS:
        raise ValueError(f"unknown method {method!r}; choose one of: {', '.join(METHODS)}")
    arrays = _ordered(tasks)
    values = np.concatenate(arrays).T
    present = ~np.isnan(values)
    remaining = np.stack([(~np.isnan(array)).sum(axis=0) for array in arrays], axis=-1)
    # Within a segment the same runs have values: their curves can be resampled together.
    pointwise = PointwiseIntervals.join(
        [
            pointwise_intervals(
                values[a:b, present[a]],
                tuple(remaining[a].tolist()),
                resampling,
                method,
                middle,
            )
            for a, b in _segments(present)
        ]
    )
    reasons, some = pointwise.reasons_text, None in pointwise.reasons
    return Band(
        estimate=pointwise.estimate,
        low=pointwise.low,
        high=pointwise.high,
        runs=remaining.sum(axis=-1),
        level=resampling.level,
        method=METHODS[method],
        repetitions=resampling.repetitions if some else 0,
        n=values.shape[1],
        tasks=len(arrays),
        seed=resampling.seed if some else None,
        coverage=_coverage(pointwise, remaining, resampling, method, middle),
        reason=None if some else reasons,
        gaps=reasons if some else None,
    )


def _valid_curves(curves: Sequence[Curve]) -> list[tuple[Array, Array]] | None:
    """The curves if all have as many points and are valid, which one look at all of them shows."""
    arrays = [(np.asarray(steps), np.asarray(values)) for steps, values in curves]
    if not arrays or len({part.shape for curve in arrays for part in curve}) > 1:
        return None
    steps, values = (np.array(part, dtype=np.float64) for part in zip(*arrays, strict=True))
    valid = steps.ndim == 2 and np.isfinite(steps).all() and not np.isinf(values).any()
    if not valid or (np.diff(steps) <= 0).any():
        return None
    return list(zip(steps, values, strict=True))


def checked_curve(curve: Curve) -> tuple[Array, Array]:
    """Steps and values of a curve, each of shape (t,).

    Raises:
        ValueError: The curve is invalid, as in `align`.
    """
    steps, values = (np.asarray(part, dtype=np.float64) for part in curve)
    _check(steps, values)
    return steps, values


def _check(steps: Array, values: Array) -> None:
    """Refuse steps and values that form no curve."""
    if steps.ndim != 1 or values.shape[-1:] != steps.shape:
        raise ValueError(
            f"steps of shape {steps.shape} and values of shape {values.shape}: "
            "give one value for each step"
        )
    if not np.isfinite(steps).all() or (np.diff(steps) <= 0).any():
        raise ValueError("the steps of a run must be finite and ascending: sort its evaluations")
    if np.isinf(values).any():
        raise ValueError("a value must not be infinite: use NaN for a missing value")


def _ordered(tasks: Sequence[ArrayLike]) -> list[Array]:
    """Curves of each task, of shape (n_j, T), sorted: results do not depend on the run order."""
    arrays = [np.asarray(task, dtype=np.float64) for task in tasks]
    shapes = [array.shape for array in arrays]
    if not arrays or any(len(shape) != 2 or not all(shape) for shape in shapes):
        raise ValueError(f"shapes {shapes}: each task needs an array of shape (runs, points)")
    if len({points for _, points in shapes}) > 1:
        raise ValueError(f"shapes {shapes}: align the runs of all tasks on the same grid")
    if any(np.isinf(array).any() for array in arrays):
        raise ValueError("a value must not be infinite: use NaN for a missing value")
    # Adding zero turns -0.0 into 0.0: equal curves then have equal bytes.
    return [array[np.lexsort(array.T[::-1])] + 0.0 for array in arrays]


def _segments(present: NDArray[np.bool_]) -> list[tuple[int, int]]:
    """First point, and the point after the last, of each part with the same runs; input (T, N)."""
    changes = np.flatnonzero((present[1:] != present[:-1]).any(axis=1)) + 1
    return list(pairwise([0, *changes.tolist(), len(present)]))


def _coverage(
    pointwise: PointwiseIntervals,
    remaining: NDArray[np.int64],
    resampling: Resampling,
    method: str,
    middle: Aggregate,
) -> float | None:
    """Expected coverage at the point with fewest runs that has an interval and balanced tasks.

    `remaining` has the runs of each task at each point, in shape (T, m).
    """
    sizes = remaining[[reason is None for reason in pointwise.reasons]]
    sizes = sizes[(sizes == sizes[:, :1]).all(axis=1)]
    simulated = resampling.level == coverage.LEVEL
    simulated &= resampling.repetitions >= coverage.REPETITIONS
    if not simulated or not len(sizes):
        return None
    fewest, tasks = int(sizes.min()), remaining.shape[1]
    return coverage.expected_coverage(method, middle.centre, fewest, tasks)
