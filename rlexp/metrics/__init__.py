"""Metrics: plug-ins that compute one number from the runs of all tasks."""

from typing import ClassVar, Protocol

import numpy as np
from numpy.typing import NDArray

from rlexp.stats.task_scores import TaskScores


class Metric(Protocol):
    """An aggregate of scores.

    A metric with another name over several tasks than on one task declares it in an attribute
    `title_of_several_tasks`. One whose title is a short form declares the long form in `full_title`.
    A metric that equals an `rlexp.stats.aggregate.Aggregate` can declare it in an attribute
    `aggregate`: its intervals are then computed much faster.
    """

    title: ClassVar[str]
    """Name of the metric in tables and figures."""
    higher_is_better: ClassVar[bool]
    """Whether the better of two labels has the higher value."""

    def __call__(self, scores: TaskScores, /) -> NDArray[np.float64]:
        """Return the value, of shape (…), of scores of shape (…, N)."""
        ...


def full_title(metric: Metric, tasks: int = 1) -> str:
    """The name of a metric over this number of tasks, without an unexplained short form."""
    title: str = getattr(metric, "full_title", title_over(metric, tasks))
    return title


def title_over(metric: Metric, tasks: int) -> str:
    """The name of a metric in tables and figures of an aggregate over this number of tasks."""
    several: str = getattr(metric, "title_of_several_tasks", metric.title)
    return several if tasks > 1 else metric.title
