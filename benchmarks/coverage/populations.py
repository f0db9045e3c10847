"""Populations of runs from which coverage is simulated: real pools, and laws.

A pool is the population of the runs of one task. A source is a list of pools; a study with m tasks
draws m of them.
"""

import csv
import gzip
import json
from collections import defaultdict
from collections.abc import Callable
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

Array = NDArray[np.float64]
TESTS = Path(__file__).parents[2] / "tests"
DOPAMINE = TESTS / "golden" / "dopamine_late_runs.npz"
MATRICES = TESTS / "golden" / "golden_rliable.json"
LANDSCAPES = TESTS / "landscapes"
LATE = 3
"""Checkpoints at the end of a training that count as runs of their own."""
CONFIGURATIONS = 20
"""Configurations of each landscape that become pools."""
SIZE = 20_000
"""Runs in the pool of a law: enough to be the law itself."""


def dopamine(algorithm: str) -> list[Array]:
    """Pools of one algorithm on 55 games: 5 runs × 9 late evaluations, human-normalised."""
    scores = np.load(DOPAMINE)[algorithm].astype(np.float64)
    return [scores[:, game].ravel() for game in range(scores.shape[1])]


def landscape(name: str) -> list[Array]:
    """Pools of configurations of one landscape, 10 seeds × late checkpoints each.

    Scores are normalised between the 5th and the 95th percentile of all of them, as elsewhere in
    these benchmarks. Configurations whose runs are all equal, or crashed, are left out.
    """
    runs: dict[int, dict[int, list[tuple[int, float]]]] = defaultdict(lambda: defaultdict(list))
    with gzip.open(LANDSCAPES / f"{name}.scores.csv.gz", "rt") as file:
        for row in csv.DictReader(file):
            value = float(row["performance"] or "nan")
            runs[int(row["config"])][int(row["seed"])].append((int(row["steps"]), value))
    pools = [
        np.array([value for seed in seeds.values() for _, value in sorted(seed)[-LATE:]])
        for _, seeds in sorted(runs.items())
    ]
    low, high = np.nanpercentile(np.concatenate(pools), [5, 95])
    varying = [(p - low) / (high - low) for p in pools if np.isfinite(p).all() and np.ptp(p) > 0]
    chosen = np.random.default_rng(0).permutation(len(varying))[:CONFIGURATIONS]
    return [varying[k] for k in chosen]


def matrices() -> list[Array]:
    """The 26 columns of the matrix of 10 runs with which rliable's numbers are checked."""
    cases = json.loads(MATRICES.read_text())["cases"]
    return list(np.array(next(c["scores"] for c in cases if c["id"] == "main_A"), np.float64).T)


def landscapes() -> list[str]:
    """Names of the landscapes on which configurations differ."""
    names = sorted(p.name.removesuffix(".scores.csv.gz") for p in LANDSCAPES.glob("*.scores.*"))
    return [n for n in names if n not in {"minigrid_unlock_dqn", "cc_mountain_car_ppo"}]


def law(name: str) -> list[Array]:
    """26 pools of one law, whose locations lie up to a standard deviation apart."""
    generator = np.random.default_rng(1)
    return [LAWS[name](generator) + shift for shift in np.linspace(0, 1, 26)]


def _modes(generator: np.random.Generator, solved: float) -> Array:
    """Runs that are solved (around 1) with this probability, and else failed (around 0)."""
    modes = generator.random(SIZE) < solved
    return np.asarray(modes + 0.05 * generator.normal(size=SIZE))


LAWS: dict[str, Callable[[np.random.Generator], Array]] = {
    "normal": lambda generator: generator.normal(size=SIZE),
    "lognormal": lambda generator: generator.lognormal(sigma=1, size=SIZE),
    "ceiling, half of the runs": lambda generator: np.minimum(generator.normal(size=SIZE), 0),
    "heavy left tail": lambda generator: -np.abs(generator.standard_t(2, size=SIZE)),
    "solved : failed 70 : 30": lambda generator: _modes(generator, 0.7),
    "solved : failed 80 : 20": lambda generator: _modes(generator, 0.8),
}


def sources(part: str) -> dict[str, list[Array]]:
    """Sources of pools by name.

    Args:
        part: `table` for those that made the table, `check` for those kept aside, or `laws`.
    """
    if part == "laws":
        return {name: law(name) for name in LAWS}
    algorithms = {"table": ("DQN", "C51"), "check": ("Rainbow", "IQN")}[part]
    # Every second landscape, in alphabetical order, is kept aside.
    names = landscapes()[0 if part == "table" else 1 :: 2]
    made_up = {"matrix 10 × 26": matrices()} if part == "table" else {}
    return {
        **made_up,
        **{f"Dopamine {name}": dopamine(name) for name in algorithms},
        "landscapes": [pool for name in names for pool in landscape(name)],
    }


def middle(pools: list[Array]) -> float:
    """The interquartile mean of the mixture of populations, each with the same weight."""
    values = np.concatenate(pools)
    weights = np.concatenate([np.full(len(pool), 1 / len(pool)) for pool in pools]) / len(pools)
    order = np.argsort(values)
    reached = np.concatenate([[0], np.cumsum(weights[order])])
    kept = np.maximum(np.minimum(reached[1:], 0.75) - np.maximum(reached[:-1], 0.25), 0)
    return float((kept * values[order]).sum() / kept.sum())
