"""Reliability metrics equal golden values and values by hand."""

import json
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.typing import ArrayLike, NDArray

from rlexp.stats.reliability.metrics import (
    LearningCurves,
    curve_range,
    differences,
    dispersion_across_runs,
    dispersion_across_time,
    drawdown,
    equal_windows,
    long_term_risk,
    low_pass,
    median_performance,
    risk_across_runs,
    short_term_risk,
)
from rlexp.stats.reliability.risk import cvar

GOLDEN = json.loads((Path(__file__).parents[2] / "golden" / "golden_stats.json").read_text())[
    "reliability_metrics"
]
CURVES = LearningCurves.of(GOLDEN["steps"], GOLDEN["curves"])
ORDER = np.lexsort(np.array(GOLDEN["curves"]).T[::-1])
"""Order in which `LearningCurves` sorts the golden runs."""


def golden(name: str) -> NDArray[np.float64]:
    """Golden values of each run, in sorted order."""
    return np.array(GOLDEN[name])[ORDER]


def exactly(expected: ArrayLike) -> object:
    """Comparison with a tolerance of 1e-12."""
    return pytest.approx(np.asarray(expected), abs=1e-12, rel=1e-12)


def test_metrics_of_runs_are_golden() -> None:
    """The metrics of four curves equal the golden values of the authors' code."""
    windows = [(-1.0, CURVES.steps[-1])]
    assert exactly(golden("curve_range")) == curve_range(CURVES.values)
    assert (
        exactly(golden("iqr_within_runs_detrended"))
        == dispersion_across_time(CURVES, windows)[:, 0]
    )
    assert exactly(golden("lower_cvar_on_diffs")) == short_term_risk(CURVES)
    assert exactly(golden("upper_cvar_on_drawdown")) == long_term_risk(CURVES)
    assert exactly(golden("max_drawdown")) == drawdown(CURVES.values).max(axis=1)


def test_metrics_across_runs_are_golden() -> None:
    """The metrics across runs equal the golden values at each of twenty evaluations."""
    assert exactly(GOLDEN["iqr_across_runs"]) == dispersion_across_runs(CURVES.values)
    assert exactly(GOLDEN["lower_cvar_across_runs"]) == risk_across_runs(CURVES.values)


def test_the_smallest_drawdowns_are_no_risk() -> None:
    """Long-term risk uses the upper tail of drawdowns; the authors' example uses the lower."""
    assert golden("lower_cvar_on_drawdown").tolist() == cvar(drawdown(CURVES.values)).tolist()
    assert (long_term_risk(CURVES) > 2).all()


def test_a_curve_by_hand() -> None:
    """By hand for 0, 4, 2, 8, 3: the fall from 8 to 3 is the worst of both risks."""
    curve = LearningCurves.of([0, 10, 20, 40, 50], [[0, 4, 2, 8, 3]])
    assert [[0.4, -0.2, 0.3, -0.5]] == differences(curve).tolist()
    assert [[0, 0, 2, 0, 5]] == drawdown(curve.values).tolist()
    assert [-0.5] == short_term_risk(curve).tolist()
    assert [5] == long_term_risk(curve).tolist()
    assert pytest.approx([7.2]) == curve_range(curve.values)  # 95th percentile: 4 + .8 × (8 - 4)
    assert pytest.approx(0.325 + 0.275) == dispersion_across_time(curve, [(0, 50)]).item()
    assert [[3, 3.5]] == median_performance(curve, [(0, 20), (0, 50)]).tolist()


def test_steady_learning_has_no_dispersion_and_no_risk() -> None:
    """Straight lines have no dispersion, no drawdown and no difference below their slope."""
    steps = np.arange(0, 64, 2)
    line = LearningCurves.of(steps, [3 * steps, 0 * steps])
    windows = equal_windows(line)
    assert [[0] * 3] * 2 == dispersion_across_time(line, windows).tolist()
    assert [0, 0] == long_term_risk(line).tolist()
    assert [0, 3] == short_term_risk(line).tolist()


@pytest.mark.parametrize(
    ("evaluations", "expected"), [(1, 1), (5, 1), (21, 2), (60, 5), (900, 20)]
)
def test_windows_adapt_to_the_number_of_evaluations(evaluations: int, expected: int) -> None:
    """Windows hold ten evaluations each or more, are twenty at most, and hold all evaluations."""
    steps = np.cumsum(np.random.default_rng(0).integers(1, 9, evaluations))
    curves = LearningCurves.of(steps, [steps])
    windows = equal_windows(curves)
    assert expected == len(windows)
    counts = [int(((low < steps) & (steps <= high)).sum()) for low, high in windows]
    assert evaluations == sum(counts)
    assert expected == 1 or min(counts) >= 10


