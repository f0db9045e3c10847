"""Answers of a failing MLflow server: unreachable, refused, and without secrets in messages."""

import base64
import os
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from faulty_proxy import GARBAGE, HOLE, LOST, PASS, REFUSE, Mode, slow, status
from mlflow_backend import Served, mlflow_server_backend, the_one
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

from rlexp.errors import TrackerRefused, TrackerUnreachable
from rlexp.trackers import ExperimentSummary, SyncPosition, TrackedExperiment
from rlexp.trackers.mlflow import MLflow

pytestmark = pytest.mark.skipif(binaries() is None, reason="needs PostgreSQL: initdb and pg_ctl")

CANARY = "opensesame-canary"
EMPTY = Mode("status", code=200, body=b"{}")
NOTHING = Mode("status", code=200, body=b"")


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


ANSWERS = {
    "500": status(500),
    "502": status(502, b"<html>"),
    "503": status(503, Retry_After="3600"),
    "429": status(429, b"slow down", Retry_After="3600"),
    "a page": GARBAGE,
    "its database is away": status(400, b'{"error_code": "BAD_REQUEST", "message": "pool"}'),
}
"""Answers in the place of the server, which gets nothing."""
LATER = {
    "nobody listens": REFUSE,
    "no answer": HOLE,
    "too slow": slow(3),
    "broken off": LOST,
    "an empty answer": EMPTY,
    **ANSWERS,
}


def fails(backend: Served, mode: Mode, act: Callable[[], Any]) -> None:
    """Do what cannot be done now, which is said soon."""
    backend.proxy.mode = mode
    begun = time.monotonic()
    with pytest.raises(TrackerUnreachable) as error:
        act()
    assert time.monotonic() - begun < 2.5
    assert "\n" not in str(error.value)
    assert backend.proxy.url in str(error.value)
    backend.proxy.mode = PASS


@pytest.mark.parametrize("kind", ["500", *(kind for kind in LATER if kind not in ANSWERS)])
def test_it_may_work_later(kind: str, backend: Served, experiment: TrackedExperiment) -> None:
    """Each method fails soon, and succeeds when the server is back."""
    mode = LATER[kind]
    run, told, tracker = run_of(experiment), rows([10, 20]), backend.tracker(timeout=1.0)
    fails(backend, mode, lambda: tracker.open(experiment))
    patient = backend.tracker()
    sink = patient.open(experiment)
    os.environ["MLFLOW_HTTP_REQUEST_TIMEOUT"] = "1"
    fails(backend, mode, lambda: sink.begin(run, SyncPosition()))
    os.environ["MLFLOW_HTTP_REQUEST_TIMEOUT"] = "5"
    sink.begin(run, SyncPosition())
    os.environ["MLFLOW_HTTP_REQUEST_TIMEOUT"] = "1"
    if mode is not EMPTY:
        fails(backend, mode, lambda: sink.push(run, told))
    fails(backend, mode, lambda: sink.end(run, ended()))
    os.environ["MLFLOW_HTTP_REQUEST_TIMEOUT"] = "5"
    sink.push(run, told)
    sink.end(run, ended())
    found = the_one(backend, experiment, run)
    assert (sorted(found.points), found.state) == (points(told), "completed")


def test_each_answer_may_be_another_later(backend: Served, experiment: TrackedExperiment) -> None:
    """Each method fails soon with any other program as server, and succeeds later."""
    run, told, tracker = run_of(experiment), rows([10, 20]), backend.tracker()
    for mode in ANSWERS.values():
        fails(backend, mode, lambda: tracker.open(experiment))
    sink = tracker.open(experiment)
    for mode in ANSWERS.values():
        fails(backend, mode, lambda: sink.begin(run, SyncPosition()))
    sink.begin(run, SyncPosition())
    for mode in ANSWERS.values():
        fails(backend, mode, lambda: sink.push(run, told))
    sink.push(run, told)
    for mode in ANSWERS.values():
        fails(backend, mode, lambda: sink.end(run, ended()))
    sink.end(run, ended())
    found = the_one(backend, experiment, run)
    assert (sorted(found.points), found.state) == (points(told), "completed")


