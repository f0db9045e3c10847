"""Learning curves: common grids by hand, golden bands, whole runs, and runs that end early."""

from typing import Any

import numpy as np
import pytest
from aggregate_cases import GOLDEN
from hypothesis import given
from hypothesis import strategies as st
from in_full import IN_FULL
from numpy.typing import NDArray

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

heights = st.integers(-100, 100).map(lambda whole: whole / 4)


@st.composite
def tasks_of_curves(draw: st.DrawFn) -> list[Array]:
    """One task to three, of runs of three points, some of which end early."""
    row = st.lists(heights, min_size=3, max_size=3)
    tasks = draw(st.lists(st.lists(row, min_size=1, max_size=4), min_size=1, max_size=3))
    found = [np.asarray(task) for task in tasks]
    for task in found:
        for run in task:
            run[draw(st.integers(0, 6)) :] = NAN
    return found


def test_an_evaluation_holds_until_the_next() -> None:
    """Nothing is known before the first one, nor beyond the last."""
    curve = ([10, 20, 40], [1.0, 2.0, 4.0])
    expected = [[NAN, 1.0, 1.0, 2.0, 2.0, 4.0, NAN]]
    np.testing.assert_array_equal(expected, align([curve], [9, 10, 19, 20, 39, 40, 41]))


def test_a_run_without_an_evaluation_has_no_value() -> None:
    """It is a row all the same: it does not go missing."""
    found = align([([], []), ([1.0], [5.0])], [1.0, 2.0])
    np.testing.assert_array_equal([[NAN, NAN], [5.0, NAN]], found)


def test_an_evaluation_that_is_nan_is_not_bridged() -> None:
    """What a run was worth then is not known."""
    found = align([([1, 2, 3], [1.0, NAN, 3.0])], [1, 2, 2.5, 3])
    np.testing.assert_array_equal([[1.0, NAN, NAN, 3.0]], found)


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
    """Every function that reads a curve refuses an invalid one."""
    with pytest.raises(ValueError, match=message):
        align([curve], [1.0])
    with pytest.raises(ValueError, match=message):
        common_grid([curve])


def test_the_grid_is_where_all_runs_have_a_value() -> None:
    """From the latest first evaluation to the earliest last one, at everybody's steps."""
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
    """(1 + 3)/2 over 10 steps and (3 + 5)/2 over 30: 140/40."""
    assert 3.5 == area_under_curve([0, 10, 40], [1.0, 3.0, 5.0])
    assert [3.5, 7.0] == area_under_curve([0, 10, 40], [[1, 3, 5], [2, 6, 10]]).tolist()
    with pytest.raises(ValueError, match="at least two evaluations"):
        area_under_curve([3], [1.0])


def test_the_band_is_centred_on_rliables_interquartile_mean() -> None:
    """The estimate at each step equals rliable's interquartile mean over runs and tasks."""
    assert CASE["iqm"] == pytest.approx(band(TASKS, FEW).estimate, rel=1e-12)


def test_pointwise_intervals_are_those_of_many_resamples() -> None:
    """Percentiles, within 2 % of the width of the limit."""
    found = band(TASKS, Resampling(repetitions=50_000), method="percentile")
    limit = np.asarray(CASE["limit_percentile"])
    slack = 0.02 * np.ptp(limit, axis=1)
    assert (np.abs(found.low - limit[:, 0]) < slack).all()
    assert (np.abs(found.high - limit[:, 1]) < slack).all()


@pytest.mark.parametrize("single", ["curve", "number"])
def test_of_whole_runs_a_mean_over_time_keeps_its_width(single: str) -> None:
    """Drawing steps independently, as rliable does, loses more than half of it."""
    means = [task.mean(axis=1) for task in TASKS]
    many = Resampling(repetitions=50_000)
    if single == "curve":
        found = band([task[:, np.newaxis] for task in means], many, method="percentile")
        low, high = found.low[0], found.high[0]
        assert CASE["iqm_of_auc"]["point"] == pytest.approx(found.estimate[0], rel=1e-12)
    else:
        scores = TaskScores.from_tasks(means)
        one = interval(scores, interquartile_mean, many, method="percentile")
        assert one.low is not None
        assert one.high is not None
        low, high = one.low, one.high
    expected = CASE["iqm_of_auc"]["ci_whole_run"]
    assert expected == pytest.approx([low, high], abs=0.004)
    stepwise = CASE["iqm_of_auc"]["ci_rliable_3d"]
    assert 2 * (stepwise[1] - stepwise[0]) < high - low


