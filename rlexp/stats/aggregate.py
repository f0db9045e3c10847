"""Aggregates of scores."""

import numpy as np
from numpy.typing import NDArray


def interquartile_mean(scores: NDArray[np.float64]) -> NDArray[np.float64]:
    """Mean of the middle half of the scores along the last axis.

    A quarter of the scores, rounded down, is dropped at each end (Agarwal et al. 2021, "Deep
    Reinforcement Learning at the Edge of the Statistical Precipice"; as `scipy.stats.trim_mean`
    cuts), so three scores or fewer are averaged whole.

    Args:
        scores: Of shape (…, n), n ≥ 1.

    Returns:
        Of shape (…).
    """
    cut = scores.shape[-1] // 4
    ordered = np.sort(scores, axis=-1)
    middle = ordered[..., cut : scores.shape[-1] - cut]
    return np.asarray(middle.mean(axis=-1))
