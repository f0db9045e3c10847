"""Normalisation of scores: 0 at the lower anchor of a task, 1 at the upper anchor."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from rlexp.metrics.estimate import Ends, common_ends, declared_ends, has_other_anchors
from rlexp.protocol.measures import known_anchors
from rlexp.reports.analysis.report_context import ReportContext, ReportSettings
from rlexp.reports.evidence.runs import Evidence, LabelTaskRuns
from rlexp.stats.task_scores import TaskScores, min_max
from rlexp.text import join_first_names, join_names

NORMALISED_ALREADY = "scores are taken as normalised already"
"""The source of the anchors 0 and 1 with `normalisation=none`."""


@dataclass(frozen=True, slots=True, kw_only=True)
class TaskAnchors:
    """The anchors of a task, in units of its score, and their source.

    `low` is above `high` where lower scores are better: normalised scores are always better the
    higher they are.
    """

    low: float
    high: float
    source: str

    def normalised(self, scores: NDArray[np.float64]) -> NDArray[np.float64]:
        """Scores as shares of the way from `low` to `high`, of the same shape."""
        if self.is_reversed:
            return 1 - min_max(scores, self.high, self.low)
        return min_max(scores, self.low, self.high)

    @property
    def is_reversed(self) -> bool:
        """Whether lower scores are better."""
        return self.low > self.high


AnchorsByTask = Mapping[str, TaskAnchors | None]
"""Anchors by task; `None` for a task without them."""


def scale_of(task: str, evidence: Evidence, settings: ReportSettings) -> TaskAnchors | None:
    """The anchors of a task; `None` where it does not have two different ones.

    Anchors are the score of a random policy and the task's threshold, or its best possible score
    where it has no threshold. A task without them has those that its datasets declare: the scores of a
    random policy and of an expert.
    """
    lower_is_better = evidence.lower_is_better(task)
    if settings.normalisation == "observed":
        return _observed(evidence.of_task(task))
    if settings.normalisation == "none":
        ends = (1.0, 0.0) if lower_is_better else (0.0, 1.0)
        return TaskAnchors(low=ends[0], high=ends[1], source=NORMALISED_ALREADY)
    reference = evidence.reference(task)
    anchors = known_anchors(reference, lower_is_better=lower_is_better)
    if anchors is None:
        return _of_datasets(task, evidence)
    low, high, word = anchors
    source = reference.get("source") or "the configuration"
    return TaskAnchors(low=low, high=high, source=f"random and {word} score ({source})")


def _of_datasets(task: str, evidence: Evidence) -> TaskAnchors | None:
    declared = evidence.dataset_anchors(task)
    if declared is None:
        return None
    source = "random and expert score of the dataset"
    return TaskAnchors(low=declared[0], high=declared[1], source=source)


def in_units_of_scores(evidence: Evidence, settings: ReportSettings) -> Evidence:
    """The evidence without reference scores in other units than the recorded scores.

    With `normalisation=none`, a task may still declare its reference scores as returns: those are
    no bounds, thresholds or marks for scores that are normalised already. `unused_references`
    names such tasks.
    """
    if settings.normalisation != "none":
        return evidence
    tasks = tuple(t for t in evidence.tasks if has_other_anchors(evidence.reference(t)))
    members = tuple(
        replace(m, configuration=m.configuration.without_known_values()) if m.task in tasks else m
        for m in evidence.members
    )
    return replace(evidence, members=members, unused_references=tasks)


def anchors_by_task(evidence: Evidence, settings: ReportSettings) -> AnchorsByTask:
    """The anchors of every task."""
    return {task: scale_of(task, evidence, settings) for task in evidence.tasks}


def common_scale(evidence: Evidence, settings: ReportSettings) -> AnchorsByTask | None:
    """The anchors of every task; `None` for a single task, whose scores stay raw."""
    return anchors_by_task(evidence, settings) if len(evidence.tasks) > 1 else None


def task_scores(cells: list[LabelTaskRuns], scale: AnchorsByTask | None) -> TaskScores:
    """The scores of a label on its tasks, normalised where anchors are given.

    Raises:
        ValueError: A cell has no score, or a task has no anchors.
    """
    arrays = []
    for cell in cells:
        anchors = scale[cell.task] if scale is not None else None
        if scale is not None and anchors is None:
            raise ValueError(f"{cell.task} has no anchors to normalise by")
        arrays.append(anchors.normalised(cell.scores) if anchors else cell.scores)
    return TaskScores.from_tasks(arrays)


def possible_ends(cells: Sequence[LabelTaskRuns], scale: AnchorsByTask | None) -> list[Ends]:
    """Smallest and largest possible score of each task, normalised where anchors are given.

    An end is `None` where a task does not declare it (`environment.reference.minimum`,
    `.maximum`, or those of the measure that is the score).
    """
    return [_possible(cell, scale[cell.task] if scale else None) for cell in cells]


def possible_scores(cells: Sequence[LabelTaskRuns], scale: AnchorsByTask | None) -> Ends:
    """Smallest and largest possible score of any task, normalised where anchors are given."""
    return common_ends(possible_ends(cells, scale))


def _possible(cell: LabelTaskRuns, scale: TaskAnchors | None) -> Ends:
    declared = declared_ends(cell.members[0].configuration.score_reference)
    if scale is None:
        return declared
    least, greatest = (
        None if end is None else float(scale.normalised(np.asarray([end]))[0]) for end in declared
    )
    return (greatest, least) if scale.is_reversed else (least, greatest)


def without_anchors(anchors: AnchorsByTask, report: ReportContext) -> str | None:
    """Message about tasks that cannot be normalised; `None` where all can."""
    bare = [task for task, task_anchors in anchors.items() if task_anchors is None]
    if not bare:
        return None
    if report.settings.normalisation == "observed":
        return _without_range(bare, report.evidence)
    key = report.evidence.declaration_key(bare[0])
    return (
        f"{join_first_names(bare)} cannot be normalised: declare {key}.random and "
        ".threshold, normalise by the smallest and largest observed score with "
        "--set normalisation=observed, or take scores that are normalised already as they are with "
        "--set normalisation=none"
    )


def _without_range(tasks: Sequence[str], evidence: Evidence) -> str:
    """Why these tasks have no two different observed scores."""
    scored = [task for task in tasks if any(cell.n for cell in evidence.of_task(task))]
    absent = [task for task in tasks if task not in scored]
    reasons = [f"all scores on {join_names(scored)} are equal"] if scored else []
    reasons += [f"no run has a score on {join_names(absent)}"] if absent else []
    return f"{' and '.join(reasons)}: no observed range to normalise by"


def _observed(cells: list[LabelTaskRuns]) -> TaskAnchors | None:
    scores = np.concatenate([cell.scores for cell in cells])
    if not len(scores) or scores.min() == scores.max():
        return None
    source = "smallest and largest observed score: depends on the compared labels"
    ends = float(scores.min()), float(scores.max())
    low, high = ends[::-1] if cells[0].lower_is_better else ends
    return TaskAnchors(low=low, high=high, source=source)
