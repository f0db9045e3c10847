"""Intervals of many pairs that are computed together have the bits of intervals computed one by one."""

from collections.abc import Callable
from itertools import combinations

import numpy as np
import pytest
from numpy.typing import NDArray

from rlexp.stats.aggregate import Aggregate, Negative, Statistic
from rlexp.stats.pairs import test_inversion
from rlexp.stats.pairs.permutation import permutation_distribution
from rlexp.stats.pairs.ranked_relabellings import PairQuestion, answers, is_linear
from rlexp.stats.pairs.test_inversion import DifferenceTest, IntervalQuestion, intervals_of
from rlexp.stats.resampling import Resampling
from rlexp.stats.task_scores import TaskScores

Draw = Callable[[np.random.Generator, int, int], NDArray[np.float64]]
SCORES: dict[str, Draw] = {
    "normal": lambda draw, label, n: draw.normal(0.2 * label, 1 + label % 3, n),
    "ties": lambda draw, label, n: np.round(draw.normal(100 + 0.5 * label, 2, n)),
    "far from zero": lambda draw, label, n: 1e9 + draw.normal(0.2 * label, 1, n),
    "outlier": lambda draw, label, n: np.append(draw.normal(0.2 * label, 1, n - 1), 1e6),
    "two values": lambda draw, label, n: draw.integers(0, 2, n).astype(float),
}
METRICS: list[Statistic] = [
    Aggregate("interquartile mean"),
    Aggregate("interquartile mean of whole runs"),
    Aggregate("mean"),
    Aggregate("median"),
    Negative(Aggregate("interquartile mean")),
]


def labels_of(kind: str, count: int, sizes: tuple[int, ...]) -> list[TaskScores]:
    """Labels with random scores of a kind."""
    draw = np.random.default_rng(count)
    return [
        TaskScores.from_tasks([SCORES[kind](draw, label, sizes[label % len(sizes)])])
        for label in range(count)
    ]


@pytest.mark.parametrize("kind", SCORES)
@pytest.mark.parametrize("metric", METRICS, ids=repr)
def test_values_that_decide_are_those_of_each_pair_alone(kind: str, metric: Statistic) -> None:
    """p-values and critical values have the bits of the distribution of each pair alone."""
    resampling, repetitions = Resampling(), 199
    pairs = list(combinations(labels_of(kind, 3, (11, 11, 11)), 2))
    assert all(is_linear(pair, metric) for pair in pairs)
    alone = [permutation_distribution(p, metric, resampling, repetitions) for p in pairs]

    for alpha in (None, 0.5, 0.05, 0.004, 0.0001):
        questions = [PairQuestion(pair, alpha) for pair in pairs]
        together = answers(questions, metric, resampling, repetitions, 2)
        for expected, actual in zip(alone, together, strict=True):
            assert expected.observed == actual.observed
            if alpha is None:
                assert expected.p == actual.p
            else:
                assert expected.critical(alpha) == actual.critical(alpha)


@pytest.mark.parametrize("kind", SCORES)
@pytest.mark.parametrize("sizes", [(12,), (9, 30)])
def test_intervals_together_are_those_of_each_pair_alone(
    kind: str, sizes: tuple[int, ...], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Intervals of pairs, rejected or not, have the same bits together and one by one."""
    pairs = combinations(labels_of(kind, 3, sizes), 2)
    questions = [
        IntervalQuestion(
            DifferenceTest(
                x=x, y=y, statistic=METRICS[0], resampling=Resampling(seed=3), repetitions=299
            ),
            alpha,
            rejected,
        )
        for x, y in pairs
        for alpha, rejected in ((0.05, True), (0.013, False))
    ]
    together: list[object] = []
    for fewest in (1, len(questions) + 1):
        monkeypatch.setattr(test_inversion, "TOGETHER_FROM", fewest)
        test_inversion._remembered.cache_clear()
        together.append(intervals_of(questions))
    test_inversion._remembered.cache_clear()
    assert together[1] == together[0]


def test_no_pair_is_computed_together_that_is_not_linear() -> None:
    """Pairs on several tasks, with few relabellings, or with a cap are computed one by one."""
    few = TaskScores.from_tasks([[1.0, 2.0, 3.0]])
    two = TaskScores.from_tasks([np.arange(12.0), np.arange(12.0)])
    many = TaskScores.from_tasks([np.arange(12.0)])
    assert is_linear((many, many), Aggregate("mean"))
    assert not is_linear((few, few), Aggregate("mean"))
    assert not is_linear((two, two), Aggregate("mean"))
    assert not is_linear((many, many), Aggregate("mean", cap=1.0))
    assert not is_linear((many, many), lambda scores: scores.values.max(axis=-1))
