"""Scores of several tasks on one scale: 0 at the lower anchor of a task, 1 at the upper one."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from rlexp.metrics.estimate import Ends, common_ends, declared_ends
from rlexp.reports.analysis.inquiry import Inquiry, Settings
from rlexp.reports.evidence.runs import Cell, Evidence
from rlexp.stats.task_scores import TaskScores, min_max
from rlexp.text import listed


@dataclass(frozen=True, slots=True, kw_only=True)
class TaskAnchors:
    """The anchors of a task, in units of its return, and where they come from."""

    low: float
    high: float
    source: str

    def normalised(self, scores: NDArray[np.float64]) -> NDArray[np.float64]:
        """Scores as shares of the way from `low` to `high`, of the same shape."""
        return min_max(scores, self.low, self.high)


AnchorsByTask = Mapping[str, TaskAnchors | None]
"""By task; nothing for one without anchors."""


def scale_of(task: str, evidence: Evidence, settings: Settings) -> TaskAnchors | None:
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
    return TaskAnchors(low=low, high=high, source=f"random and {word} score ({source})")


def scales(evidence: Evidence, settings: Settings) -> AnchorsByTask:
    """The scale of every task."""
    return {task: scale_of(task, evidence, settings) for task in evidence.tasks}


def common_scale(evidence: Evidence, settings: Settings) -> AnchorsByTask | None:
    """The scale of every task where there are several; nothing where there is one."""
    return scales(evidence, settings) if len(evidence.tasks) > 1 else None


def task_scores(cells: list[Cell], scale: AnchorsByTask | None) -> TaskScores:
    """The scores of a label's cells, on one scale if there is one.

    Raises:
        ValueError: A cell has no score, or a task has no scale.
    """
    arrays = []
    for cell in cells:
        anchors = scale[cell.task] if scale is not None else None
        if scale is not None and anchors is None:
            raise ValueError(f"{cell.task} has no anchors to normalise by")
        arrays.append(anchors.normalised(cell.scores) if anchors else cell.scores)
    return TaskScores.from_tasks(arrays)


def possible_ends(cells: Sequence[Cell], scale: AnchorsByTask | None) -> list[Ends]:
    """The least and the greatest score of each task, on its scale if there is one.

    An end is missing where a task does not declare it (`environment.reference.minimum`,
    `.maximum`).
    """
    return [_possible(cell, scale[cell.task] if scale else None) for cell in cells]


def possible_scores(cells: Sequence[Cell], scale: AnchorsByTask | None) -> Ends:
    """The least and the greatest score of any of the tasks, on their scale if there is one."""
    return common_ends(possible_ends(cells, scale))


def _possible(cell: Cell, scale: TaskAnchors | None) -> Ends:
    declared = declared_ends(cell.members[0].configuration.reference)
    if scale is None:
        return declared
    least, greatest = (
        None if end is None else float(scale.normalised(np.asarray([end]))[0]) for end in declared
    )
    return least, greatest


def without_anchors(anchors: AnchorsByTask, report: Inquiry) -> str | None:
    """Which tasks cannot be normalised, and what to do; nothing where all can."""
    bare = [task for task, task_anchors in anchors.items() if task_anchors is None]
    if not bare:
        return None
    if report.settings.normalisation == "observed":
        return _without_range(bare, report.evidence)
    return (
        f"{listed(bare)} cannot be normalised: declare environment.reference.random and "
        ".threshold, or take the least and greatest score here with "
        "--set normalisation=observed"
    )


def _without_range(tasks: Sequence[str], evidence: Evidence) -> str:
    """Why scores of these tasks have no least and greatest that differ."""
    scored = [task for task in tasks if any(cell.n for cell in evidence.of_task(task))]
    absent = [task for task in tasks if task not in scored]
    reasons = [f"all scores on {listed(scored)} are equal"] if scored else []
    reasons += [f"no run has a score on {listed(absent)}"] if absent else []
    return f"{' and '.join(reasons)}: there is no observed scale"


def _upper(reference: Mapping[str, Any]) -> tuple[float | None, str]:
    if reference.get("threshold") is not None:
        return reference["threshold"], "threshold"
    return reference.get("maximum"), "maximum"


def _observed(cells: list[Cell]) -> TaskAnchors | None:
    scores = np.concatenate([cell.scores for cell in cells])
    if not len(scores) or scores.min() == scores.max():
        return None
    source = "least and greatest score observed here: depends on who takes part"
    return TaskAnchors(low=float(scores.min()), high=float(scores.max()), source=source)
