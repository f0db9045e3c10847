"""Sample experiments, runs and results for the tests of trackers."""

import os
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any
from uuid import uuid4

from rlexp.metrics.estimate import Estimate
from rlexp.trackers import (
    MetricRow,
    RunEnd,
    SyncPosition,
    TrackedAggregate,
    TrackedExperiment,
    TrackedRun,
    TrackerConnection,
)

BEGUN = 1_800_000_000.0


def experiment_of(folder: Path, **changes: Any) -> TrackedExperiment:
    """An experiment that no other test has."""
    own = uuid4().hex
    made = TrackedExperiment(
        id=own,
        name=f"experiment-{own[:8]}",
        project=folder,
        folder=folder,
        definition={"configurations": ["ppo"]},
        is_sweep=False,
    )
    return replace(made, **changes)


def run_of(experiment: TrackedExperiment, seed: int = 0, **changes: Any) -> TrackedRun:
    """A run of it."""
    run = TrackedRun(
        id=f"{experiment.id[:24]}{seed:08x}",
        name=f"ppo-test-{seed}-0123456789",
        group="ppo",
        label="ppo",
        task="CartPole-v1",
        phase="test",
        seed=seed,
        trial=None,
        fingerprint="f" * 64,
        configuration={"algorithm": {"name": "PPO", "gamma": 0.99}, "layers": [64, 64]},
        provenance={"command": ["rlexp", "run"], "code": {"commit": "c" * 40}},
        started=BEGUN,
    )
    return replace(run, **changes)


def ended(**changes: Any) -> RunEnd:
    """A run that came to its end."""
    end = RunEnd(
        state="completed",
        time=BEGUN + 100,
        step=1000,
        seconds=100.0,
        attempts=1,
        score=475.5,
        score_rule="final",
        failure=None,
        reason=None,
        weights="a" * 64,
        files={},
    )
    return replace(end, **changes)


def aggregate(**changes: Any) -> TrackedAggregate:
    """What three runs of one label came to."""
    told = TrackedAggregate(
        label="ppo",
        task="CartPole-v1",
        phase="test",
        planned=3,
        n=3,
        failed=0,
        missing=0,
        score_rule="final",
        scores={0: 400.0, 1: 450.0, 2: 500.0},
        metric="iqm",
        title="IQM",
        estimate=estimate(),
    )
    return replace(told, **changes)


def estimate(value: float = 450.0, **changes: Any) -> Estimate:
    """The IQM of three runs."""
    made = Estimate(
        estimate=value,
        low=400.0,
        high=500.0,
        level=0.95,
        method="percentile bootstrap",
        repetitions=1000,
        n=3,
        seed=7,
        digits=0,
        sizes=(3,),
        runs=((400.0, 450.0, 500.0),),
    )
    return replace(made, **changes)


def rows(steps: Sequence[int], **metrics: float) -> list[MetricRow]:
    """Rows at steps, with the same metrics."""
    told = metrics or {"eval/mean_reward": 12.5, "train/loss": 0.25}
    return [MetricRow(step=s, time=BEGUN + s, metrics=told) for s in steps]


def pushed(
    sink: TrackerConnection,
    run: TrackedRun,
    told: Sequence[MetricRow],
    reached: SyncPosition | None = None,
) -> SyncPosition:
    """Push what the service lacks; returns what is safe then."""
    begun = sink.begin(run, reached or SyncPosition())
    wanted = [row for row in told if row.step > begun.step]
    return sink.push(run, wanted) if wanted else begun


def points(told: Sequence[MetricRow]) -> list[tuple[str, int, float]]:
    """Every point of the rows, sorted."""
    return sorted((key, row.step, value) for row in told for key, value in row.metrics.items())


@contextmanager
def variables_kept() -> Iterator[None]:
    """Put the variables back that a tracker sets in its process."""
    before = dict(os.environ)
    try:
        yield
    finally:
        os.environ.clear()
        os.environ.update(before)
