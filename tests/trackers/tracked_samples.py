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

START_TIME = 1_800_000_000.0


def experiment_of(folder: Path, **changes: Any) -> TrackedExperiment:
    """An experiment that no other test has."""
    identity = uuid4().hex
    experiment = TrackedExperiment(
        id=identity,
        name=f"experiment-{identity[:8]}",
        project=folder,
        folder=folder,
        definition={"configurations": ["ppo"]},
        is_sweep=False,
    )
    return replace(experiment, **changes)


def run_of(experiment: TrackedExperiment, seed: int = 0, **changes: Any) -> TrackedRun:
    """A run of the experiment."""
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
        started=START_TIME,
    )
    return replace(run, **changes)


def run_end(**changes: Any) -> RunEnd:
    """The end of a completed run."""
    end = RunEnd(
        state="completed",
        time=START_TIME + 100,
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
    """The aggregate of three runs of one label."""
    result = TrackedAggregate(
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
    return replace(result, **changes)


def estimate(value: float = 450.0, **changes: Any) -> Estimate:
    """The IQM of three runs."""
    result = Estimate(
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
    return replace(result, **changes)


def sample_rows(steps: Sequence[int], **metrics: float) -> list[MetricRow]:
    """Rows at these steps, each with the same metrics."""
    row_metrics = metrics or {"eval/mean_reward": 12.5, "train/loss": 0.25}
    return [MetricRow(step=s, time=START_TIME + s, metrics=row_metrics) for s in steps]


def push_rows(
    sink: TrackerConnection,
    run: TrackedRun,
    rows: Sequence[MetricRow],
    reached: SyncPosition | None = None,
) -> SyncPosition:
    """Push the rows that the service lacks, and return the position that is then stored."""
    position = sink.begin(run, reached or SyncPosition())
    missing = [row for row in rows if row.step > position.step]
    return sink.push(run, missing) if missing else position


def points(rows: Sequence[MetricRow]) -> list[tuple[str, int, float]]:
    """Every point of the rows, sorted."""
    return sorted((key, row.step, value) for row in rows for key, value in row.metrics.items())


@contextmanager
def preserved_environment() -> Iterator[None]:
    """Restore the environment variables that a tracker changes in this process."""
    before = dict(os.environ)
    try:
        yield
    finally:
        os.environ.clear()
        os.environ.update(before)
