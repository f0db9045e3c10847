"""The metric `median`: median over tasks."""

from dataclasses import dataclass
from typing import ClassVar

import numpy as np
from numpy.typing import NDArray

from rlexp.stats.aggregate import Aggregate
from rlexp.stats.task_scores import TaskScores


@dataclass(frozen=True, slots=True)
class Median:
    """Median over tasks of the means over runs; it can ignore half of the tasks."""

    title: ClassVar[str] = "median"
    higher_is_better: ClassVar[bool] = True
    aggregate: ClassVar[Aggregate] = Aggregate("median")

    def __call__(self, scores: TaskScores, /) -> NDArray[np.float64]:
        """Return the value, of shape (…), of scores of shape (…, N)."""
        return self.aggregate(scores)
