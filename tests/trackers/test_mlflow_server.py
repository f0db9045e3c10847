"""A real MLflow server with PostgreSQL, behind a proxy that injects faults."""

import json
import math
import threading
import time
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from faulty_proxy import LOST, PASS
from mlflow_backend import ServerBackend, mlflow_server_backend, only_run, shared_server
from postgresql_server import PASSWORD, binaries
from tracked_samples import (
    aggregate,
    experiment_of,
    points,
    preserved_environment,
    push_rows,
    run_end,
    run_of,
    sample_rows,
)

from rlexp.errors import TrackerUnreachable
from rlexp.trackers import (
    ExperimentSummary,
    SyncPosition,
    TrackedExperiment,
    TrackedRun,
    TrackedWinner,
    TrackerConnection,
)

pytestmark = pytest.mark.skipif(binaries() is None, reason="needs PostgreSQL: initdb and pg_ctl")


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ServerBackend]:
    """The server and a proxy that all tests of this file share."""
    pytest.importorskip("mlflow")
    pytest.importorskip("psycopg")
    with (
        preserved_environment(),
        mlflow_server_backend(tmp_path_factory.mktemp("served")) as server_backend,
    ):
        yield server_backend


@pytest.fixture
def backend(server: ServerBackend) -> Iterator[ServerBackend]:
    """The server with a proxy that forwards every request."""
    with preserved_environment():
        server.proxy.requests.clear()
        yield server
        server.proxy.once.clear()
        server.proxy.mode = PASS


@pytest.fixture
def experiment(tmp_path: Path) -> TrackedExperiment:
    """An experiment that only this test uses."""
    return experiment_of(tmp_path)


def test_odd_numbers_and_repetitions(
    backend: ServerBackend, experiment: TrackedExperiment
) -> None:
    """NaN and infinities arrive unchanged, and repeated points are stored once."""
    run = run_of(experiment)
    rows = sample_rows(
        [10, 20], nan=math.nan, high=math.inf, low=-math.inf, plain=1.5, **{"é/%": 1e300}
    )
    sink = backend.tracker().open(experiment)
    sink.begin(run, SyncPosition())
    for _ in range(3):
        sink.push(run, rows)
    stored = [(step, value) for _, step, value in only_run(backend, experiment, run).points]
    assert sorted(map(str, stored)) == sorted(str((s, v)) for _, s, v in points(rows))


def test_lost_answers(backend: ServerBackend, experiment: TrackedExperiment) -> None:
    """After lost answers MLflow has one run with each point once."""
    run, rows = run_of(experiment), sample_rows(range(10, 1010, 10))
    sink = backend.tracker().open(experiment)

    def retry(act: Callable[[], Any]) -> Any:
        """Repeat a call; each time, the answer to another request is lost."""
        backend.proxy.once.append(LOST)
        for attempt in range(12):
            try:
                return act()
            except TrackerUnreachable:
                backend.proxy.once.extend([PASS] * attempt + [LOST])
            finally:
                if attempt > 8:
                    backend.proxy.once.clear()
        raise AssertionError("it never succeeded")

    retry(lambda: sink.begin(run, SyncPosition()))
    retry(lambda: sink.push(run, rows))
    retry(lambda: sink.end(run, run_end()))
    retry(lambda: sink.summarise(ExperimentSummary(aggregates=[aggregate()], groups=["ppo"])))
    shown_run = only_run(backend, experiment, run)
    assert (sorted(shown_run.points), shown_run.score) == (points(rows), 475.5)
    assert backend.aggregates(experiment) == {"ppo": 450.0}


def test_requests_are_few(backend: ServerBackend, experiment: TrackedExperiment) -> None:
    """A thousand rows are pushed in three requests."""
    run = run_of(experiment)
    sink = backend.tracker().open(experiment)
    sink.begin(run, SyncPosition())
    backend.proxy.requests.clear()
    sink.push(run, sample_rows(range(1000)))
    assert backend.proxy.count() == 3


