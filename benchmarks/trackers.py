"""What trackers cost a training: its seconds a step while they work over those while they are stopped.

Prints a table and writes `benchmarks/results/trackers.json`. Run it on a machine that does nothing
else: `python benchmarks/trackers.py`. W&B writes offline, MLflow into its own SQLite store or, where
it is dead, to a port that takes connections and never answers.

A whole training beside another one says nothing where a machine's speed differs by more than the
hundredth that is asked for. So the mirror process of one training is stopped and continued in turns,
and neighbouring turns are compared. What it would have done while it was stopped it does in the next
turn: the ratio is that of a mirror with twice the work of its time, a bound from above.
"""

import argparse
import json
import os
import shutil
import signal
import socket
import statistics
import subprocess
import tempfile
import time
from collections.abc import Sequence
from itertools import pairwise
from math import isnan
from pathlib import Path

from run import RLEXP, Numbers, journals

RESULTS = Path(__file__).parent / "results" / "trackers.json"
ALL = "tracker=[mlflow,tensorboard,wandb]"
MIRROR = b"rlexp.app.tracking.mirror_process"
LIMIT = 1.01
CASES = ("healthy", "dead")
TRAININGS = {
    "default": ("algorithm=ppo", "environment=cartpole"),
    "often": ("+benchmark=cartpole",),
}
"""PPO that logs every 2,048 steps, about once a second; and every 256, about ten times a second."""
EVALUATED = ("budget.evaluation_every=50_000", "budget.final_episodes=8")
TURN_S = 10.0
STARTS_WITHIN_S = 60.0
Turn = tuple[float, float, bool]


def processes_below(root: int) -> list[int]:
    """A process and all its descendants."""
    parents = {}
    for stat in Path("/proc").glob("[0-9]*/stat"):
        try:
            parents[int(stat.parent.name)] = int(stat.read_text().rpartition(")")[2].split()[1])
        except OSError:
            continue
    processes = [root]
    for process in processes:
        processes += [child for child, parent in parents.items() if parent == process]
    return processes


def mirror_of(command: int) -> int:
    """The process id of the mirror process of a command."""
    ends = time.monotonic() + STARTS_WITHIN_S
    while time.monotonic() < ends:
        for process in processes_below(command):
            if MIRROR in Path(f"/proc/{process}/cmdline").read_bytes():
                return process
        time.sleep(0.2)
    raise SystemExit("the command has started no mirror process")


def in_turns(command: Sequence[str], folder: Path) -> tuple[list[Turn], float]:
    """The times when the mirror worked and was stopped, and its processor seconds."""
    turns: list[Turn] = []
    environment = {**os.environ, "WANDB_MODE": "offline"}
    with subprocess.Popen(
        command, cwd=folder, env=environment, stdout=subprocess.DEVNULL, stderr=subprocess.STDOUT
    ) as running:
        mirror, works, spent = mirror_of(running.pid), True, 0.0
        while running.poll() is None and Path(f"/proc/{mirror}").exists():
            started, family = time.time(), processes_below(mirror)
            spent = max(spent, processor_seconds(family))
            send(family, signal.SIGCONT if works else signal.SIGSTOP)
            try:
                running.wait(TURN_S)
            except subprocess.TimeoutExpired:
                turns.append((started, time.time(), works))
            works = not works
        send(processes_below(mirror), signal.SIGCONT)
    return turns, spent


def send(processes: Sequence[int], number: signal.Signals) -> None:
    """Send a signal to those processes that still exist."""
    for process in processes:
        try:
            os.kill(process, number)
        except ProcessLookupError:
            continue


def processor_seconds(processes: Sequence[int]) -> float:
    """The processor seconds of processes so far."""
    ticks = 0
    for process in processes:
        try:
            fields = Path(f"/proc/{process}/stat").read_text().rpartition(")")[2].split()
        except OSError:
            continue
        ticks += int(fields[11]) + int(fields[12])
    return ticks / os.sysconf("SC_CLK_TCK")


