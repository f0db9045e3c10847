"""Bootstrap intervals agree with rliable's, are reproducible, and give a reason if missing."""

from functools import partial
from math import sqrt
from random import Random
from typing import Any

import numpy as np
import pytest
from aggregate_cases import CASES, every_statistic, scores_of, statistics, tasks
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import stats

from rlexp.stats import bootstrap
from rlexp.stats.aggregate import Statistic, interquartile_mean, mean, median
from rlexp.stats.bootstrap import METHODS, Resampled, bca_ends, interval, intervals
from rlexp.stats.coverage import expected_coverage
from rlexp.stats.interval import Interval
from rlexp.stats.replicates import replicates
from rlexp.stats.resampling import Resampling
from rlexp.stats.task_scores import TaskScores

FEW = Resampling(repetitions=200)
SPREAD = [name for name in CASES if name not in {"r1x4", "const"}]


def check_ends(case: dict[str, Any], method: str, metric: str, actual: Interval) -> None:
    """Check the ends against rliable's, within the variation of its own repetitions."""
    golden = case["ci"][method]
    reference = golden[metric]
    expected = (reference["lo"], reference["hi"])
    if method == "percentile":
        expected = tuple(case["limit_percentile_B1e6"][metric])
    # each deviation is that of five values only, so the larger of the two is used for both
    slack = 5 * max(reference["lo_sd"], reference["hi_sd"]) + 1e-12 * max(map(abs, expected))
    assert expected == pytest.approx((actual.low, actual.high), abs=slack)


@pytest.mark.parametrize("name", SPREAD)
def test_percentile_intervals_are_rliables(name: str) -> None:
    """Percentile intervals of four aggregates agree with rliable's at a million repetitions.

    The median of a single task is left out, because rliable's is the mean of the runs.
    """
    case = CASES[name]
    metrics = statistics(case["gamma"])
    if case["shape"][1] == 1:
        del metrics["median"]
    actual = intervals(scores_of(case), metrics, Resampling(), method="percentile")
    for metric in metrics:
        check_ends(case, "percentile", metric, actual[metric])


def test_basic_intervals_are_rliables() -> None:
    """Basic intervals of all four aggregates agree with rliable's."""
    metrics = statistics()
    actual = intervals(scores_of(CASES["main_A"]), metrics, Resampling(), method="basic")
    for metric in metrics:
        check_ends(CASES["main_A"], "basic", metric, actual[metric])


@pytest.mark.parametrize("name", ["main_A", "r5x3"])
def test_accelerated_intervals_are_rliables_with_its_acceleration(name: str) -> None:
    """BCa intervals agree with rliable's if they use rliable's acceleration.

    The jackknife of rliable leaves out run i of every task at once, so it depends on the order of
    the runs. Also arch 7.2.0, which rliable calls, takes the deviations of each of the four
    aggregates from the mean of all of them.
    """
    case, scores, resampling = CASES[name], scores_of(CASES[name]), Resampling()
    matrix = np.asarray(case["scores"], np.float64)
    reduced_tables = [np.delete(matrix, run, axis=0) for run in range(len(matrix))]
    jackknife = {
        key: np.asarray(
            [float(statistic(TaskScores.from_tasks(list(table.T)))) for table in reduced_tables]
        )
        for key, statistic in statistics().items()
    }
    values = replicates(scores, statistics(), resampling)
    for metric, statistic in statistics().items():
        deviations = np.mean(list(jackknife.values())) - jackknife[metric]
        acceleration = (deviations**3).sum() / (6 * (deviations**2).sum() ** 1.5)
        estimate = float(statistic(scores))
        resampled = Resampled(scores, statistic, estimate, values[metric])
        ends = bca_ends(resampled, resampling, acceleration)
        assert not isinstance(ends, str)
        actual = Interval(
            estimate=estimate,
            low=ends[0],
            high=ends[1],
            level=resampling.level,
            method="",
            repetitions=0,
            n=scores.n,
        )
        check_ends(case, "bca", metric, actual)


def test_accelerated_intervals_of_one_task_are_scipys() -> None:
    """BCa intervals of one task agree with SciPy's, because both use the same jackknife."""
    values = np.random.default_rng(3).exponential(size=12)
    scores = TaskScores.from_tasks([values])
    actual = interval(scores, mean, Resampling(), method="bca")
    reference = stats.bootstrap(
        (values,), np.mean, n_resamples=50_000, method="BCa", random_state=1
    ).confidence_interval
    slack = 0.02 * (reference.high - reference.low)
    assert (reference.low, reference.high) == pytest.approx((actual.low, actual.high), abs=slack)


