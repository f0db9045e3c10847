"""Answers of a failing MLflow server: unreachable or refused, without secrets in messages."""

import base64
import os
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from faulty_proxy import GARBAGE, HOLE, LOST, PASS, REFUSE, Mode, slow, status
from mlflow_backend import ServerBackend, mlflow_server_backend, only_run
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

from rlexp.errors import TrackerRefused, TrackerUnreachable
from rlexp.trackers import ExperimentSummary, SyncPosition, TrackedExperiment
from rlexp.trackers.mlflow import MLflow

pytestmark = pytest.mark.skipif(binaries() is None, reason="needs PostgreSQL: initdb and pg_ctl")

CANARY = "opensesame-canary"
EMPTY = Mode("status", code=200, body=b"{}")
NO_BODY = Mode("status", code=200, body=b"")


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


ANSWERS = {
    "500": status(500),
    "502": status(502, b"<html>"),
    "503": status(503, Retry_After="3600"),
    "429": status(429, b"slow down", Retry_After="3600"),
    "a page": GARBAGE,
    "its database is away": status(400, b'{"error_code": "BAD_REQUEST", "message": "pool"}'),
}
"""Answers of the proxy in place of the server, which receives no request."""
TEMPORARY_FAULTS = {
    "nobody listens": REFUSE,
    "no answer": HOLE,
    "too slow": slow(3),
    "broken off": LOST,
    "an empty answer": EMPTY,
    **ANSWERS,
}


def assert_unreachable(backend: ServerBackend, mode: Mode, act: Callable[[], Any]) -> None:
    """Assert that an action soon fails as unreachable while the proxy has a fault."""
    backend.proxy.mode = mode
    start = time.monotonic()
    with pytest.raises(TrackerUnreachable) as error:
        act()
    assert time.monotonic() - start < 2.5
    assert "\n" not in str(error.value)
    assert backend.proxy.url in str(error.value)
    backend.proxy.mode = PASS


@pytest.mark.parametrize(
    "kind", ["500", *(kind for kind in TEMPORARY_FAULTS if kind not in ANSWERS)]
)
def test_each_method_succeeds_when_the_server_is_back(
    kind: str, backend: ServerBackend, experiment: TrackedExperiment
) -> None:
    """Each method fails soon during a fault, and succeeds when the server is back."""
    mode = TEMPORARY_FAULTS[kind]
    run, rows, tracker = run_of(experiment), sample_rows([10, 20]), backend.tracker(timeout=1.0)
    assert_unreachable(backend, mode, lambda: tracker.open(experiment))
    patient_tracker = backend.tracker()
    sink = patient_tracker.open(experiment)
    os.environ["MLFLOW_HTTP_REQUEST_TIMEOUT"] = "1"
    assert_unreachable(backend, mode, lambda: sink.begin(run, SyncPosition()))
    os.environ["MLFLOW_HTTP_REQUEST_TIMEOUT"] = "5"
    sink.begin(run, SyncPosition())
    os.environ["MLFLOW_HTTP_REQUEST_TIMEOUT"] = "1"
    if mode is not EMPTY:
        assert_unreachable(backend, mode, lambda: sink.push(run, rows))
    assert_unreachable(backend, mode, lambda: sink.end(run, run_end()))
    os.environ["MLFLOW_HTTP_REQUEST_TIMEOUT"] = "5"
    sink.push(run, rows)
    sink.end(run, run_end())
    shown_run = only_run(backend, experiment, run)
    assert (sorted(shown_run.points), shown_run.state) == (points(rows), "completed")


def test_wrong_answers_are_temporary(
    backend: ServerBackend, experiment: TrackedExperiment
) -> None:
    """Each method fails soon with wrong answers, and succeeds with the right ones."""
    run, rows, tracker = run_of(experiment), sample_rows([10, 20]), backend.tracker()
    for mode in ANSWERS.values():
        assert_unreachable(backend, mode, lambda: tracker.open(experiment))
    sink = tracker.open(experiment)
    for mode in ANSWERS.values():
        assert_unreachable(backend, mode, lambda: sink.begin(run, SyncPosition()))
    sink.begin(run, SyncPosition())
    for mode in ANSWERS.values():
        assert_unreachable(backend, mode, lambda: sink.push(run, rows))
    sink.push(run, rows)
    for mode in ANSWERS.values():
        assert_unreachable(backend, mode, lambda: sink.end(run, run_end()))
    sink.end(run, run_end())
    shown_run = only_run(backend, experiment, run)
    assert (sorted(shown_run.points), shown_run.state) == (points(rows), "completed")