def seconds_a_step(folder: Path, turn: Turn) -> float:
    """Seconds per step of all trainings within a turn, without evaluations."""
    seconds = steps = 0.0
    for journal in journals(folder):
        for before, after in pairwise(journal):
            if (
                before["event"] == after["event"] == "measured"
                and turn[0] <= before["time"]
                and after["time"] <= turn[1]
            ):
                seconds += after["time"] - before["time"]
                steps += after["step"] - before["step"]
    return seconds / steps if steps else float("nan")


def ratios(folder: Path, turns: Sequence[Turn]) -> list[float]:
    """For neighbouring turns: seconds per step with the mirror working, relative to stopped."""
    values = []
    for turn_, next_turn in pairwise(turns):
        times = {turn[2]: seconds_a_step(folder, turn) for turn in (turn_, next_turn)}
        values.append(times[True] / times[False])
    return [ratio for ratio in values if not isnan(ratio)]


def measure(steps: int, runs: int, cases: Sequence[str], cadence: str, folder: Path) -> Numbers:
    """Measure trainings with working trackers, and with an unreachable one."""
    overrides = (f"budget.steps={steps}", f"seeds.test={runs}", *TRAININGS[cadence], *EVALUATED)
    command = [*RLEXP, "run", *overrides, "experiment=x", ALL, "-q"]
    result: Numbers = {
        "cadence": cadence,
        "steps": steps,
        "runs": runs,
        "cores": os.cpu_count(),
        "limit": LIMIT,
    }
    with socket.create_server(("127.0.0.1", 0)) as hole:
        uri = f"tracker.mlflow.uri=http://127.0.0.1:{hole.getsockname()[1]}"
        for name in cases:
            more = [uri] if name == "dead" else []
            study = folder / name
            study.mkdir()
            turns, spent = in_turns([*command, *more], study)
            result[name] = summary(ratios(study, turns), journals(study), spent)
    return result


def summary(
    ratios_: Sequence[float], journals: Sequence[Sequence[Numbers]], spent: float
) -> Numbers:
    """The mean ratio with its standard error, and the time of the mirror."""
    error = statistics.stdev(ratios_) / len(ratios_) ** 0.5 if len(ratios_) > 1 else None
    return {
        "median": statistics.median(ratios_),
        "mean": statistics.fmean(ratios_),
        "standard_error": error,
        "pairs": len(ratios_),
        "training_s": max(events[-1]["seconds"] for events in journals),
        "mirror_processor_s": spent,
        "ratios": list(ratios_),
    }


def main() -> None:
    """Measure, and store the result beside the others."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--steps", type=int, default=800_000)
    parser.add_argument("--cadence", choices=TRAININGS, default="default")
    parser.add_argument("--case", choices=CASES, help="only one of them")
    parser.add_argument("--runs", type=int, default=os.cpu_count() or 1)
    arguments = parser.parse_args()
    cases = CASES if arguments.case is None else (arguments.case,)
    RESULTS.parent.mkdir(exist_ok=True)
    folder = Path(tempfile.mkdtemp(prefix="rlexp-trackers-"))
    try:
        result = measure(arguments.steps, arguments.runs, cases, arguments.cadence, folder)
    finally:
        shutil.rmtree(folder)
    RESULTS.write_text(json.dumps(result, indent=1) + "\n")
    print(f"{result['runs']} trainings of {result['steps']:,} steps, {result['cores']} cores")
    for name in cases:
        case = result[name]
        error = "unknown" if case["standard_error"] is None else f"{case['standard_error']:.4f}"
        print(
            f"{name}: mirror working over stopped {case['mean']:.4f} ± {error}, median "
            f"{case['median']:.4f} of {case['pairs']} pairs (at most {LIMIT}); training "
            f"{case['training_s']:.0f} s, mirror {case['mirror_processor_s']:.1f} s of processors"
        )


if __name__ == "__main__":
    main()