def test_smoothing_keeps_trends_and_drops_jitter() -> None:
    """Smoothing keeps a slow change, and removes one that flips at every evaluation."""
    steps = np.arange(200.0)
    slow = np.sin(steps / 60)
    jitter = np.where(np.arange(200) % 2, 1.0, -1.0)
    smoothed = low_pass(LearningCurves.of(steps, [slow + jitter]), period=20).values[0]
    assert np.abs(smoothed - slow)[60:-60].max() < 0.01


def test_a_period_is_counted_in_steps() -> None:
    """Evaluations ten steps apart are smoothed over ten times the period as those one step apart."""
    steps = np.arange(200.0)
    values = [np.sin(steps / 60) + np.where(steps % 2, 1.0, -1.0)]
    near = low_pass(LearningCurves.of(steps, values), period=20)
    far = low_pass(LearningCurves.of(steps * 10, values), period=200)
    assert pytest.approx(near.values) == far.values


@given(st.permutations(range(4)))
def test_the_order_of_the_runs_does_not_matter(order: list[int]) -> None:
    """Curves in another order are sorted into the same table."""
    values = np.array(GOLDEN["curves"])[order]
    curves = LearningCurves.of(GOLDEN["steps"], values)
    assert CURVES.values.tobytes() == curves.values.tobytes()


@given(st.floats(0.1, 10), st.floats(-100, 100))
def test_metrics_scale_with_the_return_and_forget_its_origin(factor: float, shift: float) -> None:
    """Scaling the return scales all metrics, and shifting the return changes none."""
    transformed = LearningCurves(CURVES.steps, factor * CURVES.values + shift)
    windows = equal_windows(CURVES, least=5)
    for metric in (
        lambda curves: dispersion_across_time(curves, windows),
        short_term_risk,
        long_term_risk,
        lambda curves: dispersion_across_runs(curves.values),
        lambda curves: curve_range(curves.values),
    ):
        assert pytest.approx(factor * metric(CURVES), rel=1e-6, abs=1e-9) == metric(transformed)


@pytest.mark.parametrize(
    ("steps", "values", "message"),
    [
        ([1, 2], [1, 2], r"steps of shape \(2,\) and values of shape \(2,\) do not fit"),
        ([1, 2], [[1, 2, 3]], "do not fit"),
        ([], [[]], "do not fit"),
        ([1, 2], [[1, float("nan")]], "curves must be finite"),
        ([2, 2], [[1, 2]], "steps must be strictly ascending"),
    ],
)
def test_invalid_curves_are_refused(steps: ArrayLike, values: ArrayLike, message: str) -> None:
    """Curves of wrong shape, unsorted steps and NaN are refused with the mistake."""
    with pytest.raises(ValueError, match=message):
        LearningCurves.of(steps, values)


def test_metrics_of_too_few_evaluations_are_refused_in_words() -> None:
    """A metric of too few evaluations is refused with the reason, and is never NaN."""
    single = LearningCurves.of([5], [[1.0]])
    three = LearningCurves.of([1, 2, 3], [[1.0, 2.0, 0.0]])
    with pytest.raises(ValueError, match="one evaluation shows no change"):
        short_term_risk(single)
    with pytest.raises(ValueError, match="one evaluation shows no change"):
        long_term_risk(single)
    with pytest.raises(ValueError, match="2 differences between evaluations in steps 1 to 3"):
        dispersion_across_time(three, equal_windows(three))
    with pytest.raises(ValueError, match="no evaluation in steps 3 to 4: use wider windows"):
        median_performance(three, [(3, 4)])
    with pytest.raises(ValueError, match="there is no window"):
        median_performance(three, [])
    assert [[1.0]] == median_performance(single, equal_windows(single)).tolist()


@pytest.mark.parametrize(
    ("steps", "period", "message"),
    [
        (np.arange(27), 10, "27 evaluations: smoothing needs at least 28 at even distances"),
        (np.arange(40) ** 2, 900, "40 evaluations: smoothing needs at least 28 at even distances"),
        (np.arange(40), 2, "a period of 2 steps is at most two evaluations"),
        (np.arange(40) * 10, 20, "a period of 20 steps is at most two evaluations"),
    ],
)
def test_what_cannot_be_smoothed_is_refused(
    steps: NDArray[np.int64], period: float, message: str
) -> None:
    """Too few evaluations, uneven evaluations and too short a period are refused."""
    with pytest.raises(ValueError, match=message):
        low_pass(LearningCurves.of(steps, [steps]), period)
