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
    """A training: its words, its steps, and how many of them lie between tight checkpoints."""

    words: tuple[str, ...]
    steps: int
    every: int

    @property
    def command(self) -> list[str]:
        """One run of it."""
        words = (f"budget.steps={self.steps}", "seeds.test=1", "executor.workers=1")
        return [*RLEXP, "run", *self.words, *words, "experiment=x", "-q"]

    @property
    def tight(self) -> list[str]:
        """One run of it with many checkpoints."""
        return [*self.command, f"budget.checkpoint_every={self.every}"]


SAC = (
    *("algorithm=sac", "environment=pendulum"),
    *("budget.evaluation_every=null", "budget.final_episodes=2"),
)
CASES = {"ppo": Case(TRAINING, 100_000, 5_000), "sac": Case(SAC, 10_000, 1_000)}


def events_of(folder: Path, kind: str) -> list[dict[str, Any]]:
    """Events of a kind of the one run in a folder, of all attempts."""
    return [event for journal in journals(folder) for event in journal if event["event"] == kind]


def trained(
    folder: Path, command: Sequence[str], variables: dict[str, str] | None = None
) -> tuple[float, list[dict[str, Any]]]:
    """Seconds of one training, its evaluation left out, and the checkpoints it published."""
    place = Path(tempfile.mkdtemp(dir=folder))
    timed(command, place, variables)
    return training_seconds(journals(place)[0]), events_of(place, "checkpointed")


def measure_training(case: Case, folder: Path, repeats: int) -> Numbers:
    """A training with checkpoints beside one without, in turns."""
    without = folder / "without"
    without.mkdir()
    (without / "sitecustomize.py").write_text(WITHOUT)
    path = os.pathsep.join([str(without), *filter(None, [os.environ.get("PYTHONPATH")])])
    plain, default, tight = [], [], []
    published: list[dict[str, Any]] = []
    for _ in range(repeats):
        seconds, published = trained(folder, case.tight, {"PYTHONPATH": path})
        assert not published, "a training that was to take no copy of itself has published one"
        plain.append(seconds)
        default.append(trained(folder, case.command)[0])
        seconds, published = trained(folder, case.tight)
        tight.append(seconds)
    return {
        "without_s": statistics.median(plain),
        "default_over_without": ratio(default, plain),
        "tight_over_without": ratio(tight, plain),
        "all_s": {"without": plain, "default": default, "tight": tight},
        "default_limit": 1.01,
        "tight_every": case.every,
        "checkpoints": len(published),
        "publishing_s": statistics.median(event["seconds"] for event in published),
    }


def ratio(seconds: Sequence[float], plain: Sequence[float]) -> float:
    """The median over turns of one time over the other."""
    return statistics.median(a / b for a, b in zip(seconds, plain, strict=True))


def measure_resume(case: Case, folder: Path) -> Numbers:
    """A training that is killed late, what it left on disk, and how soon it goes on."""
    place = Path(tempfile.mkdtemp(dir=folder))
    reached = kill_late(case, place)
    (run,) = (path.parent for path in (place / "runs").glob("*/*/spec.json"))
    newest = max((run / "checkpoints").glob("[0-9]*"), key=lambda path: int(path.name))
    manifest = json.loads((newest / "manifest.json").read_text())
    numbers = {
        "killed_at": reached,
        "bundle_bytes": sum(file["bytes"] for file in manifest["files"].values()),
        **measure_transitions(run),
    }
    timed(case.tight, place)
    (started, *_), (continued,) = journals(place)[1], events_of(place, "continued")
    again = continued["time"] - started["time"]
    return numbers | {"continued_at": continued["step"], "resume_s": again}


def kill_late(case: Case, place: Path) -> int:
    """Begin a training and kill it; returns the step of its last checkpoint."""
    command = subprocess.Popen(case.tight, cwd=place, stdout=subprocess.DEVNULL)
    deadline = time.monotonic() + PATIENCE
    try:
        while command.poll() is None and time.monotonic() < deadline:
            published = events_of(place, "checkpointed")
            if published and published[-1]["step"] >= KILLED_AFTER * case.steps:
                return int(published[-1]["step"])
            time.sleep(0.1)
    finally:
        command.kill()
        command.wait()
    raise SystemExit(f"{' '.join(case.tight)} came to its end before it was killed")


def measure_transitions(run: Path) -> Numbers:
    """Bytes of the files that hold experience, over those of the experience itself."""
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
    """All that is measured of one training."""
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
    """Print a table: a row for each measure, a column for each training."""
    width = max(len(title) for title, _, _ in ROWS)
    print("".ljust(width), *(name.rjust(12) for name in results))
    for title, key, text in ROWS:
        cells = [text(found[key]) if key in found else "" for found in results.values()]
        print(title.ljust(width), *(cell.rjust(12) for cell in cells))


def main() -> None:
    """Measure what is asked for, and keep what was measured before."""
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