@pytest.mark.parametrize("n", [2, 3, 8])
def test_the_t_interval_of_a_mean_is_students(n: int) -> None:
    """The t interval of the mean of one task is Student's, up to the error of resampling."""
    values = np.random.default_rng(n).normal(size=n)
    actual = interval(TaskScores.from_tasks([values]), mean, Resampling())
    expected = stats.t.interval(0.95, n - 1, values.mean(), values.std(ddof=1) / sqrt(n))
    slack = 0.02 * (expected[1] - expected[0])
    assert expected == pytest.approx((actual.low, actual.high), abs=slack)


def test_the_t_interval_of_unequal_tasks_is_satterthwaites() -> None:
    """The variances of task means add up, with degrees of freedom by Satterthwaite's formula."""
    generator = np.random.default_rng(1)
    runs = [generator.normal(0, 3, size=2), generator.normal(5, 1, size=9)]
    actual = interval(TaskScores.from_tasks(runs), mean, Resampling())
    parts = [task.var(ddof=1) / len(task) for task in runs]
    freedom = sum(parts) ** 2 / sum(part**2 / (len(t) - 1) for part, t in zip(parts, runs))  # noqa: B905
    half = stats.t.ppf(0.975, freedom) * sqrt(sum(parts)) / 2
    centre = (runs[0].mean() + runs[1].mean()) / 2
    expected = (centre - half, centre + half)
    assert expected == pytest.approx((actual.low, actual.high), abs=0.02 * half)


def test_a_cap_is_spread_after_it_cuts() -> None:
    """The interval of the gap below 1 is that of the scores capped at 1, on unequal tasks."""
    runs = [[0.2, 0.5, 3.0], [0.1, 0.9]]
    gap = interval(TaskScores.from_tasks(runs), statistics()["optimality_gap"], Resampling())
    capped_scores = TaskScores.from_tasks([np.minimum(task, 1) for task in runs])
    capped_mean = interval(capped_scores, mean, Resampling())
    assert capped_mean.low is not None
    assert capped_mean.high is not None
    assert (1 - capped_mean.high, 1 - capped_mean.low) == pytest.approx(
        (gap.low, gap.high), rel=1e-9
    )


@pytest.mark.parametrize("method", METHODS)
@settings(deadline=None, max_examples=40)
@given(tasks(min_runs=2), st.randoms(), st.integers(0, 2**32))
def test_the_order_of_the_runs_does_not_matter(
    method: str, runs: list[list[float]], random: Random, seed: int
) -> None:
    """The same scores and seed give the same intervals, to the last bit."""
    resampling = Resampling(seed=seed, repetitions=100)
    shuffled = TaskScores.from_tasks([random.sample(task, len(task)) for task in runs])
    expected = intervals(TaskScores.from_tasks(runs), every_statistic(), resampling, method=method)
    np.random.default_rng().random()
    np.random.seed(0)  # noqa: NPY002
    assert expected == intervals(shuffled, every_statistic(), resampling, method=method)


@pytest.mark.parametrize("method", METHODS)
@settings(deadline=None, max_examples=40)
@given(tasks(min_runs=2))
def test_there_are_ends_or_there_is_a_reason(method: str, runs: list[list[float]]) -> None:
    """An interval has two finite ends, or no end and a reason."""
    for result in intervals(
        TaskScores.from_tasks(runs), every_statistic(), FEW, method=method
    ).values():
        if result.low is None or result.high is None:
            assert result.low is result.high is None
            assert result.reason
        else:
            assert result.low <= result.high
            assert np.isfinite([result.estimate, result.low, result.high]).all()
            assert result.reason is None


@settings(deadline=None)
@given(tasks(min_runs=2))
def test_a_percentile_interval_lies_within_the_scores(runs: list[list[float]]) -> None:
    """Percentile intervals do not reach beyond the scores, so few runs make them too narrow."""
    result = interval(TaskScores.from_tasks(runs), interquartile_mean, FEW, method="percentile")
    if result.low is not None and result.high is not None:
        scores = [score for task in runs for score in task]
        assert min(scores) - 1e-9 <= result.low <= result.high <= max(scores) + 1e-9


