"""Files for tests of importers, written by the libraries themselves, and small tables."""

import csv
import json
from collections.abc import Sequence
from dataclasses import replace
from io import BytesIO
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import gymnasium
import numpy as np
from gymnasium.spaces import Discrete

from rlexp.exchange.importers.budgets import ImportedExperimentOptions
from rlexp.exchange.importers.imported_study import (
    ENVIRONMENT,
    ImportedRun,
    ImportedStudy,
    ImportOptions,
)
from rlexp.exchange.importers.plan import ImportPlan, make_import_plan
from rlexp.exchange.importers.source_files import find_source_files
from rlexp.exchange.importers.sources import SourceFile

RECORDED = Path(__file__).parent / "exchange" / "imports"
"""Files that libraries wrote once, because writing them takes too long for each test."""
WANTED = ImportOptions(label="PPO", task="Toy-v0", unit=ENVIRONMENT)


class Toy(gymnasium.Env[Any, Any]):
    """Episodes of the given lengths with a reward of 1 per step."""

    def __init__(self, lengths: Sequence[int]) -> None:
        self.action_space = self.observation_space = Discrete(2)
        self.lengths = list(lengths)
        self.remaining = 0

    def reset(self, **kwargs: Any) -> tuple[int, dict[str, Any]]:
        """Begin the next episode."""
        self.remaining = self.lengths.pop(0)
        return 0, {}

    def step(self, action: Any) -> tuple[int, float, bool, bool, dict[str, Any]]:
        """Take a step of the current episode."""
        self.remaining -= 1
        return 0, 1.0, self.remaining == 0, False, {}


def write_monitors(folder: Path, *lengths: Sequence[int]) -> None:
    """Let Monitor of stable-baselines3 write a file for each of several parallel environments."""
    from stable_baselines3.common.monitor import Monitor

    folder.mkdir(parents=True, exist_ok=True)
    envs = [
        Monitor(Toy([*env_lengths, 1]), str(folder / str(n)))
        for n, env_lengths in enumerate(lengths)
    ]
    remaining = [len(env_lengths) for env_lengths in lengths]
    for env in envs:
        env.reset()
    for _ in range(sum(lengths[0])):
        for number, env in enumerate(envs):
            if remaining[number] and any(env.step(0)[2:4]):
                remaining[number] -= 1
                if remaining[number]:
                    env.reset()
    for env in envs:
        env.close()


def write_evaluations(
    folder: Path, steps: Sequence[int], returns: Sequence[Sequence[float]]
) -> Path:
    """Write `evaluations.npz` as EvalCallback of stable-baselines3 does."""
    folder.mkdir(parents=True, exist_ok=True)
    lengths = [[10] * len(values) for values in returns]
    np.savez(
        folder / "evaluations",
        timesteps=list(steps),
        results=[list(values) for values in returns],
        ep_lengths=lengths,
    )
    return folder / "evaluations.npz"


def write_table(path: Path, rows: Sequence[Sequence[Any]], header: str) -> Path:
    """Write a CSV table."""
    with path.open("w", newline="") as file:
        csv.writer(file).writerows([header.split(","), *rows])
    return path


def write_json(path: Path, content: Any) -> Path:
    """Write a JSON file."""
    path.write_text(json.dumps(content))
    return path


def npz(**arrays: Any) -> bytes:
    """The content of an npz archive."""
    file = BytesIO()
    np.savez(file, **arrays)
    return file.getvalue()


def given(*paths: Path) -> list[SourceFile]:
    """Files as a command passes them to importers."""
    with TemporaryDirectory() as temporary:
        return find_source_files(paths, Path.read_bytes, Path(temporary))


def settled(*runs: ImportedRun, kind: str = "csv", **options: Any) -> ImportPlan:
    """Planned runs of a new experiment on tasks without reference scores."""
    existing = options.pop("there", None)
    study = ImportedStudy(kind=kind, runs=runs)
    return make_import_plan(
        study, ImportedExperimentOptions(**{"name": "alpha", **options}), existing, lambda _: {}
    )


def with_seed(run: ImportedRun, seed: int) -> ImportedRun:
    """The same run with another seed."""
    return replace(run, name=f"{run.name}-{seed}", seed=seed)
