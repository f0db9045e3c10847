"""The metric `median`: median over runs, or over the means of several tasks."""

from dataclasses import dataclass
from typing import ClassVar

import numpy as np
from numpy.typing import NDArray

from rlexp.stats.aggregate import Aggregate
from rlexp.stats.task_scores import TaskScores


@dataclass(frozen=True, slots=True)
class Median:
    """Median over the runs of one task; of several tasks, the median of their means over runs.

    The median of task means is that of Agarwal et al. 2021. It can ignore half of the tasks.
    """

    title: ClassVar[str] = "median"
    title_of_several_tasks: ClassVar[str] = "median of task means"
    higher_is_better: ClassVar[bool] = True
    aggregate: ClassVar[Aggregate] = Aggregate("median")

    def __call__(self, scores: TaskScores, /) -> NDArray[np.float64]:
        """Return the value, of shape (…), of scores of shape (…, N)."""
        return self.aggregate(scores)
