"""Sweeps of several objectives on disk, with made-up runs: more epochs score more, and cost more."""

from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path

from stored_sweeps import StoredSweep, stored_sweep

from rlexp.protocol.seeds import Phase
from rlexp.protocol.spec import RunSpec

OBJECTIVES = (
    "sweep.objective=[score,energy]",
    "environment.measures={energy: {direction: minimise}}",
    "sweep.allocation=fixed",
    "sweep.trials=12",
    "sweep.finalists=4",
)


def score_of(spec: RunSpec) -> float:
    """A score that rises with the epochs, ever less."""
    epochs: int = spec.algorithm["n_epochs"]
    return round(100 * (1 - 0.8**epochs)) + spec.seed


def energy_of(spec: RunSpec) -> Mapping[str, float]:
    """An energy that rises with the epochs, and with a learning rate above 0.001, which gains nothing."""
    epochs, rate = spec.algorithm["n_epochs"], spec.algorithm["learning_rate"]
    wasted = 50.0 if rate > 1e-3 else 0.0
    # On test seeds everything needs more: a number of the wrong phase is seen.
    later = {Phase.TUNING: 0.0, Phase.SELECTION: 1.0, Phase.TEST: 5.0}[spec.phase]
    return {"energy": 10.0 * epochs + wasted + later + 2 * spec.seed}


def front_sweep(folder: Path, *words: str) -> StoredSweep:
    """A sweep of score and energy that has not started."""
    sweep = stored_sweep(folder, *OBJECTIVES, *words, score=score_of)
    return replace(sweep, measured=energy_of)
