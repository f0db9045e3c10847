"""What the command costs that waits for runs elsewhere: 100 and 1,000 of them out at a time.

First nobody takes them; then this process stands for as many workers: it holds their claims, moves
their progress and appends to their journals. Prints a table of the command's share of one core and
of its memory, and writes `benchmarks/results/coordinator.json`: `python benchmarks/coordinator.py`,
or with other sizes: `python benchmarks/coordinator.py --sizes 100 --seconds 20`. With `--terminal`
the command shows its live table.
"""

import argparse
import json
import os
import pty
import resource
import signal
import socket
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, closing, contextmanager, suppress
from pathlib import Path
from subprocess import DEVNULL, Popen
from unittest.mock import patch

import psutil

from rlexp.app.execution.launch_settings import claim_run
from rlexp.engine.run_in_flight import PROGRESS
from rlexp.records.events import Evaluated, Measured, RunStarted
from rlexp.store.journal import JournalWriter
from rlexp.store.layout import AttemptPaths, ExperimentPaths
from rlexp.store.run_queue import queued_runs
from rlexp.store.runs import new_attempt

RESULTS = Path(__file__).parent / "results" / "coordinator.json"
SIZES = (100, 1_000)
STEPS, EVALUATIONS = 1_000_000, 50
MEASURE_EVERY, EVALUATE_EVERY = 5, 15
"""Seconds between what a run says of its learner, and between its evaluations."""
SETTLE = 20.0
"""Seconds until a measurement begins: every run has been evaluated once by then."""
PATIENCE = 300.0
Numbers = dict[str, float]


@contextmanager
def command(folder: Path, size: int, *, terminal: bool) -> Iterator[psutil.Process]:
    """The command that has queued a number of runs and waits for them."""
    arguments = (
        *("run", "experiment=x", "algorithm=ppo", "environment=cartpole", f"seeds.test={size}"),
        *(f"budget.steps={STEPS}", f"budget.evaluation_every={STEPS // EVALUATIONS}"),
        *("executor=pull", f"executor.workers={size}", "executor.grace=1"),
    )
    main, end = pty.openpty()
    threading.Thread(target=drain, args=(main,), daemon=True).start()
    output = end if terminal else DEVNULL
    program = [sys.executable, "-m", "rlexp", *arguments]
    with Popen(program, cwd=folder, stdin=DEVNULL, stdout=output, stderr=output) as process:
        try:
            deadline = time.monotonic() + PATIENCE
            while len(queued_runs(ExperimentPaths(folder / "runs" / "x"))) < size:
                if process.poll() is not None or time.monotonic() > deadline:
                    raise SystemExit(f"the command did not order {size} runs")
                time.sleep(0.2)
            yield psutil.Process(process.pid)
        finally:
            process.send_signal(signal.SIGKILL)
    os.close(end)


def drain(terminal: int) -> None:
    """Read the output of a terminal, so that the command is not blocked."""
    with suppress(OSError):
        while os.read(terminal, 65_536):
            pass


def measure(process: psutil.Process, seconds: float, act: Callable[[int], object]) -> Numbers:
    """Share of a core and memory in MB of a process, while `act` is called every second."""
    go_on(SETTLE, act)
    begun, before, memory = time.monotonic(), used(process), process.memory_full_info().uss
    go_on(seconds, act)
    share = (used(process) - before) / (time.monotonic() - begun)
    after = process.memory_full_info().uss
    return {"core": share, "mb": after / 1e6, "growth_mb": (after - memory) / 1e6}


def go_on(seconds: float, act: Callable[[int], object]) -> None:
    """Call `act` every second."""
    begun = time.monotonic()
    for second in range(int(seconds)):
        act(second)
        time.sleep(max(0.0, begun + second + 1 - time.monotonic()))


def used(process: psutil.Process) -> float:
    """Processor seconds of a process."""
    times = process.cpu_times()
    return float(times.user + times.system)


class Pretended:
    """A run that a simulated worker executes."""

    def __init__(self, attempt: AttemptPaths, journal: JournalWriter, number: int) -> None:
        self._attempt, self._journal, self._number = attempt, journal, number
        self._step = 0
        started = RunStarted(
            time=time.time(), attempt=1, pid=os.getpid(), host=socket.gethostname()
        )
        journal.append(started)

    def write(self, second: int) -> None:
        """What a run leaves behind in a second."""
        self._step += STEPS // EVALUATIONS // EVALUATE_EVERY
        self._attempt.progress.write_bytes(PROGRESS.pack(self._step, second))
        if (second + self._number) % MEASURE_EVERY == 0:
            values = {"rollout/ep_rew_mean": 1.0 * second, "train/loss": 0.5, "train/std": 1.0}
            self._journal.append(Measured(time=time.time(), step=self._step, metrics=values))
        if (second + self._number) % EVALUATE_EVERY == 0:
            event = Evaluated(
                time=time.time(),
                step=self._step,
                returns=(100.0,) * 20,
                lengths=(100,) * 20,
                seconds=0.5,
                final=False,
            )
            self._journal.append(event)


def take_all(paths: ExperimentPaths, stack: ExitStack) -> list[Pretended]:
    """Claim every run and begin its attempt."""
    runs = []
    for number, name in enumerate(queued_runs(paths)):
        run = paths.run(name)
        held = claim_run(run, lambda: None)
        if held is None:
            raise SystemExit(f"{name} is held by another")
        stack.callback(held.release)
        attempt = new_attempt(run, {}, {}, "")
        journal = stack.enter_context(closing(JournalWriter(attempt.journal)))
        runs.append(Pretended(attempt, journal, number))
    return runs


def measure_size(size: int, seconds: float, *, terminal: bool) -> dict[str, Numbers]:
    """The cost of the command with queued runs, before and after workers take them."""
    with tempfile.TemporaryDirectory() as temporary, ExitStack() as stack:
        folder = Path(temporary)
        process = stack.enter_context(command(folder, size, terminal=terminal))
        waiting = measure(process, seconds, lambda _: None)
        runs = take_all(ExperimentPaths(folder / "runs" / "x"), stack)

        def write(second: int) -> None:
            for run in runs:
                run.write(second)

        running = measure(process, seconds, write)
        return {"waiting": waiting, "running": running}


def main() -> None:
    """Measure each size."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--sizes", type=int, nargs="+", default=SIZES, help="runs that are out")
    parser.add_argument("--seconds", type=float, default=60.0, help="of each measurement")
    parser.add_argument("--terminal", action="store_true", help="with the live table")
    arguments = parser.parse_args()
    # A claim and a journal each.
    _, most = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (most, most))
    results: dict[int, dict[str, Numbers]] = {}
    with patch("os.fsync"):
        for size in arguments.sizes:
            results[size] = measure_size(size, arguments.seconds, terminal=arguments.terminal)
            for kind, results_of_size in results[size].items():
                print(
                    f"{size:>6,} runs {kind:8} {results_of_size['core']:>7.1%} of a core "
                    f"{results_of_size['mb']:>6.0f} MB {results_of_size['growth_mb']:>+6.1f} MB",
                    flush=True,
                )
    RESULTS.parent.mkdir(exist_ok=True)
    RESULTS.write_text(json.dumps(results, indent=1) + "\n")


if __name__ == "__main__":
    main()
