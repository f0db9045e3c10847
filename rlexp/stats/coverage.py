"""Simulated coverage of 95 % intervals of few runs: how often they contain the true value."""

import math
from bisect import bisect_left
from collections.abc import Callable, Iterable

LEVEL = 0.95
"""The nominal level of the intervals that were simulated."""
REPETITIONS = 1_000
"""Fewest repetitions for which the table holds: with ten, coverage is 76 % instead of 94 %."""

TABLE: dict[tuple[str, str], dict[int, dict[int, float]]] = {
    ("t", "interquartile mean"): {
        1: {3: 0.934, 4: 0.949, 5: 0.943, 10: 0.950, 20: 0.932},
        3: {3: 0.885, 4: 0.868, 5: 0.863, 10: 0.905, 20: 0.922},
        5: {3: 0.912, 4: 0.870, 5: 0.864, 10: 0.896, 20: 0.908},
        8: {3: 0.920, 4: 0.896, 5: 0.920, 10: 0.908, 20: 0.948},
        26: {3: 0.920, 4: 0.920, 5: 0.908, 10: 0.935, 20: 0.936},
    },
    ("t", "mean"): {
        1: {3: 0.846, 4: 0.859, 5: 0.858, 10: 0.920, 20: 0.897},
        3: {3: 0.887, 4: 0.895, 5: 0.890, 10: 0.912, 20: 0.932},
        5: {3: 0.920, 4: 0.902, 5: 0.896, 10: 0.908, 20: 0.948},
        8: {3: 0.924, 4: 0.924, 5: 0.908, 10: 0.904, 20: 0.936},
        26: {3: 0.864, 4: 0.896, 5: 0.832, 10: 0.905, 20: 0.916},
    },
    ("percentile", "interquartile mean"): {
        1: {3: 0.744, 4: 0.854, 5: 0.860, 10: 0.926, 20: 0.929},
        3: {3: 0.625, 4: 0.685, 5: 0.725, 10: 0.855, 20: 0.902},
        5: {3: 0.735, 4: 0.782, 5: 0.820, 10: 0.860, 20: 0.900},
        8: {3: 0.788, 4: 0.804, 5: 0.865, 10: 0.884, 20: 0.932},
        26: {3: 0.824, 4: 0.844, 5: 0.840, 10: 0.911, 20: 0.928},
    },
    ("percentile", "mean"): {
        1: {3: 0.681, 4: 0.731, 5: 0.772, 10: 0.883, 20: 0.885},
        3: {3: 0.720, 4: 0.780, 5: 0.802, 10: 0.873, 20: 0.912},
        5: {3: 0.772, 4: 0.812, 5: 0.812, 10: 0.868, 20: 0.932},
        8: {3: 0.720, 4: 0.828, 5: 0.836, 10: 0.896, 20: 0.916},
        26: {3: 0.632, 4: 0.740, 5: 0.736, 10: 0.889, 20: 0.904},
    },
    ("basic", "interquartile mean"): {
        1: {3: 0.615, 4: 0.641, 5: 0.766, 10: 0.815, 20: 0.853},
        3: {3: 0.600, 4: 0.640, 5: 0.750, 10: 0.853, 20: 0.877},
        5: {3: 0.708, 4: 0.750, 5: 0.764, 10: 0.836, 20: 0.880},
        8: {3: 0.776, 4: 0.800, 5: 0.856, 10: 0.868, 20: 0.924},
        26: {3: 0.800, 4: 0.840, 5: 0.828, 10: 0.910, 20: 0.908},
    },
    ("basic", "mean"): {
        1: {3: 0.652, 4: 0.706, 5: 0.748, 10: 0.868, 20: 0.870},
        3: {3: 0.695, 4: 0.770, 5: 0.787, 10: 0.870, 20: 0.905},
        5: {3: 0.767, 4: 0.785, 5: 0.800, 10: 0.864, 20: 0.920},
        8: {3: 0.712, 4: 0.812, 5: 0.824, 10: 0.884, 20: 0.920},
        26: {3: 0.608, 4: 0.744, 5: 0.728, 10: 0.881, 20: 0.876},
    },
    ("bca", "interquartile mean"): {
        1: {3: 0.704, 4: 0.775, 5: 0.830, 10: 0.908, 20: 0.922},
        3: {3: 0.593, 4: 0.670, 5: 0.740, 10: 0.858, 20: 0.912},
        5: {3: 0.738, 4: 0.782, 5: 0.800, 10: 0.868, 20: 0.920},
        8: {3: 0.780, 4: 0.812, 5: 0.880, 10: 0.896, 20: 0.936},
        26: {3: 0.820, 4: 0.856, 5: 0.852, 10: 0.917, 20: 0.924},
    },
    ("bca", "mean"): {
        1: {3: 0.608, 4: 0.724, 5: 0.787, 10: 0.887, 20: 0.895},
        3: {3: 0.725, 4: 0.785, 5: 0.810, 10: 0.880, 20: 0.910},
        5: {3: 0.770, 4: 0.812, 5: 0.808, 10: 0.856, 20: 0.938},
        8: {3: 0.712, 4: 0.828, 5: 0.840, 10: 0.896, 20: 0.932},
        26: {3: 0.644, 4: 0.732, 5: 0.736, 10: 0.892, 20: 0.924},
    },
}
"""Fraction of intervals that contained the true value: by method and statistic, tasks, runs.

Each cell is the least value of four sources: runs of DQN and C51 on 55 Atari games (Dopamine), 100
configurations of five landscapes (ARLBench), and a matrix of 10 runs of 26 tasks. Samples were drawn
with replacement, and the true value is that of the population (runs → ∞). The interquartile mean has
the exact cut. The standard error of a value is 1 to 2 percentage points. On sources kept aside the
coverage was at most three points lower. Other distributions give other values: scores of which some
collapse much worse ones. `benchmarks/coverage` simulates the table.
"""


def expected_coverage(method: str, statistic: str, n: int, tasks: int) -> float | None:
    """Expected coverage of a 95 % interval, for n runs of each task.

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
