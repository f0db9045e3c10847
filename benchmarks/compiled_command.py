"""Whole commands with `algorithm=compiled_ppo` beside the same commands with `algorithm=ppo`.

Two commands: `rlexp run` of some seeds with evaluations, and `rlexp sweep` over continuous
hyperparameters. Both algorithms take turns, and every number is processor time of the command with all
processes that it started, so that other programs disturb little. The first command, which compiles
for a user who has compiled nothing, is measured apart.

Writes `benchmarks/results/compiled_command.json`: `python benchmarks/compiled_command.py`, or with other
sizes: `python benchmarks/compiled_command.py --seeds 8 --steps 100000 --trials 64`. With `--without-shortcuts`, `ppo` trains as
Stable-Baselines3 does (`compute.lean=false`).
"""

import argparse
import json
import os
import resource
import statistics
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from rlexp.executors.lifetime import adopt_orphans

RESULTS = Path(__file__).parent / "results" / "compiled_command.json"
RLEXP = [sys.executable, "-m", "rlexp"]
ALGORITHMS = ("ppo", "compiled_ppo")
COMMON = (
    *("environment=cartpole", "environment.vector.count=8", "algorithm.n_steps=128"),
    *("algorithm.batch_size=256", "algorithm.n_epochs=4"),
)
SPACE = (
    "algorithm.learning_rate=tag(log, interval(1e-4, 0.003))",
    "algorithm.gamma=interval(0.97, 0.999)",
    "algorithm.ent_coef=interval(0.0, 0.02)",
)
Numbers = dict[str, Any]


def processor_seconds(words: Sequence[str], folder: Path, cache: Path) -> float:
    """Processor time of a command and of every process that it started.

    Args:
        words: The words of the command.
        folder: Where it is given; it must be empty, so that nothing is done already.
        cache: The folder of the user's caches.
    """
    folder.mkdir()
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    environment = {**os.environ, "RLEXP_HOME": str(cache)}
    subprocess.run(
        [*RLEXP, *words], cwd=folder, env=environment, check=True, stdout=subprocess.DEVNULL
    )
    # Processes that outlive the command for a moment are children of this process by then.
    while True:
        try:
            os.waitpid(-1, 0)
        except ChildProcessError:
            break
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    return after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime


def run_words(algorithm: str, seeds: int, steps: int) -> list[str]:
    """`rlexp run` with ten evaluations of each seed."""
    budget = [f"budget.steps={steps}", f"budget.evaluation_every={steps // 10}"]
    budget += ["budget.evaluation_episodes=5", "budget.final_episodes=20"]
    words = ["run", f"algorithm={algorithm}", *COMMON, *budget, f"seeds.test={seeds}"]
    return [*words, "experiment=measured", "--no-probe", "--quiet"]


def sweep_words(algorithm: str, trials: int, seeds: int, steps: int) -> list[str]:
    """`rlexp sweep` of configurations with the same program, each on all tuning seeds."""
    words = ["sweep", f"algorithm={algorithm}", *COMMON, *SPACE, f"sweep.trials={trials}"]
    words += [f"seeds.tuning={seeds}", f"budget.steps={steps}", "budget.evaluation_every=null"]
    words += ["tuner=random", "sweep.allocation=fixed", "budget.final_episodes=5"]
    words += ["--until", "search"]
    return [*words, "experiment=measured", "--no-probe", "--quiet"]


def ratios(measured: Sequence[Numbers]) -> Numbers:
    """The median ratio of the turns, and the turns."""
    each = [turn["ppo"] / turn["compiled_ppo"] for turn in measured]
    return {"ratio": statistics.median(each), "turns": list(measured)}


def main() -> None:
    """Measure, print and store."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--seeds", type=int, default=8)
    parser.add_argument("--steps", type=int, default=100_000)
    parser.add_argument("--trials", type=int, default=64, help="0 leaves the sweep out")
    parser.add_argument("--sweep-seeds", type=int, default=5)
    parser.add_argument("--sweep-steps", type=int, default=20_480)
    parser.add_argument("--turns", type=int, default=3)
    parser.add_argument("--without-shortcuts", action="store_true", help="of ppo")
    options = parser.parse_args()
    adopt_orphans()
    with tempfile.TemporaryDirectory() as temporary:
        folder = Path(temporary)
        cache, count = folder / "cache", 0

        def turn(words: dict[str, list[str]]) -> Numbers:
            nonlocal count
            seconds = {}
            for algorithm in ALGORITHMS:
                count += 1
                library = options.without_shortcuts and algorithm == "ppo"
                further = ["compute.lean=false"] if library else []
                seconds[algorithm] = processor_seconds(
                    [*words[algorithm], *further], folder / str(count), cache
                )
            print(seconds, flush=True)
            return seconds

        first = run_words("compiled_ppo", 1, 2048)
        compiling = processor_seconds(first, folder / "first", cache)
        again = processor_seconds(first, folder / "again", cache)
        results: Numbers = {"options": vars(options), "first": compiling, "again": again}
        print(f"one short run: {compiling:.1f} s, compiling; {again:.1f} s afterwards", flush=True)
        run = {name: run_words(name, options.seeds, options.steps) for name in ALGORITHMS}
        results["run"] = ratios([turn(run) for _ in range(options.turns)])
        if options.trials:
            sizes = (options.trials, options.sweep_seeds, options.sweep_steps)
            sweep = {name: sweep_words(name, *sizes) for name in ALGORITHMS}
            results["sweep"] = ratios([turn(sweep)])
    for name in ("run", "sweep"):
        if name in results:
            print(f"{name}: ppo takes {results[name]['ratio']:.1f} times the processor time")
    RESULTS.parent.mkdir(exist_ok=True)
    RESULTS.write_text(json.dumps(results, indent=1) + "\n")


if __name__ == "__main__":
    main()
