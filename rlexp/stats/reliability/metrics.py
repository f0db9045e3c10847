"""Reliability metrics of learning curves and of fixed policies, per run or per step.

Chan, Fishman, Canny, Korattikara and Guadarrama 2020, "Measuring the Reliability of Reinforcement
Learning Algorithms". Curves have steps of shape (T,), ascending, and values of shape (n, T). All
functions here return values in units of the return; `summary` divides them by a range.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise

import numpy as np
from numpy.typing import ArrayLike, NDArray

from rlexp.stats.reliability.risk import cvar

Array = NDArray[np.float64]
Window = tuple[float, float]
"""A range of environment steps: above the first number, up to and including the second."""

LEAST_DIFFERENCES = 4
"""Smallest number of values with a meaningful interquartile range."""
FILTER_ORDER = 8
"""Order of the Butterworth filter, as in the authors' code."""


@dataclass(frozen=True, slots=True, eq=False)
class LearningCurves:
    """Evaluations of n runs at the same T steps.

    Attributes:
        steps: Environment steps of the evaluations, ascending, of shape (T,).
        values: Mean returns, of shape (n, T), with runs sorted: results ignore the run order.
    """

    steps: Array
    values: Array

    @classmethod
    def of(cls, steps: ArrayLike, values: ArrayLike) -> "LearningCurves":
        """Checked curves with sorted runs.

        Args:
            steps: Of shape (T,), ascending, T ≥ 1.
            values: Of shape (n, T), n ≥ 1.

        Raises:
            ValueError: Shapes do not fit, steps do not rise, or a number is not finite.
        """
        at, curves = np.asarray(steps, dtype=np.float64), np.asarray(values, dtype=np.float64)
        if at.ndim != 1 or curves.ndim != 2 or curves.shape[1:] != at.shape or not curves.size:
            raise ValueError(
                f"steps of shape {at.shape} and values of shape {curves.shape} do not fit: "
                "steps (T,) and values (n, T) are needed"
            )
        if not np.isfinite(curves).all() or not np.isfinite(at).all():
            raise ValueError("curves must be finite: use steps at which all runs were evaluated")
        if (np.diff(at) <= 0).any():
            raise ValueError("steps must be strictly ascending: sort the evaluations")
        # `lexsort` takes its last key first: reversed, the first evaluation decides the order.
        return cls(at, curves[np.lexsort(curves.T[::-1])])


def interquartile_range(values: Array, axis: int = -1) -> Array:
    """Third minus first quartile along an axis, linearly interpolated."""
    low, high = np.quantile(values, [0.25, 0.75], axis=axis)
    return np.asarray(high - low)


def curve_range(values: Array) -> Array:
    """Range of curves: 95th percentile minus first value, from (…, T) to (…)."""
    return np.asarray(np.quantile(values, 0.95, axis=-1) - values[..., 0])


def differences(curves: LearningCurves) -> Array:
    """Changes from evaluation to evaluation, per environment step, of shape (n, T - 1)."""
    return np.asarray(np.diff(curves.values, axis=-1) / np.diff(curves.steps))


def drawdown(values: Array) -> Array:
    """Drawdown of curves: highest value so far minus value, of shape (…, T). Lower is better."""
    return np.asarray(np.maximum.accumulate(values, axis=-1) - values)


