"""How often tests of two equal labels call them different at 5 %, where spreads and shapes differ.

Draws the runs of two labels whose means are equal (for a verdict about the interquartile mean: whose
interquartile means are equal), from laws of five shapes, with equal spreads and with a first label
that spreads three times as much. Prints the type I error of verdicts about both metrics, of Welch's
test, and of the sequential test of `rlexp compare --adaptive`, as the table of
`docs/concepts/statistics.md`: `python benchmarks/type_1_errors.py`.
"""

import argparse
import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cache

import numpy as np
from numpy.typing import NDArray

from rlexp.stats.aggregate import Statistic, interquartile_mean, mean
from rlexp.stats.pairs.difference import estimate_metric_difference, spreads_differ
from rlexp.stats.pairs.permutation import pair_distributions
from rlexp.stats.pairs.test_inversion import t_test
from rlexp.stats.resampling import Resampling
from rlexp.stats.sequential.design import Design
from rlexp.stats.sequential.plan import decide_many
from rlexp.stats.task_scores import TaskScores

Array = NDArray[np.float64]

ALPHA = 0.05
SIZES = ((3, 3), (4, 4), (5, 5), (10, 10), (20, 20), (3, 10))
"""Runs of the first and of the second label; the first one has the larger spread."""
SPREADS = (1.0, 3.0)
"""Spread of the first label, in spreads of the second."""
RELABELLINGS = Resampling(repetitions=999)
"""Random relabellings, where there are too many to enumerate."""
BATCH = 1_000
"""Samples that are simulated together."""
STUDIES = 100
"""Sequential comparisons in memory at a time."""
GRID = 1_000_000
"""Points at which a law is integrated."""
DESIGN = Design(group=5, interims=5, pairs=(("first", "second"),), alpha=ALPHA, repetitions=2_000)
"""The default design of `rlexp compare --adaptive`, with fewer relabellings."""


def normal_quantile(u: Array) -> Array:
    """Quantiles of the standard normal law."""
    from scipy.special import ndtri

    return np.asarray(ndtri(u))


def solved_or_failed(u: Array) -> Array:
    """Quantiles where 30 % of the runs fail, at 0 ± 0.05, and the others solve the task, at 1."""
    solved = u >= 0.3
    within = np.where(solved, (u - 0.3) / 0.7, u / 0.3)
    return solved + 0.05 * normal_quantile(within)


LAWS: Mapping[str, Callable[[Array], Array]] = {
    "normal": normal_quantile,
    "lognormal": lambda u: np.exp(normal_quantile(u)),
    "bimodal": solved_or_failed,
    # 70 % of the runs reach the largest possible score.
    "ceiling": lambda u: normal_quantile(np.minimum(u, 0.3)),
    # A Pareto law of shape 3, mirrored: its variance is finite, its third moment is not.
    "heavy left tail": lambda u: -(u ** (-1 / 3)),
}
"""Quantile function of each law."""


@cache
def mean_of(law: str) -> float:
    """Mean of a law, by the midpoint rule."""
    return float(LAWS[law]((np.arange(GRID) + 0.5) / GRID).mean())


@cache
def iqm_of(law: str) -> float:
    """Interquartile mean of a law, by the midpoint rule."""
    return float(LAWS[law](0.25 + (np.arange(GRID) + 0.5) / GRID / 2).mean())


def sample(
    law: str,
    centre: float,
    spread: float,
    shape: tuple[int, ...],
    generator: np.random.Generator,
) -> Array:
    """Scores of a law that is stretched by `spread` about its centre, which becomes 0."""
    # A uniform number of exactly 0 would give an infinite score.
    uniform = np.maximum(generator.random(shape), 1e-16)
    return spread * (LAWS[law](uniform) - centre)


def verdict_p(x: Array, y: Array, statistic: Statistic) -> Array:
    """p-values of the test that decides a verdict on two labels, of shape (samples,).

    Args:
        x: Scores of the first label, of shape (samples, n).
        y: Scores of the second, of shape (samples, k).
        statistic: The metric of the verdict.
    """
    pairs = [
        (TaskScores(a, (len(a),)), TaskScores(b, (len(b),))) for a, b in zip(x, y, strict=True)
    ]
    distributions = pair_distributions(pairs, statistic, RELABELLINGS, RELABELLINGS.repetitions)
    return np.array(
        [
            _guarded(pair, distribution.p, statistic)
            for pair, distribution in zip(pairs, distributions, strict=True)
        ]
    )


def _guarded(pair: tuple[TaskScores, TaskScores], p: float, statistic: Statistic) -> float:
    """The p-value of a pair, with that of Welch's test where it must agree."""
    x, y = pair
    if p > ALPHA or not (x.sizes != y.sizes or spreads_differ(x, y, statistic)):
        return p
    return max(p, t_test(estimate_metric_difference(x, y, statistic, RELABELLINGS), 0.0))


