"""Commands whose compiled runs one process executes in turn, and the events that they leave."""

import json
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any, TypeAlias

import pytest
from last_words import last_words

Events: TypeAlias = dict[int, list[dict[str, Any]]]
"""The events of all attempts of a run, by its seed."""
WORDS = (
    *("algorithm=compiled_ppo", "environment=cartpole", "environment.vector.count=4"),
    *("algorithm.n_steps=32", "algorithm.batch_size=64", "algorithm.n_epochs=2"),
    *("budget.steps=16000", "budget.evaluation_every=8000", "budget.evaluation_episodes=2"),
    *("budget.final_episodes=2", "budget.checkpoint_every=2000"),
)
"""Some seconds of training, with checkpoints."""


def new_folder(factory: pytest.TempPathFactory) -> Iterator[Path]:
    """A folder for experiments, and for the compiled code of a user who has compiled nothing."""
    made = factory.mktemp("experiments")
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("RLEXP_HOME", str(made))
        yield made


def start(folder: Path, name: str, *words: str) -> subprocess.Popen[bytes]:
    """Start the command of an experiment; a process of its own, because the tests have JAX.

    Local runs have one worker, unless the words name another executor.
    """
    settings = last_words(*WORDS, f"experiment={name}", *words)
    if not any(word.startswith("executor=") for word in words):
        settings = [*settings, "executor.workers=1"]
    command = [sys.executable, "-m", "rlexp", "run", *settings, "--quiet", "--no-probe"]
    return subprocess.Popen(command, cwd=folder)


def run(folder: Path, name: str, *words: str, code: int = 0) -> Events:
    """Execute an experiment; returns the events of each seed's attempts."""
    assert code == start(folder, name, *words).wait(500)
    return events_of(folder / "runs" / name)


def events_of(experiment: Path) -> Events:
    """The events of each seed's attempts, in their order."""
    return {
        json.loads((run / "spec.json").read_bytes())["seed"]: [
            json.loads(line)
            for journal in sorted(run.glob("attempts/*/events.jsonl"))
            for line in journal.read_text().splitlines()
        ]
        for run in sorted(experiment.glob("*-test-*"))
    }


def weights(events: Events) -> dict[int, str]:
    """The sha256 of the final weights by seed."""
    return {seed: rows[-1]["weights"] for seed, rows in events.items()}


def processes(rows: list[dict[str, Any]]) -> list[int]:
    """The process of every attempt."""
    return [row["pid"] for row in rows if "pid" in row]


def wait_for(experiment: Path, pattern: str) -> Path:
    """Wait for a file of an experiment; returns the first one."""
    deadline = time.monotonic() + 500
    while not (files := sorted(experiment.glob(pattern))):
        assert time.monotonic() < deadline, f"no {pattern} in {experiment}"
        time.sleep(0.005)
    return files[0]