def equal_windows(curves: LearningCurves, least: int = 10, most: int = 20) -> tuple[Window, ...]:
    """Windows that cover the curves, with numbers of evaluations that differ by at most one.

    There are as many windows as can have `least` evaluations each, at most `most`, and at least
    one. (The authors' examples have 100 evaluations in each of 20 windows.)
    """
    count = int(np.clip((len(curves.steps) - 1) // least, 1, most))
    positions = np.round(np.linspace(0, len(curves.steps) - 1, count + 1)).astype(int)
    # Windows exclude their lower edge: the first begins before the first evaluation.
    edges = [float(curves.steps[0]) - 1, *curves.steps[positions[1:]].tolist()]
    return tuple(pairwise(edges))


def dispersion_across_time(curves: LearningCurves, windows: Sequence[Window]) -> Array:
    """Interquartile range, within windows, of the differences between evaluations.

    Differences remove the trend of the curve. A difference belongs to the window of its later
    evaluation.

    Returns:
        Of shape (n, windows), per environment step. Lower is better.

    Raises:
        ValueError: A window has fewer than four differences, or there is no window.
    """
    changes, inside = differences(curves), _inside(curves.steps[1:], windows)
    for window, chosen in zip(windows, inside, strict=True):
        if chosen.sum() < LEAST_DIFFERENCES:
            raise ValueError(
                f"{_count(int(chosen.sum()), 'difference')} between evaluations in steps "
                f"{max(window[0], curves.steps[0]):g} to {window[1]:g}: an interquartile range needs "
                f"{LEAST_DIFFERENCES}; evaluate more often, or use wider windows"
            )
    return np.stack([interquartile_range(changes[:, chosen]) for chosen in inside], axis=1)


def median_performance(curves: LearningCurves, windows: Sequence[Window]) -> Array:
    """Median of the evaluations within windows, of shape (n, windows). Higher is better.

    Raises:
        ValueError: A window has no evaluation, or there is no window.
    """
    inside = _inside(curves.steps, windows)
    for window, chosen in zip(windows, inside, strict=True):
        if not chosen.any():
            raise ValueError(
                f"no evaluation in steps {window[0]:g} to {window[1]:g}: use wider windows"
            )
    medians = [np.median(curves.values[:, chosen], axis=1) for chosen in inside]
    return np.stack(medians, axis=1)


def short_term_risk(curves: LearningCurves) -> Array:
    """Mean of the worst 5 % of the differences of each run: its steepest drops.

    Returns:
        Of shape (n,), per environment step. Higher is better.

    Raises:
        ValueError: There is only one evaluation.
    """
    return cvar(differences(_risky(curves)))


def long_term_risk(curves: LearningCurves) -> Array:
    """Mean of the worst 5 % of the drawdowns of each run: its largest falls from its best value.

    The worst drawdowns are the largest. (The authors' example configuration uses the smallest,
    which are 0 for nearly every curve.)

    Returns:
        Of shape (n,). Lower is better.

    Raises:
        ValueError: There is only one evaluation.
    """
    return cvar(drawdown(_risky(curves).values), tail="upper")


def dispersion_across_runs(values: Array) -> Array:
    """Interquartile range over runs, (…, n, T) to (…, T). Lower is better."""
    return interquartile_range(values, axis=-2)


def risk_across_runs(values: Array) -> Array:
    """Mean of the worst 5 % of the runs, (…, n, T) to (…, T). Higher is better.

    With 20 runs or fewer, that is the worst run alone.
    """
    return cvar(np.swapaxes(values, -1, -2))


def low_pass(curves: LearningCurves, period: float) -> LearningCurves:
    """Curves without fast changes, by a Butterworth filter of order 8, forwards and backwards.

    The authors remove periods below 200 evaluations before they compare runs, which needs many
    evaluations. Evaluations in rlexp are means over episodes and need no filter if they are few.

    Args:
        curves: Curves evaluated at even distances.
        period: The shortest period that is kept, in environment steps.

    Raises:
        ValueError: Evaluations are too few or uneven, or the period is too short for them.
    """
    from scipy.signal import butter, sosfiltfilt

    gaps = np.diff(curves.steps)
    # The filter pads a curve at both ends by three times the number of its coefficients, and
    # needs more evaluations than that.
    least = 3 * (FILTER_ORDER + 1) + 1
    if len(curves.steps) < least or np.ptp(gaps) > 1e-6 * gaps.mean():
        raise ValueError(
            f"{_count(len(curves.steps), 'evaluation')}: smoothing needs at least {least} at even "
            "distances; compare runs without smoothing"
        )
    if period <= 2 * gaps.mean():
        raise ValueError(
            f"a period of {period:g} steps is at most two evaluations: give a longer period"
        )
    cutoff = 2 * gaps.mean() / period
    # Second-order sections, because one polynomial of order 8 can be numerically unstable.
    sections = butter(FILTER_ORDER, cutoff, output="sos")
    smooth = sosfiltfilt(sections, curves.values, axis=-1, padlen=least - 1)
    return LearningCurves(curves.steps, np.asarray(smooth))


def _risky(curves: LearningCurves) -> LearningCurves:
    if len(curves.steps) < 2:
        raise ValueError("one evaluation shows no change: evaluate during training")
    return curves


def _inside(steps: Array, windows: Sequence[Window]) -> list[NDArray[np.bool_]]:
    if not windows:
        raise ValueError("there is no window: give at least one")
    return [(low < steps) & (steps <= high) for low, high in windows]


def _count(number: int, noun: str) -> str:
    return f"{number} {noun}{'' if number == 1 else 's'}"
