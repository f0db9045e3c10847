"""What `rlexp view` takes from the processor with 1,000 finished runs.

A browser is imitated: it asks for the state every two seconds, and for the page when its version
changes. The times are processor times of the server, so that other programs disturb them little:
until the first page, until the complete page, for the new page after one run has ended, for the
intervals that follow, and in a minute in which nothing changes. The last column is the share of one
core over the same time, which is what a training beside it can lose. Prints a table and writes
`benchmarks/results/view.json`: `python benchmarks/view.py`, or `python benchmarks/view.py --runs 100`.

`python benchmarks/view.py --beside-training 300000` trains PPO on CartPole-v1 for so many steps
meanwhile. The server is stopped and continued in turns of ten seconds, and one run of the 1,000 ends at
the beginning of each turn in which it works. It prints the seconds a step of the training while the
server works, over those while it is stopped.
"""

import argparse
import json
import os
import shutil
import signal
import statistics
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from math import sqrt
from pathlib import Path
from urllib.request import urlopen

from run import RLEXP
from scale_runs import EXPERIMENT, make
from trackers import EVALUATED, TRAININGS, TURN_S, Turn, ratios

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
        results["its intervals"] = measured(process, address, lambda s: not s["computing"])
        end = time.monotonic() + MINUTE
        results["idle minute"] = measured(process, address, lambda _: time.monotonic() > end)
    return results


def look(address: str, ends: threading.Event) -> None:
    """Ask as a browser does, until the end."""
    with suppress(OSError):
        while not ends.wait(PAUSE):
            measured(os.getpid(), address, lambda _: True)


def beside_training(folder: Path, runs: int, steps: int) -> list[float]:
    """For neighbouring turns: seconds a step with the server working, relative to stopped."""
    study = folder / "study"
    study.mkdir()
    run, aside = make(folder, runs).runs()[-1].folder, folder / "aside"
    words = [
        "run",
        *TRAININGS["default"],
        *EVALUATED,
        f"budget.steps={steps}",
        "experiment=x",
        "seeds.test=2",
        "-q",
    ]
    turns: list[Turn] = []
    ends = threading.Event()
    with served(folder) as (process, address):
        measured(process, address, lambda s: bool(s["version"]) and not s["computing"])
        browser = threading.Thread(target=look, args=(address, ends))
        browser.start()
        with subprocess.Popen([*RLEXP, *words], cwd=study) as training:
            works = True
            while training.poll() is None:
                if works:
                    shutil.move(*((run, aside) if run.exists() else (aside, run)))
                os.kill(process, signal.SIGCONT if works else signal.SIGSTOP)
                started = time.time()
                with suppress(subprocess.TimeoutExpired):
                    training.wait(TURN_S)
                    break
                turns.append((started, time.time(), works))
                works = not works
        os.kill(process, signal.SIGCONT)
        ends.set()
        browser.join()
    return ratios(study, turns)


def main() -> None:
    """Measure, print and write."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--runs", type=int, default=1_000)
    parser.add_argument("--beside-training", type=int, metavar="STEPS")
    arguments = parser.parse_args()
    runs = arguments.runs
    with tempfile.TemporaryDirectory() as folder:
        os.environ["RLEXP_HOME"] = f"{folder}/home"
        if arguments.beside_training:
            slowed = beside_training(Path(folder), runs, arguments.beside_training)
            error = statistics.stdev(slowed) / sqrt(len(slowed))
            print(
                f"{statistics.mean(slowed):.3f} ± {error:.3f}, median {statistics.median(slowed):.3f}, "
                f"{len(slowed)} pairs of turns"
            )
            return
        results = measure(Path(folder), runs)
    print(f"{f'{runs:,} runs':16}{'s':>8}{'processor s':>13}{'share':>8}")
    for name, values in results.items():
        print(f"{name:16}{values['s']:8.1f}{values['processor_s']:13.2f}{values['share']:8.3f}")
    RESULTS.parent.mkdir(exist_ok=True)
    RESULTS.write_text(json.dumps({"runs": runs, **results}, indent=1) + "\n")


if __name__ == "__main__":
    main()
