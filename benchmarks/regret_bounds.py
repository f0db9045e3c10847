"""How much regret is really left when `sweep.stop_at_regret` ends a search, on real landscapes.

`python benchmarks/regret_bounds.py [--repeats 20]` replays searches in two stages and computes the bound
of `rlexp/tuners/regret_bound.py` after every eighth trial. The regret that is left is the true score of
the configuration that an exhaustive search would choose, on all tuning seeds, minus that of the winner,
both on seeds that nothing was tuned on. Scores are on the scale of each task, where 0 and 1 are the 5th
and 95th percentile of its configurations. The program prints

- on which share of the searches the bound held, by landscape, with the deviations of the program and with
  those that fit the nine other landscapes;
- for each limit: how many searches stopped before 144 trials, after how many trials, the regret that was
  left, and what 144 trials would have gained, with standard errors over searches and over landscapes.

It writes `benchmarks/results/regret_bounds.json`.
"""

import argparse
import json
from concurrent.futures import ProcessPoolExecutor
from pathlib import Path

import landscapes
import numpy as np
from landscape_searches import SearchDraws, screened_rows, screening_trial, winner_of_screened
from landscape_table import Landscape, usable
from numpy.typing import NDArray

from rlexp.tuners.regret_bound import DEVIATIONS, FEWEST, trial_forest

RESULTS = Path(__file__).parent / "results" / "regret_bounds.json"
TUNERS = ("random", "sobol", "tpe")
MOST = 144
"""Trials of a search that nothing stops."""
COUNTS = tuple(range(FEWEST, MOST + 1, 8))
"""Numbers of trials at which a bound is computed."""
GRID = (0.5, 0.75, 1.0, 1.25, DEVIATIONS, 2.0, 2.5)
"""Deviations among which nine landscapes choose for the tenth."""
HOLDS = 0.95
"""Share of the searches in which a bound must hold."""
LIMITS = (0.3, 0.4, 0.5, 0.75, 1.0)
"""Values of `sweep.stop_at_regret` on the scale of a task."""


def measured(table: Landscape, tuner: str, number: int) -> NDArray[np.float64]:
    """Regret that is left and bounds after each count, of shape (counts, 1 + deviations)."""
    draws = SearchDraws(table, number)
    rows = screened_rows(landscapes.part("tuner", tuner), draws, MOST)
    trials = [screening_trial(draws, n, row) for n, row in enumerate(rows)]
    low, high = table.ends
    best = draws.test[int(draws.tuning.mean(axis=1).argmax())]
    lines = []
    for count in COUNTS:
        left = best - winner_of_screened(draws, rows[:count])
        forest = trial_forest(table.space, trials[:count], table.steps[-1], number)
        gains = [
            np.inf if forest is None else forest.gain(deviations) / (high - low)
            for deviations in GRID
        ]
        lines.append([left, *gains])
    return np.array(lines)


def held(results: NDArray[np.float64], deviations: int) -> NDArray[np.float64]:
    """Share of searches and counts in which the bound held, by landscape.

    Args:
        results: Of shape (landscapes, searches, counts, 1 + deviations).
        deviations: Position in `GRID`.
    """
    holds = results[..., 0] <= results[..., 1 + deviations]
    return np.asarray(holds.mean(axis=(1, 2)))


def left_out(results: NDArray[np.float64]) -> list[tuple[float, float]]:
    """For each landscape, the deviations that fit all others, and the share in which they hold."""
    shares = np.array([held(results, position) for position in range(len(GRID))])
    chosen = []
    for landscape in range(len(results)):
        others = np.delete(shares, landscape, axis=1)
        fits = np.flatnonzero(others.min(axis=1) >= HOLDS)
        position = int(fits[0]) if len(fits) else len(GRID) - 1
        chosen.append((GRID[position], float(shares[position, landscape])))
    return chosen


def stops(results: NDArray[np.float64], limit: float) -> dict[str, float]:
    """What a limit does to the searches, with standard errors over searches and landscapes."""
    bounds = results[..., 1 + GRID.index(DEVIATIONS)] <= limit
    stopped = np.asarray(bounds.any(axis=2))
    first = np.where(stopped, bounds.argmax(axis=2), len(COUNTS) - 1)
    regret = np.take_along_axis(results[..., 0], first[..., None], 2)[..., 0]
    gain = regret - results[..., -1, 0]
    by_landscape = [
        float(regret[n][stopped[n]].mean()) for n in range(len(regret)) if stopped[n].any()
    ]
    chosen = regret[stopped]
    return {
        "limit": limit,
        "searches": int(stopped.size),
        "stopped": float(stopped.mean()),
        "landscapes": len(by_landscape),
        "trials": float(np.array(COUNTS)[first][stopped].mean()) if len(chosen) else np.nan,
        "regret": float(chosen.mean()) if len(chosen) else np.nan,
        "error_searches": float(chosen.std(ddof=1) / np.sqrt(len(chosen)))
        if len(chosen) > 1
        else np.nan,
        "error_landscapes": float(np.std(by_landscape, ddof=1) / np.sqrt(len(by_landscape)))
        if len(by_landscape) > 1
        else np.nan,
        "gain": float(gain[stopped].mean()) if len(chosen) else np.nan,
        "within": float((chosen <= limit).mean()) if len(chosen) else np.nan,
    }


def main() -> None:
    """Replay the searches, and print and store the tables."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument(
        "--repeats", type=int, default=20, help="searches of each tuner on each landscape"
    )
    repeats = parser.parse_args().repeats
    tables = usable()
    searches = [(tuner, number) for tuner in TUNERS for number in range(repeats)]
    with ProcessPoolExecutor() as pool:
        lines = pool.map(
            measured,
            *zip(*((table, *each) for table in tables for each in searches), strict=True),
        )
        results = np.array([*lines]).reshape(len(tables), len(searches), len(COUNTS), -1)
    shares, fitted = held(results, GRID.index(DEVIATIONS)), left_out(results)
    print(f"share of bounds that held, {DEVIATIONS} deviations; fitted to the other landscapes")
    for table, share, (deviations, outside) in zip(tables, shares, fitted, strict=True):
        print(f"{table.name:26} {share:.3f}   {deviations:4} {outside:.3f}")
    rows = [stops(results, limit) for limit in LIMITS]
    for row in rows:
        print("  ".join(f"{key} {value:.3g}" for key, value in row.items()))
    by_count = (results[..., 0] <= results[..., 1 + GRID.index(DEVIATIONS)]).mean(axis=(0, 1))
    RESULTS.parent.mkdir(exist_ok=True)
    document = {
        "repeats": repeats,
        "tuners": TUNERS,
        "held": dict(zip([t.name for t in tables], map(float, shares), strict=True)),
        "left_out": dict(zip([t.name for t in tables], fitted, strict=True)),
        "held_by_trials": dict(zip(map(str, COUNTS), map(float, by_count), strict=True)),
        "stops": rows,
    }
    RESULTS.write_text(json.dumps(document, indent=1) + "\n")


if __name__ == "__main__":
    main()
