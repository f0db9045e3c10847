"""Learning curves: common grids, golden bands, resampled whole runs and runs that end early."""

from typing import Any

import numpy as np
import pytest
from aggregate_cases import GOLDEN
from hypothesis import given
from hypothesis import strategies as st
from in_full import IN_FULL
from numpy.typing import NDArray

from rlexp.stats import curves
from rlexp.stats.aggregate import interquartile_mean
from rlexp.stats.bootstrap import METHODS, interval
from rlexp.stats.coverage import expected_coverage
from rlexp.stats.curves import align, area_under_curve, band, common_grid
from rlexp.stats.resampling import Resampling
from rlexp.stats.task_scores import TaskScores

Array = NDArray[np.float64]

CASE: dict[str, Any] = GOLDEN["sample_efficiency"]
TASKS = list(np.moveaxis(np.asarray(CASE["scores"]), 1, 0))
"""Three tasks of four runs of six steps."""
FEW = Resampling(seed=2, repetitions=500)
NAN = np.nan

heights = st.integers(-100, 100).map(lambda number: number / 4)


@st.composite
def tasks_of_curves(draw: st.DrawFn) -> list[Array]:
    """One to three tasks of runs with three points; some runs end early."""
    row = st.lists(heights, min_size=3, max_size=3)
    tasks = draw(st.lists(st.lists(row, min_size=1, max_size=4), min_size=1, max_size=3))
    arrays = [np.asarray(task) for task in tasks]
    for task in arrays:
        for run in task:
            run[draw(st.integers(0, 6)) :] = NAN
    return arrays


def test_an_evaluation_holds_until_the_next() -> None:
    """An evaluation holds until the next; before the first and after the last there is NaN."""
    curve = ([10, 20, 40], [1.0, 2.0, 4.0])
    expected = [[NAN, 1.0, 1.0, 2.0, 2.0, 4.0, NAN]]
    np.testing.assert_array_equal(expected, align([curve], [9, 10, 19, 20, 39, 40, 41]))


def test_a_run_without_an_evaluation_has_no_value() -> None:
    """A run without an evaluation is a row of NaN."""
    values = align([([], []), ([1.0], [5.0])], [1.0, 2.0])
    np.testing.assert_array_equal([[NAN, NAN], [5.0, NAN]], values)


def test_an_evaluation_that_is_nan_is_not_bridged() -> None:
    """An evaluation of NaN holds until the next evaluation."""
    values = align([([1, 2, 3], [1.0, NAN, 3.0])], [1, 2, 2.5, 3])
    np.testing.assert_array_equal([[1.0, NAN, NAN, 3.0]], values)


@pytest.mark.parametrize(
    ("curve", "message"),
    [
        (([1.0, 1.0], [0.0, 0.0]), "must be finite and ascending"),
        (([2.0, 1.0], [0.0, 0.0]), "must be finite and ascending"),
        (([1.0, NAN], [0.0, 0.0]), "must be finite and ascending"),
        (([1.0, 2.0], [0.0]), "give one value for each step"),
        (([1.0, 2.0], [0.0, np.inf]), "must not be infinite"),
    ],
)
def test_invalid_curves_are_refused(curve: Any, message: str) -> None:
    """`align` and `common_grid` refuse an invalid curve."""
    with pytest.raises(ValueError, match=message):
        align([curve], [1.0])
    with pytest.raises(ValueError, match=message):
        common_grid([curve])


def test_the_grid_is_where_all_runs_have_a_value() -> None:
    """The grid has all runs' steps from the latest first evaluation to the earliest last one."""
    curves = [([0, 10, 20, 30], [0.0] * 4), ([5, 15, 25], [0.0] * 3)]
    assert [5, 10, 15, 20, 25] == common_grid(curves).tolist()
    assert not np.isnan(align(curves, common_grid(curves))).any()


def test_a_grid_is_thinned_evenly() -> None:
    """A grid with too many steps keeps even distances and both ends."""
    curve = (np.arange(101.0), np.zeros(101))
    assert [0, 25, 50, 75, 100] == common_grid([curve], points=5).tolist()


@pytest.mark.parametrize("curves", [[], [([], [])], [([0, 1], [0, 0]), ([2, 3], [0, 0])]])
def test_without_common_steps_there_is_no_grid(curves: Any) -> None:
    """Runs without a common step have an empty grid."""
    assert [] == common_grid(curves).tolist()


def test_a_grid_of_one_point_is_refused() -> None:
    """A grid of fewer than two points is refused."""
    with pytest.raises(ValueError, match="take 2 or more"):
        common_grid([([1, 2], [0, 0])], points=1)


def test_an_area_weighs_evaluations_by_their_steps() -> None:
    """By hand: (1 + 3)/2 over 10 steps and (3 + 5)/2 over 30 steps give 140/40."""
    assert 3.5 == area_under_curve([0, 10, 40], [1.0, 3.0, 5.0])
    assert [3.5, 7.0] == area_under_curve([0, 10, 40], [[1, 3, 5], [2, 6, 10]]).tolist()
    with pytest.raises(ValueError, match="at least two evaluations"):
        area_under_curve([3], [1.0])


