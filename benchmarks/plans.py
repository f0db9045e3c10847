"""Compares the expected time of plans with the time that the runs then take.

    python benchmarks/plans.py OUTPUT.json [--cells NAME…] [--seconds 40]

Each of eight cells (a task and an algorithm) is measured in turn: a plan probes the cell, the budget
is set so that a run should take the given seconds, and the run is trained. The ratio of the expected
to the true seconds belongs to one turn, so that another process on the machine disturbs both sides
alike. The aim is a ratio between 1/1.5 and 1.5. The seconds of a command's start are left out.
"""

import argparse
import json
import os
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from rlexp.app.execution.estimate import START_UP

AIM = 1.5
"""Factor by which an expected time may be wrong."""
ATARI_PPO = (
    *("agent=cnn", "environment.vector.count=8", "algorithm.n_steps=128"),
    *("algorithm.batch_size=256", "algorithm.n_epochs=4"),
)
CELLS = {
    "cartpole-ppo": ("environment=cartpole", "algorithm=ppo"),
    "cartpole-dqn": ("environment=cartpole", "algorithm=dqn"),
    "acrobot-dqn": ("environment=acrobot", "algorithm=dqn", "algorithm.train_freq=1"),
    "lunar_lander-ppo": ("environment=lunar_lander", "algorithm=ppo"),
    "half_cheetah-sac": ("environment=half_cheetah", "algorithm=sac"),
    "half_cheetah-ppo": ("environment=half_cheetah", "algorithm=ppo"),
    "atari_pong-dqn": (
        *("environment=atari_pong", "algorithm=dqn", "agent=cnn"),
        *("algorithm.buffer_size=50_000", "algorithm.learning_starts=1000"),
    ),
    "atari_pong-ppo": ("environment=atari_pong", "algorithm=ppo", *ATARI_PPO),
}


@dataclass(frozen=True, slots=True)
class Result:
    """The comparison of one cell; all times are in seconds.

    Attributes:
        cell: The task and the algorithm.
        steps: Environment steps of the run.
        expected: Expected duration of the run.
        low: The least duration to expect.
        high: The longest duration to expect.
        true: The duration of the run, from the first to the last event of its journal.
        ratio: `expected` divided by `true`.
        load: Mean number of processes that wanted to compute while the cell was measured.
        cores: Cores of the machine.
    """

    cell: str
    steps: int
    expected: float
    low: float
    high: float
    true: float
    ratio: float
    load: float
    cores: int


def command(folder: Path, *words: str) -> Any:
    """The JSON document that a command of rlexp prints."""
    result = subprocess.run(
        [sys.executable, "-m", "rlexp", *words, "--json", "--quiet"],
        cwd=folder,
        env={**os.environ, "RLEXP_HOME": str(folder / "home"), "OMP_NUM_THREADS": "1"},
        stdout=subprocess.PIPE,
        check=True,
        text=True,
    )
    return json.loads(result.stdout)


def budget(steps: int) -> list[str]:
    """A budget with one evaluation in the middle and the final one."""
    return [
        *(f"budget.steps={steps}", f"budget.evaluation_every={max(steps // 2, 1)}"),
        *("budget.evaluation_episodes=8", "budget.final_episodes=8", "seeds.test=1"),
    ]


def measure(cell: str, seconds: float) -> Result:
    """Probe a cell, train it for about these seconds, and compare."""
    with tempfile.TemporaryDirectory(prefix="plans-") as name:
        folder, words = Path(name), CELLS[cell]
        first = command(folder, "run", *words, *budget(10_000), "--dry-run", "--probe")
        longer = command(folder, "run", *words, *budget(20_000), "--dry-run")
        rate = 10_000 / (longer["seconds"] - first["seconds"])
        fixed = first["seconds"] - START_UP - 10_000 / rate
        # A whole number of rollouts: the last one is trained to its end.
        steps = max(int((seconds - fixed) * rate) // 2048, 1) * 2048
        plan = command(folder, "run", *words, *budget(steps), "--dry-run")
        outcome = command(folder, "run", *words, *budget(steps), "experiment=cell", "--no-probe")
        assert outcome["complete"]
        true = _seconds_of(folder / "runs" / "cell")
    expected, low, high = (
        plan[key] - START_UP for key in ("seconds", "seconds_low", "seconds_high")
    )
    return Result(
        cell,
        steps,
        round(expected, 1),
        round(low, 1),
        round(high, 1),
        round(true, 1),
        round(expected / true, 2),
        round(os.getloadavg()[0], 1),
        len(os.sched_getaffinity(0)),
    )


def _seconds_of(experiment: Path) -> float:
    """Seconds between the first and the last event of the only run of an experiment."""
    (journal,) = experiment.glob("*/attempts/*/events.jsonl")
    times = [json.loads(line)["time"] for line in journal.read_text().splitlines()]
    return float(times[-1] - times[0])


def main(words: Sequence[str]) -> int:
    """Measure the cells, write the results and print them."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else "")
    parser.add_argument("output", type=Path)
    parser.add_argument("--cells", nargs="*", default=list(CELLS), choices=list(CELLS))
    parser.add_argument("--seconds", type=float, default=40.0)
    options = parser.parse_args(words)
    results = []
    for cell in options.cells:
        result = measure(cell, options.seconds)
        results.append(result)
        options.output.write_text(json.dumps([asdict(r) for r in results], indent=1) + "\n")
        print(
            f"{result.cell}: expected {result.expected:g} s ({result.low:g} to {result.high:g}), "
            f"true {result.true:g} s, ratio {result.ratio:g} (aim: {1 / AIM:.2f} to {AIM:g}), "
            f"load {result.load:g} on {result.cores} cores",
            flush=True,
        )
    return 0 if all(1 / AIM <= r.ratio <= AIM for r in results) else 1


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
