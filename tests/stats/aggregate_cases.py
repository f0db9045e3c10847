"""Golden aggregates and intervals of rliable 1.2.0, and what strategies of scores share."""

import json
from pathlib import Path
from typing import Any

import numpy as np
from hypothesis import strategies as st

from rlexp.stats.aggregate import Aggregate, Statistic, interquartile_mean, mean, median
from rlexp.stats.task_scores import TaskScores

GOLDEN: dict[str, Any] = json.loads(
    (Path(__file__).parents[1] / "golden" / "golden_rliable.json").read_text()
)
CASES: dict[str, dict[str, Any]] = {
    case["id"]: case for case in GOLDEN["cases"] if case["id"] not in {"nan", "inf"}
}
"""Of finite scores: others are refused before they come here."""

values = st.integers(-1000, 1000).map(lambda whole: whole / 8)
"""Scores of which sums are exact, some of them equal."""


def tasks(runs: int = 1, most: int = 7) -> st.SearchStrategy[list[list[float]]]:
    """Scores of one task to four, each with `runs` runs to `most`."""
    return st.lists(st.lists(values, min_size=runs, max_size=most), min_size=1, max_size=4)


def scores_of(case: dict[str, Any]) -> TaskScores:
    """The scores of a golden case, which are of shape (runs, tasks) there."""
    return TaskScores.from_tasks(list(np.asarray(case["scores"], np.float64).T))


def statistics(gamma: float = 1.0) -> dict[str, Statistic]:
    """The aggregates by the names that the golden file gives them."""
    return {
        "iqm": interquartile_mean,
        "mean": mean,
        "median": median,
        "optimality_gap": Aggregate("mean", cap=gamma),
    }