def test_a_huge_configuration(backend: ServerBackend, experiment: TrackedExperiment) -> None:
    """Long values whose characters have long JSON escapes fit into requests."""
    values = {f"key {i}": "é🙂" * 4000 if i < 100 else i for i in range(1000)}
    run = run_of(experiment, configuration=values)
    backend.tracker().open(experiment).begin(run, SyncPosition())
    sizes = [len(r.body) for r in backend.proxy.requests if r.path.endswith("log-batch")]
    assert 500_000 < max(sizes) < 1_000_000
    (mlflow_run,) = backend.runs("run", run.id)
    assert len(mlflow_run.data.params) == 1000
    assert json.loads(backend.artifact(mlflow_run, "configuration.json")) == values


def test_a_model_is_registered(backend: ServerBackend, experiment: TrackedExperiment) -> None:
    """The winner's model has one version on the server, and can be downloaded."""
    run, name, model = run_of(experiment), f"best-{experiment.id}", experiment.folder / "model.zip"
    model.write_bytes(b"model")
    sink = backend.tracker(register=name).open(experiment)
    push_rows(sink, run, sample_rows([10]))
    sink.end(run, run_end(files={"model.zip": model}))
    summary = ExperimentSummary(
        aggregates=[aggregate()],
        groups=["ppo"],
        winner=TrackedWinner(trial=1, parameters={}, run=run),
    )
    for _ in range(2):
        sink.summarise(summary)
    (version,) = backend.client().search_model_versions(f"name='{name}'")
    assert (version.tags["iqm"], version.tags["n"]) == ("450.0", "3")
    (mlflow_run,) = backend.runs("run", run.id)
    assert backend.artifact(mlflow_run, "model/model.zip") == b"model"


def test_the_server_dies(backend: ServerBackend, experiment: TrackedExperiment) -> None:
    """After a kill of the server during a push, each point is stored once."""
    server, run, rows = shared_server(), run_of(experiment), sample_rows(range(10, 20_010, 10))
    tracker = replace(backend.tracker(), timeout=2.0)
    sink = tracker.open(experiment)
    position = SyncPosition(step=push_rows(sink, run, rows[:100]).step)
    killed = threading.Event()

    def kill_during_push() -> None:
        while backend.proxy.count("log-batch") < 8:
            time.sleep(0.01)
        server.kill()
        killed.set()

    threading.Thread(target=kill_during_push).start()
    with pytest.raises(TrackerUnreachable):
        _push_all(sink, run, [row for row in rows if row.step > position.step])
    assert killed.wait(10)
    start = time.monotonic()
    with pytest.raises(TrackerUnreachable):
        tracker.open(experiment)
    assert time.monotonic() - start < 5
    server.database.restart()
    server.start()
    second_sink = backend.tracker().open(experiment)
    assert position.step < second_sink.begin(run, position).step < 20_000
    push_rows(second_sink, run, rows, position)
    second_sink.end(run, run_end(step=20_000))
    shown_run = only_run(backend, experiment, run)
    assert (sorted(shown_run.points), shown_run.score) == (points(rows), 475.5)


def test_the_database_stops(backend: ServerBackend, experiment: TrackedExperiment) -> None:
    """After an outage of PostgreSQL, no point is missing."""
    database, run, rows = (
        shared_server().database,
        run_of(experiment),
        sample_rows(range(10, 1010, 10)),
    )
    sink = backend.tracker().open(experiment)
    sink.begin(run, SyncPosition())
    sink.push(run, rows[:50])
    database.stop()
    try:
        with pytest.raises(TrackerUnreachable) as push_error:
            sink.push(run, rows[50:])
        with pytest.raises(TrackerUnreachable) as end_error:
            sink.end(run, run_end())
    finally:
        database.start()
    for error in (push_error, end_error):
        assert "\n" not in str(error.value)
        assert PASSWORD not in str(error.value)
    sink.push(run, rows[50:])
    sink.end(run, run_end())
    shown_run = only_run(backend, experiment, run)
    assert (sorted(shown_run.points), shown_run.state) == (points(rows), "completed")


def _push_all(sink: TrackerConnection, run: TrackedRun, rows: Any) -> None:
    for start in range(0, len(rows), 100):
        sink.push(run, rows[start : start + 100])
