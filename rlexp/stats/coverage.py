"""Simulated coverage of 95% intervals of few runs: how often they contain the true value."""

import math
from bisect import bisect_left
from collections.abc import Callable, Iterable

LEVEL = 0.95
"""The nominal level of the intervals that were simulated."""
REPETITIONS = 1_000
"""Fewest repetitions for which the table holds: with ten, coverage is 76% instead of 94%."""

TABLE: dict[tuple[str, str], dict[int, dict[int, float]]] = {
    ("t", "interquartile mean"): {
        1: {3: 0.902, 5: 0.934, 10: 0.953},
        3: {3: 0.954, 5: 0.886, 10: 0.917},
        8: {3: 0.950, 5: 0.941, 10: 0.940},
        26: {3: 0.958, 5: 0.950, 10: 0.958},
    },
    ("t", "mean"): {
        1: {3: 0.902, 5: 0.912, 10: 0.925, 20: 0.933},
        3: {3: 0.928, 5: 0.891, 10: 0.919},
        8: {3: 0.944, 5: 0.949, 10: 0.944},
        26: {3: 0.956, 5: 0.957, 10: 0.948},
    },
    ("percentile", "interquartile mean"): {
        1: {3: 0.718, 5: 0.869, 10: 0.927},
        3: {3: 0.721, 5: 0.763, 10: 0.866},
        8: {3: 0.809, 5: 0.886, 10: 0.925},
        26: {3: 0.869, 5: 0.908, 10: 0.942},
    },
    ("percentile", "mean"): {
        1: {3: 0.718, 5: 0.808, 10: 0.879, 20: 0.912},
        3: {3: 0.757, 5: 0.816, 10: 0.882},
        8: {3: 0.824, 5: 0.878, 10: 0.911},
        26: {3: 0.863, 5: 0.907, 10: 0.922},
    },
    ("basic", "interquartile mean"): {
        1: {3: 0.701, 5: 0.804, 10: 0.871},
        3: {3: 0.569, 5: 0.718, 10: 0.835},
        8: {3: 0.817, 5: 0.887, 10: 0.917},
        26: {3: 0.877, 5: 0.911, 10: 0.923},
    },
    ("basic", "mean"): {
        1: {3: 0.701, 5: 0.797, 10: 0.871, 20: 0.906},
        3: {3: 0.708, 5: 0.833, 10: 0.918},
        8: {3: 0.837, 5: 0.895, 10: 0.908},
        26: {3: 0.861, 5: 0.911, 10: 0.924},
    },
    ("bca", "interquartile mean"): {
        1: {3: 0.696, 5: 0.889, 10: 0.931},
        3: {3: 0.667, 5: 0.811, 10: 0.932},
        8: {3: 0.843, 5: 0.898, 10: 0.922},
        26: {3: 0.887, 5: 0.916, 10: 0.929},
    },
    ("bca", "mean"): {
        1: {3: 0.696, 5: 0.815, 10: 0.885, 20: 0.915},
        3: {3: 0.715, 5: 0.833, 10: 0.937},
        8: {3: 0.837, 5: 0.889, 10: 0.913},
        26: {3: 0.861, 5: 0.917, 10: 0.921},
    },
}
"""Fraction of intervals that contained the true value: by method and statistic, tasks, runs.

Samples of few runs were drawn from 100 runs of DER, SPR and DrQ(ε) on Atari 100k (standard error
below one percentage point). For the mean of one task, and for the interquartile mean of three
runs, which is the same, they were drawn from the runs of six algorithms on each of the 26 games.
Other distributions of scores give other values: normal scores better ones; scores of which most
reach the maximum, or of which some collapse, much worse ones.
"""


def expected_coverage(method: str, statistic: str, n: int, tasks: int) -> float | None:
    """Expected coverage of a 95% interval, for n runs of each task.

    Between simulated sizes the coverage is interpolated linearly in 1/n and in log(tasks).

    Args:
        method: A key of `bootstrap.METHODS`.
        statistic: A key of `aggregate.CENTRES`.
        n: Runs of each task.
        tasks: Number of tasks.

    Returns:
        A probability; None outside of the simulated sizes.
    """
    if statistic == "median" and tasks == 2:  # the mean of two tasks is their median
        statistic = "mean"
    table = TABLE.get((method, statistic), {})
    return _between(
        tasks, table, math.log, lambda m: _between(n, table[m], _inverse, table[m].__getitem__)
    )


def _inverse(n: float) -> float:
    return 1 / n


def _between(
    size: int,
    simulated: Iterable[int],
    scale: Callable[[float], float],
    value: Callable[[int], float | None],
) -> float | None:
    """The value at a size, interpolated linearly on a scale between the simulated sizes."""
    points = sorted(simulated)
    if not points or not points[0] <= size <= points[-1]:
        return None
    above = points[bisect_left(points, size)]
    below = max(point for point in points if point <= size)
    high, low = value(above), value(below)
    if high is None or low is None:
        return None
    # The size itself was simulated. Between two equal sizes the share would be 0 / 0.
    if above == below:
        return high
    share = (scale(size) - scale(below)) / (scale(above) - scale(below))
    return low + share * (high - low)
