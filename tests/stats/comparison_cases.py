"""Golden numbers, labels and hypothesis strategies that the tests of comparisons share."""

import json
from collections.abc import Sequence
from functools import cache
from itertools import combinations
from pathlib import Path
from typing import Any

import numpy as np
from hypothesis import strategies as st
from numpy.typing import ArrayLike

from rlexp.stats.aggregate import Statistic, mean
from rlexp.stats.pairs.pairwise_family import Family
from rlexp.stats.resampling import Resampling
from rlexp.stats.task_scores import TaskScores

GOLDEN = Path(__file__).parents[1] / "golden" / "golden_stats.json"

FEW = Resampling(repetitions=499)
"""Few random relabellings, for tests that do not depend on their number."""

Label = list[list[float]]
"""Scores of the runs of each task."""


@cache
def golden() -> dict[str, Any]:
    """Reference numbers by SciPy and statsmodels."""
    numbers: dict[str, Any] = json.loads(GOLDEN.read_text())
    return numbers


def two_sample() -> list[Any]:
    """The golden cases of two samples."""
    cases: list[Any] = golden()["two_sample"]
    return cases


def name(case: dict[str, Any]) -> str:
    """Name of a golden case in the output of pytest."""
    return str(case["id"])


def label(*tasks: ArrayLike) -> TaskScores:
    """Scores of one label, task by task."""
    return TaskScores.from_tasks(tasks)


def case_labels(case: dict[str, Any]) -> tuple[TaskScores, TaskScores]:
    """Both samples of a golden case."""
    return label(case["x"]), label(case["y"])


def unsorted_label(tasks: Label) -> TaskScores:
    """Scores of one label in the given order, as from a caller that does not sort them."""
    values = [score for task in tasks for score in task]
    return TaskScores(np.asarray(values), tuple(map(len, tasks)))


def tasks(count: int, min_runs: int = 1, max_runs: int = 5) -> st.SearchStrategy[Label]:
    """Labels of `count` tasks; quarters make ties likely and their sums exact."""
    scores = st.one_of(st.integers(-20, 20).map(lambda k: k / 4), st.floats(-100, 100))
    return st.lists(
        st.lists(scores, min_size=min_runs, max_size=max_runs), min_size=count, max_size=count
    )


def two_labels(min_runs: int = 1) -> st.SearchStrategy[tuple[Label, Label]]:
    """Both labels of a comparison, on one to three tasks."""
    return st.integers(1, 3).flatmap(
        lambda count: st.tuples(tasks(count, min_runs), tasks(count, min_runs))
    )


def every_pair(count: int) -> list[tuple[int, int]]:
    """All pairs of the numbers 0 … count − 1."""
    return list(combinations(range(count), 2))


def family_of(
    labels: Sequence[TaskScores],
    statistic: Statistic = mean,
    resampling: Resampling = FEW,
    **settings: Any,
) -> Family:
    """The family of all pairs of the labels."""
    members = every_pair(len(labels))
    return Family(
        pairs=[(labels[a], labels[b]) for a, b in members],
        members=members,
        statistic=statistic,
        resampling=resampling,
        **settings,
    )


def family_of_pairs(pairs: Sequence[tuple[TaskScores, TaskScores]], **settings: Any) -> Family:
    """A family of pairs that are compared on different tasks."""
    settings = {"statistic": mean, "resampling": FEW, **settings}
    return Family(pairs=pairs, members=None, **settings)


def normal_labels(
    generator: np.random.Generator,
    means: Sequence[float],
    runs: int,
    tasks: int = 1,
    spreads: Sequence[float] | None = None,
) -> list[TaskScores]:
    """Labels with normal scores, and as many runs of each task."""
    return [
        label(*generator.normal(centre, spread, (tasks, runs)))
        for centre, spread in zip(means, spreads or [1.0] * len(means), strict=True)
    ]
