"""What checkpoints cost: time of training, bytes on disk, and seconds to go on from one.

Prints a table and writes `benchmarks/results/checkpoints.json`. Run it on a machine that does
nothing else: `python benchmarks/checkpoints.py`, or one part of it: `python
benchmarks/checkpoints.py ppo`.
"""

import argparse
import json
import os
import shutil
import statistics
import subprocess
import tempfile
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from command_times import spend
from run import RLEXP, TRAINING, Numbers, journals

from rlexp.training.learner_state import unpack

RESULTS = Path(__file__).parent / "results" / "checkpoints.json"
TURN_S = 10.0
"""Seconds for which a training takes copies of itself, and then for which it takes none."""
TURNS = f"""
import os, time
from rlexp.training.checkpointing import CheckpointScheduler

copy = CheckpointScheduler.rollout_starts
log = open(os.environ["RLEXP_TURNS"], "a", buffering=1)
begun = time.monotonic()


def rollout_starts(self, step):
    now = time.monotonic() - begun
    turn = int(now / {TURN_S})
    log.write(f"{{turn}} {{now}} {{step}}\\n")
    if turn % 2 == 0:
        copy(self, step)


CheckpointScheduler.rollout_starts = rollout_starts
"""
"""What every process imports: the training takes copies of itself in every other turn only."""
KILLED_AFTER = 0.8
"""Share of the training after whose next checkpoint it is killed."""
PATIENCE = 3600.0
"""Seconds that a training may take."""


@dataclass(frozen=True, slots=True)
class Case:
    """A training: its overrides, its steps, and the steps between frequent checkpoints."""

    overrides: tuple[str, ...]
    steps: int
    every: int

    @property
    def command(self) -> list[str]:
        """The command of one run."""
        common = (f"budget.steps={self.steps}", "seeds.test=1", "executor.workers=1")
        return [*RLEXP, "run", *self.overrides, *common, "experiment=x", "-q"]

    @property
    def tight(self) -> list[str]:
        """The command of one run with frequent checkpoints."""
        return [*self.command, f"budget.checkpoint_every={self.every}"]


SAC = (
    *("algorithm=sac", "environment=pendulum"),
    *("budget.evaluation_every=null", "budget.final_episodes=2"),
)
CASES = {"ppo": Case(TRAINING, 1_400_000, 20_000), "sac": Case(SAC, 20_000, 500)}


def events_of(folder: Path, kind: str) -> list[dict[str, Any]]:
    """The events of one kind of the single run in a folder, over all attempts."""
    return [event for journal in journals(folder) for event in journal if event["event"] == kind]


def measure_turns(case: Case, folder: Path) -> Numbers:
    """Seconds per step of one training with copies and checkpoints, relative to none, in turns.

    What is due in a turn without copies is done at the start of the next turn, so that the ratio is
    a bound from above.
    """
    study = Path(tempfile.mkdtemp(dir=folder))
    (study / "sitecustomize.py").write_text(TURNS)
    path = os.pathsep.join([str(study), *filter(None, [os.environ.get("PYTHONPATH")])])
    log = study / "turns"
    spend(case.command, study, {"PYTHONPATH": path, "RLEXP_TURNS": str(log)})
    pace = seconds_a_step(log.read_text().splitlines())
    # Both neighbours of a turn: a machine that grows slower would favour one side.
    ratios = [
        pace[turn] / statistics.mean((pace[turn - 1], pace[turn + 1]))
        for turn in pace
        if turn % 2 == 0 and {turn - 1, turn + 1} <= pace.keys()
    ]
    if len(ratios) < 2:
        raise SystemExit("the training was too short to be measured in turns: raise its steps")
    error = statistics.stdev(ratios) / len(ratios) ** 0.5
    return {
        "turns": len(pace),
        "default_over_without": statistics.mean(ratios),
        "standard_error": error,
        "default_limit": 1.01,
    }


def seconds_a_step(lines: Sequence[str]) -> dict[int, float]:
    """Seconds per step within each turn, by its number; the first turn holds the imports."""
    points: dict[int, list[tuple[float, int]]] = {}
    for line in lines:
        turn, now, step = line.split()
        points.setdefault(int(turn), []).append((float(now), int(step)))
    return {
        turn: (within[-1][0] - within[0][0]) / (within[-1][1] - within[0][1])
        for turn, within in points.items()
        if turn > 0 and within[-1][1] > within[0][1]
    }


def measure_publishing(case: Case, folder: Path) -> Numbers:
    """The seconds that a checkpoint takes, with many of them."""
    study = Path(tempfile.mkdtemp(dir=folder))
    spend(case.tight, study)
    published = events_of(study, "checkpointed")
    return {
        "checkpoints": len(published),
        "publishing_s": statistics.median(event["seconds"] for event in published),
    }


