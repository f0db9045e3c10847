"""Scores of several tasks on one scale: 0 at the lower anchor of a task, 1 at the upper one."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from rlexp.reports.evidence import Cell, Evidence
from rlexp.reports.settings import Settings
from rlexp.stats.task_scores import TaskScores


@dataclass(frozen=True, slots=True, kw_only=True)
class Scale:
    """The anchors of a task, in units of its return, and where they come from."""

    low: float
    high: float
    source: str

    def normalised(self, scores: NDArray[np.float64]) -> NDArray[np.float64]:
        """Scores as shares of the way from `low` to `high`, of the same shape."""
        return (scores - self.low) / (self.high - self.low)


def scale_of(task: str, evidence: Evidence, settings: Settings) -> Scale | None:
    """The anchors of a task, or nothing where it has no two.

    Anchors are the score of a random policy and the task's threshold, or its greatest possible
    score where it has no threshold.
    """
    if settings.normalisation == "observed":
        return _observed(evidence.of_task(task))
    reference = evidence.reference(task)
    low, (high, word) = reference.get("random"), _upper(reference)
    if low is None or high is None or high <= low:
        return None
    source = reference.get("source") or "the configuration"
    return Scale(low=low, high=high, source=f"random and {word} score ({source})")


def scales(evidence: Evidence, settings: Settings) -> Mapping[str, Scale | None]:
    """The scale of every task."""
    return {task: scale_of(task, evidence, settings) for task in evidence.tasks}


def task_scores(cells: list[Cell], scale: Mapping[str, Scale | None] | None) -> TaskScores:
    """The scores of a label's cells, on one scale if there is one.

    Raises:
        ValueError: A cell has no score, or a task has no scale.
    """
    arrays = []
    for cell in cells:
        own = scale[cell.task] if scale is not None else None
        if scale is not None and own is None:
            raise ValueError(f"{cell.task} has no anchors to normalise by")
        arrays.append(own.normalised(cell.scores) if own else cell.scores)
    return TaskScores.from_tasks(arrays)


def _upper(reference: Mapping[str, Any]) -> tuple[float | None, str]:
    if reference.get("threshold") is not None:
        return reference["threshold"], "threshold"
    return reference.get("maximum"), "maximum"


def _observed(cells: list[Cell]) -> Scale | None:
    scores = np.concatenate([cell.scores for cell in cells])
    if not len(scores) or scores.min() == scores.max():
        return None
    source = "least and greatest score observed here: depends on who takes part"
    return Scale(low=float(scores.min()), high=float(scores.max()), source=source)
