"""Speed of the statistics compared with rliable, on the same scores, machine and run.

Prints ratios and writes `benchmarks/results/statistics.json`. Run it on a machine that does
nothing else: `python benchmarks/statistics`, or one part of it: `python benchmarks/statistics iqm`.
"""

import argparse
import json
import subprocess
import sys
from pathlib import Path

from cases import ALGORITHMS, REPETITIONS, RUNS, TASKS

HERE = Path(__file__).parent
RESULTS = HERE.parent / "results" / "statistics.json"
PEER = HERE.parent / ".peer" / "statistics"
# As pip resolves rliable alone, it takes a pandas with which arch cannot be imported.
PEER_PACKAGES = ("rliable==1.2.0", "arch<8", "pandas<3")
TARGETS = {
    ("iqm", 5): 150,
    ("iqm", 10): 100,
    ("iqm", 100): 40,
    ("improvement", 5): 1_000,
    ("improvement", 10): 1_000,
    ("profile", 5): 300,
    ("profile", 10): 300,
    ("curve", 5): 500,
}
Numbers = dict[str, float | int | None]


def peer_python() -> Path:
    """The interpreter of the peer's virtual environment, which is created if it is missing."""
    python = PEER / "bin" / "python"
    if not python.exists():
        subprocess.run([sys.executable, "-m", "venv", PEER], check=True)
        subprocess.run([python, "-m", "pip", "install", "-q", *PEER_PACKAGES], check=True)
    return python


def timed(python: Path | str, script: str, *arguments: str) -> list[float]:
    """Seconds that a script of this folder says something took, in a process of its own."""
    command = [python, "-W", "ignore", HERE / script, *arguments]
    done = subprocess.run(command, check=True, capture_output=True, text=True)
    return [float(word) for word in done.stdout.split()]


def measure(part: str, runs: int) -> Numbers:
    """One part compared with the peer: seconds of all labels, ratios, cost of a drawn run."""
    labels = ALGORITHMS if part == "iqm" else 1
    peer = labels * timed(peer_python(), "peer.py", part, str(runs))[0]
    first, again = timed(sys.executable, "ours.py", part, str(runs))
    ours = labels * again
    numpy_seconds = labels * timed(sys.executable, "ours.py", part, str(runs), "--numpy")[1]
    result: Numbers = {
        "rliable_s": peer,
        "rlexp_s": ours,
        "rlexp_numpy_s": numpy_seconds,
        "first_call_s": first,
        "ratio": peer / ours,
        "ratio_numpy": peer / numpy_seconds,
        "target": TARGETS.get((part, runs)),
    }
    if part == "iqm":
        drawn = labels * REPETITIONS[part] * TASKS * runs / 1e9
        word_seconds = labels * timed(sys.executable, "ours.py", "words", str(runs))[1]
        result |= {"ns_a_run": ours / drawn, "ns_a_run_numpy": numpy_seconds / drawn}
        result["ns_a_word_on_one_thread"] = word_seconds / drawn
    return result


def main() -> None:
    """Measure the requested parts, and keep earlier measurements of the others."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("parts", nargs="*", metavar="PART", help=f"of {', '.join(RUNS)}")
    arguments = parser.parse_args()
    if unknown := set(arguments.parts) - set(RUNS):
        parser.error(f"there is no part {', '.join(sorted(unknown))}; parts: {', '.join(RUNS)}")
    RESULTS.parent.mkdir(exist_ok=True)
    results = json.loads(RESULTS.read_text()) if RESULTS.exists() else {}
    for part in arguments.parts or RUNS:
        for runs in RUNS[part]:
            name = f"{part}, {runs} runs"
            results[name] = measure(part, runs)
            print(name, json.dumps(results[name], indent=1))
            RESULTS.write_text(json.dumps(results, indent=1) + "\n")


if __name__ == "__main__":
    main()
