"""How much `rlexp run` costs beside plain stable-baselines3, and beside rl-baselines3-zoo.

Prints ratios and writes `benchmarks/results/run.json`. Run it on a machine that does nothing
else: `python benchmarks/run.py`, or one part of it: `python benchmarks/run.py help repeat`.
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
import time
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from itertools import pairwise
from pathlib import Path
from typing import Any

import psutil
from command_times import Spent, measured, ratios, spend

HERE = Path(__file__).parent
RESULTS = HERE / "results" / "run.json"
PEER = HERE / ".peer"
PEER_PACKAGES = ("rl_zoo3==2.9.2", "pandas<3", "setuptools<81")
ONE_THREAD = {"OMP_NUM_THREADS": "1", "OPENBLAS_NUM_THREADS": "1", "MKL_NUM_THREADS": "1"}
RLEXP = [sys.executable, "-m", "rlexp"]
TRAINING = (
    "+benchmark=cartpole",
    "budget.evaluation_every=null",
    "budget.final_episodes=8",
)
PROGRESS_FILES = "runs/*/*/attempts/*/progress.bin"
"""The files with the present step of each attempt."""
Numbers = dict[str, Any]


def timed(command: Sequence[str], folder: Path) -> float:
    """Seconds of a command."""
    return spend(command, folder).wall


def best(command: Sequence[str], folder: Path, repeats: int = 7) -> float:
    """The shortest of several times, because other processes only add time."""
    return min(timed(command, folder) for _ in range(repeats))


def bare(seed: int, steps: int) -> float:
    """Seconds of `learn` of plain stable-baselines3 on one thread."""
    done = subprocess.run(
        [sys.executable, HERE / "bare.py", "--seed", str(seed), "--steps", str(steps)],
        env={**os.environ, **ONE_THREAD},
        check=True,
        capture_output=True,
        text=True,
    )
    return float(done.stdout)


def journals(folder: Path) -> list[list[dict[str, Any]]]:
    """The journals of an experiment."""
    paths = sorted((folder / "runs").glob("*/*/attempts/*/events.jsonl"))
    return [[json.loads(line) for line in path.read_text().splitlines()] for path in paths]


def training_seconds(events: Sequence[dict[str, Any]]) -> float:
    """Seconds of a run without its evaluations: building, learning, recording, saving."""
    evaluated = sum(e["seconds"] for e in events if e["event"] == "evaluated")
    whole: float = events[-1]["seconds"]
    return whole - float(evaluated)


def measure_help(folder: Path, arguments: argparse.Namespace) -> Numbers:
    """Seconds of `rlexp --help` and of the import of Typer."""
    del arguments
    typer = best([sys.executable, "-c", "import typer"], folder)
    ours = best([*RLEXP, "--help"], folder)
    return {"import_typer_s": typer, "help_s": ours, "difference_s": ours - typer, "limit_s": 0.15}


def measure_repeat(folder: Path, arguments: argparse.Namespace) -> Numbers:
    """Seconds of a command whose 100 runs are all finished."""
    del arguments
    overrides = (
        "budget.steps=2048",
        "budget.evaluation_every=null",
        "budget.final_episodes=1",
        "algorithm.n_epochs=1",
        "seeds.test=100",
    )
    first = timed([*RLEXP, "run", *overrides], folder)
    again = best([*RLEXP, "run", *overrides], folder, 5)
    return {"first_s": first, "again_s": again, "limit_s": 1.0}


def measure_single(folder: Path, arguments: argparse.Namespace) -> Numbers:
    """One run compared with plain stable-baselines3, in turns, and the start of a warm run."""
    ratios, starts = [], []
    for turn in range(arguments.repeats):
        bare_seconds = bare(turn, arguments.steps)
        study = folder / str(turn)
        study.mkdir()
        steps = f"budget.steps={arguments.steps}"
        seeds = f"seeds.test=[{turn}]"
        timed([*RLEXP, "run", *TRAINING, steps, seeds, "executor.workers=1"], study)
        ours = training_seconds(journals(study)[0])
        ratios.append(ours / bare_seconds)
    short = folder / "short"
    short.mkdir()
    overrides = ("budget.steps=2048", "executor.workers=1", "seeds.test=10")
    timed([*RLEXP, "run", *TRAINING, *overrides], short)
    order = sorted(journals(short), key=lambda events: events[0]["time"])
    for before, after in pairwise(order):
        starts.append(after[0]["time"] - before[-1]["time"])
    return {
        "training_over_bare": statistics.median(ratios),
        "all": ratios,
        "limit": 1.05,
        "warm_start_s": statistics.median(starts),
        "warm_start_limit_s": 0.1,
    }


def first_step(folder: Path, home: Path) -> Spent:
    """Wall-clock and processor time from the start of a command to the first environment step of its run.

    The process of a run writes its step into a mapped file at every step; the command is interrupted
    after the first one.

    Raises:
        RuntimeError: The command ended before its first step.
    """
    from rlexp.engine.run_in_flight import read_progress

    command = [*RLEXP, "run", "+benchmark=cartpole", "budget.steps=20480", "seeds.test=1"]
    environment = {**os.environ, "RLEXP_HOME": str(home), "RLEXP_RUNS": str(folder / "runs")}
    begun = time.perf_counter()
    with subprocess.Popen(
        command, cwd=folder, env=environment, stdout=subprocess.DEVNULL, start_new_session=True
    ) as process:
        while not any(read_progress(path)[0] for path in folder.glob(PROGRESS_FILES)):
            if process.poll() is not None:
                raise RuntimeError("the command ended before its first step")
            time.sleep(0.01)
        spent = Spent(time.perf_counter() - begun, processor_seconds(process.pid))
        process.send_signal(signal.SIGINT)
    return spent


def processor_seconds(pid: int) -> float:
    """Processor time of a process, of its present descendants, and of those that have ended."""
    process = psutil.Process(pid)
    family = [process, *process.children(recursive=True)]
    return sum(sum(each.cpu_times()[:4]) for each in family)


def measure_first_step(folder: Path, arguments: argparse.Namespace) -> Numbers:
    """Time from the start of a command to its first step, the first time and later."""
    spent = []
    for turn in range(arguments.repeats + 1):
        study = folder / str(turn)
        study.mkdir()
        spent.append(first_step(study, folder / "home"))
    first, *later = spent
    return {
        "composed_by_hydra_s": first.wall,
        "composed_by_hydra_processor_s": first.processor,
        "composition_cached_s": [each.wall for each in later],
        "composition_cached_processor_s": [each.processor for each in later],
        "median_s": statistics.median(each.wall for each in later),
        "median_processor_s": statistics.median(each.processor for each in later),
        "limit_s": 3.0,
    }


def measure_eight(folder: Path, arguments: argparse.Namespace) -> Numbers:
    """Eight seeds on all cores, compared in turns with plain runs on the same cores.

    The ideal is the time of the plain trainings alone, spread over the cores. The processor time of
    the plain runs has their imports in it, as that of our command has its own.
    """
    cores = len(os.sched_getaffinity(0))
    plain, ours, ideals = list[Spent](), list[Spent](), list[float]()
    for turn in range(arguments.repeats):
        with measured() as spent, ThreadPoolExecutor(cores) as pool:
            seconds = list(pool.map(lambda seed: bare(seed, arguments.long_steps), range(8)))
        plain.append(spent)
        ideals.append(sum(seconds) / cores)
        study = folder / str(turn)
        study.mkdir()
        steps = f"budget.steps={arguments.long_steps}"
        ours.append(spend([*RLEXP, "run", *TRAINING, steps, "seeds.test=8"], study))
    shares = [ideal / own.wall for ideal, own in zip(ideals, ours, strict=True)]
    return {
        "share_of_ideal": statistics.median(shares),
        "shares_of_ideal": shares,
        "aim": 1.1,
        "cores": cores,
        "steps": arguments.long_steps,
        **ratios(plain, ours),
    }


def measure_peer(folder: Path, arguments: argparse.Namespace) -> Numbers:
    """One rlexp command compared in turns with `rl_zoo3.train` for each seed."""
    python = PEER / "bin" / "python"
    if not python.exists():
        subprocess.run([sys.executable, "-m", "venv", PEER], check=True)
        # torch first and pinned: what the peer asks for would pull its CUDA build.
        for packages in (["torch==2.13.0"], PEER_PACKAGES):
            subprocess.run([python, "-m", "pip", "install", "-q", *packages], check=True)
    command = [str(python), "-m", "rl_zoo3.train", "--algo", "ppo", "--env", "CartPole-v1"]
    steps, seeds = str(arguments.steps), range(arguments.peer_seeds)
    overrides = ("+benchmark=cartpole", f"budget.steps={steps}", f"seeds.test={len(seeds)}")
    peer, ours = list[Spent](), list[Spent]()
    for turn in range(arguments.repeats):
        study = folder / str(turn)
        study.mkdir()
        with measured() as spent:
            for seed in seeds:
                spend([*command, "-n", steps, "--seed", str(seed), "-f", str(study)], study)
        peer.append(spent)
        ours.append(spend([*RLEXP, "run", *overrides], study))
    return {"seeds": len(seeds), "steps": arguments.steps, "aim": 3.5, **ratios(peer, ours)}


IMPORTS = (
    "import sys; from rlexp.executors.server import _import; _import(sys.argv[1:]); "
    "import time; print(time.process_time())"
)


def measure_server(folder: Path, arguments: argparse.Namespace) -> Numbers:
    """Processor seconds until runs can be forked, and with PyTorch's compiler, in turns."""
    from rlexp.app.execution.launch_settings import PRELOAD

    ours, with_compiler = list[float](), list[float]()
    for _ in range(arguments.repeats):
        for preload, kept in (
            (PRELOAD, ours),
            ((*PRELOAD, "torch._dynamo.utils"), with_compiler),
        ):
            done = subprocess.run(
                [sys.executable, "-c", IMPORTS, *preload],
                cwd=folder,
                env={**os.environ, **ONE_THREAD},
                check=True,
                capture_output=True,
                text=True,
            )
            kept.append(float(done.stdout))
    ratio = statistics.median(ours) / statistics.median(with_compiler)
    return {"processor_s": ours, "with_compiler_processor_s": with_compiler, "ratio": ratio}


