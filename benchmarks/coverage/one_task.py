"""Coverage and width of intervals of the interquartile mean of one task, by candidate.

`python benchmarks/coverage/one_task.py table` simulates every pool of the sources on which a
candidate may be chosen, `check` those on which it is judged, `laws` distributions, bimodal and
skewed ones too. The other label of a pooled spread is the next pool of the source. For each source it prints the coverage over all pools, that of the worst decile of
pools, and the mean width over that of the percentile interval.
"""

import argparse

import numpy as np
from numpy.typing import NDArray
from populations import Array, middle, sources
from scipy.stats import t

from rlexp.stats.aggregate import interquartile_mean
from rlexp.stats.task_scores import TaskScores

RUNS = (4, 5, 10)
RESAMPLES = 200
Intervals = dict[str, tuple[Array, Array]]


def intervals_of(samples: Array, generator: np.random.Generator) -> Intervals:
    """Low and high ends by candidate, of samples of shape (S, n), where the runs differ."""
    n = samples.shape[1]
    centre = interquartile_mean(TaskScores(samples, (n,)))
    drawn = samples[:, generator.integers(0, n, (RESAMPLES, n))]
    resampled = interquartile_mean(TaskScores(drawn, (n,)))
    quantile = t.ppf(0.975, n - 1)
    today = quantile * resampled.std(axis=1) * np.sqrt(n / (n - 1))
    spread = quantile * samples.std(axis=1, ddof=1) / np.sqrt(n)
    low, high = np.quantile(resampled, [0.025, 0.975], axis=1)
    halves = {"today": today, "spread": spread, "narrower": np.minimum(today, spread)}
    symmetric = {name: (centre - half, centre + half) for name, half in halves.items()}
    return {"percentile": (low, high), **symmetric}


def pooled(samples: Array, others: Array) -> tuple[Array, Array]:
    """The ends with a spread pooled over two labels, never below that of the label itself."""
    n = samples.shape[1]
    variance = samples.var(axis=1, ddof=1)
    both = (variance + others.var(axis=1, ddof=1)) / 2
    half = t.ppf(0.975, 2 * (n - 1)) * np.sqrt(np.maximum(variance, both) / n)
    centre = interquartile_mean(TaskScores(samples, (n,)))
    return centre - half, centre + half


def of_pool(
    pool: Array, other: Array, n: int, samples: int, generator: np.random.Generator
) -> dict[str, Array]:
    """Coverage and mean width by candidate, of samples of n runs of one pool.

    `other` is the pool of a second label on the same task.
    """
    drawn = generator.choice(pool, (samples, n))
    # Equal runs have no interval.
    varying: NDArray[np.bool_] = np.ptp(drawn, axis=1) > 0
    drawn = drawn[varying]
    truth = middle([pool])
    ends = intervals_of(drawn, generator)
    ends["pooled"] = pooled(drawn, generator.choice(other, drawn.shape))
    ends["pooled, other spreads a fifth"] = pooled(drawn, generator.choice(other, drawn.shape) / 5)
    return {
        name: np.array([np.mean((low <= truth) & (truth <= high)), np.mean(high - low)])
        for name, (low, high) in ends.items()
    }


def main() -> None:
    """Print a line for each source and number of runs."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("part", choices=("table", "check", "laws"))
    parser.add_argument("--samples", type=int, default=100, help="samples of each pool")
    arguments = parser.parse_args()
    generator = np.random.default_rng(0)
    for source, pools in sources(arguments.part).items():
        # All pools of a law are the same law; its locations change nothing.
        chosen = [p for p in (pools[:1] if arguments.part == "laws" else pools) if np.ptp(p) > 0]
        others = [*chosen[1:], chosen[0]]
        samples = 2_000 if arguments.part == "laws" else arguments.samples
        for n in RUNS:
            by_pool = [
                of_pool(pool, other, n, samples, generator)
                for pool, other in zip(chosen, others, strict=True)
            ]
            for name in by_pool[0]:
                covered, width = np.array([cell[name] for cell in by_pool]).T
                percentile = np.array([cell["percentile"][1] for cell in by_pool])
                print(
                    f"{source}, n = {n}, {name}: coverage {covered.mean():.3f}, "
                    f"worst decile {np.quantile(covered, 0.1):.3f}, "
                    f"width {np.mean(width / percentile):.2f}",
                    flush=True,
                )


if __name__ == "__main__":
    main()
