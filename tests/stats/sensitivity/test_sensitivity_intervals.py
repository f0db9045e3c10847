"""Intervals of hyperparameter sensitivity."""

from dataclasses import astuple
from itertools import product
from math import sqrt
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray

from rlexp.stats.interval import Interval
from rlexp.stats.resampling import Resampling
from rlexp.stats.sensitivity.intervals import sensitivity_intervals
from rlexp.stats.sensitivity.sensitivity_grid import means
from rlexp.stats.sensitivity.settings import sensitivity

NAN = float("nan")
FEW = Resampling(seed=3, repetitions=300)
LEVELS = np.array(list(product(range(3), range(3))), dtype=float)

Array = NDArray[np.float64]


def landscape(generator: np.random.Generator, tasks: int = 3) -> Array:
    """True scores of the settings on each task, of shape (S, T)."""
    peaks = generator.uniform(0, 2, size=(1, tasks, 2))
    return np.asarray(np.exp(-((LEVELS[:, np.newaxis] - peaks) ** 2).sum(axis=-1) / 3))


def sampled_runs(seed: int, runs: int = 4, noise: float = 0.1) -> tuple[Array, Array]:
    """True scores, and runs of shape (S, T, n)."""
    generator = np.random.default_rng(seed)
    truth = landscape(generator)
    return truth, truth[..., np.newaxis] + noise * generator.normal(size=(*truth.shape, runs))


RUNS = sampled_runs(0)[1]


def holds(interval: Interval, value: float) -> bool:
    """Whether an interval holds a value."""
    assert interval.low is not None
    assert interval.high is not None
    return interval.low <= value <= interval.high


def test_estimates_are_those_of_the_means() -> None:
    """The estimates equal those computed from the means over runs."""
    result = sensitivity_intervals(RUNS, LEVELS, FEW)
    assert result.found == sensitivity(means(RUNS), LEVELS)
    assert result.found.tuned == result.tuned.estimate
    assert result.found.cross_tuned == result.cross_tuned.estimate
    assert result.found.sensitivity == result.sensitivity.estimate
    assert result.dimensionality is not None
    assert result.found.dimensionality == result.dimensionality.estimate


def test_an_interval_says_where_it_comes_from() -> None:
    """An interval names its runs, tasks, repetitions, level and seed."""
    interval = sensitivity_intervals(RUNS, LEVELS, FEW).tuned
    assert (108, 3, 300, 0.95, 3) == (
        interval.n,
        interval.tasks,
        interval.repetitions,
        interval.level,
        interval.seed,
    )


def test_a_setting_far_above_the_others_has_the_interval_of_its_mean() -> None:
    """By hand: P is the mean of two means of 2 runs, 9 and 11, whose error is √(2/2) / √2."""
    runs = np.array([[[9.0, 11.0]] * 2, [[-1000.0, -1001.0]] * 2])
    resampling = Resampling(repetitions=20_000)
    result = sensitivity_intervals(runs, [[0.0], [1.0]], resampling)
    half = 4.3027 * 1 / sqrt(2)
    for interval in (result.tuned, result.cross_tuned):
        assert interval.low is not None
        assert interval.high is not None
        assert (10 - half, 10 + half) == pytest.approx((interval.low, interval.high), rel=0.03)
    assert "all resamples give the same value" == result.sensitivity.reason
    assert result.dimensionality is not None
    assert (0.0, 0.0) == (result.dimensionality.low, result.dimensionality.high)


def test_the_interval_corrects_what_the_best_of_noisy_scores_overstates() -> None:
    """For equal settings the interval removes two fifths of what the best score overstates."""
    generator = np.random.default_rng(1)
    intervals = [
        sensitivity_intervals(1 + generator.normal(size=(9, 3, 5)) / 3, LEVELS, FEW).tuned
        for _ in range(60)
    ]
    excess = np.mean([interval.estimate for interval in intervals]) - 1
    corrected_excess = (
        np.mean([((interval.low or 0) + (interval.high or 0)) / 2 for interval in intervals]) - 1
    )
    assert 1.485 / 3 / sqrt(5) == pytest.approx(excess, abs=0.03)
    assert 2 - sqrt(2) == pytest.approx(corrected_excess / excess, abs=0.1)


def test_intervals_hold_the_truth_about_as_often_as_they_promise() -> None:
    """Intervals of P, C, Φ and d contain the truth in at least 85 % of 150 samples."""
    hits = np.zeros(4)
    for seed in range(150):
        truth, runs = sampled_runs(seed)
        expected = sensitivity(truth, LEVELS)
        result = sensitivity_intervals(runs, LEVELS, FEW)
        assert result.dimensionality is not None
        assert expected.dimensionality is not None
        hits += (
            holds(result.tuned, expected.tuned),
            holds(result.cross_tuned, expected.cross_tuned),
            holds(result.sensitivity, expected.sensitivity),
            holds(result.dimensionality, expected.dimensionality),
        )
    # A lower share would be chance in one of 10,000 seeds.
    assert (hits / 150 >= 0.85).all()