PARTS: dict[str, Callable[[Path, argparse.Namespace], Numbers]] = {
    "help": measure_help,
    "repeat": measure_repeat,
    "server": measure_server,
    "single": measure_single,
    "first_step": measure_first_step,
    "eight": measure_eight,
    "peer": measure_peer,
}


def main() -> None:
    """Measure the requested parts, and keep earlier results of the others."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("parts", nargs="*", metavar="PART", help=f"of {', '.join(PARTS)}")
    parser.add_argument("--steps", type=int, default=100_000, help="of a run")
    parser.add_argument("--long-steps", type=int, default=150_000, help="of each of eight runs")
    parser.add_argument("--repeats", type=int, default=3)
    parser.add_argument("--peer-seeds", type=int, default=2)
    arguments = parser.parse_args()
    if unknown := set(arguments.parts) - set(PARTS):
        parser.error(f"there is no part {', '.join(sorted(unknown))}; parts: {', '.join(PARTS)}")
    RESULTS.parent.mkdir(exist_ok=True)
    results = json.loads(RESULTS.read_text()) if RESULTS.exists() else {}
    for name in arguments.parts or PARTS:
        folder = Path(tempfile.mkdtemp(prefix=f"rlexp-{name}-"))
        try:
            results[name] = PARTS[name](folder, arguments)
        finally:
            shutil.rmtree(folder)
        print(name, json.dumps(results[name], indent=1))
        RESULTS.write_text(json.dumps(results, indent=1) + "\n")


if __name__ == "__main__":
    main()
