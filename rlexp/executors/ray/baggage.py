"""What a worker needs of an experiment on a node that does not see its folder."""

import os
from collections.abc import Iterable, Iterator
from pathlib import Path

from rlexp.executors.ray.messages import Piece, read_below
from rlexp.store.layout import ExperimentPaths, RunPaths

OF_THE_EXPERIMENT = ("experiment.json", "trials.jsonl", "selection.json", "adaptive.json")
OF_THE_RUN = ("spec.json", "attempts", "checkpoints", "replay")
LEFT_BEHIND = frozenset({"log.txt", "files", "progress.bin"})
"""Of earlier attempts: nothing is continued from these."""


def baggage(experiment: ExperimentPaths, runs: Iterable[RunPaths]) -> Iterator[Piece]:
    """The files that runs are executed from: definition, orders, attempts, checkpoints."""
    names = list(OF_THE_EXPERIMENT)
    for run in runs:
        names.append(f"{experiment.orders.name}/{run.folder.name}.json")
        for word in OF_THE_RUN:
            names += _files(experiment.folder, f"{run.folder.name}/{word}")
    for name in names:
        piece = read_below(experiment.folder, name)
        if piece is not None:
            yield piece


def _files(folder: Path, name: str) -> Iterator[str]:
    path = folder / name
    if path.is_symlink() or path.name in LEFT_BEHIND:
        return
    if not path.is_dir():
        yield name
        return
    for inner in sorted(os.listdir(path)):  # noqa: PTH208 (names are enough)
        if not inner.startswith("."):
            yield from _files(folder, f"{name}/{inner}")
