"""Fronts of several objectives: domination, crowding, hypervolume, and weights on the simplex."""

from collections.abc import Iterator, Sequence
from math import comb, inf, prod

import numpy as np
from numpy.typing import NDArray

MOST_WEIGHTS = 101
"""Most vectors of an even set of weights; with two objectives, their steps are then 0.01."""


def non_dominated_ranks(values: NDArray[np.float64]) -> NDArray[np.int64]:
    """The front of each point: 0 for points that no point dominates, 1 for the next front, etc.

    A point dominates another if it is no worse in every objective and better in at least one.

    Args:
        values: Objectives, greater is better, of shape (n, objectives).

    Returns:
        The fronts, of shape (n,).
    """
    no_worse: NDArray[np.bool_] = np.all(values[:, None] >= values[None], axis=2)
    # Equal points are no worse than each other, so neither of them dominates.
    dominates = no_worse & ~no_worse.T
    ranks = np.full(len(values), -1)
    rank = 0
    while (left := ranks < 0).any():
        ranks[left & ~dominates[left].any(axis=0)] = rank
        rank += 1
    return ranks


def crowding_distances(values: NDArray[np.float64]) -> NDArray[np.float64]:
    """The crowding distance of each point of one front.

    It is the sum over objectives of the distance between the next smaller and the next greater
    value, in units of the range of the front; infinite at the ends. An objective in which all
    points are equal adds 0.

    Args:
        values: Objectives of shape (n, objectives).

    Returns:
        The distances, of shape (n,).
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


def by_front(values: Sequence[Sequence[float]]) -> list[int]:
    """The positions of points, best first: by front, then by crowding distance, then as given.

    This is the crowded comparison of Deb et al. (2002, "A fast and elitist multiobjective genetic
    algorithm: NSGA-II").

    Args:
        values: Objectives of each point, greater is better.
    """
    if not values:
        return []
    points = np.asarray(values, dtype=np.float64)
    ranks = non_dominated_ranks(points)
    crowding = np.zeros(len(points))
    for rank in range(int(ranks.max()) + 1):
        crowding[ranks == rank] = crowding_distances(points[ranks == rank])
    return sorted(range(len(points)), key=lambda k: (int(ranks[k]), -float(crowding[k]), k))


def front_of(values: Sequence[Sequence[float]]) -> list[int]:
    """The positions of the points that no other point dominates; of equal points, the first one.

    Args:
        values: Objectives of each point, greater is better.
    """
    if not values:
        return []
    ranks = non_dominated_ranks(np.asarray(values, dtype=np.float64))
    first: dict[tuple[float, ...], int] = {}
    for position in np.flatnonzero(ranks == 0).tolist():
        first.setdefault(tuple(map(float, values[position])), position)
    return list(first.values())


def hypervolume(values: Sequence[Sequence[float]], reference: Sequence[float]) -> float:
    """The volume that points dominate above a reference point (Zitzler and Thiele 1998).

    Points that are not better than the reference point in every objective add nothing. The volume is
    exact: the last objective is cut into slices, each with the volume of its points in the others.

    Args:
        values: Objectives of each point, greater is better.
        reference: The reference point.

    Returns:
        The volume, in the product of the units of the objectives.
    """
    corners = [
        tuple(v - r for v, r in zip(point, reference, strict=True))
        for point in values
        if all(v > r for v, r in zip(point, reference, strict=True))
    ]
    return _volume([corners[position] for position in front_of(corners)])


def _volume(corners: Sequence[tuple[float, ...]]) -> float:
    """The volume of the union of boxes between 0 and each corner."""
    if not corners:
        return 0.0
    if len(corners[0]) == 1:
        return max(corner[0] for corner in corners)
    if len(corners) == 1:
        return prod(corners[0])
    ordered = sorted(corners, key=lambda corner: -corner[-1])
    if len(corners[0]) == 2:
        return _area(ordered)
    total = 0.0
    for count, (corner, below) in enumerate(_steps(ordered), start=1):
        # From here down to the next corner, the first `count` boxes reach this high.
        height = corner[-1] - below
        if height > 0:
            base = [other[:-1] for other in ordered[:count]]
            # An area needs no front: its dominated corners add nothing.
            front = base if len(base[0]) == 2 else [base[k] for k in front_of(base)]
            total += height * _volume(front)
    return total


def _area(ordered: Sequence[tuple[float, ...]]) -> float:
    """The area of the union of rectangles between 0 and each corner; the highest corner comes first."""
    # This case is apart because fronts of one-dimensional bases took seconds for hundreds of corners.
    rising: list[tuple[float, ...]] = []
    for corner in ordered:
        if not rising or corner[0] > rising[-1][0]:
            rising.append(corner)
    area = 0.0
    for corner, below in _steps(rising):
        # Immense corners may both be infinite, and the difference of their heights is no number then.
        if corner[1] > below:
            area += (corner[1] - below) * corner[0]
    return area


def _steps(
    ordered: Sequence[tuple[float, ...]],
) -> Iterator[tuple[tuple[float, ...], float]]:
    """Each corner with the height of the next one; 0 after the last."""
    heights = [*(corner[-1] for corner in ordered[1:]), 0.0]
    return zip(ordered, heights, strict=True)


def spread_out(
    values: Sequence[Sequence[float]], reference: Sequence[float], count: int
) -> list[int]:
    """The positions of at most `count` points that dominate much together, in the order given.

    Each next point adds the most hypervolume to those before it (a greedy subset, within a factor
    1 − 1/e of the best one, because hypervolume is submodular). Points that add nothing come last.

    Args:
        values: Objectives of each point, greater is better.
        reference: The reference point.
        count: Largest number of points.
    """
    chosen: list[int] = []
    left = list(range(len(values)))
    while left and len(chosen) < count:
        volumes = {k: hypervolume([values[j] for j in (*chosen, k)], reference) for k in left}
        # `max` returns the first of equal points.
        best = max(left, key=lambda k: volumes[k])
        chosen.append(best)
        left.remove(best)
    return sorted(chosen)


def default_reference(values: Sequence[Sequence[float]]) -> tuple[float, ...]:
    """A reference point below all points: the worst value of each objective, minus a tenth of its range.

    An objective in which all points are equal has no range, and 1 takes its place. A distance to the
    worst values makes the ends of a front count (Ishibuchi et al. 2018, "How to specify a reference
    point in hypervolume calculation for fair performance comparison").

    Args:
        values: Objectives of each point, greater is better; one point or more.
    """
    columns = list(zip(*values, strict=True))
    return tuple(min(c) - 0.1 * ((max(c) - min(c)) or 1.0) for c in columns)


def even_weights(objectives: int) -> list[tuple[float, ...]]:
    """Weights that are not negative and sum to 1, evenly spaced on the simplex (Das and Dennis 1998).

    All multiples of one step are there; the step is the smallest with at most `MOST_WEIGHTS` vectors.

    Args:
        objectives: Number of objectives, 1 or more.
    """
    parts = 1
    while objectives > 1 and comb(parts + objectives, objectives - 1) <= MOST_WEIGHTS:
        parts += 1
    return [tuple(part / parts for part in each) for each in _compositions(parts, objectives)]


def _compositions(total: int, count: int) -> Iterator[tuple[int, ...]]:
    """All ways to write a whole number as a sum of whole numbers that are not negative."""
    if count == 1:
        yield (total,)
        return
    for first in range(total + 1):
        for rest in _compositions(total - first, count - 1):
            yield (first, *rest)
