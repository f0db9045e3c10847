"""The behaviour of every tracker, tested with its real service."""

import math
import time
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from hashlib import sha256
from pathlib import Path

import pytest
from backends import Backend, BackendOf, Point, ShownRun, rows_of
from mlflow_backend import mlflow_backend
from tensorboard_backend import tensorboard_backend
from tracked_samples import START_TIME, aggregate, estimate, push_rows, run_end, run_of
from wandb_backend import forked_wandb, wandb_offline_backend, wandb_online_backend

from rlexp.errors import TrackerUnreachable
from rlexp.trackers import (
    ExperimentSummary,
    MetricRow,
    SyncPosition,
    TrackedExperiment,
    TrackedRun,
)

BACKENDS: Mapping[str, BackendOf] = {
    "mlflow": mlflow_backend,
    "tensorboard": tensorboard_backend,
    "wandb": wandb_online_backend,
    "wandb offline": wandb_offline_backend,
}
"""Trackers that write files and need no running service."""
CONF = Path(__file__).parents[2] / "conf" / "tracker"


@pytest.fixture(scope="module", params=sorted(BACKENDS))
def backend(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Backend]:
    """A service that the tests of this file share; each test has its own experiment."""
    folder = tmp_path_factory.mktemp(request.param.replace(" ", "-"))
    with forked_wandb(), BACKENDS[request.param](folder) as opened:
        yield opened


@pytest.fixture
def experiment(request: pytest.FixtureRequest, tmp_path: Path) -> TrackedExperiment:
    """An experiment that no other test has."""
    (tmp_path / "own").mkdir()
    name = request.node.originalname.removeprefix("test_")[:40]
    return TrackedExperiment(
        id=sha256(request.node.nodeid.encode()).hexdigest()[:32],
        name=name,
        project=tmp_path,
        folder=tmp_path / "own",
        definition={"name": name, "configurations": []},
        is_sweep=False,
    )


def points(rows: Sequence[MetricRow]) -> Counter[Point]:
    """The number of times that each point occurs in the rows, in single precision."""
    return Counter((k, row.step, _single(v)) for row in rows for k, v in row.metrics.items())


def only_run(backend: Backend, experiment: TrackedExperiment, run: TrackedRun) -> ShownRun:
    """The one run that the service has under the run's id."""
    (shown_run,) = backend.shown_runs(experiment, run)
    return shown_run


def shown_points(shown_run: ShownRun) -> Counter[Point]:
    """The number of times that the service shows each point, in single precision."""
    return Counter((k, step, _single(v)) for k, step, v in shown_run.points)


def _single(value: float) -> float:
    return float(f"{value:.6g}")


def test_every_option_has_a_service_in_this_suite() -> None:
    """Every tracker in conf/ has a backend in this file."""
    assert {p.stem for p in CONF.glob("*.yaml")} == {name.split()[0] for name in BACKENDS}


def test_what_was_pushed_is_there_once(backend: Backend, experiment: TrackedExperiment) -> None:
    """The service has each point, the score, the state, the group and the settings once."""
    run, sink = run_of(experiment), backend.tracker().open(experiment)
    rows = rows_of(range(100, 1100, 100), **{"eval/mean_reward": 12.5, "train/loss": 0.25})
    push_rows(sink, run, rows, SyncPosition())
    assert sink.end(run, run_end()).step == 1000
    sink.close()
    shown_run = only_run(backend, experiment, run)
    assert shown_points(shown_run) == points(rows)
    assert (shown_run.score, shown_run.state, shown_run.group) == (475.5, "completed", "ppo")
    assert float(shown_run.settings["algorithm.gamma"]) == 0.99


def test_a_lagging_cursor_doubles_nothing(backend: Backend, experiment: TrackedExperiment) -> None:
    """Rows that are pushed again after a crash are stored once."""
    run, rows = run_of(experiment), rows_of(range(10, 210, 10), **{"eval/mean_reward": 1.5})
    first = backend.tracker().open(experiment)
    position = push_rows(first, run, rows[:5], SyncPosition())
    first.push(run, rows[5:10])
    first.close()
    second = backend.tracker().open(experiment)
    push_rows(second, run, rows, position)
    second.end(run, run_end(step=200))
    second.close()
    assert shown_points(only_run(backend, experiment, run)) == points(rows)


def test_a_run_that_goes_on_stays_one_run(backend: Backend, experiment: TrackedExperiment) -> None:
    """A run continued by another process has all points and the last state."""
    run, rows = run_of(experiment), rows_of(range(10, 110, 10), **{"eval/mean_reward": 2.5})
    first = backend.tracker().open(experiment)
    push_rows(first, run, rows[:4], SyncPosition())
    position = first.end(run, run_end(state="interrupted", score=None, step=40))
    first.close()
    second = backend.tracker().open(experiment)
    push_rows(second, run, rows, position)
    second.end(run, run_end(step=100, attempts=2))
    second.close()
    shown_run = only_run(backend, experiment, run)
    assert shown_points(shown_run) == points(rows)
    assert (shown_run.score, shown_run.state) == (475.5, "completed")


