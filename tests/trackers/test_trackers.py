"""The behaviour of every tracker, tested with its real service."""

import math
import time
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from hashlib import sha256
from pathlib import Path

import pytest
from backends import Backend, BackendOf, Point, Seen, rows_of
from mlflow_backend import mlflow_backend
from tensorboard_backend import tensorboard_backend
from tracked_samples import BEGUN, aggregate, ended, estimate, pushed, run_of
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
FILES = {"tensorboard", "wandb offline"}
"""Those that need no service while they are pushed to."""
CONF = Path(__file__).parents[2] / "conf" / "tracker"


@pytest.fixture(scope="module", params=sorted(BACKENDS))
def backend(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Backend]:
    """A service, shared by the tests of this file: each has an experiment of its own."""
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
    """Every point of the rows, once, as single precision holds it."""
    return Counter((k, row.step, _single(v)) for row in rows for k, v in row.metrics.items())


def seen(backend: Backend, experiment: TrackedExperiment, run: TrackedRun) -> Seen:
    """The one run that the service has."""
    (one,) = backend.seen(experiment, run)
    return one


def seen_points(one: Seen) -> Counter[Point]:
    """The same of what a service shows, twice what is there twice."""
    return Counter((k, step, _single(v)) for k, step, v in one.points)


def _single(value: float) -> float:
    return float(f"{value:.6g}")


def test_every_option_has_a_service_in_this_suite() -> None:
    """Every tracker in conf/ is tested here."""
    assert {p.stem for p in CONF.glob("*.yaml")} == {name.split()[0] for name in BACKENDS}


def test_what_was_pushed_is_there_once(backend: Backend, experiment: TrackedExperiment) -> None:
    """The service has each point, the score, the state, the group and the settings once."""
    run, sink = run_of(experiment), backend.tracker().open(experiment)
    rows = rows_of(range(100, 1100, 100), **{"eval/mean_reward": 12.5, "train/loss": 0.25})
    pushed(sink, run, rows, SyncPosition())
    assert sink.end(run, ended()).step == 1000
    sink.close()
    one = seen(backend, experiment, run)
    assert seen_points(one) == points(rows)
    assert (one.score, one.state, one.group) == (475.5, "completed", "ppo")
    assert float(one.settings["algorithm.gamma"]) == 0.99


def test_a_lagging_cursor_doubles_nothing(backend: Backend, experiment: TrackedExperiment) -> None:
    """Rows that are pushed again after a crash are stored once."""
    run, rows = run_of(experiment), rows_of(range(10, 210, 10), **{"eval/mean_reward": 1.5})
    first = backend.tracker().open(experiment)
    noted = pushed(first, run, rows[:5], SyncPosition())
    first.push(run, rows[5:10])
    first.close()
    second = backend.tracker().open(experiment)
    pushed(second, run, rows, noted)
    second.end(run, ended(step=200))
    second.close()
    assert seen_points(seen(backend, experiment, run)) == points(rows)


def test_a_run_that_goes_on_stays_one_run(backend: Backend, experiment: TrackedExperiment) -> None:
    """A run continued by another process has all points and the last state."""
    run, rows = run_of(experiment), rows_of(range(10, 110, 10), **{"eval/mean_reward": 2.5})
    first = backend.tracker().open(experiment)
    pushed(first, run, rows[:4], SyncPosition())
    noted = first.end(run, ended(state="interrupted", score=None, step=40))
    first.close()
    second = backend.tracker().open(experiment)
    pushed(second, run, rows, noted)
    second.end(run, ended(step=100, attempts=2))
    second.close()
    one = seen(backend, experiment, run)
    assert seen_points(one) == points(rows)
    assert (one.score, one.state) == (475.5, "completed")


def test_several_runs_are_open_at_a_time(backend: Backend, experiment: TrackedExperiment) -> None:
    """Each open run has its points, in any order of calls."""
    runs = [run_of(experiment, seed) for seed in range(3)]
    sink = backend.tracker().open(experiment)
    for run in runs:
        sink.begin(run, SyncPosition())
    for step in (10, 20, 30):
        for run in runs:
            sink.push(run, rows_of([step], value=step + run.seed))
    for run in runs:
        sink.end(run, ended(step=30))
    sink.close()
    for run in runs:
        one = seen(backend, experiment, run)
        assert {(s, v) for _, s, v in one.points} == {(s, s + run.seed) for s in (10, 20, 30)}


