"""Metrics: one number for the runs of all tasks. A member holds its settings and computes it."""

from typing import ClassVar, Protocol

import numpy as np
from numpy.typing import NDArray

from rlexp.stats.task_scores import TaskScores


class Metric(Protocol):
    """An aggregate of scores.

    One whose attribute `aggregate` says which `rlexp.stats.aggregate.Aggregate` it is gets its
    intervals much faster.
    """

    title: ClassVar[str]
    """What tables and figures call it."""
    higher_is_better: ClassVar[bool]
    """Whether the better of two labels has the higher value."""

    def __call__(self, scores: TaskScores, /) -> NDArray[np.float64]:
        """Return the value, of shape (…), of scores of shape (…, N)."""
        ...
