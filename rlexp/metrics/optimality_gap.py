"""Optimality gap."""

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
    """How far scores fall short of `gamma` in the mean, what lies above counting as `gamma`.

    Attributes:
        gamma: The score beyond which nothing is gained, as a normalised score (Agarwal et al.
            2021: 1, that of a human).
    """

    gamma: Annotated[float, Interval(gt=-inf, lt=inf)] = 1.0

    title: ClassVar[str] = "optimality gap"
    higher_is_better: ClassVar[bool] = False

    @property
    def aggregate(self) -> Aggregate:
        """What it is made of."""
        return Aggregate("mean", cap=self.gamma)

    def __call__(self, scores: TaskScores, /) -> NDArray[np.float64]:
        """Return the value, of shape (…), of scores of shape (…, N)."""
        return self.aggregate(scores)
