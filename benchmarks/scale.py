"""How commands on an experiment grow from 100 to 10,000 finished runs, in time and in memory.

Each command is a process of its own: cold, its catalogue and what is kept of its report deleted
before, and warm, after another one. Beside them stand, in the same run, the start of any command (`rlexp --version`), what the
system needs to list the files (`find -printf` of every size and time), and what it takes to read
the journals with `json` alone. Prints a table and writes `benchmarks/results/scale.json`:
`python benchmarks/scale.py`, or a part of it:
`python benchmarks/scale.py --sizes 100 1000 --commands ls report`.
"""

import argparse
import json
import math
import os
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

from scale_runs import EXPERIMENT, make, overrides_of

HERE = Path(__file__).parent
RESULTS = HERE / "results" / "scale.json"
RLEXP = [sys.executable, "-m", "rlexp"]
SIZES = (100, 1_000, 10_000)
READ_ALL = (
    "import glob, json\n"
    "for name in glob.glob('runs/*/*/attempts/*/events.jsonl'):\n"
    "    with open(name, 'rb') as file:\n"
    "        [json.loads(line) for line in file]\n"
)
LIMITS: Mapping[str, Sequence[str]] = {
    "start": [*RLEXP, "--version"],
    "find": ["find", "runs", "-type", "f", "-printf", "%s %T@ %p\n"],
    "json": [sys.executable, "-c", READ_ALL],
}
"""What no command can be faster than, by name."""
COMMANDS: Mapping[str, Callable[[int], Sequence[str]]] = {
    "ls": lambda _: ["ls", EXPERIMENT],
    "status": lambda _: ["status", EXPERIMENT],
    "show": lambda _: ["show", EXPERIMENT],
    "run": lambda size: ["run", *overrides_of(size)],
    "resume": lambda _: ["resume", EXPERIMENT],
    "report": lambda _: ["report", EXPERIMENT],
    "compare": lambda _: ["compare", EXPERIMENT],
    "plan": lambda size: ["run", *overrides_of(size, "fresh"), "--dry-run"],
    "plan one": lambda size: ["run", "experiment=one", f"seeds.test={size}", "--dry-run"],
}
"""By name; the last two plan experiments that are not there."""
UNCHANGED = ("plan", "plan one")
"""Those that have no catalogue."""
Measured = dict[str, float]


def run(command: Sequence[str], folder: Path) -> Measured:
    """Seconds and peak memory in MB of a process.

    Raises:
        RuntimeError: It failed.
    """
    begun = time.perf_counter()
    with tempfile.TemporaryFile() as errors:
        process = subprocess.Popen(command, cwd=folder, stdout=subprocess.DEVNULL, stderr=errors)
        _, status, used = os.wait4(process.pid, 0)
        seconds = time.perf_counter() - begun
        process.returncode = os.waitstatus_to_exitcode(status)
        if process.returncode:
            errors.seek(0)
            said = errors.read().decode()
            raise RuntimeError(f"{command} ended with {process.returncode}: {said}")
    processor = used.ru_utime + used.ru_stime
    return {"s": seconds, "processor_s": processor, "mb": used.ru_maxrss / 1024}


def best(measurements: Sequence[Measured]) -> Measured:
    """The minimum of several measurements, because other processes only add time."""
    return {key: min(measurement[key] for measurement in measurements) for key in measurements[0]}


def measure(name: str, size: int, folder: Path, repeats: int) -> dict[str, Measured]:
    """One command with and without a cache."""
    command = [*RLEXP, *COMMANDS[name](size)]
    if name in UNCHANGED:
        return {"warm": best([run(command, folder) for _ in range(repeats)])}
    cold = []
    for _ in range(repeats):
        (folder / "runs" / EXPERIMENT / ".catalogue").unlink(missing_ok=True)
        shutil.rmtree(folder / "home", ignore_errors=True)
        cold.append(run(command, folder))
    return {"cold": best(cold), "warm": best([run(command, folder) for _ in range(repeats)])}


def measure_size(
    size: int, folder: Path, names: Sequence[str], repeats: int
) -> dict[str, dict[str, Measured]]:
    """The reference times and all commands on one experiment."""
    os.environ["RLEXP_HOME"] = str(folder / "home")
    results = {
        name: {"warm": best([run(command, folder) for _ in range(repeats)])}
        for name, command in LIMITS.items()
    }
    return results | {name: measure(name, size, folder, repeats) for name in names}


def growth(values: Mapping[int, float]) -> float:
    """The exponent of growth from the smallest to the largest size."""
    (low, first), (high, last) = min(values.items()), max(values.items())
    return math.log(last / first) / math.log(high / low) if high > low else math.nan


def print_table(results: Mapping[int, Mapping[str, Mapping[str, Measured]]]) -> None:
    """Print a line for each command, with and without a cache."""
    largest = results[max(results)]
    start, least = largest["start"]["warm"]["s"], largest["json"]["warm"]["s"]
    head = "".join(f"{f'{size:,} runs':>14}" for size in results)
    print(f"{'':16}{head}{'MB':>8}{'growth':>8}{'over start':>12}{'over json':>11}")
    for name, kinds in largest.items():
        for kind, last in kinds.items():
            seconds = {
                size: results_of_size[name][kind]["s"] for size, results_of_size in results.items()
            }
            seconds_text = "".join(f"{s:>12.2f} s" for s in seconds.values())
            print(
                f"{f'{name} {kind}':16}{seconds_text}{last['mb']:>8.0f}{growth(seconds):>8.2f}"
                f"{last['s'] / start:>12.1f}{last['s'] / least:>11.1f}"
            )


def main() -> None:
    """Create the experiments and measure the commands."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--sizes", type=int, nargs="+", default=SIZES, help="of experiments")
    parser.add_argument("--commands", nargs="+", default=list(COMMANDS), choices=COMMANDS)
    parser.add_argument("--repeats", type=int, default=3)
    parser.add_argument("--keep", type=Path, help="folder of the experiments, made if not there")
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory() as temporary:
        root = (arguments.keep or Path(temporary)).absolute()
        results = {}
        for size in sorted(arguments.sizes):
            folder = root / str(size)
            if not (folder / "runs").exists():
                folder.mkdir(parents=True, exist_ok=True)
                print(f"makes {size:,} runs", file=sys.stderr)
                make(folder, size)
            results[size] = measure_size(size, folder, arguments.commands, arguments.repeats)
    print_table(results)
    RESULTS.parent.mkdir(exist_ok=True)
    RESULTS.write_text(json.dumps(results, indent=1) + "\n")


if __name__ == "__main__":
    main()