def welch_p(x: Array, y: Array) -> Array:
    """p-values of Welch's test, of shape (samples,); 1 where neither label varies."""
    from scipy.special import stdtr

    squares = [np.var(runs, axis=1, ddof=1) / runs.shape[1] for runs in (x, y)]
    total = squares[0] + squares[1]
    varies = total > 1e-20
    safe = np.where(varies, total, 1.0)
    shares = sum(
        (s / safe) ** 2 / (runs.shape[1] - 1) for s, runs in zip(squares, (x, y), strict=True)
    )
    freedom = 1 / np.where(varies, shares, 1.0)
    t = np.abs(x.mean(axis=1) - y.mean(axis=1)) / np.sqrt(safe)
    return np.where(varies, 2 * stdtr(freedom, -t), 1.0)


@dataclass(frozen=True, slots=True)
class Errors:
    """Type I errors of the fixed tests, each a share of the samples.

    Attributes:
        mean: Verdict about the mean, of labels with equal means.
        iqm: Verdict about the interquartile mean, of labels with equal ones.
        welch: Welch's test, of labels with equal means.
    """

    mean: float
    iqm: float
    welch: float


def fixed_errors(
    law: str, sizes: tuple[int, int], spread: float, samples: int, seed: int = 0
) -> Errors:
    """Type I errors of the fixed tests at 5 %.

    Args:
        law: Law of the scores of both labels.
        sizes: Runs of both labels.
        spread: Spread of the first label, in spreads of the second.
        samples: Simulated comparisons.
        seed: Seed of all draws.
    """
    generator = np.random.default_rng(seed)
    rejections = np.zeros(3, dtype=np.int64)
    for start in range(0, samples, BATCH):
        size = min(BATCH, samples - start)
        shapes = [(size, runs) for runs in sizes]
        x, y = two_labels(law, mean_of(law), spread, shapes, generator)
        of_means = verdict_p(x, y, mean)
        of_welch = welch_p(x, y)
        x, y = two_labels(law, iqm_of(law), spread, shapes, generator)
        of_iqms = verdict_p(x, y, interquartile_mean)
        rejections += [(p <= ALPHA).sum() for p in (of_means, of_iqms, of_welch)]
    return Errors(*(rejections / samples).tolist())


def two_labels(
    law: str,
    centre: float,
    spread: float,
    shapes: Sequence[tuple[int, ...]],
    generator: np.random.Generator,
) -> tuple[Array, Array]:
    """Scores of both labels, with the centre of the law at 0."""
    first, second = shapes
    return (
        sample(law, centre, spread, first, generator),
        sample(law, centre, 1.0, second, generator),
    )


def adaptive_error(
    law: str, spread: float, samples: int, seed: int = 0, design: Design = DESIGN
) -> float:
    """Type I error of the sequential test of labels with equal means; arguments as above."""
    generator = np.random.default_rng(seed)
    decisions = 0
    for start in range(0, samples, STUDIES):
        shape = (min(STUDIES, samples - start), design.interims, design.group)
        labels = two_labels(law, mean_of(law), spread, [shape, shape], generator)
        decisions += int((decide_many(design, np.stack(labels, axis=1)).signs != 0).sum())
    return decisions / samples


def rows(samples: int) -> Iterator[str]:
    """The rows of the table, in per cent."""
    titles = [f"{n} and {k} runs" if n == k else f"{n} against {k}" for n, k in SIZES]
    yield f"| scores, spreads | {' | '.join(titles)} | `--adaptive` |"
    yield f"|{'---|' * (len(SIZES) + 2)}"
    for law in LAWS:
        for spread in SPREADS:
            cells = [_cell(fixed_errors(law, sizes, spread, samples)) for sizes in SIZES]
            adaptive = f"{100 * adaptive_error(law, spread, samples):.1f}"
            yield f"| {law}, {spread:g} : 1 | {' | '.join((*cells, adaptive))} |"


def _cell(errors: Errors) -> str:
    shares = (errors.mean, errors.iqm, errors.welch)
    return " / ".join(f"{100 * share:.1f}" for share in shares)


def standard_error(share: float, samples: int) -> float:
    """Standard error of a share of independent samples."""
    return math.sqrt(share * (1 - share) / samples)


def main() -> None:
    """Print the table and its standard errors."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--samples", type=int, default=4_000, help="simulated comparisons")
    samples: int = parser.parse_args().samples
    for row in rows(samples):
        print(row, flush=True)
    errors = (f"{p} ± {standard_error(p / 100, samples) * 100:.2f}" for p in (1, 5, 20, 50))
    print(f"{samples:,} samples; standard errors in per cent: {', '.join(errors)}")


if __name__ == "__main__":
    main()