def test_the_band_is_centred_on_rliables_interquartile_mean() -> None:
    """The estimate at each step equals rliable's interquartile mean over runs and tasks."""
    assert CASE["iqm"] == pytest.approx(band(TASKS, FEW).estimate, rel=1e-12)


def test_pointwise_intervals_are_those_of_many_resamples() -> None:
    """Percentile bands lie within 2 % of the width of the limit of many resamples."""
    result = band(TASKS, Resampling(repetitions=50_000), method="percentile")
    limit = np.asarray(CASE["limit_percentile"])
    slack = 0.02 * np.ptp(limit, axis=1)
    assert (np.abs(result.low - limit[:, 0]) < slack).all()
    assert (np.abs(result.high - limit[:, 1]) < slack).all()


@pytest.mark.parametrize("single", ["curve", "number"])
def test_of_whole_runs_a_mean_over_time_keeps_its_width(single: str) -> None:
    """Resampling whole runs keeps the width, which rliable's independent steps halve."""
    means = [task.mean(axis=1) for task in TASKS]
    resampling = Resampling(repetitions=50_000)
    if single == "curve":
        result = band([task[:, np.newaxis] for task in means], resampling, method="percentile")
        low, high = result.low[0], result.high[0]
        assert CASE["iqm_of_auc"]["point"] == pytest.approx(result.estimate[0], rel=1e-12)
    else:
        scores = TaskScores.from_tasks(means)
        scores_interval = interval(scores, interquartile_mean, resampling, method="percentile")
        assert scores_interval.low is not None
        assert scores_interval.high is not None
        low, high = scores_interval.low, scores_interval.high
    expected = CASE["iqm_of_auc"]["ci_whole_run"]
    assert expected == pytest.approx([low, high], abs=0.004)
    stepwise = CASE["iqm_of_auc"]["ci_rliable_3d"]
    assert 2 * (stepwise[1] - stepwise[0]) < high - low


@pytest.mark.parametrize("method", METHODS)
@pytest.mark.parametrize("sizes", [(5,), (4, 4, 4), (2, 5, 3)])
def test_a_band_of_one_point_is_the_interval_of_its_scores(
    sizes: tuple[int, ...], method: str
) -> None:
    """A band of one point equals the interval of its scores, on equal and unequal tasks."""
    generator = np.random.default_rng(7)
    runs = [np.sort(generator.normal(size=n)) for n in sizes]
    resampling = Resampling(seed=4, repetitions=1_000)
    expected = interval(TaskScores.from_tasks(runs), interquartile_mean, resampling, method=method)
    actual = band([task[:, np.newaxis] for task in runs], resampling, method=method)
    numbers = [actual.estimate[0], actual.low[0], actual.high[0]]
    assert [expected.estimate, expected.low, expected.high] == pytest.approx(numbers, rel=1e-9)
    for name in ("coverage", "method", "n", "seed", "repetitions", "level", "tasks"):
        assert getattr(expected, name) == getattr(actual, name)


@given(tasks_of_curves(), st.randoms(use_true_random=False))
def test_the_order_of_runs_does_not_matter(tasks: list[Array], random: Any) -> None:
    """Runs in another order give the same band to the last bit."""
    shuffled = [task[random.sample(range(len(task)), len(task))] for task in tasks]
    a, b = band(tasks, FEW), band(shuffled, FEW)
    for name in ("estimate", "low", "high", "runs"):
        assert getattr(a, name).tobytes() == getattr(b, name).tobytes()
    assert (a.reason, a.gaps, a.coverage) == (b.reason, b.gaps, b.coverage)


@given(tasks_of_curves())
def test_each_point_stands_by_itself(tasks: list[Array]) -> None:
    """Each point aggregates the runs that reach it, and has an interval or a reason."""
    result = band(tasks, FEW)
    for point, runs in enumerate(result.runs):
        remaining = [task[~np.isnan(task[:, point]), point] for task in tasks]
        assert sum(map(len, remaining)) == runs
        if all(map(len, remaining)):
            middle = float(interquartile_mean(TaskScores.from_tasks(remaining)))
            assert middle == pytest.approx(result.estimate[point])
        else:
            assert np.isnan(result.estimate[point])
    assert np.isnan(result.low).tolist() == np.isnan(result.high).tolist()
    assert bool(np.isnan(result.low).any()) == bool(result.reason or result.gaps)
    assert (result.reason is not None) == bool(np.isnan(result.low).all())


def test_runs_that_end_early_are_counted() -> None:
    """Points of one run or none have no interval, and the numbers of runs are counted."""
    task = np.asarray(
        [
            [0.0, 1.0, 2.0, 3.0, NAN],
            [1.0, 3.0, 1.0, NAN, NAN],
            [2.0, 4.0, 6.0, NAN, NAN],
            [5.0, 6.0, NAN, NAN, NAN],
        ]
    )
    result = band([task], Resampling(repetitions=1_000))
    assert [4, 4, 3, 1, 0] == result.runs.tolist()
    # Of three runs 3/4 of one are cut at each end: (1 + 4 · 2 + 6) / 6.
    assert [1.5, 3.5, 2.5, 3.0] == result.estimate[:4].tolist()
    assert [False, False, False, True, True] == np.isnan(result.low).tolist()
    assert None is result.reason
    assert (
        "at 1 of 5 points one run alone shows no spread; at 1 of 5 points a task has no run"
    ) == result.gaps
    assert result.coverage is not None
    assert 4 == result.n


