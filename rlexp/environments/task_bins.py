"""How far the contexts or levels that a training plays are from those that it is meant for."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from rlexp.environments import Environment

Counts = NDArray[np.int64]
Array = NDArray[np.float64]


@dataclass(frozen=True, slots=True, eq=False)
class TaskBins:
    """Bins of one number of a task, and the share of each in the target distribution.

    Attributes:
        edges: Rising edges of the bins (bins + 1).
        target: The share of each bin in the target (bins); sums to 1.
    """

    edges: Array
    target: Array

    def position(self, value: float) -> int:
        """Return the bin of a value; values outside belong to the first or the last bin."""
        index = int(np.searchsorted(self.edges, value, side="right")) - 1
        return min(max(index, 0), len(self.target) - 1)

    def shift(self, counts: Counts) -> float:
        """Return the Jensen-Shannon divergence between counts (bins) and the target, in bits.

        It is 0 for equal distributions and 1 for distributions without a common bin.
        """
        played = counts / counts.sum()
        middle = (played + self.target) / 2
        parts = (_divergence(share, middle) for share in (played, self.target))
        return min(max(sum(parts) / 2, 0.0), 1.0)


def _divergence(share: Array, other: Array) -> float:
    """Return the Kullback-Leibler divergence in bits; `other` is positive where `share` is."""
    some = share > 0
    return float((share[some] * np.log2(share[some] / other[some])).sum())


def task_bins(environment: Environment) -> Mapping[str, TaskBins]:
    """The bins of each number of a task, by the measure that reports it (`context/length`).

    Components with contexts or levels name theirs; a task without any has none.
    """
    bins: dict[str, TaskBins] = {}
    for component in getattr(environment, "components", {}).values():
        named: Any = getattr(component, "task_bins", None)
        bins |= named() if named is not None else {}
    return bins
