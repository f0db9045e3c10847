"""The scores on which both sides are timed, generated from the same seed."""

import time
from collections.abc import Callable

import numpy as np
from numpy.typing import NDArray

ALGORITHMS = 7
TASKS = 26
THRESHOLDS = np.linspace(0, 8, 100)
STEPS = 200

REPETITIONS = {"iqm": 50_000, "improvement": 2_000, "profile": 2_000, "curve": 50_000}
"""Resamples of each part, as Agarwal et al. (2021) take them; of curves as of aggregates."""
RUNS = {"iqm": (5, 10, 100), "improvement": (5, 10), "profile": (5, 10, 100), "curve": (5,)}
"""Runs of each task, for which each part is timed."""


def scores(runs: int, algorithm: int = 0) -> NDArray[np.float64]:
    """Normal scores of shape (runs, tasks), around a different mean for each task."""
    generator = np.random.default_rng(algorithm)
    return generator.normal(size=(runs, TASKS)) * 0.3 + generator.exponential(size=TASKS)


def curves(runs: int) -> NDArray[np.float64]:
    """Increasing learning curves, of shape (runs, tasks, steps)."""
    noise = np.random.default_rng(0).normal(size=(runs, TASKS, STEPS)) * 0.1
    return scores(runs)[:, :, np.newaxis] * np.linspace(0, 1, STEPS) + noise


def seconds(work: Callable[[], object], repeats: int = 1) -> float:
    """The shortest of several times: other work of the machine can only add time."""
    times = []
    for _ in range(repeats):
        started = time.perf_counter()
        work()
        times.append(time.perf_counter() - started)
    return min(times)