@pytest.mark.parametrize("method", METHODS)
@pytest.mark.parametrize("sizes", [(5,), (4, 4, 4), (2, 5, 3)])
def test_a_band_of_one_point_is_the_interval_of_its_scores(
    sizes: tuple[int, ...], method: str
) -> None:
    """By each method, and with as many runs in each task or not."""
    generator = np.random.default_rng(7)
    runs = [np.sort(generator.normal(size=n)) for n in sizes]
    many = Resampling(seed=4, repetitions=1_000)
    expected = interval(TaskScores.from_tasks(runs), interquartile_mean, many, method=method)
    found = band([task[:, np.newaxis] for task in runs], many, method=method)
    numbers = [found.estimate[0], found.low[0], found.high[0]]
    assert [expected.estimate, expected.low, expected.high] == pytest.approx(numbers, rel=1e-9)
    for name in ("coverage", "method", "n", "seed", "repetitions", "level", "tasks"):
        assert getattr(expected, name) == getattr(found, name)


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
    """What is left at a point is aggregated, and an interval or a reason is there."""
    found = band(tasks, FEW)
    for point, runs in enumerate(found.runs):
        left = [task[~np.isnan(task[:, point]), point] for task in tasks]
        assert sum(map(len, left)) == runs
        if all(map(len, left)):
            middle = float(interquartile_mean(TaskScores.from_tasks(left)))
            assert middle == pytest.approx(found.estimate[point])
        else:
            assert np.isnan(found.estimate[point])
    assert np.isnan(found.low).tolist() == np.isnan(found.high).tolist()
    assert bool(np.isnan(found.low).any()) == bool(found.reason or found.gaps)
    assert (found.reason is not None) == bool(np.isnan(found.low).all())


def test_runs_that_end_early_are_counted() -> None:
    """Four runs, then three, then one, of which nothing can be said, then none."""
    task = np.asarray(
        [
            [0.0, 1.0, 2.0, 3.0, NAN],
            [1.0, 3.0, 1.0, NAN, NAN],
            [2.0, 4.0, 6.0, NAN, NAN],
            [5.0, 6.0, NAN, NAN, NAN],
        ]
    )
    found = band([task], Resampling(repetitions=1_000))
    assert [4, 4, 3, 1, 0] == found.runs.tolist()
    assert [1.5, 3.5, 3.0, 3.0] == found.estimate[:4].tolist()
    assert [False, False, False, True, True] == np.isnan(found.low).tolist()
    assert None is found.reason
    assert (
        "at 1 of 5 points one run alone shows no spread; at 1 of 5 points a task has no run"
    ) == found.gaps
    assert found.coverage is not None
    assert 4 == found.n


def test_coverage_is_told_of_points_where_tasks_have_as_many_runs() -> None:
    """Of three runs of both, not of four and three, nor of two and three."""
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
    """It says why, and claims no resampling."""
    found = band(tasks, FEW)
    assert found.reason is not None
    assert found.reason.startswith(reason)
    assert np.isnan([found.low, found.high]).all()
    assert (0, None, None, None) == (found.repetitions, found.seed, found.coverage, found.gaps)


def test_where_runs_are_equal_a_band_has_a_gap() -> None:
    """Five runs at the maximum do not show that the sixth will be there."""
    task = np.asarray([[1.0, 500.0], [2.0, 500.0], [3.0, 500.0]])
    found = band([task], FEW)
    assert [False, True] == np.isnan(found.high).tolist()
    assert "at 1 of 2 points all runs are equal" == found.gaps


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
    """A message of one line names the mistake."""
    with pytest.raises(ValueError, match=message):
        band(tasks, FEW)


def test_an_unknown_method_is_refused() -> None:
    """The message names the possible methods."""
    with pytest.raises(ValueError, match="choose one of: t, percentile, basic, bca"):
        band(TASKS, FEW, method="normal")


@pytest.mark.parametrize("n", [3, 5, 10, 20])
def test_coverage(n: int) -> None:
    """Of normal scores, t's 95% intervals hold the truth about as often; percentiles less.

    Each point of the curves is a sample of its own.
    """
    curves = np.random.default_rng(n).normal(size=(n, 3_000 if IN_FULL else 1_000))
    resampling = Resampling(repetitions=1_500)
    held = {}
    for method in ("t", "percentile"):
        found = band([curves], resampling, method=method)
        held[method] = float(((found.low <= 0) & (found.high >= 0)).mean())
    assert 0.93 <= held["t"] <= 0.975
    assert {3: 0.78, 5: 0.92, 10: 0.95, 20: 0.95}[n] > held["percentile"]