def test_a_server_that_stores_nothing_is_noticed(
    backend: Served, experiment: TrackedExperiment
) -> None:
    """A server that accepts every push and stores nothing is found at the end."""
    run, told = run_of(experiment), rows([10, 20])
    sink = backend.tracker().open(experiment)
    sink.begin(run, SyncPosition())
    for answer in (EMPTY, NOTHING):
        backend.proxy.once.append(answer)
        sink.push(run, told)
        with pytest.raises(TrackerUnreachable, match="lost"):
            sink.end(run, ended())
    again = backend.tracker().open(experiment)
    assert again.begin(run, SyncPosition(step=20)).step == -1


NEVER = {
    "401": status(401),
    "403": status(403, b"<html>"),
    "401 as JSON": status(401, b'{"detail": "Not authenticated"}'),
    "403 of MLflow": status(403, b'{"error_code": "PERMISSION_DENIED", "message": "no"}'),
    "404": status(404),
}


def test_final_errors_are_not_repeated(backend: Served, experiment: TrackedExperiment) -> None:
    """A final error names the setting to change, and no request is repeated."""
    run, sink = run_of(experiment), backend.tracker().open(experiment)
    sink.begin(run, SyncPosition())
    for kind, mode in NEVER.items():
        backend.proxy.mode = mode
        for act in (
            lambda: backend.tracker().open(experiment),
            lambda: sink.push(run, rows([10])),
        ):
            with pytest.raises(TrackerRefused) as error:
                act()
            assert "MLFLOW_TRACKING_TOKEN" in str(error.value) or mode.code == 404, kind


def test_an_artifact_too_large(backend: Served, experiment: TrackedExperiment) -> None:
    """A refused upload is distinguished from an unreachable server."""
    run, file = run_of(experiment), experiment.folder / "model.zip"
    file.write_bytes(b"model")
    sink = backend.tracker().open(experiment)
    pushed(sink, run, rows([10]))
    # To look for the run, its tags and its score come before it.
    backend.proxy.once.extend([PASS] * 3)
    backend.proxy.mode = status(413)
    with pytest.raises(TrackerRefused, match="models=false"):
        sink.end(run, ended(files={"model.zip": file}))


def test_there_is_no_such_host(experiment: TrackedExperiment) -> None:
    """An unknown host is reported at once as unreachable."""
    with variables_kept(), pytest.raises(TrackerUnreachable, match=r"no such host|answers"):
        MLflow(uri="http://nobody.invalid:5000", timeout=1.0).open(experiment)


def test_secrets_stay_secret(
    backend: Served, experiment: TrackedExperiment, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Credentials are sent in their header only, never in a message or in content."""
    monkeypatch.setenv("MLFLOW_TRACKING_USERNAME", "me")
    monkeypatch.setenv("MLFLOW_TRACKING_PASSWORD", f"{CANARY}-1")
    monkeypatch.setenv("MLFLOW_TRACKING_TOKEN", f"{CANARY}-2")
    secrets = [CANARY, base64.b64encode(f"me:{CANARY}-1".encode()).decode(), PASSWORD]
    uri = backend.proxy.url.replace("//", f"//user:{CANARY}-3@")
    tracker = backend.tracker(uri=uri)
    run, sink = run_of(experiment), tracker.open(experiment)
    pushed(sink, run, rows([10]))
    sink.end(run, ended())
    sink.summarise(ExperimentSummary(aggregates=[aggregate()], groups=["ppo"]))
    assert any("Authorization" in request.headers for request in backend.proxy.requests)
    echo = f'{{"error_code": "INTERNAL_ERROR", "message": "{CANARY}-1 {CANARY}-2 {uri}"}}'
    said = [tracker.destination(experiment.project)]
    for mode in (*LATER.values(), *NEVER.values(), status(418, echo.encode())):
        if mode.kind in {"hole", "slow"} or mode in {EMPTY, NOTHING}:
            continue
        backend.proxy.mode = mode
        with pytest.raises((TrackerUnreachable, TrackerRefused)) as error:
            tracker.open(experiment)
        said += [str(error.value), repr(error.value.__cause__)]
    sent = [request.path + request.body.decode("latin-1") for request in backend.proxy.requests]
    assert not [text for text in (*said, *sent) for secret in secrets if secret in text]