def test_a_server_that_stores_nothing_is_noticed(
    backend: ServerBackend, experiment: TrackedExperiment
) -> None:
    """A server that accepts every push and stores nothing is noticed at the end of the run."""
    run, rows = run_of(experiment), sample_rows([10, 20])
    sink = backend.tracker().open(experiment)
    sink.begin(run, SyncPosition())
    for answer in (EMPTY, NO_BODY):
        backend.proxy.once.append(answer)
        sink.push(run, rows)
        with pytest.raises(TrackerUnreachable, match="lost"):
            sink.end(run, run_end())
    second_sink = backend.tracker().open(experiment)
    assert second_sink.begin(run, SyncPosition(step=20)).step == -1


FINAL_ERRORS = {
    "401": status(401),
    "403": status(403, b"<html>"),
    "401 as JSON": status(401, b'{"detail": "Not authenticated"}'),
    "403 of MLflow": status(403, b'{"error_code": "PERMISSION_DENIED", "message": "no"}'),
    "404": status(404),
}


def test_final_errors_are_not_repeated(
    backend: ServerBackend, experiment: TrackedExperiment
) -> None:
    """A final error names the setting to change, and no request is repeated."""
    run, sink = run_of(experiment), backend.tracker().open(experiment)
    sink.begin(run, SyncPosition())
    for kind, mode in FINAL_ERRORS.items():
        backend.proxy.mode = mode
        for act in (
            lambda: backend.tracker().open(experiment),
            lambda: sink.push(run, sample_rows([10])),
        ):
            with pytest.raises(TrackerRefused) as error:
                act()
            assert "MLFLOW_TRACKING_TOKEN" in str(error.value) or mode.code == 404, kind


def test_an_artifact_too_large(backend: ServerBackend, experiment: TrackedExperiment) -> None:
    """A refused upload of a model is an error that names the option models=false."""
    run, model = run_of(experiment), experiment.folder / "model.zip"
    model.write_bytes(b"model")
    sink = backend.tracker().open(experiment)
    push_rows(sink, run, sample_rows([10]))
    # Three requests come before the upload: the search for the run, its tags and its score.
    backend.proxy.once.extend([PASS] * 3)
    backend.proxy.mode = status(413)
    with pytest.raises(TrackerRefused, match="models=false"):
        sink.end(run, run_end(files={"model.zip": model}))


def test_there_is_no_such_host(experiment: TrackedExperiment) -> None:
    """An unknown host is reported at once as unreachable."""
    with preserved_environment(), pytest.raises(TrackerUnreachable, match=r"no such host|answers"):
        MLflow(uri="http://nobody.invalid:5000", timeout=1.0).open(experiment)


def test_secrets_stay_secret(
    backend: ServerBackend, experiment: TrackedExperiment, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Credentials are sent only in their header, and are in no message and no content."""
    monkeypatch.setenv("MLFLOW_TRACKING_USERNAME", "me")
    monkeypatch.setenv("MLFLOW_TRACKING_PASSWORD", f"{CANARY}-1")
    monkeypatch.setenv("MLFLOW_TRACKING_TOKEN", f"{CANARY}-2")
    secrets = [CANARY, base64.b64encode(f"me:{CANARY}-1".encode()).decode(), PASSWORD]
    uri = backend.proxy.url.replace("//", f"//user:{CANARY}-3@")
    tracker = backend.tracker(uri=uri)
    run, sink = run_of(experiment), tracker.open(experiment)
    push_rows(sink, run, sample_rows([10]))
    sink.end(run, run_end())
    sink.summarise(ExperimentSummary(aggregates=[aggregate()], groups=["ppo"]))
    assert any("Authorization" in request.headers for request in backend.proxy.requests)
    echo = f'{{"error_code": "INTERNAL_ERROR", "message": "{CANARY}-1 {CANARY}-2 {uri}"}}'
    messages = [tracker.destination(experiment.project)]
    for mode in (*TEMPORARY_FAULTS.values(), *FINAL_ERRORS.values(), status(418, echo.encode())):
        if mode.kind in {"hole", "slow"} or mode in {EMPTY, NO_BODY}:
            continue
        backend.proxy.mode = mode
        with pytest.raises((TrackerUnreachable, TrackerRefused)) as error:
            tracker.open(experiment)
        messages += [str(error.value), repr(error.value.__cause__)]
    requests = [
        request.path + request.body.decode("latin-1") for request in backend.proxy.requests
    ]
    assert not [text for text in (*messages, *requests) for secret in secrets if secret in text]