@pytest.mark.parametrize("method", METHODS)
@pytest.mark.parametrize("statistic", [interquartile_mean, mean, median])
def test_the_interval_moves_with_the_scores(method: str, statistic: Statistic) -> None:
    """Scores in another unit give the same interval in that unit."""
    generator = np.random.default_rng(0)
    runs = [generator.normal(size=size) for size in (5, 5, 4)]
    before = interval(TaskScores.from_tasks(runs), statistic, FEW, method=method)
    after = interval(
        TaskScores.from_tasks([3 * task + 7 for task in runs]), statistic, FEW, method=method
    )
    assert before.low is not None
    assert before.high is not None
    expected = (3 * before.low + 7, 3 * before.high + 7)
    assert expected == pytest.approx((after.low, after.high), rel=1e-9)


@pytest.mark.parametrize("method", METHODS)
@pytest.mark.parametrize(
    ("runs", "reason"),
    [
        ([[3.0]], "one run alone shows no spread"),
        ([[3.0], [4.0]], "one run of each task shows no spread"),
        (
            [[3.0], [4.0, 5.0], [1.0, 2.0]],
            (
                "1 of 3 tasks has one run, which shows no spread: add seeds there, or leave those "
                "tasks out of the aggregate"
            ),
        ),
        ([[3.0, 3.0, 3.0]], "all runs are equal"),
        ([[3.0, 3.0], [1.0, 1.0]], "all runs of each task are equal"),
    ],
)
def test_without_spread_there_is_no_interval(
    method: str, runs: list[list[float]], reason: str
) -> None:
    """Runs without spread have a reason instead of an interval of width 0."""
    scores = TaskScores.from_tasks(runs)
    expected = Interval(
        estimate=float(mean(scores)),
        low=None,
        high=None,
        level=0.95,
        method=METHODS[method],
        repetitions=0,
        n=scores.n,
        tasks=len(runs),
        reason=reason,
    )
    assert expected == interval(scores, mean, FEW, method=method)


def test_a_statistic_that_does_not_vary_has_no_interval() -> None:
    """A median that is equal in all resamples has a reason instead of an interval."""
    scores = TaskScores.from_tasks([[0.0, 0.1], [5.0, 5.0], [9.0, 9.1]])
    result = interval(scores, median, FEW)
    assert (5.0, None, 200, "all resamples give the same value") == (
        result.estimate,
        result.low,
        result.repetitions,
        result.reason,
    )


def test_a_statistic_may_fail_on_a_resample() -> None:
    """A statistic that divides by 0 on a resample has a reason instead of an interval."""

    def inverse_range(scores: TaskScores) -> Any:
        with np.errstate(divide="ignore"):
            return 1 / np.ptp(scores.values, axis=-1)

    result = interval(TaskScores.from_tasks([[1.0, 2.0]]), inverse_range, FEW)
    assert (1.0, None, "a resample gives no finite number") == (
        result.estimate,
        result.low,
        result.reason,
    )


def test_an_estimate_at_the_edge_has_no_bias_correction() -> None:
    """No resample has a lower minimum than the sample, so BCa cannot correct the bias."""

    def lowest(scores: TaskScores) -> Any:
        return scores.values.min(axis=-1)

    result = interval(TaskScores.from_tasks([[1.0, 2.0, 3.0]]), lowest, FEW, method="bca")
    assert "every resample lies on one side of the estimate" == result.reason


def test_an_interval_says_how_it_was_made() -> None:
    """An interval contains the seed and repetitions that reproduce it."""
    scores = TaskScores.from_tasks([[1.0, 2.0, 3.0], [2.0, 5.0, 6.0]])
    resampling = Resampling(seed=7, level=0.9, repetitions=2000)
    result = interval(scores, mean, resampling, method="basic")
    expected = (0.9, "basic bootstrap", 2000, 6, 2, 7, None)
    assert expected == (
        result.level,
        result.method,
        result.repetitions,
        result.n,
        result.tasks,
        result.seed,
        result.coverage,
    )


@pytest.mark.parametrize(
    ("level", "repetitions", "simulated"),
    [(0.95, 1000, True), (0.95, 999, False), (0.9, 1000, False)],
)
def test_coverage_is_told_where_it_was_simulated(
    level: float, repetitions: int, simulated: bool
) -> None:
    """Coverage is given at a level of 95 % with a thousand repetitions or more."""
    scores = TaskScores.from_tasks([[1.0, 2.0, 3.0]])
    resampling = Resampling(level=level, repetitions=repetitions)
    expected = expected_coverage("t", "mean", 3, 1) if simulated else None
    assert expected == interval(scores, mean, resampling).coverage
    assert None is interval(scores, statistics()["optimality_gap"], resampling).coverage
    assert None is interval(scores, partial(mean), resampling).coverage


