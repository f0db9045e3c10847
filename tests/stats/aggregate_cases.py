"""Golden aggregates and intervals of rliable 1.2.0, and hypothesis strategies for scores."""

import json
from pathlib import Path
from typing import Any

import numpy as np
from hypothesis import strategies as st

from rlexp.stats.aggregate import (
    Aggregate,
    Statistic,
    interquartile_mean,
    interquartile_mean_of_whole_runs,
    mean,
    median,
)
from rlexp.stats.task_scores import TaskScores

GOLDEN: dict[str, Any] = json.loads(
    (Path(__file__).parents[1] / "golden" / "golden_rliable.json").read_text()
)
CASES: dict[str, dict[str, Any]] = {
    case["id"]: case for case in GOLDEN["cases"] if case["id"] not in {"nan", "inf"}
}
"""Golden cases with finite scores, because `TaskScores` refuses other scores."""

values = st.integers(-1000, 1000).map(lambda number: number / 8)
"""Scores whose sums are exact; some scores are equal."""


def tasks(min_runs: int = 1, max_runs: int = 7) -> st.SearchStrategy[list[list[float]]]:
    """Scores of one to four tasks, each with `min_runs` to `max_runs` runs."""
    return st.lists(st.lists(values, min_size=min_runs, max_size=max_runs), min_size=1, max_size=4)


def scores_of(case: dict[str, Any]) -> TaskScores:
    """Scores of a golden case, whose table has the shape (runs, tasks)."""
    return TaskScores.from_tasks(list(np.asarray(case["scores"], np.float64).T))


def statistics(gamma: float = 1.0) -> dict[str, Statistic]:
    """The aggregates by the names that the golden file gives them."""
    return {
        "iqm": interquartile_mean_of_whole_runs,
        "mean": mean,
        "median": median,
        "optimality_gap": Aggregate("mean", cap=gamma),
    }


def every_statistic(gamma: float = 1.0) -> dict[str, Statistic]:
    """The aggregates of the golden file, and the interquartile mean with an exact cut."""
    return {**statistics(gamma), "exact_iqm": interquartile_mean}