def test_coverage_is_told_of_points_where_tasks_have_as_many_runs() -> None:
    """Coverage is that of points where both tasks have three runs."""
    rising = np.arange(20.0).reshape(4, 5) % 7
    first, second = rising.copy(), rising[:3, ::-1].copy()
    resampling = Resampling(repetitions=1_000)
    assert None is band([first, second], resampling).coverage
    first[3, 2:] = NAN
    expected = expected_coverage("t", "interquartile mean", 3, 2)
    assert expected is not None
    assert expected == band([first, second], resampling).coverage
    first[2, 4:] = NAN
    assert expected == band([first, second], resampling).coverage


@pytest.mark.parametrize(
    ("tasks", "reason"),
    [
        ([[[1.0, 2.0]]], "one run alone shows no spread"),
        ([[[1.0, 2.0], [1.0, 2.0]]], "all runs are equal"),
        ([[[NAN, NAN], [NAN, NAN]]], "a task has no run"),
        ([[[1.0, 2.0]], [[1.0, 2.0], [2.0, 3.0]]], "1 of 2 tasks has one run"),
    ],
)
def test_without_spread_there_is_no_band(tasks: list[list[list[float]]], reason: str) -> None:
    """Without spread there is a reason, and no band and no resampling."""
    result = band(tasks, FEW)
    assert result.reason is not None
    assert result.reason.startswith(reason)
    assert np.isnan([result.low, result.high]).all()
    assert (0, None, None, None) == (result.repetitions, result.seed, result.coverage, result.gaps)


def test_where_runs_are_equal_a_band_has_a_gap() -> None:
    """A point where all runs are equal has no interval, and is counted as a gap."""
    task = np.asarray([[1.0, 500.0], [2.0, 500.0], [3.0, 500.0]])
    result = band([task], FEW)
    assert [False, True] == np.isnan(result.high).tolist()
    assert "at 1 of 2 points all runs are equal" == result.gaps


@pytest.mark.parametrize(
    ("tasks", "message"),
    [
        ([], "each task needs an array of shape"),
        ([np.empty((0, 3))], "each task needs an array of shape"),
        ([np.empty((3, 0))], "each task needs an array of shape"),
        ([np.zeros(3)], "each task needs an array of shape"),
        ([np.zeros((2, 3)), np.zeros((2, 4))], "on the same grid"),
        ([np.full((2, 2), np.inf)], "must not be infinite"),
    ],
)
def test_invalid_tables_of_curves_are_refused(tasks: list[Array], message: str) -> None:
    """Tables of wrong shape, of different grids, or with infinite values are refused."""
    with pytest.raises(ValueError, match=message):
        band(tasks, FEW)


def test_an_unknown_method_is_refused() -> None:
    """The message names the possible methods."""
    with pytest.raises(ValueError, match="choose one of: t, percentile, basic, bca"):
        band(TASKS, FEW, method="normal")


@pytest.mark.parametrize("n", [3, 5, 10, 20])
def test_coverage(n: int) -> None:
    """The t intervals of normal scores cover about 95 %, percentile intervals less.

    Each point of the curves is an independent sample.
    """
    curves = np.random.default_rng(n).normal(size=(n, 3_000 if IN_FULL else 1_000))
    resampling = Resampling(repetitions=1_500)
    coverage = {}
    for method in ("t", "percentile"):
        result = band([curves], resampling, method=method)
        coverage[method] = float(((result.low <= 0) & (result.high >= 0)).mean())
    assert 0.93 <= coverage["t"] <= 0.975
    assert {3: 0.78, 5: 0.92, 10: 0.95, 20: 0.95}[n] > coverage["percentile"]


@pytest.mark.parametrize("order", ["C", "F"])
def test_a_remembered_band_is_that_of_a_new_computation(order: Any) -> None:
    """The same curves are computed once, whatever their order in memory, and exactly so."""
    height = np.random.default_rng(3).normal(size=(3, 5))
    values = np.asarray(height, order=order)
    settings = ((5,), Resampling(seed=1, repetitions=100), "t", curves.MIDDLE)
    first = curves.pointwise_intervals(values, *settings)
    assert first is curves.pointwise_intervals(values, *settings)
    again = curves._pointwise_intervals(values, *settings)
    for one, other in zip(
        (first.estimate, first.low, first.high),
        (again.estimate, again.low, again.high),
        strict=True,
    ):
        assert one.tobytes() == other.tobytes()
    assert not first.low.flags.writeable
    changed = values + np.eye(3, 5)
    assert first is not curves.pointwise_intervals(changed, *settings)
