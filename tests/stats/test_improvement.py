"""Probability of improvement equals golden numbers, values by hand and enumeration."""

from itertools import product
from typing import Any

import numpy as np
import pytest
from aggregate_cases import GOLDEN, tasks, values
from hypothesis import given
from hypothesis import strategies as st
from in_full import long
from scipy.special import ndtr

from rlexp.stats import improvement
from rlexp.stats.improvement import (
    SEPARATED,
    PairRanks,
    probabilities_of_improvement,
    probability_of_improvement,
    replicates,
)
from rlexp.stats.interval import Interval
from rlexp.stats.resampling import Resampling
from rlexp.stats.task_scores import TaskScores

CASES: list[dict[str, Any]] = GOLDEN["poi"]
LIMITS = [
    case
    for case in CASES
    # If one label dominates, the reference has an interval of width 0, and rlexp has none.
    if "limit_percentile_B5e5" in case and case["point"] not in {0.0, 1.0}
]
FEW = Resampling(seed=3, repetitions=400)


def name(case: dict[str, Any]) -> str:
    """Name of a golden case in the output of pytest."""
    return str(case["id"])


def interval_of(case: dict[str, Any], resampling: Resampling) -> Interval:
    """Interval computed for a golden case, whose scores have the shape (runs, tasks)."""
    x, y = (TaskScores.from_tasks(list(np.asarray(case[k], np.float64).T)) for k in "xy")
    return probability_of_improvement(x, y, resampling)


@pytest.mark.parametrize("case", CASES, ids=name)
def test_the_estimate_is_that_of_rliable(case: dict[str, Any]) -> None:
    """The estimate equals rliable's with ties, with unequal numbers of runs, and with one run."""
    interval = interval_of(case, FEW)
    assert case["point"] == pytest.approx(interval.estimate, rel=1e-12)
    assert len(case["x"][0]) * (len(case["x"]) + len(case["y"])) == interval.n


@pytest.mark.parametrize("case", LIMITS, ids=name)
def test_the_interval_is_that_of_many_resamples(case: dict[str, Any]) -> None:
    """The ends are within two steps of the golden limit; a step is one won pair of runs."""
    interval = interval_of(case, Resampling(repetitions=50_000))
    step = 1 / (len(case["x"]) * len(case["y"]) * len(case["x"][0]))
    assert case["limit_percentile_B5e5"] == pytest.approx(
        [interval.low, interval.high], abs=2 * step
    )
    assert ("percentile stratified bootstrap", 50_000, 0) == (
        interval.method,
        interval.repetitions,
        interval.seed,
    )


def test_ties_count_half() -> None:
    """2 beats 1 and ties with 2, 3 beats both: 3.5 of 4; in the other task 0 loses to both."""
    x = TaskScores.from_tasks([[2.0, 3.0], [0.0, 0.0]])
    y = TaskScores.from_tasks([[1.0, 2.0], [1.0, 1.0]])
    assert 3.5 / 4 / 2 == probability_of_improvement(x, y, FEW).estimate


@given(tasks(min_runs=2, max_runs=4), st.data())
def test_the_order_of_runs_does_not_matter(runs: list[list[float]], data: st.DataObject) -> None:
    """Runs in another order give the same estimate and ends to the last bit."""
    others = [data.draw(st.lists(values, min_size=2, max_size=4)) for _ in runs]
    shuffled = [data.draw(st.permutations(task)) for task in (*runs, *others)]
    x, y, u, v = (
        TaskScores.from_tasks(table)
        for table in (runs, others, shuffled[: len(runs)], shuffled[len(runs) :])
    )
    assert probability_of_improvement(x, y, FEW) == probability_of_improvement(u, v, FEW)


@given(tasks(min_runs=2, max_runs=4), st.data())
def test_both_directions_sum_to_one(runs: list[list[float]], data: st.DataObject) -> None:
    """P(x > y) + P(y > x) = 1, because ties count half."""
    others = [data.draw(st.lists(values, min_size=2, max_size=4)) for _ in runs]
    x, y = TaskScores.from_tasks(runs), TaskScores.from_tasks(others)
    forward, backward = (
        probability_of_improvement(a, b, FEW).estimate for a, b in ((x, y), (y, x))
    )
    assert 1 == pytest.approx(forward + backward)


