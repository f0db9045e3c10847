"""From evidence to reliability metrics: of the training of runs, and of their final policies."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from rlexp.metrics.estimate import UNKNOWN, Ends
from rlexp.records.run import LARGEST_SCORE, State
from rlexp.reports.analysis.inquiry import Inquiry
from rlexp.reports.analysis.scale import possible_scores, scale_of
from rlexp.reports.evidence.runs import Member
from rlexp.reports.wording import states
from rlexp.stats.curves import align, common_grid
from rlexp.stats.interval import limited
from rlexp.stats.reliability.estimates import Reliability
from rlexp.stats.reliability.metrics import LearningCurves
from rlexp.stats.reliability.summary import rollout_reliability, training_reliability

Array = NDArray[np.float64]

PER_CENT = 100
SCORES = frozenset({"median performance", "risk across runs", "risk across rollouts"})
"""Metrics that are returns, and so no further than returns can be."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Assessed:
    """The metrics of a label on a task.

    Attributes:
        n: Runs that they rest on.
        planned: Runs that were asked for.
        metrics: None where there is no such run.
        remark: What is missing, in words.
    """

    task: str
    label: str
    n: int
    planned: int
    metrics: tuple[Reliability, ...] = ()
    remark: str = ""


@dataclass(frozen=True, slots=True)
class Kind:
    """What metrics are of, which runs can be used, and how they are computed."""

    of: str
    usable: Callable[[Member], bool]
    compute: Callable[[Inquiry, str, Sequence[Member]], tuple[Reliability, ...]]


def of_training(inquiry: Inquiry, task: str, label: str) -> Assessed:
    """Metrics of the completed runs that were evaluated during training.

    Steps are per cent of the budget, and returns shares of the way between the task's anchors
    where it has any.
    """
    return _assessed(inquiry, task, label, TRAINING)


def of_final_policies(inquiry: Inquiry, task: str, label: str) -> Assessed:
    """Metrics of the final episodes of the completed runs."""
    return _assessed(inquiry, task, label, ROLLOUTS)


def _assessed(inquiry: Inquiry, task: str, label: str, kind: Kind) -> Assessed:
    cell = inquiry.evidence.cell(label, task)
    if cell is None:
        return Assessed(task=task, label=label, n=0, planned=0, remark="not asked for")
    completed = [m for m in cell.members if m.record.state is State.COMPLETED]
    others = [m for m in cell.members if m.record.state is not State.COMPLETED]
    used = [member for member in completed if kind.usable(member)]
    told = [f"not completed: {states(others)}"] if others else []
    if len(used) < len(completed):
        told.append(f"{len(completed) - len(used)} whose {kind.of} are missing or not all finite")
    metrics = kind.compute(inquiry, task, used) if used else ()
    scale = scale_of(task, inquiry.evidence, inquiry.settings)
    ends = possible_scores([cell], {task: scale}) if scale else UNKNOWN
    metrics = tuple(_possible(metric, ends) for metric in metrics)
    if used and not metrics:
        told.append("its runs have no step in common")
    return Assessed(
        task=task,
        label=label,
        n=len(used),
        planned=cell.planned,
        metrics=metrics,
        remark="; ".join(told),
    )


def _possible(metric: Reliability, ends: Ends) -> Reliability:
    """A metric that is a normalised score has no interval beyond the scores that are possible."""
    if metric.interval is None:
        return metric
    own = ends if metric.metric in SCORES else UNKNOWN
    return replace(metric, interval=limited(metric.interval, *own))


def _has_curve(member: Member) -> bool:
    return member.is_evaluated and bool(np.isfinite(member.returns).all())


def _is_final(member: Member) -> bool:
    final = member.record.final
    return final is not None and bool((np.abs(final.returns) <= LARGEST_SCORE).all())


def _scaled(inquiry: Inquiry, task: str) -> tuple[Callable[[Array], Array], float | None]:
    """What brings returns to the scale of the task, and what metrics are then divided by.

    Without anchors returns stay as they are, and metrics are shares of what the runs reach.
    """
    scale = scale_of(task, inquiry.evidence, inquiry.settings)
    return (scale.normalised, 1.0) if scale else (np.asarray, None)


def _training(inquiry: Inquiry, task: str, members: Sequence[Member]) -> tuple[Reliability, ...]:
    normalised, baseline = _scaled(inquiry, task)
    budget = float(members[0].record.spec.budget["steps"])
    curves = [(m.steps * PER_CENT / budget, normalised(m.returns)) for m in members]
    grid = common_grid(curves, max(2, *(len(x) for x, _ in curves)))
    if not len(grid):
        return ()
    aligned = LearningCurves.of(grid, align(curves, grid))
    return training_reliability(aligned, inquiry.settings.curve_resampling, baseline=baseline)


def _rollouts(inquiry: Inquiry, task: str, members: Sequence[Member]) -> tuple[Reliability, ...]:
    normalised, baseline = _scaled(inquiry, task)
    finals = [np.asarray(m.record.final.returns) for m in members if m.record.final]
    returns = [normalised(final) for final in finals]
    return rollout_reliability(returns, inquiry.settings.resampling, baseline=baseline)


TRAINING = Kind("evaluations", _has_curve, _training)
ROLLOUTS = Kind("final episodes", _is_final, _rollouts)