def measure_resume(case: Case, folder: Path) -> Numbers:
    """The size on disk of a killed training, and the seconds until it continues."""
    study = Path(tempfile.mkdtemp(dir=folder))
    reached = kill_late(case, study)
    (run,) = (path.parent for path in (study / "runs").glob("*/*/spec.json"))
    newest = max((run / "checkpoints").glob("[0-9]*"), key=lambda path: int(path.name))
    manifest = json.loads((newest / "manifest.json").read_text())
    numbers = {
        "killed_at": reached,
        "bundle_bytes": sum(file["bytes"] for file in manifest["files"].values()),
        **measure_transitions(run),
    }
    spend(case.tight, study)
    (started, *_), (continued,) = journals(study)[1], events_of(study, "continued")
    again = continued["time"] - started["time"]
    return numbers | {"continued_at": continued["step"], "resume_s": again}


def kill_late(case: Case, study: Path) -> int:
    """Start a training and kill it near its end; returns the step of its last checkpoint."""
    command = subprocess.Popen(case.tight, cwd=study, stdout=subprocess.DEVNULL)
    deadline = time.monotonic() + PATIENCE
    try:
        while command.poll() is None and time.monotonic() < deadline:
            published = events_of(study, "checkpointed")
            if published and published[-1]["step"] >= KILLED_AFTER * case.steps:
                return int(published[-1]["step"])
            time.sleep(0.1)
    finally:
        command.kill()
        command.wait()
    raise SystemExit(f"{' '.join(case.tight)} came to its end before it was killed")


def measure_transitions(run: Path) -> Numbers:
    """Bytes of the replay-buffer files, relative to the bytes of the transitions."""
    contents = [path.read_bytes() for path in (run / "replay").glob("*.npz")]
    if not contents:
        return {}
    arrays = [array for content in contents for array in unpack(content).values()]
    written, held = sum(map(len, contents)), sum(array.nbytes for array in arrays)
    return {
        "replay_bytes": written,
        "bytes_over_new_transitions": written / held,
        "bytes_over_new_transitions_limit": 1.2,
    }


def measure(name: str, folder: Path) -> Numbers:
    """All measurements of one training."""
    case = CASES[name]
    numbers = measure_turns(case, folder)
    short = replace(case, steps=case.steps // 4)
    return numbers | measure_publishing(short, folder) | measure_resume(short, folder)


ROWS: tuple[tuple[str, str, Callable[[Any], str]], ...] = (
    ("turns of ten seconds", "turns", "{:,}".format),
    ("training with copies and checkpoints, over none", "default_over_without", "{:.4f}".format),
    ("standard error of that", "standard_error", "{:.4f}".format),
    ("checkpoints in a shorter training", "checkpoints", "{:,}".format),
    ("seconds to publish one", "publishing_s", "{:.3f}".format),
    ("bytes of one, without experience", "bundle_bytes", "{:,}".format),
    ("bytes written over new transitions", "bytes_over_new_transitions", "{:.3f}".format),
    ("killed after the checkpoint at step", "killed_at", "{:,}".format),
    ("seconds until it goes on from there", "resume_s", "{:.2f}".format),
)


def show(results: dict[str, Numbers]) -> None:
    """Print a table with a row per measurement and a column per training."""
    width = max(len(title) for title, _, _ in ROWS)
    print("".ljust(width), *(name.rjust(12) for name in results))
    for title, key, text in ROWS:
        cells = [text(numbers[key]) if key in numbers else "" for numbers in results.values()]
        print(title.ljust(width), *(cell.rjust(12) for cell in cells))


def main() -> None:
    """Measure the requested trainings, and keep earlier results of the others."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("parts", nargs="*", metavar="PART", help=f"of {', '.join(CASES)}")
    arguments = parser.parse_args()
    if unknown := set(arguments.parts) - set(CASES):
        parser.error(f"there is no part {', '.join(sorted(unknown))}; parts: {', '.join(CASES)}")
    RESULTS.parent.mkdir(exist_ok=True)
    results = json.loads(RESULTS.read_text()) if RESULTS.exists() else {}
    for name in arguments.parts or CASES:
        folder = Path(tempfile.mkdtemp(prefix=f"rlexp-checkpoints-{name}-"))
        try:
            results[name] = measure(name, folder)
        finally:
            shutil.rmtree(folder)
        RESULTS.write_text(json.dumps(results, indent=1) + "\n")
    show(results)


if __name__ == "__main__":
    main()
