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
from mlflow_backend import Served, mlflow_server_backend, shared_server, the_one
from postgresql_server import PASSWORD, binaries
from tracked_samples import (
    aggregate,
    ended,
    experiment_of,
    points,
    pushed,
    rows,
    run_of,
    variables_kept,
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
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Served]:
    """The server and a proxy, for this module."""
    pytest.importorskip("mlflow")
    pytest.importorskip("psycopg")
    with variables_kept(), mlflow_server_backend(tmp_path_factory.mktemp("served")) as opened:
        yield opened


@pytest.fixture
def backend(server: Served) -> Iterator[Served]:
    """The server, with a proxy that hands everything on."""
    with variables_kept():
        server.proxy.requests.clear()
        yield server
        server.proxy.once.clear()
        server.proxy.mode = PASS


@pytest.fixture
def experiment(tmp_path: Path) -> TrackedExperiment:
    """An experiment of this test's own."""
    return experiment_of(tmp_path)


def test_odd_numbers_and_repetitions(backend: Served, experiment: TrackedExperiment) -> None:
    """NaN and infinities arrive unchanged, and repeated points are stored once."""
    run = run_of(experiment)
    told = rows([10, 20], nan=math.nan, high=math.inf, low=-math.inf, plain=1.5, **{"é/%": 1e300})
    sink = backend.tracker().open(experiment)
    sink.begin(run, SyncPosition())
    for _ in range(3):
        sink.push(run, told)
    found = [(step, value) for _, step, value in the_one(backend, experiment, run).points]
    assert sorted(map(str, found)) == sorted(str((s, v)) for _, s, v in points(told))


def test_lost_answers(backend: Served, experiment: TrackedExperiment) -> None:
    """After lost answers there is one run, with each point once."""
    run, told = run_of(experiment), rows(range(10, 1010, 10))
    sink = backend.tracker().open(experiment)

    def stubborn(act: Callable[[], Any]) -> Any:
        """Repeat a call of which another answer gets lost each time."""
        backend.proxy.once.append(LOST)
        for tries in range(12):
            try:
                return act()
            except TrackerUnreachable:
                backend.proxy.once.extend([PASS] * tries + [LOST])
            finally:
                if tries > 8:
                    backend.proxy.once.clear()
        raise AssertionError("it never succeeded")

    stubborn(lambda: sink.begin(run, SyncPosition()))
    stubborn(lambda: sink.push(run, told))
    stubborn(lambda: sink.end(run, ended()))
    stubborn(lambda: sink.summarise(ExperimentSummary(aggregates=[aggregate()], groups=["ppo"])))
    found = the_one(backend, experiment, run)
    assert (sorted(found.points), found.score) == (points(told), 475.5)
    assert backend.aggregates(experiment) == {"ppo": 450.0}


def test_requests_are_few(backend: Served, experiment: TrackedExperiment) -> None:
    """A thousand rows need only a few requests."""
    run = run_of(experiment)
    sink = backend.tracker().open(experiment)
    sink.begin(run, SyncPosition())
    backend.proxy.requests.clear()
    sink.push(run, rows(range(1000)))
    assert backend.proxy.count() == 3


def test_a_huge_configuration(backend: Served, experiment: TrackedExperiment) -> None:
    """Values of characters with long JSON escapes fit into requests."""
    values = {f"key {i}": "é🙂" * 4000 if i < 100 else i for i in range(1000)}
    run = run_of(experiment, configuration=values)
    backend.tracker().open(experiment).begin(run, SyncPosition())
    sent = [len(r.body) for r in backend.proxy.requests if r.path.endswith("log-batch")]
    assert 500_000 < max(sent) < 1_000_000
    (found,) = backend.runs("rlexp.run", run.id)
    assert len(found.data.params) == 1000
    assert json.loads(backend.artifact(found, "configuration.json")) == values


def test_a_model_is_registered(backend: Served, experiment: TrackedExperiment) -> None:
    """The winner's model is one version on the server, and can be downloaded."""
    run, name, model = run_of(experiment), f"best-{experiment.id}", experiment.folder / "model.zip"
    model.write_bytes(b"model")
    sink = backend.tracker(register=name).open(experiment)
    pushed(sink, run, rows([10]))
    sink.end(run, ended(files={"model.zip": model}))
    told = ExperimentSummary(
        aggregates=[aggregate()],
        groups=["ppo"],
        winner=TrackedWinner(trial=1, parameters={}, run=run),
    )
    for _ in range(2):
        sink.summarise(told)
    (version,) = backend.client().search_model_versions(f"name='{name}'")
    assert (version.tags["iqm"], version.tags["n"]) == ("450.0", "3")
    (found,) = backend.runs("rlexp.run", run.id)
    assert backend.artifact(found, "model/model.zip") == b"model"


def test_the_server_dies(backend: Served, experiment: TrackedExperiment) -> None:
    """After a kill of the server during a push, each point is there once."""
    server, run, told = shared_server(), run_of(experiment), rows(range(10, 20_010, 10))
    tracker = replace(backend.tracker(), timeout=2.0)
    sink = tracker.open(experiment)
    noted = SyncPosition(step=pushed(sink, run, told[:100]).step)
    died = threading.Event()

    def kill_it() -> None:
        while backend.proxy.count("log-batch") < 8:
            time.sleep(0.01)
        server.kill()
        died.set()

    threading.Thread(target=kill_it).start()
    with pytest.raises(TrackerUnreachable):
        _push_all(sink, run, [row for row in told if row.step > noted.step])
    assert died.wait(10)
    begun = time.monotonic()
    with pytest.raises(TrackerUnreachable):
        tracker.open(experiment)
    assert time.monotonic() - begun < 5
    server.database.restart()
    server.start()
    again = backend.tracker().open(experiment)
    assert noted.step < again.begin(run, noted).step < 20_000
    pushed(again, run, told, noted)
    again.end(run, ended(step=20_000))
    found = the_one(backend, experiment, run)
    assert (sorted(found.points), found.score) == (points(told), 475.5)


def test_its_database_dies(backend: Served, experiment: TrackedExperiment) -> None:
    """After an outage of PostgreSQL, no point is missing."""
    database, run, told = shared_server().database, run_of(experiment), rows(range(10, 1010, 10))
    sink = backend.tracker().open(experiment)
    sink.begin(run, SyncPosition())
    sink.push(run, told[:50])
    database.stop()
    try:
        with pytest.raises(TrackerUnreachable) as push_error:
            sink.push(run, told[50:])
        with pytest.raises(TrackerUnreachable) as end_error:
            sink.end(run, ended())
    finally:
        database.start()
    for error in (push_error, end_error):
        assert "\n" not in str(error.value)
        assert PASSWORD not in str(error.value)
    sink.push(run, told[50:])
    sink.end(run, ended())
    found = the_one(backend, experiment, run)
    assert (sorted(found.points), found.state) == (points(told), "completed")


def _push_all(sink: TrackerConnection, run: TrackedRun, told: Any) -> None:
    for start in range(0, len(told), 100):
        sink.push(run, told[start : start + 100])
