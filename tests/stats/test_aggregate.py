"""Aggregates equal values by hand, rliable's numbers and SciPy's."""

from fractions import Fraction
from random import Random

import numpy as np
import pytest
from aggregate_cases import CASES, GOLDEN, every_statistic, scores_of, statistics, tasks
from hypothesis import given
from hypothesis import strategies as st
from numpy.typing import NDArray
from scipy.stats import trim_mean

from rlexp.stats.aggregate import (
    CENTRES,
    WEIGHTS_BELOW,
    Aggregate,
    Centre,
    aggregate_of,
    interquartile_mean,
    interquartile_mean_of_whole_runs,
    mean,
    median,
    middle_bounds,
    optimality_gap,
    run_weights,
)
from rlexp.stats.task_scores import TaskScores


def scores_of_tasks(*tasks: list[float]) -> TaskScores:
    """Scores of the given tasks."""
    return TaskScores.from_tasks(tasks)


def interquartile_mean_by_definition(
    tasks: list[list[float]], *, whole_runs: bool = False
) -> Fraction:
    """Interquartile mean by its definition, in exact fractions."""
    runs = [(score, Fraction(1, len(task) * len(tasks))) for task in tasks for score in task]
    balanced = len({len(task) for task in tasks}) == 1
    whole = whole_runs and balanced
    quarter = Fraction(len(runs) // 4, len(runs)) if whole else Fraction(1, 4)
    middle = without_lowest(without_lowest(runs, quarter), quarter)
    return sum((Fraction(x) * w for x, w in middle), Fraction(0)) / (1 - 2 * quarter)


def without_lowest(
    runs: list[tuple[float, Fraction]], quarter: Fraction
) -> list[tuple[float, Fraction]]:
    """Negated scores and weights after `quarter` of the weight is cut from the lowest scores."""
    remaining = []
    for score, weight in sorted(runs):
        cut = min(weight, quarter)
        quarter -= cut
        remaining.append((-score, weight - cut))
    return remaining


@pytest.mark.parametrize("name", CASES)
@pytest.mark.parametrize("metric", ["iqm", "mean", "median", "optimality_gap"])
def test_balanced_aggregates_are_rliables(name: str, metric: str) -> None:
    """Aggregates of balanced scores equal those of rliable to twelve digits.

    The median of a single task differs on purpose: it is NumPy's median of the runs.
    """
    case = CASES[name]
    value = float(statistics(case["gamma"])[metric](scores_of(case)))
    expected = case["point"][metric]
    if metric == "median" and case["shape"][1] == 1:
        expected = np.median(case["scores"])
    assert expected == pytest.approx(value, rel=1e-12, abs=1e-12)


@pytest.mark.parametrize("case", GOLDEN["trim_boundary"], ids=lambda case: f"N={case['N']}")
def test_as_many_runs_are_cut_as_rliable_cuts(case: dict[str, float]) -> None:
    """Each end loses a quarter of the runs of all tasks, rounded down, as in rliable."""
    scores = scores_of_tasks(case["values"])  # type: ignore[arg-type]
    value = float(interquartile_mean_of_whole_runs(scores))
    assert case["iqm"] == pytest.approx(value, rel=1e-12)


@pytest.mark.parametrize(
    ("values", "expected"),
    [
        ([5.0], 5.0),
        ([1.0, 2.0], 1.5),
        # 3/4 of a run are cut at each end: 1/4 of the lowest and of the highest run remain
        ([1.0, 2.0, 10.0], (1 + 4 * 2 + 10) / 6),
        ([100.0, 1.0, 2.0, -50.0], 1.5),
        # one run and 1/4 are cut at each end: 3/4 of the 1 and of the 4 remain
        ([0.0, 1.0, 2.0, 4.0, 100.0], (3 * 1 + 4 * 2 + 3 * 4) / 10),
        # one run and 1/2 are cut at each end
        ([-90.0, 1.0, 2.0, 4.0, 7.0, 90.0], (1 + 2 * 2 + 2 * 4 + 7) / 6),
        # one run and 3/4 are cut at each end: 1/4 of the 2 and of the 7 remain
        ([7.0, 0.0, 2.0, 3.0, 4.0, 5.0, 90.0], (2 + 4 * (3 + 4 + 5) + 7) / 14),
        ([-9.0, -9.0, 1.0, 2.0, 3.0, 4.0, 99.0, 99.0], 2.5),
    ],
)
def test_the_middle_half_is_averaged(values: list[float], expected: float) -> None:
    """The interquartile mean drops exactly a quarter of the runs at each end, one in part."""
    assert expected == pytest.approx(float(interquartile_mean(scores_of_tasks(values))), rel=1e-15)


@pytest.mark.parametrize(
    ("first", "second", "expected"),
    [
        # N = 6: one run and 1/2 are cut at each end
        ([0.0, 1.0, 2.0], [3.0, 5.0, 9.0], (1 + 2 * 2 + 2 * 3 + 5) / 6),
        # N = 10: two runs and 1/2 are cut at each end, 2, 3, 4, 5, 6, 7 remain, 2 and 7 by half
        ([0.0, 1.0, 2.0, 3.0, 4.0], [5.0, 6.0, 7.0, 80.0, 90.0], (2 + 7 + 2 * 18) / 10),
    ],
)
def test_a_quarter_of_equal_weights_is_cut(
    first: list[float], second: list[float], expected: float
) -> None:
    """With as many runs on each task, the run at the cut counts in part too."""
    assert expected == pytest.approx(
        float(interquartile_mean(scores_of_tasks(first, second))), rel=1e-15
    )


@pytest.mark.parametrize(
    ("first", "second", "expected"),
    [
        # the first task's runs weigh 1/4 and the second's 1/8: 0 and 8 are cut
        ([0.0, 8.0], [1.0, 2.0, 3.0, 4.0], (1 + 2 + 3 + 4) / 4),
        # the runs 1 and 2 weigh 1/4 together and are cut, as is the 9 of weight 1/4
        ([5.0, 9.0], [1.0, 2.0, 3.0, 4.0], (3 + 4 + 2 * 5) / 4),
        # the 100 weighs 6/12 and loses 3/12; the others weigh 2/12: 1 and half of 2 are cut
        ([100.0], [1.0, 2.0, 3.0], (2 + 2 * 3 + 3 * 100) / 6),
        # the 8 weighs 1/4 and is cut; both zeros weigh 3/8 and lose 2/8
        ([0.0, 8.0], [4.0, 7.0, 1.0, 0.0], (1 + 4 + 7 + 0) / 4),
        # the 1 weighs 1/4 and is cut; the 5 weighs 1/2 and loses half of it
        ([5.0], [1.0, 2.0], (2 * 2 + 2 * 5) / 4),
    ],
)
def test_a_quarter_of_the_weight_is_cut(
    first: list[float], second: list[float], expected: float
) -> None:
    """If runs have different weights, the run at the cut counts in part."""
    assert expected == pytest.approx(
        float(interquartile_mean(scores_of_tasks(first, second))), rel=1e-15
    )


@given(tasks())
def test_the_definition_is_followed(runs: list[list[float]]) -> None:
    """Both interquartile means equal cutting run after run in exact fractions."""
    exact = float(interquartile_mean(scores_of_tasks(*runs)))
    assert float(interquartile_mean_by_definition(runs)) == pytest.approx(
        exact, rel=1e-12, abs=1e-12
    )
    of_whole_runs = float(interquartile_mean_of_whole_runs(scores_of_tasks(*runs)))
    assert float(interquartile_mean_by_definition(runs, whole_runs=True)) == pytest.approx(
        of_whole_runs, rel=1e-12, abs=1e-12
    )


@pytest.mark.parametrize("centre", CENTRES)
@given(tasks(), st.randoms(), st.integers(1, 1000))
def test_a_score_that_rises_lets_no_aggregate_fall(
    centre: Centre, runs: list[list[float]], random: Random, rise: int
) -> None:
    """A higher score lowers no aggregate; the bounds in reports rely on this."""
    before = CENTRES[centre](scores_of_tasks(*runs))
    task = random.choice(runs)
    task[random.randrange(len(task))] += rise / 8
    assert before <= CENTRES[centre](scores_of_tasks(*runs)) + 1e-12


@pytest.mark.parametrize(
    ("lower", "higher"),
    [
        ([[1.0, 0.0], [0.125, 1.0, 1.0, 0.625]], [[1.0, 0.125], [0.125, 1.0, 1.0, 0.625]]),
        ([[0.0, 6.0], [4.0, 7.0, 1.0, 0.0, 0.0]], [[0.0, 8.0], [4.0, 7.0, 1.0, 0.0, 0.0]]),
    ],
)
def test_a_score_that_rises_at_the_cut_does_not_lower_the_mean(
    lower: list[list[float]], higher: list[list[float]]
) -> None:
    """A higher score does not lower the mean where cutting whole runs would lower it."""
    assert interquartile_mean(scores_of_tasks(*lower)) <= interquartile_mean(
        scores_of_tasks(*higher)
    )


@given(st.lists(st.floats(-1e6, 1e6), min_size=1, max_size=40))
def test_the_interquartile_mean_is_scipys_trimmed_mean(values: list[float]) -> None:
    """With whole runs cut, the interquartile mean of balanced scores is SciPy's trimmed mean."""
    value = float(interquartile_mean_of_whole_runs(scores_of_tasks(values)))
    assert trim_mean(values, 0.25) == pytest.approx(value, abs=1e-6)


@pytest.mark.parametrize("name", every_statistic())
@given(tasks(), st.randoms())
def test_the_order_does_not_matter(name: str, runs: list[list[float]], random: Random) -> None:
    """Runs in another order change no bit; tasks in another order change only the rounding."""
    statistic = every_statistic()[name]
    value = statistic(scores_of_tasks(*runs))
    shuffled = [random.sample(task, len(task)) for task in runs]
    assert value == statistic(scores_of_tasks(*shuffled))
    random.shuffle(shuffled)
    assert float(value) == pytest.approx(
        float(statistic(scores_of_tasks(*shuffled))), rel=1e-12, abs=1e-12
    )


@pytest.mark.parametrize("name", ["iqm", "mean", "median", "optimality_gap"])
@pytest.mark.parametrize("sizes", [(4, 4, 4), (1, 5, 2)])
def test_a_batch_is_aggregated_row_by_row(name: str, sizes: tuple[int, ...]) -> None:
    """Each of six rows of a batch of shape (2, 3, N) has its own aggregate."""
    values = np.random.default_rng(0).normal(size=(2, 3, sum(sizes)))
    statistic = every_statistic()[name]
    aggregates = statistic(TaskScores(values, sizes))
    assert (2, 3) == aggregates.shape
    expected = [[float(statistic(TaskScores(row, sizes))) for row in block] for block in values]
    assert np.asarray(expected) == pytest.approx(aggregates, rel=1e-14)


def test_means_are_of_tasks() -> None:
    """A task with more runs does not weigh more; the median is over tasks, not over runs."""
    scores = scores_of_tasks([0.0, 2.0], [10.0], [3.0, 3.0, 3.0, 3.0])
    assert (1 + 10 + 3) / 3 == pytest.approx(float(mean(scores)))
    assert 3.0 == float(median(scores))


def test_the_median_of_one_task_is_that_of_its_runs() -> None:
    """A single task has the median of its runs, and not their mean."""
    assert 3.0 == float(median(scores_of_tasks([0.0, 3.0, 30.0])))
    assert 2.5 == float(median(scores_of_tasks([0.0, 2.0, 3.0, 30.0])))
    batch = TaskScores(np.asarray([[0.0, 3.0, 30.0], [1.0, 2.0, 9.0]]), (3,))
    assert [3.0, 2.0] == median(batch).tolist()


def test_what_lies_above_gamma_closes_no_gap() -> None:
    """Scores above gamma count as gamma: task gaps are 0.25 and 1, or 0.75 and 2 at gamma = 2."""
    scores = scores_of_tasks([0.5, 7.0], [0.0])
    assert (0.25 + 1) / 2 == pytest.approx(float(optimality_gap(scores)))
    assert (0.75 + 2) / 2 == pytest.approx(float(optimality_gap(scores, gamma=2.0)))


def test_runs_weigh_inversely_to_those_of_their_task() -> None:
    """Runs have integer weights, and all tasks have the same total weight."""
    assert [12, 6, 6, 4, 4, 4] == run_weights((1, 2, 3)).tolist()
    assert [1, 1, 1, 1] == run_weights((2, 2)).tolist()


@given(st.lists(st.integers(1, 9), min_size=1, max_size=5))
def test_a_quarter_of_the_weights_is_an_integer(sizes: list[int]) -> None:
    """A quarter of the sum of the integer weights is an integer, for any numbers of runs."""
    assert 0 == run_weights(tuple(sizes)).sum() % 4


def test_weights_of_incommensurable_sizes_are_rounded() -> None:
    """Rounded weights have a sum that a float holds, and tasks weigh the same to nine digits."""
    sizes = (97, 98, 99, 101, 103, 107, 109, 113, 127, 1000)
    weights = run_weights(sizes)
    assert 0 < weights.sum() <= WEIGHTS_BELOW + sum(sizes)
    shares = [task.sum() / weights.sum() for task in np.split(weights, np.cumsum(sizes)[:-1])]
    assert [0.1] * 10 == pytest.approx(shares, rel=1e-9)


def test_the_scores_stay_as_they_were() -> None:
    """Aggregation does not modify the array of scores."""
    for sizes in ((3, 3), (2, 4)):
        values = np.asarray([3.0, 1.0, 2.0, 9.0, 8.0, 7.0])
        interquartile_mean(TaskScores(values, sizes))
        assert [3.0, 1.0, 2.0, 9.0, 8.0, 7.0] == values.tolist()


def test_bounds_are_the_ends_of_the_middle_half() -> None:
    """The bounds are the lowest and the highest run that count, even in part."""
    assert (2.0, 5.0) == middle_bounds(scores_of_tasks([5.0], [1.0, 2.0]))
    assert (2.0, 5.0) == middle_bounds(scores_of_tasks([0.0, 2.0, 5.0, 9.0]))
    assert (1.0, 4.0) == middle_bounds(scores_of_tasks([0.0, 1.0, 2.0, 4.0, 9.0]))
    three_runs = scores_of_tasks([0.0, 2.0, 9.0])
    assert (0.0, 9.0) == middle_bounds(three_runs)
    six_runs = scores_of_tasks([0.0, 1.0, 2.0, 4.0, 5.0, 9.0])
    assert (1.0, 5.0) == middle_bounds(six_runs) == middle_bounds(six_runs, "rliable")
    assert (1.0, 4.0) == middle_bounds(scores_of_tasks([0.0, 8.0], [1.0, 2.0, 3.0, 4.0]))


def test_a_statistic_may_say_which_aggregate_it_is() -> None:
    """Aggregates, and callables with an `aggregate`, are recognised; other callables are not."""

    class Named:
        aggregate = Aggregate("median", cap=3.0)

        def __call__(self, scores: TaskScores, /) -> NDArray[np.float64]:
            return self.aggregate(scores)

    assert Aggregate("interquartile mean") == aggregate_of(interquartile_mean)
    assert Aggregate("mean", 2.0) == aggregate_of(Aggregate("mean", 2.0))
    assert Aggregate("median", 3.0) == aggregate_of(Named())
    assert None is aggregate_of(lambda scores: scores.values.max(axis=-1))
