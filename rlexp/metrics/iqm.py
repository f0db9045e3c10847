"""The metric `iqm`: interquartile mean over runs."""

from dataclasses import dataclass
from typing import ClassVar

import numpy as np
from numpy.typing import NDArray

from rlexp.stats.aggregate import CENTRE_BY_CUT, Aggregate, Cut
from rlexp.stats.task_scores import TaskScores


@dataclass(frozen=True, slots=True)
class InterquartileMean:
    """Mean of the middle half of the runs of all tasks (Agarwal et al. 2021).

    Attributes:
        cut: `exact` cuts a quarter of the weight at each end, a run at the cut in part; `rliable`
            cuts whole runs only, as that library does, where all tasks have as many runs.
    """

    title: ClassVar[str] = "IQM"
    full_title: ClassVar[str] = "interquartile mean (IQM)"
    higher_is_better: ClassVar[bool] = True
    cut: Cut = "exact"

    @property
    def aggregate(self) -> Aggregate:
        """The interquartile mean with this cut."""
        return Aggregate(CENTRE_BY_CUT[self.cut])

    def __call__(self, scores: TaskScores, /) -> NDArray[np.float64]:
        """Return the value, of shape (…), of scores of shape (…, N)."""
        return self.aggregate(scores)
