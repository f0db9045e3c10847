"""Ranks and crowding distances of NSGA-II (Deb, Pratap, Agarwal and Meyarivan 2002)."""

from math import inf

import numpy as np
from numpy.typing import NDArray


def non_dominated_ranks(values: NDArray[np.float64]) -> NDArray[np.int64]:
    """The front of each point: 0 for those that none dominates, 1 behind these, and so on.

    A point dominates another if it is nowhere worse and somewhere better.

    Args:
        values: Objectives, greater is better, of shape (n, objectives).

    Returns:
        Of shape (n,).
    """
    no_worse: NDArray[np.bool_] = np.all(values[:, None] >= values[None], axis=2)
    dominates = no_worse & ~no_worse.T
    ranks = np.full(len(values), -1)
    rank = 0
    while (left := ranks < 0).any():
        ranks[left & ~dominates[left].any(axis=0)] = rank
        rank += 1
    return ranks


def crowding_distances(values: NDArray[np.float64]) -> NDArray[np.float64]:
    """How far the neighbours of each point of one front lie apart, over all objectives.

    The sum over objectives of the distance between the next smaller and the next greater value,
    in units of the front's range; infinite at the ends. An objective in which all are equal
    says nothing.

    Args:
        values: Objectives of shape (n, objectives).

    Returns:
        Of shape (n,).
    """
    distances = np.zeros(len(values))
    for column in values.T:
        order = np.argsort(column, kind="stable")
        spread = column[order[-1]] - column[order[0]]
        if spread > 0:
            gaps = np.full(len(column), inf)
            gaps[1:-1] = (column[order[2:]] - column[order[:-2]]) / spread
            distances[order] += gaps
    return distances
