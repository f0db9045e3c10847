"""The metric `optimality_gap`: mean shortfall of scores from a target."""

from dataclasses import dataclass
from math import inf
from typing import Annotated, ClassVar

import numpy as np
from annotated_types import Interval
from numpy.typing import NDArray

from rlexp.stats.aggregate import Aggregate
from rlexp.stats.task_scores import TaskScores


@dataclass(frozen=True, slots=True)
class OptimalityGap:
    """`gamma` minus the mean of the scores, each capped at `gamma` (Agarwal et al. 2021).

    Attributes:
        gamma: Normalised score above which improvements do not count; the paper uses 1, the score
            of a human.
    """

    gamma: Annotated[float, Interval(gt=-inf, lt=inf)] = 1.0

    title: ClassVar[str] = "optimality gap"
    higher_is_better: ClassVar[bool] = False

    @property
    def aggregate(self) -> Aggregate:
        """The aggregate that this metric computes."""
        return Aggregate("mean", cap=self.gamma)

    def __call__(self, scores: TaskScores, /) -> NDArray[np.float64]:
        """Return the value, of shape (…), of scores of shape (…, N)."""
        return self.aggregate(scores)
