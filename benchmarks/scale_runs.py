"""Makes an experiment of finished runs as the store writes them, from a trainer that only pretends.

What it writes is what real runs write, byte for byte in form: the definition, specs, attempts with
their provenance, journals, final policies (of a few kB) and the ledger. Only fsync is left out.
"""

import os
import random
from collections.abc import Iterator, Sequence
from contextlib import closing
from pathlib import Path
from typing import Any
from unittest.mock import patch

from rlexp.app.execution.request import read_request
from rlexp.app.workspace import Workspace
from rlexp.protocol.budget import Budget
from rlexp.protocol.spec import RunSpec
from rlexp.records.events import (
    Checkpointed,
    Ending,
    Evaluated,
    Event,
    Measured,
    RunEnded,
    RunStarted,
)
from rlexp.store.journal import JournalWriter
from rlexp.store.layout import ExperimentPaths, Layout
from rlexp.store.ledger_writer import LedgerWriter
from rlexp.store.provenance import collect, read_code
from rlexp.store.runs import new_attempt, write_experiment, write_run

EXPERIMENT = "scale"
LABELS = 20
STARTED = 1_780_000_000.0
STEPS = 15_000
EVALUATIONS = 15
MEASURED = ("rollout/ep_rew_mean", "train/loss", "train/value_loss", "train/approx_kl")
MODEL = 4_096
"""Bytes of a final policy."""


def overrides_of(runs: int, experiment: str = EXPERIMENT) -> list[str]:
    """Overrides for a number of runs: up to twenty learning rates with equally many seeds."""
    labels = min(LABELS, runs)
    rates = ",".join(str(round(0.0001 * (1 + i), 4)) for i in range(labels))
    return [
        f"experiment={experiment}",
        f"algorithm.learning_rate={rates}",
        f"budget.steps={STEPS}",
        f"budget.evaluation_every={STEPS // EVALUATIONS}",
        f"seeds.test={runs // labels}",
    ]


def make(folder: Path, runs: int) -> ExperimentPaths:
    """Create an experiment of finished runs in the study in `folder`."""
    study = Workspace(folder, Layout(folder / "runs"))
    overrides = overrides_of(runs)
    request = read_request(overrides, study)
    paths = study.layout.experiment(request.experiment.name)
    command = ("rlexp", "run", *overrides)
    provenance = collect(read_code(folder), command, folder, os.environ)
    settings = {**request.budget.operational(), "allowed": []}
    with patch("os.fsync"):
        write_experiment(paths, request.experiment)
        seals = LedgerWriter(paths)
        for number, (_, spec) in enumerate(request.experiment.specs(request.phase)):
            _finish(paths, spec, number, request.budget, settings, provenance)
            seals.enter(paths.run(spec.name), 1)
    return paths


def _finish(
    paths: ExperimentPaths,
    spec: RunSpec,
    number: int,
    budget: Budget,
    settings: dict[str, Any],
    provenance: dict[str, Any],
) -> None:
    run = paths.run(spec.name)
    write_run(run, spec)
    attempt = new_attempt(run, settings, provenance, "")
    draw = random.Random(number)
    with closing(JournalWriter(attempt.journal)) as journal:
        for event in _events(draw, number, budget):
            journal.append(event)
    run.model.write_bytes(draw.randbytes(MODEL))
    run.lease.touch()
    attempt.progress.write_bytes(bytes(16))
    attempt.log.write_bytes(b"")


def _events(draw: random.Random, number: int, budget: Budget) -> Iterator[Event]:
    """The events of a simulated run of 15 s, whose return grows with its steps."""
    now = STARTED + number
    skill = draw.uniform(0.5, 1.0)
    yield RunStarted(time=now, attempt=1, pid=1000 + number, host="machine")
    for step in range(STEPS // EVALUATIONS, STEPS + 1, STEPS // EVALUATIONS):
        at = now + step / 1000
        yield Measured(time=at, step=step, metrics={name: draw.random() for name in MEASURED})
        returns = _returns(draw, skill * step / STEPS, budget.evaluation_episodes)
        yield _evaluated(at, step, returns, final=False)
    yield Checkpointed(time=now + 15, step=STEPS, name=str(STEPS), seconds=0.01, bytes=200_000)
    yield _evaluated(now + 16, STEPS, _returns(draw, skill, budget.final_episodes), final=True)
    weights = f"{draw.getrandbits(256):064x}"
    yield RunEnded(
        time=now + 16, step=STEPS, ending=Ending.COMPLETED, seconds=16.0, weights=weights
    )


def _returns(draw: random.Random, level: float, episodes: int) -> tuple[float, ...]:
    return tuple(float(round(500 * level * draw.uniform(0.8, 1.0))) for _ in range(episodes))


def _evaluated(time: float, step: int, returns: Sequence[float], *, final: bool) -> Evaluated:
    lengths = tuple(map(int, returns))
    return Evaluated(
        time=time, step=step, returns=tuple(returns), lengths=lengths, seconds=0.1, final=final
    )