def test_a_failed_run_has_no_score(backend: Backend, experiment: TrackedExperiment) -> None:
    """A failed run is shown as failed, with its points."""
    run, sink = run_of(experiment), backend.tracker().open(experiment)
    pushed(sink, run, rows_of([10], value=1.0), SyncPosition())
    sink.end(run, ended(state="failed", failure="nan", reason="a NaN", score=None, step=10))
    sink.close()
    one = seen(backend, experiment, run)
    assert (one.score, one.state) == (None, "failed")


def test_odd_numbers_lose_no_other(backend: Backend, experiment: TrackedExperiment) -> None:
    """A value that a service cannot store does not affect other values."""
    run, sink = run_of(experiment), backend.tracker().open(experiment)
    odd = {"nan": math.nan, "high": math.inf, "low": -math.inf, "large": 1e300}
    told = [{name: value, f"beside {name}": 2.0} for name, value in odd.items()]
    rows = [MetricRow(step=n, time=BEGUN + n, metrics=m) for n, m in enumerate((*told, *told), 10)]
    pushed(sink, run, rows, SyncPosition())
    sink.end(run, ended(step=17))
    sink.close()
    even = [p for p in seen(backend, experiment, run).points if p[0].startswith("beside")]
    assert sorted(even) == sorted((f"beside {n}", s, 2.0) for s, n in enumerate((*odd, *odd), 10))


def test_names_of_any_kind_are_taken(backend: Backend, experiment: TrackedExperiment) -> None:
    """Odd characters in labels and metrics lose nothing and escape no folder."""
    odd = 'ppo γ=0.9 "/../<script>alert(1)</script>\n%s{x}'
    run = run_of(experiment, label=odd, group=odd, configuration={odd: {odd: "x" * 10_000}})
    sink = backend.tracker().open(experiment)
    pushed(sink, run, rows_of([10, 20], **{"good": 1.0, "odd name: é%/x": 3.0}), SyncPosition())
    sink.end(run, ended(step=20))
    sink.summarise(ExperimentSummary(aggregates=[aggregate(label=odd)], groups=[odd]))
    sink.close()
    found = seen(backend, experiment, run).points
    assert sorted(p for p in found if p[0] == "good") == [("good", 10, 1.0), ("good", 20, 1.0)]
    assert len([p for p in found if p[2] == 3.0]) == 2


def test_a_summary_replaces_the_one_before(
    backend: Backend, experiment: TrackedExperiment
) -> None:
    """The service shows the last IQM."""
    run, sink = run_of(experiment), backend.tracker().open(experiment)
    pushed(sink, run, rows_of([10], value=1.0), SyncPosition())
    sink.end(run, ended(step=10))
    svg = '<svg xmlns="http://www.w3.org/2000/svg" width="9" height="9"></svg>'
    for value in (450.0, 460.0, 455.0):
        told = [aggregate(estimate=estimate(value))]
        sink.summarise(
            ExperimentSummary(aggregates=told, groups=["ppo"], figures={"intervals": svg})
        )
    sink.close()
    assert list(backend.aggregates(experiment).values()) == [455.0]


def test_a_service_that_was_away_gets_everything_once(
    backend: Backend, experiment: TrackedExperiment
) -> None:
    """During an outage calls fail in bounded time; later nothing is missing."""
    run, rows = run_of(experiment), rows_of(range(10, 110, 10), **{"eval/mean_reward": 3.5})
    tracker = backend.tracker()
    sink = tracker.open(experiment)
    noted = pushed(sink, run, rows[:3], SyncPosition())
    backend.stop()
    try:
        begun = time.monotonic()
        with suppress(TrackerUnreachable):
            sink.push(run, rows[3:6])
            sink.end(run, ended(step=60))
        sink.close()
        assert time.monotonic() - begun < 60
    finally:
        backend.start()
    again = tracker.open(experiment)
    pushed(again, run, rows, noted)
    again.end(run, ended(step=100))
    again.close()
    assert seen_points(seen(backend, experiment, run)) == points(rows)