def test_no_sensitivity_is_below_0() -> None:
    """The interval of the sensitivity is cut at 0."""
    generator = np.random.default_rng(2)
    runs = generator.normal(size=(9, 3, 3)) + 5
    interval = sensitivity_intervals(runs, LEVELS, FEW).sensitivity
    assert 0.0 == interval.low


@pytest.mark.parametrize(
    ("runs", "reason"),
    [
        (RUNS[..., :1], "27 of 27 settings and tasks have one run, which shows no spread"),
        (
            np.where(np.arange(4) * (np.arange(27) == 5).reshape(9, 3, 1), NAN, RUNS),
            "1 of 27 settings and tasks has one run, which shows no spread",
        ),
        (RUNS[..., :1] + np.zeros(3), "all runs of each setting on a task are equal"),
    ],
)
def test_without_spread_there_is_no_interval(runs: Array, reason: str) -> None:
    """Runs without spread have a reason instead of each interval."""
    result = sensitivity_intervals(runs, LEVELS, FEW)
    assert result.dimensionality is not None
    for interval in (result.tuned, result.cross_tuned, result.sensitivity, result.dimensionality):
        assert (None, None, 0, None, reason) == (
            interval.low,
            interval.high,
            interval.repetitions,
            interval.seed,
            interval.reason,
        )


def test_a_dimensionality_that_a_resample_lacks_has_no_interval() -> None:
    """If the tuned score of a resample is not above 0, the dimensionality has no interval."""
    result = sensitivity_intervals(RUNS - 0.93, LEVELS, FEW)
    assert result.dimensionality is not None
    assert "the tuned score of a resample is not above 0" == result.dimensionality.reason
    assert sensitivity_intervals(RUNS - 5, LEVELS, FEW).dimensionality is None


def test_runs_that_are_missing_leave_the_others_their_weight() -> None:
    """Missing runs are left out of the mean; the mean of no runs is NaN."""
    runs = [[[1.0, 3.0, NAN], [NAN, NAN, NAN]]]
    np.testing.assert_array_equal([[2.0, NAN]], means(runs))


def test_a_mean_that_overflows_is_refused() -> None:
    """Scores whose mean overflows are refused without a warning of NumPy."""
    with pytest.raises(ValueError, match="up to 1e150"):
        sensitivity(means(np.full((9, 2, 2), 1e308)), LEVELS)


def test_runs_have_three_axes() -> None:
    """A table of means, without an axis of runs, is refused."""
    with pytest.raises(ValueError, match="settings × tasks × runs"):
        sensitivity_intervals(RUNS[..., 0], LEVELS, FEW)


@pytest.mark.parametrize("threads", [2, 5])
def test_threads_change_nothing(threads: int) -> None:
    """The number of threads changes nothing, because each block has its own generator."""
    resampling = Resampling(repetitions=20_000)
    one_thread = sensitivity_intervals(RUNS, LEVELS, resampling, threads=1)
    assert one_thread == sensitivity_intervals(RUNS, LEVELS, resampling, threads=threads)


def test_the_seed_decides() -> None:
    """Another seed gives other draws."""
    other = sensitivity_intervals(RUNS, LEVELS, Resampling(seed=4, repetitions=300))
    assert sensitivity_intervals(RUNS, LEVELS, FEW).tuned.low != other.tuned.low


@settings(max_examples=30)
@given(st.randoms(use_true_random=False), st.integers(0, 20))
def test_the_order_of_settings_tasks_and_runs_changes_nothing(random: Any, seed: int) -> None:
    """Settings, tasks and runs in another order give the same ends to the last bit."""
    _, runs = sampled_runs(seed)
    runs[random.randrange(1, 9), random.randrange(3)] = NAN
    runs[0, 0, 3] = NAN

    def shuffled(count: int) -> list[int]:
        order: list[int] = random.sample(range(count), count)
        return order

    rows, columns, order = shuffled(9), shuffled(3), shuffled(4)
    resampling = Resampling(repetitions=50)
    original = sensitivity_intervals(runs, LEVELS, resampling)
    reordered = sensitivity_intervals(runs[rows][:, columns][..., order], LEVELS[rows], resampling)
    assert original.dimensionality == reordered.dimensionality
    for name in ("tuned", "cross_tuned", "sensitivity"):
        assert astuple(getattr(original, name)) == astuple(getattr(reordered, name))
