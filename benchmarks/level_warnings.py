"""How often `rlexp compare` warns that a verdict may not hold its level, and the errors it states.

Prints the type I errors that `rlexp/stats/level_warning.py` states, and for labels with equal means
how many comparisons have a warning, how many a false verdict, and how many false verdicts have a
warning: `python benchmarks/level_warnings.py`. The verdict is that of a permutation test of the
means; with unequal numbers of runs Welch's test must agree.
"""

import argparse
from collections.abc import Iterator
from dataclasses import replace

import numpy as np
import type_1_errors
from numpy.typing import NDArray
from type_1_errors import ALPHA, BATCH, DESIGN, LAWS, SPREADS, Array

from rlexp.stats.level_warning import ERRORS, SEQUENTIAL_ERRORS, Cause, level_warning
from rlexp.stats.task_scores import TaskScores

LAW_OF_CAUSE = {Cause.GROUPS: "bimodal", Cause.SPREADS: "lognormal"}
SIZES = ((4, 4), (5, 5), (7, 7), (10, 10), (3, 10), (5, 10))
"""Runs of the first and of the second label; the first one has the larger spread."""


def labels(
    law: str, sizes: tuple[int, int], spread: float, samples: int, generator: np.random.Generator
) -> tuple[Array, Array]:
    """Scores of both labels with equal means, of shapes (samples, n) and (samples, k)."""
    shapes = [(samples, runs) for runs in sizes]
    mean = type_1_errors.mean_of(law)
    return type_1_errors.two_labels(law, mean, spread, shapes, generator)


def false_verdicts(x: Array, y: Array, generator: np.random.Generator) -> NDArray[np.bool_]:
    """Which samples the verdict tells apart, of shape (samples,)."""
    weights = type_1_errors.mean_weights
    starts = range(0, len(x), BATCH)
    rejected = np.concatenate(
        [
            type_1_errors.permutation_p(x[a : a + BATCH], y[a : a + BATCH], weights, generator)
            <= ALPHA
            for a in starts
        ]
    )
    if x.shape[1] != y.shape[1]:
        rejected &= type_1_errors.welch_p(x, y) <= ALPHA
    return rejected


def warned(x: Array, y: Array) -> NDArray[np.bool_]:
    """Which samples have a warning, of shape (samples,)."""
    warnings = [
        level_warning(TaskScores.from_tasks([a]), TaskScores.from_tasks([b]), "a", "b")
        for a, b in zip(x, y, strict=True)
    ]
    return np.array([warning is not None for warning in warnings])


def stated(samples: int) -> Iterator[str]:
    """The stated errors beside simulated ones, of spreads of 3 : 1."""
    generator = np.random.default_rng(0)
    for cause, errors in ERRORS.items():
        for runs, error in errors.items():
            # Three runs against three decide nothing, so three are against ten.
            sizes = (runs, runs if runs > 3 else 10)
            x, y = labels(LAW_OF_CAUSE[cause], sizes, 3, samples, generator)
            share = 100 * false_verdicts(x, y, generator).mean()
            yield f"{cause}: {runs} runs: {share:.1f} %, stated: {error}"
    for cause, errors in SEQUENTIAL_ERRORS.items():
        for group, error in errors.items():
            design = replace(DESIGN, group=group)
            share = 100 * type_1_errors.adaptive_error(
                LAW_OF_CAUSE[cause], 3, samples, design=design
            )
            yield f"{cause}: {group} seeds at each look: {share:.1f} %, stated: {error}"


def warnings(samples: int) -> Iterator[str]:
    """How often warnings and false verdicts appear, of each law, spread and number of runs."""
    generator = np.random.default_rng(0)
    for sizes in SIZES:
        for law in LAWS:
            for spread in SPREADS:
                x, y = labels(law, sizes, spread, samples, generator)
                has_warning, is_false = warned(x, y), false_verdicts(x, y, generator)
                both = (has_warning & is_false).sum() / max(is_false.sum(), 1)
                yield (
                    f"{sizes[0]} and {sizes[1]} runs, {law}, {spread:g} : 1: "
                    f"{100 * has_warning.mean():.0f} % have a warning, "
                    f"{100 * is_false.mean():.1f} % a false verdict, {100 * both:.0f} % of these a warning"
                )


def main() -> None:
    """Print both tables."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--samples", type=int, default=20_000, help="for a stated error")
    parser.add_argument("--comparisons", type=int, default=5_000, help="for a rate of warnings")
    arguments = parser.parse_args()
    for line in stated(arguments.samples):
        print(line, flush=True)
    for line in warnings(arguments.comparisons):
        print(line, flush=True)


if __name__ == "__main__":
    main()