def test_resamples_are_as_likely_as_they_should_be() -> None:
    """Replicates have the mean and deviation of all 27 × 4 resamples of three and two runs."""
    x, y = np.asarray([0.0, 1.5, 3.0]), np.asarray([1.0, 2.0])
    wins = np.asarray([[a > b for b in y] for a in x])
    enumerated = [
        wins[np.ix_(a, b)].mean()
        for a in product(range(3), repeat=3)
        for b in product(range(2), repeat=2)
    ]
    resampled = replicates([[PairRanks.of(x, y)]], Resampling(repetitions=200_000))
    assert np.mean(enumerated) == pytest.approx(resampled.mean(), abs=0.003)
    assert np.std(enumerated) == pytest.approx(resampled.std(), abs=0.003)


def test_both_sides_are_drawn_independently() -> None:
    """Two equal labels are resampled independently, so their resamples do not always tie."""
    scores = TaskScores.from_tasks([[1.0, 2.0, 3.0, 4.0, 5.0]])
    interval = probability_of_improvement(scores, scores, FEW)
    assert 0.5 == interval.estimate
    assert interval.low is not None
    assert interval.low < 0.3


def normal_scores(generator: np.random.Generator, *sizes: int, digits: int = 9) -> TaskScores:
    """Normal scores of tasks with these numbers of runs; few digits make ties."""
    return TaskScores.from_tasks([np.round(generator.normal(size=n), digits) for n in sizes])


def test_blocks_change_no_byte(monkeypatch: pytest.MonkeyPatch) -> None:
    """Block size, pairs computed at once, and precision change no byte."""
    generator = np.random.default_rng(5)
    pairs = [
        (normal_scores(generator, 4, 5, 6), normal_scores(generator, 6, 7, 4)) for _ in range(3)
    ]
    expected = probabilities_of_improvement(pairs, FEW)
    for name, value in (("BLOCK", 10 * 16), ("AT_ONCE", 1), ("EXACT_IN_SINGLE", 0)):
        monkeypatch.setattr(improvement, name, value)
        assert expected == probabilities_of_improvement(pairs, FEW)


@pytest.mark.parametrize("digits", [0, 9])
def test_pairs_together_are_as_each_alone(digits: int) -> None:
    """Several pairs at once equal each pair alone to the last bit, with ties or without."""
    generator = np.random.default_rng(6)
    shapes = [((9, 4), (7, 4)), ((9, 4), (9, 4)), ((5,), (8,)), ((1, 3), (2, 2)), ((3,), (3,))]
    pairs = [
        (normal_scores(generator, *x, digits=digits), normal_scores(generator, *y, digits=digits))
        for x, y in shapes
    ]
    intervals = tuple(probability_of_improvement(x, y, FEW) for x, y in pairs)
    assert intervals == probabilities_of_improvement(pairs, FEW)
    assert 3 <= sum(interval.low is not None for interval in intervals)


@pytest.mark.parametrize("digits", [0, 9])
def test_resamples_are_counted_pair_by_pair(digits: int) -> None:
    """Counting by ranks equals comparing every two drawn runs, to the last bit."""
    generator = np.random.default_rng(7)
    x, y = normal_scores(generator, 12, digits=digits), normal_scores(generator, 7, digits=digits)
    table = 1 + np.sign(np.subtract.outer(x.values, y.values))
    c, d = (
        improvement.counts(FEW.generator(side, 0), n, FEW.repetitions)
        for side, n in enumerate(table.shape)
    )
    expected = np.einsum("ib,ij,jb->b", c, table, d) / table.size / 2
    assert expected.tobytes() == replicates([[PairRanks.of(x.values, y.values)]], FEW).tobytes()


