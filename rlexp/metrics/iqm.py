"""The metric `iqm`: interquartile mean over runs."""

from dataclasses import dataclass
from typing import ClassVar

import numpy as np
from numpy.typing import NDArray

from rlexp.stats.aggregate import Aggregate
from rlexp.stats.task_scores import TaskScores


@dataclass(frozen=True, slots=True)
class InterquartileMean:
    """Mean of the middle half of the runs of all tasks (Agarwal et al. 2021)."""

    title: ClassVar[str] = "IQM"
    higher_is_better: ClassVar[bool] = True
    aggregate: ClassVar[Aggregate] = Aggregate("interquartile mean")

    def __call__(self, scores: TaskScores, /) -> NDArray[np.float64]:
        """Return the value, of shape (…), of scores of shape (…, N)."""
        return self.aggregate(scores)
