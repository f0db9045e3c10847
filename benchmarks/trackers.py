"""What trackers cost a training: its seconds with all of them over its seconds with none.

Prints a table and writes `benchmarks/results/trackers.json`. Run it on a machine that does nothing
else: `python benchmarks/trackers.py`. W&B writes offline, MLflow into its own SQLite store or, where
it is dead, to a port that takes connections and never answers.
"""

import argparse
import json
import os
import shutil
import socket
import statistics
import tempfile
from collections.abc import Sequence
from pathlib import Path

from run import RLEXP, TRAINING, Numbers, journals, timed, training_seconds

RESULTS = Path(__file__).parent / "results" / "trackers.json"
ALL = "tracker=[mlflow,tensorboard,wandb]"
LIMIT = 1.01


def trained(folder: Path, command: Sequence[str]) -> tuple[float, float]:
    """Seconds of the slowest training of a command, evaluations left out, and of the command."""
    place = Path(tempfile.mkdtemp(dir=folder))
    seconds = timed(command, place, {"WANDB_MODE": "offline"})
    return max(training_seconds(journal) for journal in journals(place)), seconds


def measure(steps: int, runs: int, repeats: int, folder: Path) -> Numbers:
    """Trainings without trackers, with healthy ones and with a dead one, in turns."""
    words = (f"budget.steps={steps}", f"seeds.test={runs}", "budget.evaluation_every=10_000")
    plain = [*RLEXP, "run", *TRAINING, *words, "experiment=x", "-q"]
    seconds: dict[str, list[float]] = {"none": [], "healthy": [], "dead": []}
    commands: dict[str, list[float]] = {"none": [], "healthy": [], "dead": []}
    with socket.create_server(("127.0.0.1", 0)) as hole:
        uri = f"tracker.mlflow.uri=http://127.0.0.1:{hole.getsockname()[1]}"
        cases = {"none": plain, "healthy": [*plain, ALL], "dead": [*plain, ALL, uri]}
        for _ in range(repeats):
            for name, command in cases.items():
                training, whole = trained(folder, command)
                seconds[name].append(training)
                commands[name].append(whole)
    return {
        "steps": steps,
        "runs": runs,
        "cores": os.cpu_count(),
        "training_s": statistics.median(seconds["none"]),
        **{f"{n}_over_none": ratio(seconds[n], seconds["none"]) for n in ("healthy", "dead")},
        "limit": LIMIT,
        **{f"{n}_further_s": further(commands[n], commands["none"]) for n in ("healthy", "dead")},
        "all_s": {"training": seconds, "command": commands},
    }


def ratio(seconds: Sequence[float], plain: Sequence[float]) -> float:
    """The median over turns of one time over the other."""
    return statistics.median(a / b for a, b in zip(seconds, plain, strict=True))


def further(seconds: Sequence[float], plain: Sequence[float]) -> float:
    """The median over turns of what a command takes longer, its wait at the end included."""
    return statistics.median(a - b for a, b in zip(seconds, plain, strict=True))


def main() -> None:
    """Measure, and keep it beside the other results."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--steps", type=int, default=1_000_000)
    parser.add_argument("--runs", type=int, default=os.cpu_count() or 1)
    parser.add_argument("--repeats", type=int, default=3)
    arguments = parser.parse_args()
    RESULTS.parent.mkdir(exist_ok=True)
    folder = Path(tempfile.mkdtemp(prefix="rlexp-trackers-"))
    try:
        found = measure(arguments.steps, arguments.runs, arguments.repeats, folder)
    finally:
        shutil.rmtree(folder)
    RESULTS.write_text(json.dumps(found, indent=1) + "\n")
    print(
        f"{found['runs']} trainings at a time of {found['steps']:,} steps, {found['cores']} cores"
    )
    print(f"seconds of a training without trackers       {found['training_s']:.1f}")
    for name in ("healthy", "dead"):
        print(f"the same, {name}: over that (at most {LIMIT})".ljust(45), end="")
        print(f"{found[f'{name}_over_none']:.4f}; command {found[f'{name}_further_s']:+.1f} s")


if __name__ == "__main__":
    main()
