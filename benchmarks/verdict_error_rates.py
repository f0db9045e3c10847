"""Error rates and power of verdicts, by simulation.

For each number of labels and seeds, each law of the scores and each pattern of means:

- `closed`: closed testing of permutation tests of the metric, the rule of `rlexp compare`;
- `holm`: permutation tests of the mean for each pair, adjusted by Holm, the rule before it;
- `welch`: Welch's tests of the mean for each pair, adjusted by Holm.

A pattern without differences gives the probability of any false verdict; `one` puts one label two
standard deviations above the others, and `steps` puts labels three standard deviations apart: they
give the share of true differences that are decided, and the probability of a false verdict on
labels that are equal. `wide` has no differences and three times the spread in the first label.

    python verdict_error_rates.py [--samples 400] [--labels 2 3 5] [--seeds 3 4 5 10]
"""

import argparse
from collections.abc import Callable, Iterable, Iterator
from itertools import combinations

import numpy as np
from numpy.typing import NDArray
from scipy.stats import ttest_ind

from rlexp.stats.aggregate import Statistic, interquartile_mean, mean
from rlexp.stats.pairs.closed_testing import closed_p_values, group_distributions
from rlexp.stats.pairs.difference import estimate_metric_difference, spreads_differ
from rlexp.stats.pairs.pairwise_family import holm
from rlexp.stats.pairs.test_inversion import t_test
from rlexp.stats.resampling import Resampling
from rlexp.stats.task_scores import TaskScores

Array = NDArray[np.float64]
Law = Callable[[np.random.Generator, tuple[int, ...]], Array]
ALPHA = 0.05
RELABELLINGS = Resampling(repetitions=999)


def normal(generator: np.random.Generator, shape: tuple[int, ...]) -> Array:
    """Normal scores."""
    return generator.standard_normal(shape)


def lognormal(generator: np.random.Generator, shape: tuple[int, ...]) -> Array:
    """Scores with a heavy right tail."""
    return generator.lognormal(0, 1, shape)


def heavy_left_tail(generator: np.random.Generator, shape: tuple[int, ...]) -> Array:
    """Scores with a heavy left tail."""
    return -lognormal(generator, shape)


def bimodal(generator: np.random.Generator, shape: tuple[int, ...]) -> Array:
    """Seven runs of ten solve the task, the others collapse."""
    return normal(generator, shape) / 10 - (generator.random(shape) < 0.3)


def ceiling(generator: np.random.Generator, shape: tuple[int, ...]) -> Array:
    """Seven runs of ten reach the highest possible score."""
    return np.minimum(normal(generator, shape), -0.5244)


LAWS: dict[str, Law] = {
    f.__name__: f for f in (normal, lognormal, heavy_left_tail, bimodal, ceiling)
}
PATTERNS = ("null", "wide", "one", "steps")
METRICS: dict[str, Statistic] = {"mean": mean, "iqm": interquartile_mean}


def standardised(law: Law, statistic: Statistic) -> Law:
    """The law with standard deviation 1 and a population metric of 0."""
    values = law(np.random.default_rng(0), (1_000_000,))
    centre, spread = float(statistic(TaskScores(values, (len(values),)))), float(values.std())
    return lambda generator, shape: (law(generator, shape) - centre) / spread


def shifts(pattern: str, labels: int) -> list[float]:
    """True metric of each label, in standard deviations."""
    if pattern == "one":
        return [0.0] * (labels - 1) + [2.0]
    return [3.0 * i if pattern == "steps" else 0.0 for i in range(labels)]


def decided(scores: Array, statistic: Statistic) -> dict[str, set[tuple[int, int]]]:
    """The pairs that each rule decides; scores of shape (labels, seeds)."""
    labels = [TaskScores.from_tasks([row]) for row in scores]
    pairs = list(combinations(range(len(labels)), 2))
    distributions, _ = group_distributions(labels, statistic, RELABELLINGS)
    alone = {
        (a, b): _guarded(labels[a], labels[b], distributions[a, b].p, statistic) for a, b in pairs
    }
    closed = closed_p_values(distributions, alone)
    of_means = [
        group_distributions([labels[a], labels[b]], mean, RELABELLINGS)[0] for a, b in pairs
    ]
    with np.errstate(all="ignore"):
        welch = [ttest_ind(scores[a], scores[b], equal_var=False).pvalue for a, b in pairs]
    adjusted: dict[str, Iterable[float]] = {
        "closed": [closed[pair] for pair in pairs],
        "holm": holm([distribution[0, 1].p for distribution in of_means]),
        "welch": holm(np.nan_to_num(welch, nan=1.0)),
    }
    return {
        rule: {pair for pair, p in zip(pairs, p_values, strict=True) if p <= ALPHA}
        for rule, p_values in adjusted.items()
    }


def _guarded(x: TaskScores, y: TaskScores, p: float, statistic: Statistic) -> float:
    """The p-value of a pair, with that of Welch's test where the spreads differ."""
    if not spreads_differ(x, y, statistic):
        return p
    return max(p, t_test(estimate_metric_difference(x, y, statistic, RELABELLINGS), 0.0))


def rows(
    labels: int, seeds: int, law: Law, pattern: str, statistic: Statistic, samples: int
) -> Iterator[tuple[str, float, float | None]]:
    """Rule, probability of a false verdict, and share of true differences that are decided."""
    generator = np.random.default_rng([labels, seeds])
    metrics = np.array(shifts(pattern, labels))
    scale = np.ones(labels)
    scale[0] = 3.0 if pattern == "wide" else 1.0
    equal = {p for p in combinations(range(labels), 2) if metrics[p[0]] == metrics[p[1]]}
    different = set(combinations(range(labels), 2)) - equal
    false: dict[str, int] = {}
    true: dict[str, int] = {}
    for _ in range(samples):
        drawn = law(generator, (labels, seeds)) * scale[:, None] + metrics[:, None]
        for rule, pairs in decided(drawn, statistic).items():
            false[rule] = false.get(rule, 0) + bool(pairs & equal)
            true[rule] = true.get(rule, 0) + len(pairs & different)
    for rule, count in false.items():
        share = true[rule] / samples / len(different) if different else None
        yield rule, count / samples, share


def main() -> None:
    """Print one line for each case and rule."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--samples", type=int, default=400)
    parser.add_argument("--labels", type=int, nargs="+", default=[2, 3, 5])
    parser.add_argument("--seeds", type=int, nargs="+", default=[3, 4, 5, 10])
    parser.add_argument("--laws", nargs="+", default=list(LAWS), choices=list(LAWS))
    parser.add_argument("--patterns", nargs="+", default=list(PATTERNS), choices=PATTERNS)
    options = parser.parse_args()
    print("metric labels seeds law pattern rule false found samples")
    for labels in options.labels:
        for seeds in options.seeds:
            for law in options.laws:
                for metric, statistic in METRICS.items():
                    for pattern in options.patterns:
                        drawn = standardised(LAWS[law], statistic)
                        case = rows(labels, seeds, drawn, pattern, statistic, options.samples)
                        for rule, false, share in case:
                            found = "-" if share is None else f"{share:.3f}"
                            line = f"{metric} {labels} {seeds} {law} {pattern} {rule}"
                            print(f"{line} {false:.3f} {found} {options.samples}", flush=True)


if __name__ == "__main__":
    main()
