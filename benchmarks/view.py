"""What `rlexp view` takes from the processor with 1,000 finished runs.

A browser is imitated: it asks for the state every two seconds, and for the page when its version
changes. The times are processor times of the server, so that other programs disturb them little:
until the first page, until the complete page, for the new page after one run has ended, and in a
minute in which nothing changes. The last column is the share of one core over the same time, which
is what a training beside it can lose. Prints a table and writes `benchmarks/results/view.json`:
`python benchmarks/view.py`, or `python benchmarks/view.py --runs 100`.
"""

import argparse
import json
import os
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from urllib.request import urlopen

from scale_runs import EXPERIMENT, make

RESULTS = Path(__file__).parent / "results" / "view.json"
PAUSE = 2.0
"""Seconds between two questions of a page."""
MINUTE = 60.0
Measured = dict[str, float]


@contextmanager
def served(folder: Path) -> Iterator[tuple[int, str]]:
    """The process identifier and the address of a server of this workspace."""
    words = [sys.executable, "-m", "rlexp", "view", EXPERIMENT, "--json"]
    with subprocess.Popen(words, cwd=folder, stdout=subprocess.PIPE) as process:
        assert process.stdout is not None
        lines = iter(process.stdout.readline, b"}\n")
        yield process.pid, json.loads(b"".join(lines) + b"}")["address"]
        process.terminate()


def processor_seconds(process: int) -> float:
    """The processor time of a process since its start."""
    fields = Path(f"/proc/{process}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def get(address: str) -> bytes:
    """The content at an address."""
    with urlopen(address) as answer:
        content: bytes = answer.read()
    return content


def measured(process: int, address: str, is_over: Callable[[dict[str, str]], bool]) -> Measured:
    """Seconds and processor seconds until the state of the page fulfils a condition."""
    begun, before = time.perf_counter(), processor_seconds(process)
    version = ""
    while True:
        state = json.loads(get(f"{address}state.json"))
        if state["version"] != version:
            version = state["version"]
            get(address)
        if is_over(state):
            break
        time.sleep(PAUSE)
    seconds, used = time.perf_counter() - begun, processor_seconds(process) - before
    return {"s": seconds, "processor_s": used, "share": used / seconds}


def measure(folder: Path, runs: int) -> dict[str, Measured]:
    """The first page, the complete page, a page after one run has ended, and an idle minute."""
    run = make(folder, runs).runs()[-1].folder
    aside = folder / "aside"
    shutil.move(run, aside)
    results: dict[str, Measured] = {}
    with served(folder) as (process, address):
        start = processor_seconds(process)
        results["start"] = {"s": 0.0, "processor_s": start, "share": 0.0}
        results["first page"] = measured(process, address, lambda s: bool(s["version"]))
        complete = measured(process, address, lambda s: bool(s["version"]) and not s["computing"])
        results["complete page"] = complete
        former = json.loads(get(f"{address}state.json"))["version"]
        shutil.move(aside, run)
        results["one run ends"] = measured(process, address, lambda s: s["version"] != former)
        end = time.monotonic() + MINUTE
        results["idle minute"] = measured(process, address, lambda _: time.monotonic() > end)
    return results


def main() -> None:
    """Measure, print and write."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--runs", type=int, default=1_000)
    runs = parser.parse_args().runs
    with tempfile.TemporaryDirectory() as folder:
        os.environ["RLEXP_HOME"] = f"{folder}/home"
        results = measure(Path(folder), runs)
    print(f"{f'{runs:,} runs':16}{'s':>8}{'processor s':>13}{'share':>8}")
    for name, values in results.items():
        print(f"{name:16}{values['s']:8.1f}{values['processor_s']:13.2f}{values['share']:8.3f}")
    RESULTS.parent.mkdir(exist_ok=True)
    RESULTS.write_text(json.dumps({"runs": runs, **results}, indent=1) + "\n")


if __name__ == "__main__":
    main()
