"""Aggregates by hand, against rliable's numbers, and against SciPy."""

from fractions import Fraction
from random import Random

import numpy as np
import pytest
from aggregate_cases import CASES, GOLDEN, scores_of, statistics, tasks
from hypothesis import given
from hypothesis import strategies as st
from numpy.typing import NDArray
from scipy.stats import trim_mean

from rlexp.stats.aggregate import (
    WEIGHTS_BELOW,
    Aggregate,
    aggregate_of,
    interquartile_mean,
    mean,
    median,
    middle_bounds,
    optimality_gap,
    run_weights,
)
from rlexp.stats.task_scores import TaskScores


def scored(*tasks: list[float]) -> TaskScores:
    """Scores of these tasks."""
    return TaskScores.from_tasks(tasks)


def cut_one_by_one(tasks: list[list[float]]) -> Fraction:
    """The interquartile mean as its definition says it, in fractions."""
    runs = [(score, Fraction(1, len(task) * len(tasks))) for task in tasks for score in task]
    balanced = len({len(task) for task in tasks}) == 1
    quarter = Fraction(len(runs) // 4, len(runs)) if balanced else Fraction(1, 4)
    kept = without_lowest(without_lowest(runs, quarter), quarter)
    return sum((Fraction(x) * w for x, w in kept), Fraction(0)) / (1 - 2 * quarter)


def without_lowest(
    runs: list[tuple[float, Fraction]], quarter: Fraction
) -> list[tuple[float, Fraction]]:
    """Runs and weights without so much weight of the lowest, upside down."""
    left = []
    for score, weight in sorted(runs):
        cut = min(weight, quarter)
        quarter -= cut
        left.append((-score, weight - cut))
    return left


@pytest.mark.parametrize("name", CASES)
@pytest.mark.parametrize("metric", ["iqm", "mean", "median", "optimality_gap"])
def test_balanced_aggregates_are_rliables(name: str, metric: str) -> None:
    """Aggregates of balanced scores equal those of rliable to twelve digits."""
    case = CASES[name]
    found = float(statistics(case["gamma"])[metric](scores_of(case)))
    assert case["point"][metric] == pytest.approx(found, rel=1e-12, abs=1e-12)


@pytest.mark.parametrize("case", GOLDEN["trim_boundary"], ids=lambda case: f"N={case['N']}")
def test_as_many_runs_are_cut_as_rliable_cuts(case: dict[str, float]) -> None:
    """A quarter of the runs of all tasks, rounded down, at each end."""
    found = float(interquartile_mean(scored(case["values"])))  # type: ignore[arg-type]
    assert case["iqm"] == pytest.approx(found, rel=1e-12)


@pytest.mark.parametrize(
    ("values", "expected"),
    [
        ([5.0], 5.0),
        ([1.0, 2.0], 1.5),
        ([1.0, 2.0, 9.0], 4.0),
        ([100.0, 1.0, 2.0, -50.0], 1.5),
        ([0.0, 1.0, 2.0, 3.0, 100.0], 2.0),
        ([7.0, 1.0, 2.0, 3.0, 4.0, 5.0, 6.0], 4.0),
        ([-9.0, -9.0, 1.0, 2.0, 3.0, 4.0, 99.0, 99.0], 2.5),
    ],
)
def test_the_middle_half_is_averaged(values: list[float], expected: float) -> None:
    """A quarter, rounded down, is dropped at each end."""
    assert expected == interquartile_mean(scored(values))


@pytest.mark.parametrize(
    ("first", "second", "expected"),
    [
        # weights 1/4 and 1/8 of eight eighths: two eighths go at each end
        ([0.0, 8.0], [1.0, 2.0, 3.0, 4.0], (1 + 2 + 3 + 4) / 4),
        # the lowest two of the second weigh a quarter; above goes the 9 of 1/4
        ([5.0, 9.0], [1.0, 2.0, 3.0, 4.0], (3 + 4 + 2 * 5) / 4),
        # of twelfths the 100 weighs six, of which three go, and the others two: 1, and half of 2
        ([100.0], [1.0, 2.0, 3.0], (2 + 2 * 3 + 3 * 100) / 6),
        # above goes the 8 of 1/4, and below two eighths of the three that the zeros weigh
        ([0.0, 8.0], [4.0, 7.0, 1.0, 0.0], (1 + 4 + 7 + 0) / 4),
        # below goes the 1 of 1/4, and above half of the 5, which weighs as much as the others
        ([5.0], [1.0, 2.0], (2 * 2 + 2 * 5) / 4),
    ],
)
def test_a_quarter_of_the_weight_is_cut(
    first: list[float], second: list[float], expected: float
) -> None:
    """Of runs that weigh differently the one at the cut counts in part."""
    assert expected == pytest.approx(float(interquartile_mean(scored(first, second))), rel=1e-15)


@given(tasks())
def test_the_definition_is_followed(runs: list[list[float]]) -> None:
    """Cutting run after run, in exact fractions, gives the same."""
    found = float(interquartile_mean(scored(*runs)))
    assert float(cut_one_by_one(runs)) == pytest.approx(found, rel=1e-12, abs=1e-12)


@pytest.mark.parametrize("name", ["iqm", "mean", "median"])
@given(tasks(), st.randoms(), st.integers(1, 1000))
def test_a_score_that_rises_lets_no_aggregate_fall(
    name: str, runs: list[list[float]], random: Random, rise: int
) -> None:
    """Whatever the numbers of runs: the bounds of a report rest on it."""
    before = statistics()[name](scored(*runs))
    task = random.choice(runs)
    task[random.randrange(len(task))] += rise / 8
    assert before <= statistics()[name](scored(*runs)) + 1e-12


@pytest.mark.parametrize(
    ("lower", "higher"),
    [
        ([[1.0, 0.0], [0.125, 1.0, 1.0, 0.625]], [[1.0, 0.125], [0.125, 1.0, 1.0, 0.625]]),
        ([[0.0, 6.0], [4.0, 7.0, 1.0, 0.0, 0.0]], [[0.0, 8.0], [4.0, 7.0, 1.0, 0.0, 0.0]]),
    ],
)
def test_dropping_whole_runs_would_let_it_fall(
    lower: list[list[float]], higher: list[list[float]]
) -> None:
    """Where one that weighs more takes the place of others at the cut."""
    assert interquartile_mean(scored(*lower)) <= interquartile_mean(scored(*higher))


@given(st.lists(st.floats(-1e6, 1e6), min_size=1, max_size=40))
def test_the_interquartile_mean_is_scipys_trimmed_mean(values: list[float]) -> None:
    """The interquartile mean of balanced scores equals SciPy's 25 % trimmed mean."""
    expected = trim_mean(values, 0.25)
    assert expected == pytest.approx(float(interquartile_mean(scored(values))), abs=1e-6)


@pytest.mark.parametrize("name", ["iqm", "mean", "median", "optimality_gap"])
@given(tasks(), st.randoms())
def test_the_order_does_not_matter(name: str, runs: list[list[float]], random: Random) -> None:
    """Of the runs to the last bit, and of the tasks beyond rounding."""
    statistic = statistics()[name]
    found = statistic(scored(*runs))
    shuffled = [random.sample(task, len(task)) for task in runs]
    assert found == statistic(scored(*shuffled))
    random.shuffle(shuffled)
    assert float(found) == pytest.approx(float(statistic(scored(*shuffled))), rel=1e-12, abs=1e-12)


@pytest.mark.parametrize("name", ["iqm", "mean", "median", "optimality_gap"])
@pytest.mark.parametrize("sizes", [(4, 4, 4), (1, 5, 2)])
def test_a_batch_is_aggregated_row_by_row(name: str, sizes: tuple[int, ...]) -> None:
    """Each of six rows of a batch of shape (2, 3, N) has its own aggregate."""
    values = np.random.default_rng(0).normal(size=(2, 3, sum(sizes)))
    statistic = statistics()[name]
    found = statistic(TaskScores(values, sizes))
    assert (2, 3) == found.shape
    expected = [[float(statistic(TaskScores(row, sizes))) for row in block] for block in values]
    assert np.asarray(expected) == pytest.approx(found, rel=1e-14)


def test_means_are_of_tasks() -> None:
    """A task with more runs does not weigh more; the median is over tasks, not over runs."""
    scores = scored([0.0, 2.0], [10.0], [3.0, 3.0, 3.0, 3.0])
    assert (1 + 10 + 3) / 3 == pytest.approx(float(mean(scores)))
    assert 3.0 == float(median(scores))


def test_what_lies_above_gamma_closes_no_gap() -> None:
    """1 - (0.5 + 1)/2 on one task and 1 on the other; with 2, 2 - (0.5 + 2)/2 and 2."""
    scores = scored([0.5, 7.0], [0.0])
    assert (0.25 + 1) / 2 == pytest.approx(float(optimality_gap(scores)))
    assert (0.75 + 2) / 2 == pytest.approx(float(optimality_gap(scores, gamma=2.0)))


def test_runs_weigh_inversely_to_those_of_their_task() -> None:
    """In the smallest whole numbers of which a quarter can be cut; every task weighs as much."""
    assert [24, 12, 12, 8, 8, 8] == run_weights((1, 2, 3)).tolist()
    assert [1, 1, 1, 1] == run_weights((2, 2)).tolist()


def test_weights_of_incommensurable_sizes_are_rounded() -> None:
    """To a sum that a float still holds, every task weighing the same to nine digits."""
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
    """The lowest and the highest run that is kept, be it in part."""
    assert (2.0, 5.0) == middle_bounds(scored([5.0], [1.0, 2.0]))
    assert (2.0, 5.0) == middle_bounds(scored([0.0, 2.0, 5.0, 9.0]))
    assert (1.0, 4.0) == middle_bounds(scored([0.0, 8.0], [1.0, 2.0, 3.0, 4.0]))


def test_a_statistic_may_say_which_aggregate_it_is() -> None:
    """A function of this module, an aggregate, one that holds one; others are unknown."""

    class Named:
        aggregate = Aggregate("median", cap=3.0)

        def __call__(self, scores: TaskScores, /) -> NDArray[np.float64]:
            return self.aggregate(scores)

    assert Aggregate("interquartile mean") == aggregate_of(interquartile_mean)
    assert Aggregate("mean", 2.0) == aggregate_of(Aggregate("mean", 2.0))
    assert Aggregate("median", 3.0) == aggregate_of(Named())
    assert None is aggregate_of(lambda scores: scores.values.max(axis=-1))