@pytest.mark.parametrize(
    ("x", "y", "reason"),
    [
        ([[1.0]], [[2.0, 3.0]], "one run alone shows no spread"),
        ([[1.0, 2.0]], [[2.0]], "one run alone shows no spread"),
        ([[1.0, 1.0]], [[2.0, 2.0, 2.0]], "all runs of each label are equal on each task"),
    ],
)
def test_without_spread_there_is_no_interval(
    x: list[list[float]], y: list[list[float]], reason: str
) -> None:
    """Runs without spread have a reason, and no interval and no resampling."""
    interval = probability_of_improvement(TaskScores.from_tasks(x), TaskScores.from_tasks(y), FEW)
    assert (None, None, 0, None, reason) == (
        interval.low,
        interval.high,
        interval.repetitions,
        interval.seed,
        interval.reason,
    )


@pytest.mark.parametrize(
    ("y", "expected"), [([[0.0, 0.5], [1.0, 3.0]], 1.0), ([[0.0, 0.5], [9.0, 10.0]], 0.5)]
)
def test_labels_that_do_not_overlap_have_no_interval(
    y: list[list[float]], expected: float
) -> None:
    """Labels that do not overlap have a reason, where rliable has an interval of width 0."""
    x = TaskScores.from_tasks([[1.0, 2.0], [4.0, 5.0]])
    interval = probability_of_improvement(x, TaskScores.from_tasks(y), FEW)
    assert (expected, None, None, SEPARATED) == (
        interval.estimate,
        interval.low,
        interval.high,
        interval.reason,
    )
    assert ("none", 0, None, None) == (
        interval.method,
        interval.repetitions,
        interval.seed,
        interval.coverage,
    )


def test_tasks_must_be_the_same() -> None:
    """A comparison of two tasks with one task is refused."""
    with pytest.raises(ValueError, match="2 tasks cannot be compared with 1: give both the same"):
        probability_of_improvement(
            TaskScores.from_tasks([[1.0], [2.0]]), TaskScores.from_tasks([[1.0]]), FEW
        )


@pytest.mark.parametrize(
    ("tasks", "n"),
    [(1, 3), (8, 5), *(pytest.param(*size, marks=long) for size in ((1, 10), (8, 3), (8, 20)))],
)
def test_coverage(tasks: int, n: int) -> None:
    """Intervals of 600 samples contain the truth about as often as `coverage` says."""
    generator = np.random.default_rng(tasks * n)
    hits, stated_coverages = [], set()
    for sample in range(600):
        shift = 0.5 * (sample % 3) + 0.5 * generator.normal(size=(tasks, 1))
        truth = ndtr(shift / np.sqrt(2)).mean()
        x = TaskScores.from_tasks(list(generator.normal(size=(tasks, n)) + shift))
        y = TaskScores.from_tasks(list(generator.normal(size=(tasks, n))))
        interval = probability_of_improvement(x, y, Resampling(seed=sample, repetitions=1_000))
        if interval.low is not None and interval.high is not None:
            hits.append(interval.low <= truth <= interval.high)
            stated_coverages.add(interval.coverage)
    assert len(hits) > 450
    assert [np.mean(hits)] == pytest.approx(list(stated_coverages), abs=0.04)


@pytest.mark.parametrize(
    ("sizes", "expected"),
    [
        ((3,), 0.955),
        ((4,), 0.955),
        ((30,), 0.935),
        ((5, 7), 0.936),
        ((10,) * 9, 0.941),
        ((2,), None),
    ],
)
def test_coverage_is_that_of_the_next_smaller_numbers(
    sizes: tuple[int, ...], expected: float | None
) -> None:
    """Coverage is that of the next smaller simulated sizes, and None below all of them."""
    scores = TaskScores.from_tasks([np.arange(n) for n in sizes])
    for repetitions, level, coverage in (
        (1_000, 0.95, expected),
        (999, 0.95, None),
        (1_000, 0.9, None),
    ):
        resampling = Resampling(repetitions=repetitions, level=level)
        assert coverage == probability_of_improvement(scores, scores, resampling).coverage