@pytest.mark.parametrize("method", METHODS)
def test_of_unequal_numbers_of_runs_no_coverage_is_told(method: str) -> None:
    """Unequal numbers of runs have no coverage, because none was simulated."""
    resampling = Resampling(repetitions=1000)
    unequal = TaskScores.from_tasks([[1.0, 2.0, 3.0], [*range(10)], [*range(10)]])
    assert None is interval(unequal, mean, resampling, method=method).coverage
    equal = TaskScores.from_tasks([[*range(10)]] * 3)
    expected = expected_coverage(method, "mean", 10, 3)
    assert expected == interval(equal, mean, resampling, method=method).coverage


@pytest.mark.parametrize("method", METHODS)
@pytest.mark.parametrize("sizes", [(5,) * 8, (4, 5, 6, 5, 4, 6, 5, 5)])
@pytest.mark.parametrize("far", [-1e12, 1e12, -1e17, 1e17, -1e149])
def test_a_run_far_away_takes_no_digits_from_the_others(
    method: str, sizes: tuple[int, ...], far: float
) -> None:
    """The interquartile mean cuts an outlier, so its distance does not change the interval."""
    generator = np.random.default_rng(5)
    runs = [generator.normal(1, 0.3, size=size) for size in sizes]
    results = []
    for value in (far, np.sign(far) * 1e3):
        runs[2][0] = value
        scores = TaskScores.from_tasks(runs)
        results.append(interval(scores, interquartile_mean, FEW, method=method))
    assert results[1].low is not None
    assert (results[1].low, results[1].high) == pytest.approx(
        (results[0].low, results[0].high), rel=1e-9
    )


@pytest.mark.parametrize("far", [-1e3, -1e17, -1e149])
def test_a_run_far_away_does_not_bias_the_others(far: float) -> None:
    """The distance of an outlier does not change the upper end of a BCa interval."""
    scores = TaskScores.from_tasks([[far, 0.9, 1.0, 1.1, 1.4]])
    result = interval(scores, interquartile_mean, FEW, method="bca")
    near = TaskScores.from_tasks([[-100.0, 0.9, 1.0, 1.1, 1.4]])
    expected = interval(near, interquartile_mean, FEW, method="bca")
    assert expected.high == pytest.approx(result.high, rel=1e-9)


@pytest.mark.parametrize("method", METHODS)
def test_more_certainty_needs_more_room(method: str) -> None:
    """An interval of a higher level holds that of a lower one."""
    scores = TaskScores.from_tasks([[1.0, 2.0, 4.0, 8.0, 9.0], [3.0, 4.0, 5.0, 5.5, 7.0]])
    wide, narrow = (
        interval(scores, mean, Resampling(level=level, repetitions=500), method=method)
        for level in (0.95, 0.5)
    )
    assert None not in {wide.low, wide.high, narrow.low, narrow.high}
    assert wide.low < narrow.low < narrow.high < wide.high  # type: ignore[operator]


def test_an_unknown_method_is_refused() -> None:
    """The message names the unknown method and the possible methods."""
    with pytest.raises(ValueError, match=r"'wild'; choose one of: t, percentile, basic, bca$"):
        interval(TaskScores.from_tasks([[1.0]]), mean, FEW, method="wild")


def test_remembered_intervals_are_those_of_a_new_computation() -> None:
    """The same runs are computed once; other runs, metrics and seeds are computed again."""
    scores = TaskScores.from_tasks([[1.0, 4.0, 2.0, 8.0], [3.0, 5.0, 9.0]])
    drawn = Resampling(seed=7, repetitions=100)
    metrics: dict[str, Statistic] = {"mean": mean, "median": median}
    first = intervals(scores, metrics, drawn)
    hits = bootstrap._remembered_intervals.cache_info().hits
    assert first == intervals(scores, metrics, drawn)
    assert hits + 1 == bootstrap._remembered_intervals.cache_info().hits
    assert first == bootstrap._intervals(scores, metrics, drawn, "t", None)
    other = TaskScores.from_tasks([[1.0, 4.0, 2.0, 8.5], [3.0, 5.0, 9.0]])
    assert first != intervals(other, metrics, drawn)
    assert first != intervals(scores, metrics, Resampling(seed=8, repetitions=100))
    assert ["median"] == list(intervals(scores, {"median": median}, drawn))
    # A caller that changes its answer changes no later one.
    first.clear()
    assert metrics.keys() == intervals(scores, metrics, drawn).keys()
