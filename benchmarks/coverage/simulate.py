"""Coverage and width of 95 % intervals, simulated over pools of real runs and over laws.

`python benchmarks/coverage/simulate.py table` simulates the sources that make the printed table, `check` those
that were kept aside, and `laws` distributions. It writes `benchmarks/results/coverage_PART.json`:
for each source, tasks, runs and statistic, for each method the share of the intervals that held
the value of the population, and the median of its width over that of the percentile interval.
"""

import argparse
import json
import zlib
from collections.abc import Mapping
from pathlib import Path

import numpy as np
from populations import Array, middle, sources

from rlexp.stats import replicates
from rlexp.stats.aggregate import Aggregate
from rlexp.stats.bootstrap import METHODS, Ends, Resampled, student_quantile
from rlexp.stats.bootstrap import _ends as ends_of
from rlexp.stats.resampling import Resampling
from rlexp.stats.standard_error import no_spread
from rlexp.stats.task_scores import TaskScores

RESULTS = Path(__file__).parents[1] / "results"
TASKS = (1, 3, 5, 8, 26)
RUNS = (3, 4, 5, 10, 20)
REPETITIONS = 1_000
CENTRES = {"iqm": Aggregate("interquartile mean"), "mean": Aggregate("mean")}
Row = dict[str, float]


def spread_of_mean(scores: TaskScores, estimate: float) -> Ends:
    """The estimate ± t s/√n: the t interval of the mean, moved to another centre."""
    n = scores.n
    half = student_quantile(0.975, n - 1) * scores.values.std(ddof=1) / np.sqrt(n)
    return estimate - half, estimate + half


def all_ends(scores: TaskScores, seed: int) -> dict[str, dict[str, Ends]]:
    """The ends of every interval of one sample, by statistic and method."""
    resampling = Resampling(seed=seed, repetitions=REPETITIONS)
    values = replicates.replicates(scores, CENTRES, resampling, threads=1)
    ends: dict[str, dict[str, Ends]] = {}
    for name, centre in CENTRES.items():
        resampled = Resampled(scores, centre, float(centre(scores)), values[name])
        ends[name] = {method: ends_of(resampled, resampling, method) for method in METHODS}
        if len(scores.sizes) == 1:
            ends[name]["spread"] = spread_of_mean(scores, resampled.estimate)
    return ends


def simulate(pools: list[Array], tasks: int, n: int, samples: int, seed: int) -> dict[str, Row]:
    """Coverage and relative width by statistic and method, over samples of n runs of each task."""
    generator = np.random.default_rng(seed)
    hits: dict[tuple[str, str], list[bool]] = {}
    widths: dict[tuple[str, str], list[float]] = {}
    for sample in range(samples):
        drawn = [pools[k] for k in generator.permutation(len(pools))[:tasks]]
        scores = TaskScores.from_tasks([generator.choice(pool, n) for pool in drawn])
        if no_spread(scores):
            continue
        centre = middle(drawn)
        truth = {"iqm": centre, "mean": float(np.mean([p.mean() for p in drawn]))}
        by_statistic = all_ends(scores, sample)
        for statistic, by_method in by_statistic.items():
            compared = by_method["percentile"]
            for method, ends in by_method.items():
                if isinstance(ends, str):
                    continue
                hit = ends[0] <= truth[statistic] <= ends[1]
                hits.setdefault((statistic, method), []).append(hit)
                if not isinstance(compared, str) and compared[1] > compared[0]:
                    ratio = (ends[1] - ends[0]) / (compared[1] - compared[0])
                    widths.setdefault((statistic, method), []).append(ratio)
    return {
        f"{statistic} {method}": {
            "coverage": round(float(np.mean(held)), 4),
            "intervals": len(held),
            "width": round(float(np.median(widths[statistic, method])), 3),
        }
        for (statistic, method), held in hits.items()
    }


def cells(pools: Mapping[str, list[Array]], part: str) -> list[tuple[str, int, int]]:
    """The simulated source, tasks and runs; laws with few tasks only."""
    tasks = TASKS if part != "laws" else (1, 3)
    return [
        (source, m, n)
        for source, population in pools.items()
        for m in tasks
        if m <= len(population)
        for n in RUNS
    ]


def main() -> None:
    """Simulate what has no results yet, and write them after each cell."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("part", choices=("table", "check", "laws"))
    parser.add_argument("--samples", type=int, default=1_000)
    parser.add_argument("--source", help="one source of the part, as its name begins")
    arguments = parser.parse_args()
    replicates.WORTH_COMPILING = 0
    beginning = arguments.source or ""
    path = RESULTS / f"coverage_{arguments.part}{beginning and '_' + beginning}.json"
    path.parent.mkdir(exist_ok=True)
    pools = {k: v for k, v in sources(arguments.part).items() if k.startswith(beginning)}
    results = json.loads(path.read_text()) if path.exists() else {}
    for source, tasks, n in cells(pools, arguments.part):
        name = f"{source}, {tasks} × {n}"
        if name in results:
            continue
        results[name] = simulate(
            pools[source], tasks, n, arguments.samples, zlib.crc32(name.encode())
        )
        print(name, results[name]["iqm t"], flush=True)
        path.write_text(json.dumps(results, indent=1) + "\n")


if __name__ == "__main__":
    main()