def test_several_runs_are_open_at_a_time(backend: Backend, experiment: TrackedExperiment) -> None:
    """Several runs can be open at once, and each gets its own points."""
    runs = [run_of(experiment, seed) for seed in range(3)]
    sink = backend.tracker().open(experiment)
    for run in runs:
        sink.begin(run, SyncPosition())
    for step in (10, 20, 30):
        for run in runs:
            sink.push(run, rows_of([step], value=step + run.seed))
    for run in runs:
        sink.end(run, run_end(step=30))
    sink.close()
    for run in runs:
        shown_run = only_run(backend, experiment, run)
        assert {(s, v) for _, s, v in shown_run.points} == {
            (s, s + run.seed) for s in (10, 20, 30)
        }


def test_a_failed_run_has_no_score(backend: Backend, experiment: TrackedExperiment) -> None:
    """A failed run is shown as failed, with its points."""
    run, sink = run_of(experiment), backend.tracker().open(experiment)
    push_rows(sink, run, rows_of([10], value=1.0), SyncPosition())
    sink.end(run, run_end(state="failed", failure="nan", reason="a NaN", score=None, step=10))
    sink.close()
    shown_run = only_run(backend, experiment, run)
    assert (shown_run.score, shown_run.state) == (None, "failed")


def test_odd_numbers_lose_no_other(backend: Backend, experiment: TrackedExperiment) -> None:
    """A value that a service cannot store does not affect the other values."""
    run, sink = run_of(experiment), backend.tracker().open(experiment)
    odd_values = {"nan": math.nan, "high": math.inf, "low": -math.inf, "large": 1e300}
    metrics = [{name: value, f"beside {name}": 2.0} for name, value in odd_values.items()]
    rows = [
        MetricRow(step=n, time=START_TIME + n, metrics=m)
        for n, m in enumerate((*metrics, *metrics), 10)
    ]
    push_rows(sink, run, rows, SyncPosition())
    sink.end(run, run_end(step=17))
    sink.close()
    normal_points = [
        p for p in only_run(backend, experiment, run).points if p[0].startswith("beside")
    ]
    assert sorted(normal_points) == sorted(
        (f"beside {n}", s, 2.0) for s, n in enumerate((*odd_values, *odd_values), 10)
    )


def test_names_of_any_kind_are_taken(backend: Backend, experiment: TrackedExperiment) -> None:
    """Odd characters in labels and names of metrics lose no point."""
    odd_name = 'ppo γ=0.9 "/../<script>alert(1)</script>\n%s{x}'
    run = run_of(
        experiment,
        label=odd_name,
        group=odd_name,
        configuration={odd_name: {odd_name: "x" * 10_000}},
    )
    sink = backend.tracker().open(experiment)
    push_rows(sink, run, rows_of([10, 20], **{"good": 1.0, "odd name: é%/x": 3.0}), SyncPosition())
    sink.end(run, run_end(step=20))
    sink.summarise(ExperimentSummary(aggregates=[aggregate(label=odd_name)], groups=[odd_name]))
    sink.close()
    stored = only_run(backend, experiment, run).points
    assert sorted(p for p in stored if p[0] == "good") == [("good", 10, 1.0), ("good", 20, 1.0)]
    assert len([p for p in stored if p[2] == 3.0]) == 2


def test_a_summary_replaces_the_one_before(
    backend: Backend, experiment: TrackedExperiment
) -> None:
    """The service shows the IQM of the last summary."""
    run, sink = run_of(experiment), backend.tracker().open(experiment)
    push_rows(sink, run, rows_of([10], value=1.0), SyncPosition())
    sink.end(run, run_end(step=10))
    svg = '<svg xmlns="http://www.w3.org/2000/svg" width="9" height="9"></svg>'
    for value in (450.0, 460.0, 455.0):
        aggregates = [aggregate(estimate=estimate(value))]
        sink.summarise(
            ExperimentSummary(aggregates=aggregates, groups=["ppo"], figures={"intervals": svg})
        )
    sink.close()
    assert list(backend.aggregates(experiment).values()) == [455.0]


def test_a_service_that_was_away_gets_everything_once(
    backend: Backend, experiment: TrackedExperiment
) -> None:
    """Calls during an outage fail in bounded time, and every point is stored once afterwards."""
    run, rows = run_of(experiment), rows_of(range(10, 110, 10), **{"eval/mean_reward": 3.5})
    tracker = backend.tracker()
    sink = tracker.open(experiment)
    position = push_rows(sink, run, rows[:3], SyncPosition())
    backend.stop()
    try:
        start = time.monotonic()
        with suppress(TrackerUnreachable):
            sink.push(run, rows[3:6])
            sink.end(run, run_end(step=60))
        sink.close()
        assert time.monotonic() - start < 60
    finally:
        backend.start()
    second_sink = tracker.open(experiment)
    push_rows(second_sink, run, rows, position)
    second_sink.end(run, run_end(step=100))
    second_sink.close()
    assert shown_points(only_run(backend, experiment, run)) == points(rows)
