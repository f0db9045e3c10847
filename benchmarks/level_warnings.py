"""How often `rlexp compare` warns that a verdict may not hold its level, and the errors it states.

Prints the type I errors that `rlexp/stats/level_warning.py` states, and for labels with equal metrics
how many comparisons have a warning, how many a false verdict, and how many false verdicts have a
warning: `python benchmarks/level_warnings.py`. The verdicts are about the mean and about the IQM.
"""

import argparse
from collections.abc import Iterator
from dataclasses import replace
from itertools import product

import numpy as np
import type_1_errors
from numpy.typing import NDArray
from type_1_errors import ALPHA, BATCH, DESIGN, LAWS, SPREADS, Array

from rlexp.stats.aggregate import Statistic, interquartile_mean, mean
from rlexp.stats.level_warning import (
    SEQUENTIAL_ERRORS,
    Cause,
    errors_of_verdicts,
    level_warning,
)
from rlexp.stats.task_scores import TaskScores

LAW_OF_CAUSE = {Cause.GROUPS: "bimodal", Cause.SPREADS: "lognormal"}
METRICS = {"mean": mean, "iqm": interquartile_mean}
CENTRES = {"mean": type_1_errors.mean_of, "iqm": type_1_errors.iqm_of}
SIZES = ((4, 4), (5, 5), (7, 7), (10, 10), (3, 10), (5, 10))
"""Runs of the first and of the second label; the first one has the larger spread."""


def labels(
    law: str,
    sizes: tuple[int, int],
    spread: float,
    samples: int,
    generator: np.random.Generator,
    metric: str,
) -> tuple[Array, Array]:
    """Scores of both labels with equal metrics, of shapes (samples, n) and (samples, k)."""
    shapes = [(samples, runs) for runs in sizes]
    centre = CENTRES[metric](law)
    return type_1_errors.two_labels(law, centre, spread, shapes, generator)


def false_verdicts(x: Array, y: Array, statistic: Statistic) -> NDArray[np.bool_]:
    """Which samples the verdict tells apart, of shape (samples,)."""
    starts = range(0, len(x), BATCH)
    p = [type_1_errors.verdict_p(x[a : a + BATCH], y[a : a + BATCH], statistic) for a in starts]
    return np.concatenate(p) <= ALPHA


def warned(x: Array, y: Array, statistic: Statistic) -> NDArray[np.bool_]:
    """Which samples have a warning, of shape (samples,)."""
    warnings = [
        level_warning(TaskScores(a, (len(a),)), TaskScores(b, (len(b),)), "a", "b", statistic)
        for a, b in zip(x, y, strict=True)
    ]
    return np.array([warning is not None for warning in warnings])


def stated(samples: int) -> Iterator[str]:
    """The stated errors beside simulated ones, of spreads of 3 : 1."""
    generator = np.random.default_rng(0)
    for name, statistic in METRICS.items():
        for equal in (True, False):
            for cause, errors in errors_of_verdicts(statistic, equal=equal).items():
                for runs, error in errors.items():
                    if equal and runs < 4:
                        continue
                    sizes = (runs, runs if equal else max(10, 2 * runs))
                    x, y = labels(LAW_OF_CAUSE[cause], sizes, 3, samples, generator, name)
                    share = 100 * false_verdicts(x, y, statistic).mean()
                    yield f"{name}, {cause}: {sizes} runs: {share:.1f} %, stated: {error}"
    for cause, errors in SEQUENTIAL_ERRORS.items():
        for group, error in errors.items():
            design = replace(DESIGN, group=group)
            share = 100 * type_1_errors.adaptive_error(
                LAW_OF_CAUSE[cause], 3, samples, design=design
            )
            yield f"{cause}: {group} seeds at each look: {share:.1f} %, stated: {error}"


def warnings(samples: int) -> Iterator[str]:
    """How often warnings and false verdicts appear, of each metric, law, spread and runs."""
    generator = np.random.default_rng(0)
    for name, sizes, law, spread in product(METRICS, SIZES, LAWS, SPREADS):
        statistic = METRICS[name]
        x, y = labels(law, sizes, spread, samples, generator, name)
        has_warning, is_false = warned(x, y, statistic), false_verdicts(x, y, statistic)
        both = (has_warning & is_false).sum() / max(is_false.sum(), 1)
        yield (
            f"{name}, {sizes[0]} and {sizes[1]} runs, {law}, {spread:g} : 1: "
            f"{100 * has_warning.mean():.0f} % have a warning, "
            f"{100 * is_false.mean():.1f} % a false verdict, {100 * both:.0f} % of these a warning"
        )


def main() -> None:
    """Print both tables."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--samples", type=int, default=4_000, help="for a stated error")
    parser.add_argument("--comparisons", type=int, default=2_000, help="for a rate of warnings")
    arguments = parser.parse_args()
    for line in stated(arguments.samples):
        print(line, flush=True)
    for line in warnings(arguments.comparisons):
        print(line, flush=True)


if __name__ == "__main__":
    main()
