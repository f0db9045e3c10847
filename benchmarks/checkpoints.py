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
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from run import RLEXP, TRAINING, Numbers, journals, timed, training_seconds

from rlexp.training.learner_state import unpack

RESULTS = Path(__file__).parent / "results" / "checkpoints.json"
WITHOUT = """
from rlexp.training.checkpointing import Keeper

Keeper.rollout_starts = lambda self, step: None
"""
"""What every process of a training imports that is to take no copy of itself at all."""
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
CASES = {"ppo": Case(TRAINING, 100_000, 5_000), "sac": Case(SAC, 10_000, 1_000)}


def events_of(folder: Path, kind: str) -> list[dict[str, Any]]:
    """The events of one kind of the single run in a folder, over all attempts."""
    return [event for journal in journals(folder) for event in journal if event["event"] == kind]


def trained(
    folder: Path, command: Sequence[str], variables: dict[str, str] | None = None
) -> tuple[float, list[dict[str, Any]]]:
    """Seconds of one training without its evaluation, and its checkpoint events."""
    study = Path(tempfile.mkdtemp(dir=folder))
    timed(command, study, variables)
    return training_seconds(journals(study)[0]), events_of(study, "checkpointed")


def measure_training(case: Case, folder: Path, repeats: int) -> Numbers:
    """Seconds of a training with checkpoints and without, measured in turns."""
    without = folder / "without"
    without.mkdir()
    (without / "sitecustomize.py").write_text(WITHOUT)
    path = os.pathsep.join([str(without), *filter(None, [os.environ.get("PYTHONPATH")])])
    without_seconds, default, tight = [], [], []
    published: list[dict[str, Any]] = []
    for _ in range(repeats):
        seconds, published = trained(folder, case.tight, {"PYTHONPATH": path})
        assert not published, "a training that was to take no copy of itself has published one"
        without_seconds.append(seconds)
        default.append(trained(folder, case.command)[0])
        seconds, published = trained(folder, case.tight)
        tight.append(seconds)
    return {
        "without_s": statistics.median(without_seconds),
        "default_over_without": ratio(default, without_seconds),
        "tight_over_without": ratio(tight, without_seconds),
        "all_s": {"without": without_seconds, "default": default, "tight": tight},
        "default_limit": 1.01,
        "tight_every": case.every,
        "checkpoints": len(published),
        "publishing_s": statistics.median(event["seconds"] for event in published),
    }


def ratio(seconds: Sequence[float], baseline: Sequence[float]) -> float:
    """The median over turns of the ratio of two times."""
    return statistics.median(a / b for a, b in zip(seconds, baseline, strict=True))


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
    timed(case.tight, study)
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


def measure(name: str, folder: Path, arguments: argparse.Namespace) -> Numbers:
    """All measurements of one training."""
    case = CASES[name]
    return measure_training(case, folder, arguments.repeats) | measure_resume(case, folder)


ROWS: tuple[tuple[str, str, Callable[[Any], str]], ...] = (
    ("seconds of training without checkpoints", "without_s", "{:.1f}".format),
    ("training with those of the default, over that", "default_over_without", "{:.3f}".format),
    ("training with tight ones, over that", "tight_over_without", "{:.3f}".format),
    ("steps between tight ones", "tight_every", "{:,}".format),
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
    parser.add_argument("--repeats", type=int, default=3)
    arguments = parser.parse_args()
    if unknown := set(arguments.parts) - set(CASES):
        parser.error(f"there is no part {', '.join(sorted(unknown))}; parts: {', '.join(CASES)}")
    RESULTS.parent.mkdir(exist_ok=True)
    results = json.loads(RESULTS.read_text()) if RESULTS.exists() else {}
    for name in arguments.parts or CASES:
        folder = Path(tempfile.mkdtemp(prefix=f"rlexp-checkpoints-{name}-"))
        try:
            results[name] = measure(name, folder, arguments)
        finally:
            shutil.rmtree(folder)
        RESULTS.write_text(json.dumps(results, indent=1) + "\n")
    show(results)


if __name__ == "__main__":
    main()
