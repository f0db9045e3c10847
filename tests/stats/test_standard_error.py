"""Degrees of freedom and acceleration follow from the spread of runs, by hand."""

from math import sqrt

import numpy as np
import pytest
from aggregate_cases import tasks
from hypothesis import given

from rlexp.stats.aggregate import Aggregate, Centre, mean
from rlexp.stats.standard_error import acceleration, degrees_of_freedom, unbiased
from rlexp.stats.task_scores import TaskScores

EQUAL = TaskScores.from_tasks([[0.0, 2.0, 4.0], [10.0, 12.0, 14.0]])


@pytest.mark.parametrize(
    ("centre", "cap", "runs", "expected"),
    [
        # equal variances: the degrees of both tasks
        ("mean", None, [[0.0, 2.0], [10.0, 12.0]], 2.0),
        # variances of the means 1 and 4: 25 / (1 + 16)
        ("mean", None, [[0.0, 2.0], [10.0, 14.0]], 25 / 17),
        # one task that varies, with three runs
        ("mean", None, [[0.0, 2.0, 4.0], [5.0, 5.0]], 2.0),
        # variances of the means 8/3 / 4 and 2 / 2, with three degrees and one
        ("mean", None, [[0.0, 2.0, 2.0, 4.0], [0.0, 2.0]], (2 / 3 + 1) ** 2 / (4 / 27 + 1)),
        # capped at 2: the first task alone varies
        ("mean", 2.0, [[0.0, 2.0], [10.0, 14.0]], 1.0),
        # capped at 0: none varies, so the fewest runs decide
        ("mean", 0.0, [[0.0, 2.0, 3.0], [10.0, 14.0, 15.0]], 2.0),
        # the median of two tasks is their mean; that of more tasks depends on one or two of them
        ("median", None, [[0.0, 2.0], [10.0, 14.0]], 25 / 17),
        ("median", None, [[0.0, 2.0], [10.0, 14.0], [3.0, 4.0]], 1.0),
        # the median of one task is that of its runs
        ("median", None, [[0.0, 2.0, 9.0, 10.0]], 3.0),
    ],
)
def test_degrees_of_freedom(
    centre: Centre, cap: float | None, runs: list[list[float]], expected: float
) -> None:
    """Degrees of freedom equal Satterthwaite's formula by hand."""
    actual = degrees_of_freedom(TaskScores.from_tasks(runs), Aggregate(centre, cap))
    assert expected == pytest.approx(actual)


def test_an_interquartile_mean_winsorises() -> None:
    """The middle half is 3 to 9, so the winsorised tasks have the variances 10.25 and 8.25."""
    scores = TaskScores.from_tasks([[0.0, 3.0, 8.0, 90.0], [1.0, 6.0, 9.0, 10.0]])
    expected = (10.25 + 8.25) ** 2 / ((10.25**2 + 8.25**2) / 3)
    actual = degrees_of_freedom(scores, Aggregate("interquartile mean"))
    assert expected == pytest.approx(actual)


def test_an_unknown_statistic_has_the_fewest_degrees_of_freedom() -> None:
    """An unknown statistic has n - 1 degrees of freedom of the task with fewest runs."""
    assert 1.0 == degrees_of_freedom(TaskScores.from_tasks([[1.0, 2.0], [1.0, 2.0, 3.0]]), None)


@given(tasks(min_runs=2))
def test_degrees_of_freedom_lie_between_one_task_and_all(runs: list[list[float]]) -> None:
    """Degrees of freedom are between those of the smallest task and those of all tasks."""
    scores = TaskScores.from_tasks(runs)
    for centre in ("mean", "median", "interquartile mean"):
        actual = degrees_of_freedom(scores, Aggregate(centre))
        total = sum(len(task) - 1 for task in runs)
        assert min(map(len, runs)) - 1 - 1e-9 <= actual <= total + 1e-9


@given(tasks(min_runs=2))
def test_resamples_of_unbiased_scores_vary_as_samples_do(runs: list[list[float]]) -> None:
    """Unbiased scores have the sample variance with divisor n, and the same means."""
    for before, after in zip(runs, unbiased(TaskScores.from_tasks(runs)).by_task(), strict=True):
        assert np.var(before, ddof=1) == pytest.approx(after.var(), abs=1e-9)
        assert np.mean(before) == pytest.approx(after.mean(), abs=1e-9)


def test_acceleration_of_a_mean_is_its_skewness() -> None:
    """On one task the acceleration is the skewness of the runs, divided by 6 √n."""
    values = np.asarray([0.0, 1.0, 5.0, 6.0, 20.0])
    from_mean = values - values.mean()
    skewness = (from_mean**3).mean() / (from_mean**2).mean() ** 1.5
    actual = acceleration(TaskScores.from_tasks([values]), mean)
    assert skewness / 6 / sqrt(5) == pytest.approx(actual)


def test_acceleration_of_two_tasks_adds_their_moments() -> None:
    """Influences of the runs of task j are (x - mean_j)/(m n_j), here in units of a half."""
    runs = [[0.0, 3.0, 9.0], [0.0, 1.0]]
    parts = np.asarray([-4 / 3, -1 / 3, 5 / 3, -1 / 4, 1 / 4])
    expected = (parts**3).sum() / (6 * (parts**2).sum() ** 1.5)
    assert expected == pytest.approx(acceleration(TaskScores.from_tasks(runs), mean))


def test_without_influence_there_is_no_acceleration() -> None:
    """A statistic that no single run changes has an acceleration of 0."""
    assert 0.0 == acceleration(EQUAL, lambda scores: scores.values[..., 0] * 0)
