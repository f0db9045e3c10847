"""How well tuners, pruners and ways to spend seeds do on real landscapes, at equal cost.

Replays whole sweeps on twelve tasks of ARLBench, two of which say nothing, as if they were
trainings. Prints the true score of the winner and the optimism of the search, means over
landscapes and repeats on the scale of each task (0 and 1 are the 5th and 95th percentile of its
configurations), and writes `benchmarks/results/landscapes.json`:
`python benchmarks/landscapes.py`, or one part of it: `python benchmarks/landscapes.py pruners`.
Tuners are compared in many more repeats by `python benchmarks/landscape_tuners.py`.
"""

import argparse
import json
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import yaml
from landscape_replay import Outcome, Replay, run
from landscape_table import Landscape, usable
from numpy.typing import NDArray

from rlexp.config.validate import build
from rlexp.protocol.sweep import Allocation, SweepPlan

HERE = Path(__file__).parent
CONF = HERE.parent / "conf"
RESULTS = HERE / "results" / "landscapes.json"
BUDGETS = (48, 96, 192)
PROMOTED = 1 / 12
"""Share of the screened trials that two stages continue on all tuning seeds."""


@dataclass(frozen=True, slots=True)
class Contender:
    """A tuning method; the names are those of the configuration."""

    tuner: str = "random"
    pruner: str = "none"
    allocation: Allocation = "two_stage"
    seeds: int = 5
    budgets: tuple[int, ...] = BUDGETS


REFERENCE = Contender()
PRUNED: tuple[tuple[str, str, Allocation], ...] = (
    ("random", "median", "two_stage"),
    ("random", "successive_halving", "two_stage"),
    ("random", "hyperband", "two_stage"),
    ("random", "median", "fixed"),
    ("random", "wilcoxon", "fixed"),
    ("tpe", "median", "two_stage"),
    ("tpe", "successive_halving", "two_stage"),
)
PARTS: dict[str, tuple[Contender, ...]] = {
    "allocations": (
        *(Contender(allocation="fixed", seeds=seeds) for seeds in (1, 3, 5)),
        Contender(allocation="racing"),
    ),
    # With more runs, pruned sweeps would try all configurations that there are.
    "pruners": tuple(
        Contender(tuner, pruner, allocation, budgets=(48,)) for tuner, pruner, allocation in PRUNED
    ),
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Cell:
    """The results of a contender at a budget: means over landscapes and repeats.

    Attributes:
        runs: The budget, in whole runs.
        spent: What was spent of it, in whole runs.
        trials: Configurations that were tried.
        test: True score of the winner.
        optimism: Tuning score minus true score.
        better: True score beyond that of the reference on the same seeds.
        error: Standard error of that, over repeats.
    """

    runs: int
    spent: float
    trials: float
    test: float
    optimism: float
    better: float
    error: float


def plan(contender: Contender, runs: int, steps: int) -> SweepPlan:
    """The sweep plan with a budget of `runs` full runs."""
    return SweepPlan(
        trials=10_000,
        full_runs=None,
        steps=runs * steps,
        hours=None,
        allocation=contender.allocation,
        promoted=PROMOTED,
        objective="score",
        aggregate="mean",
        finalists=1,
        lag=0,
        failures="worst",
        stop_after=10_000,
        storage=None,
    )


@cache
def part(group: str, name: str) -> Any:
    """The plug-in of a group that a yaml file describes."""
    return build(yaml.safe_load((CONF / group / f"{name}.yaml").read_text()), group)


def sweep(landscape: Landscape, contender: Contender, runs: int, number: int) -> Outcome:
    """Replay one sweep."""
    replay = Replay(
        landscape,
        part("tuner", contender.tuner),
        part("pruner", contender.pruner),
        plan(contender, runs, landscape.steps[-1]),
        contender.seeds,
        number,
    )
    return run(replay)


def numbers(landscape: Landscape, outcome: Outcome) -> tuple[float, float, float, float]:
    """True score, tuning score, full runs and trials; without a winner, the worst score."""
    worst = float(landscape.scores.min())
    test = worst if outcome.test is None else outcome.test
    tuning = worst if outcome.tuning is None else outcome.tuning
    spent = outcome.spent / landscape.steps[-1]
    return landscape.normalise(test), landscape.normalise(tuning), spent, outcome.trials


@cache
def measured(contender: Contender, runs: int, repeats: int) -> NDArray[np.float64]:
    """The numbers of all sweeps, of shape (repeats, landscapes, 4)."""
    return np.array(
        [
            [
                numbers(landscape, sweep(landscape, contender, runs, number))
                for landscape in landscapes()
            ]
            for number in range(repeats)
        ]
    )


@cache
def landscapes() -> Sequence[Landscape]:
    """The usable landscapes."""
    return usable()


def cell(contender: Contender, runs: int, repeats: int) -> Cell:
    """The results of a contender at a budget."""
    outcomes = measured(contender, runs, repeats)
    test, tuning, spent, trials = outcomes.mean(axis=(0, 1))
    gains = (outcomes - measured(REFERENCE, runs, repeats))[:, :, 0].mean(axis=1)
    return Cell(
        runs=runs,
        spent=float(spent),
        trials=float(trials),
        test=float(test),
        optimism=float(tuning - test),
        better=float(gains.mean()),
        error=float(gains.std(ddof=1) / np.sqrt(repeats)),
    )


def line(contender: Contender, result: Cell) -> str:
    """A row of the printed table."""
    two_stage = contender.allocation == "two_stage"
    allocation = contender.allocation if two_stage else f"{contender.allocation} {contender.seeds}"
    return (
        f"{contender.tuner:8} {contender.pruner:19} {allocation:10} {result.runs:4} "
        f"{result.spent:6.1f} {result.trials:6.1f} {result.test:6.3f} {result.optimism:8.3f} "
        f"{result.better:+7.3f} ± {result.error:.3f}"
    )


def main() -> None:
    """Replay the requested parts, and keep earlier results of the others."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("parts", nargs="*", metavar="PART", help=f"of {', '.join(PARTS)}")
    parser.add_argument("--repeats", type=int, default=10, help="sweeps on each landscape")
    arguments = parser.parse_args()
    if unknown := set(arguments.parts) - set(PARTS):
        parser.error(f"there is no part {', '.join(sorted(unknown))}; parts: {', '.join(PARTS)}")
    if arguments.repeats < 2:
        parser.error("a standard error takes --repeats 2 or more")
    RESULTS.parent.mkdir(exist_ok=True)
    results = json.loads(RESULTS.read_text()) if RESULTS.exists() else {}
    print("tuner    pruner              allocation runs  spent trials   true optimism  better")
    for name in arguments.parts or PARTS:
        results[name] = {"repeats": arguments.repeats, "cells": (cells := [])}
        for contender in (REFERENCE, *PARTS[name]):
            for runs in contender.budgets:
                result = cell(contender, runs, arguments.repeats)
                print(line(contender, result), flush=True)
                cells.append(asdict(contender) | asdict(result))
                RESULTS.write_text(json.dumps(results, indent=1) + "\n")


if __name__ == "__main__":
    main()
