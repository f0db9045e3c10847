"""Compares the expected time of plans, and their ranges, with the time that the commands then take.

    python benchmarks/plans.py [OUTPUT.json] [--cells NAME…] [--seconds 40]

Each of eight cells (a task and an algorithm) is measured in turn: a plan probes the cell, the budget
is set so that a run should take the given seconds, and the run is trained. The ratio of the expected
to the true seconds belongs to one turn, so that another process on the machine disturbs both sides
alike. The aim is a ratio between 1/1.5 and 1.5, and a true time inside the range in 9 of 10 cells.
On an idle machine, the eight cells take about ten minutes. A table for `benchmarks/README.md` is
printed.
"""

import argparse
import json
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from rlexp.app.execution.machine_load import waiting_processes

AIM = 1.5
"""Factor by which an expected time may be wrong."""
INSIDE = 0.9
"""Share of the measured durations that should be inside the range."""
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
        expected: Expected duration of the command.
        low: The least duration to expect.
        high: The longest duration to expect.
        measured: The duration of the command.
        others: Processes of other programs that wanted to compute before the probe, as a mean.
        cores: Cores of the machine.
    """

    cell: str
    steps: int
    expected: float
    low: float
    high: float
    measured: float
    others: float
    cores: int

    @property
    def ratio(self) -> float:
        """The expected duration divided by the measured one."""
        return self.expected / self.measured

    @property
    def inside(self) -> bool:
        """Whether the measured duration is within the range."""
        return self.low <= self.measured <= self.high

    def row(self) -> str:
        """The row of this cell in a Markdown table."""
        return (
            f"| {self.cell} | {self.expected:.0f} s | {self.low:.0f} to {self.high:.0f} s "
            f"| {self.measured:.0f} s | {self.ratio:.2f} | {'yes' if self.inside else 'no'} "
            f"| {self.others:.1f} |"
        )


HEAD = """| cell | predicted | range | measured | ratio | inside | other processes |
|---|---|---|---|---|---|---|"""


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
        others = waiting_processes()
        first = command(folder, "run", *words, *budget(10_000), "--dry-run", "--probe")
        longer = command(folder, "run", *words, *budget(20_000), "--dry-run")
        rate = 10_000 / (longer["seconds"] - first["seconds"])
        fixed = first["seconds"] - 10_000 / rate
        # A whole number of rollouts: the last one is trained to its end.
        steps = max(int((seconds - fixed) * rate) // 2048, 1) * 2048
        plan = command(folder, "run", *words, *budget(steps), "--dry-run")
        begun = time.monotonic()
        outcome = command(folder, "run", *words, *budget(steps), "experiment=cell", "--no-probe")
        measured = time.monotonic() - begun
        assert outcome["complete"]
    return Result(
        cell=cell,
        steps=steps,
        expected=plan["seconds"],
        low=plan["seconds_low"],
        high=plan["seconds_high"],
        measured=round(measured, 1),
        others=round(others, 1),
        cores=os.cpu_count() or 1,
    )


def main(words: Sequence[str]) -> int:
    """Measure the cells, write the results and print the table."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else "")
    parser.add_argument("output", type=Path, nargs="?", help="a JSON file for the results")
    parser.add_argument("--cells", nargs="+", default=list(CELLS), choices=list(CELLS))
    parser.add_argument("--seconds", type=float, default=40.0)
    options = parser.parse_args(words)
    results: list[Result] = []
    print(HEAD, flush=True)
    for cell in options.cells:
        results.append(measure(cell, options.seconds))
        print(results[-1].row(), flush=True)
        if options.output is not None:
            options.output.write_text(json.dumps([asdict(r) for r in results], indent=1) + "\n")
    close = [1 / AIM <= result.ratio <= AIM for result in results]
    inside = sum(result.inside for result in results)
    print(
        f"\n{sum(close)} of {len(results)} ratios between {1 / AIM:.2f} and {AIM:g}, {inside} of "
        f"{len(results)} durations inside the range; {results[-1].cores} cores"
    )
    return 0 if all(close) and inside >= INSIDE * len(results) else 1


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
