"""Configurations and rows of any size in MLflow."""

import json
from collections.abc import Iterator
from contextlib import closing

import pytest
from mlflow_backend import SqliteBackend, mlflow_backend
from tracked_samples import (
    START_TIME,
    experiment_of,
    points,
    preserved_environment,
    push_rows,
    run_of,
)

from rlexp.trackers import MetricRow, SyncPosition


@pytest.fixture(scope="module")
def backend(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SqliteBackend]:
    """A SQLite file for this module; each test has an experiment of its own."""
    pytest.importorskip("mlflow")
    with (
        preserved_environment(),
        mlflow_backend(tmp_path_factory.mktemp("mlflow")) as sqlite_backend,
    ):
        yield sqlite_backend


def test_a_huge_configuration(backend: SqliteBackend) -> None:
    """A configuration of 10 MB is stored: long values are cut, and a file has all of them."""
    experiment = experiment_of(backend.project)
    values = {f"key {i}": ("é🙂" * 17_000 if i % 12 == 0 else i) for i in range(1200)}
    run = run_of(experiment, configuration={"algorithm": values})
    with closing(backend.tracker().open(experiment)) as sink:
        sink.begin(run, SyncPosition())
    (mlflow_run,) = backend.runs("run", run.id)
    assert len(mlflow_run.data.params) == 1200
    assert mlflow_run.data.params["algorithm.key 1199"] == "1199"
    assert mlflow_run.data.params["algorithm.key 0"].startswith("é🙂é🙂")
    assert "sha256:" in mlflow_run.data.params["algorithm.key 0"]
    content = backend.artifact(mlflow_run, "configuration.json")
    assert len(content) > 10_000_000
    assert json.loads(content) == run.configuration


def test_a_row_without_metrics(backend: SqliteBackend) -> None:
    """A row without metrics is accepted, and so is a row that is larger than a request."""
    experiment = experiment_of(backend.project)
    run = run_of(experiment)
    many_metrics = {f"m{i}": float(i) for i in range(1000)}
    rows = [
        MetricRow(step=n, time=START_TIME, metrics=m) for n, m in enumerate([{}, many_metrics, {}])
    ]
    with closing(backend.tracker().open(experiment)) as sink:
        assert push_rows(sink, run, rows).step == 2
    (mlflow_run,) = backend.runs("run", run.id)
    assert sorted(backend.points(mlflow_run)) == points(rows)
