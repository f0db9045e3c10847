"""How long each tuner takes for a suggestion, by the length of the history.

Prints milliseconds a suggestion, after the first one of a process, and the first one apart; writes
`benchmarks/results/suggestions.json`. The limit is 50 ms at 1,000 trials, the Gaussian process
apart, whose history is capped: `python benchmarks/suggestions.py`.
"""

import json
import statistics
import sys
import time
from pathlib import Path
from typing import Any

import numpy as np

from rlexp.config.config_files import group_options
from rlexp.config.sweep import compose_sweep
from rlexp.config.validate import build
from rlexp.errors import ConfigError
from rlexp.records.trial import Trial, TrialState
from rlexp.tuners import Problem

HERE = Path(__file__).parent
RESULTS = HERE / "results" / "suggestions.json"
SIZES = (20, 100, 300, 1_000)
FURTHER = 5
STEPS = 10_000


def history(problem: Problem, count: int) -> list[Trial]:
    """Complete trials at random points with random values."""
    draw = np.random.default_rng(0)
    size = len(problem.space.parameters)
    return [
        Trial(
            number=number,
            parameters=problem.space.decode(draw.random(size).tolist()),
            steps=STEPS,
            state=TrialState.COMPLETE,
            values=tuple(draw.normal(size=problem.objectives).tolist()),
        )
        for number in range(count)
    ]


def measure(name: str, size: int) -> dict[str, float] | None:
    """Milliseconds of the first and of later suggestions; None if the tuner refuses."""
    request = compose_sweep("ppo_cartpole", [f"tuner={name}"], HERE.parent)
    objectives = 2 if name == "nsga2" else 1
    problem = Problem(space=request.space, objectives=objectives, steps=STEPS, seed=0)
    tuner: Any = build(request.tuner, "tuner")
    try:
        suggester = tuner.open(problem)
    except ConfigError:
        return None
    trials = history(problem, size + FURTHER)
    seconds = []
    for number in range(size, size + FURTHER + 1):
        begun = time.perf_counter()
        suggester.suggest(trials[:number], number)
        seconds.append(time.perf_counter() - begun)
    return {"first_ms": 1e3 * seconds[0], "ms": 1e3 * statistics.median(seconds[1:])}


def main() -> None:
    """Measure every tuner."""
    results: dict[str, dict[int, dict[str, float]]] = {}
    for name in group_options("tuner", HERE.parent):
        by_size = {size: measured for size in SIZES if (measured := measure(name, size))}
        if not by_size:
            print(f"{name}: refuses the problem", file=sys.stderr)
            continue
        results[name] = by_size
        text = ", ".join(
            f"{size:,}: {measured_size['ms']:.2f} ms" for size, measured_size in by_size.items()
        )
        print(f"{name}: {text}")
    RESULTS.parent.mkdir(exist_ok=True)
    RESULTS.write_text(json.dumps(results, indent=1) + "\n")


if __name__ == "__main__":
    main()
