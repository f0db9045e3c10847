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


def sampled(seed: int, runs: int = 4, noise: float = 0.1) -> tuple[Array, Array]:
    """True scores, and runs of shape (S, T, n)."""
    generator = np.random.default_rng(seed)
    truth = landscape(generator)
    return truth, truth[..., np.newaxis] + noise * generator.normal(size=(*truth.shape, runs))


RUNS = sampled(0)[1]


def holds(own: Interval, value: float) -> bool:
    """Whether an interval holds a value."""
    assert own.low is not None
    assert own.high is not None
    return own.low <= value <= own.high


def test_estimates_are_those_of_the_means() -> None:
    """The estimates equal those computed from the means over runs."""
    found = sensitivity_intervals(RUNS, LEVELS, FEW)
    assert found.found == sensitivity(means(RUNS), LEVELS)
    assert found.found.tuned == found.tuned.estimate
    assert found.found.cross_tuned == found.cross_tuned.estimate
    assert found.found.sensitivity == found.sensitivity.estimate
    assert found.dimensionality is not None
    assert found.found.dimensionality == found.dimensionality.estimate


def test_an_interval_says_where_it_comes_from() -> None:
    """An interval names its runs, tasks, repetitions, level and seed."""
    own = sensitivity_intervals(RUNS, LEVELS, FEW).tuned
    assert (108, 3, 300, 0.95, 3) == (own.n, own.tasks, own.repetitions, own.level, own.seed)


def test_where_one_setting_is_far_above_it_is_the_interval_of_its_mean() -> None:
    """By hand: P is the mean of two means of 2 runs, 9 and 11, whose error is √(2/2) / √2."""
    runs = np.array([[[9.0, 11.0]] * 2, [[-1000.0, -1001.0]] * 2])
    many = Resampling(repetitions=20_000)
    found = sensitivity_intervals(runs, [[0.0], [1.0]], many)
    half = 4.3027 * 1 / sqrt(2)
    for own in (found.tuned, found.cross_tuned):
        assert own.low is not None
        assert own.high is not None
        assert (10 - half, 10 + half) == pytest.approx((own.low, own.high), rel=0.03)
    assert "all resamples give the same value" == found.sensitivity.reason
    assert found.dimensionality is not None
    assert (0.0, 0.0) == (found.dimensionality.low, found.dimensionality.high)


def test_the_interval_corrects_what_the_best_of_noisy_scores_overstates() -> None:
    """Of settings that are all worth 1: two fifths of it, as resamples of a maximum do."""
    generator = np.random.default_rng(1)
    found = [
        sensitivity_intervals(1 + generator.normal(size=(9, 3, 5)) / 3, LEVELS, FEW).tuned
        for _ in range(60)
    ]
    excess = np.mean([own.estimate for own in found]) - 1
    corrected = np.mean([((own.low or 0) + (own.high or 0)) / 2 for own in found]) - 1
    assert 1.485 / 3 / sqrt(5) == pytest.approx(excess, abs=0.03)
    assert 2 - sqrt(2) == pytest.approx(corrected / excess, abs=0.1)


def test_intervals_hold_the_truth_about_as_often_as_they_promise() -> None:
    """Of P, C, Φ and d in 150 samples of four runs; fewer than 85 % would be a chance of 1e-4."""
    held = np.zeros(4)
    for seed in range(150):
        truth, runs = sampled(seed)
        expected = sensitivity(truth, LEVELS)
        found = sensitivity_intervals(runs, LEVELS, FEW)
        assert found.dimensionality is not None
        assert expected.dimensionality is not None
        held += (
            holds(found.tuned, expected.tuned),
            holds(found.cross_tuned, expected.cross_tuned),
            holds(found.sensitivity, expected.sensitivity),
            holds(found.dimensionality, expected.dimensionality),
        )
    assert (held / 150 >= 0.85).all()


def test_no_sensitivity_is_below_0() -> None:
    """The interval of the sensitivity is cut at 0."""
    generator = np.random.default_rng(2)
    runs = generator.normal(size=(9, 3, 3)) + 5
    own = sensitivity_intervals(runs, LEVELS, FEW).sensitivity
    assert 0.0 == own.low


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
    found = sensitivity_intervals(runs, LEVELS, FEW)
    assert found.dimensionality is not None
    for own in (found.tuned, found.cross_tuned, found.sensitivity, found.dimensionality):
        assert (None, None, 0, None, reason) == (
            own.low,
            own.high,
            own.repetitions,
            own.seed,
            own.reason,
        )


def test_a_dimensionality_that_a_resample_lacks_has_no_interval() -> None:
    """If the tuned score of a resample is not above 0, the dimensionality has no interval."""
    found = sensitivity_intervals(RUNS - 0.93, LEVELS, FEW)
    assert found.dimensionality is not None
    assert "the tuned score of a resample is not above 0" == found.dimensionality.reason
    assert sensitivity_intervals(RUNS - 5, LEVELS, FEW).dimensionality is None


def test_runs_that_are_missing_leave_the_others_their_weight() -> None:
    """The mean of what is there; nothing where nothing is."""
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
    """Each block of repetitions has a generator of its own."""
    many = Resampling(repetitions=20_000)
    one = sensitivity_intervals(RUNS, LEVELS, many, threads=1)
    assert one == sensitivity_intervals(RUNS, LEVELS, many, threads=threads)


def test_the_seed_decides() -> None:
    """Another seed gives other draws."""
    other = sensitivity_intervals(RUNS, LEVELS, Resampling(seed=4, repetitions=300))
    assert sensitivity_intervals(RUNS, LEVELS, FEW).tuned.low != other.tuned.low


@settings(max_examples=30)
@given(st.randoms(use_true_random=False), st.integers(0, 20))
def test_the_order_of_settings_tasks_and_runs_changes_nothing(random: Any, seed: int) -> None:
    """Settings, tasks and runs in another order give the same ends to the last bit."""
    _, runs = sampled(seed)
    runs[random.randrange(1, 9), random.randrange(3)] = NAN
    runs[0, 0, 3] = NAN

    def shuffled(count: int) -> list[int]:
        order: list[int] = random.sample(range(count), count)
        return order

    rows, columns, order = shuffled(9), shuffled(3), shuffled(4)
    few = Resampling(repetitions=50)
    one = sensitivity_intervals(runs, LEVELS, few)
    other = sensitivity_intervals(runs[rows][:, columns][..., order], LEVELS[rows], few)
    assert one.dimensionality == other.dimensionality
    for name in ("tuned", "cross_tuned", "sensitivity"):
        assert astuple(getattr(one, name)) == astuple(getattr(other, name))
