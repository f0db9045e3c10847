"""Configurations and rows of any size in MLflow."""

import json
from collections.abc import Iterator
from contextlib import closing

import pytest
from mlflow_backend import Embedded, mlflow_backend
from tracked_samples import BEGUN, experiment_of, points, pushed, run_of, variables_kept

from rlexp.trackers import MetricRow, SyncPosition


@pytest.fixture(scope="module")
def backend(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Embedded]:
    """A SQLite file for this module; each test has an experiment of its own."""
    pytest.importorskip("mlflow")
    with variables_kept(), mlflow_backend(tmp_path_factory.mktemp("mlflow")) as opened:
        yield opened


def test_a_huge_configuration(backend: Embedded) -> None:
    """1,200 keys and 10 MB are stored: long values are cut, and a file has the whole."""
    experiment = experiment_of(backend.project)
    values = {f"key {i}": ("é🙂" * 17_000 if i % 12 == 0 else i) for i in range(1200)}
    run = run_of(experiment, configuration={"algorithm": values})
    with closing(backend.tracker().open(experiment)) as sink:
        sink.begin(run, SyncPosition())
    (found,) = backend.runs("rlexp.run", run.id)
    assert len(found.data.params) == 1200
    assert found.data.params["algorithm.key 1199"] == "1199"
    assert found.data.params["algorithm.key 0"].startswith("é🙂é🙂")
    assert "sha256:" in found.data.params["algorithm.key 0"]
    content = backend.artifact(found, "configuration.json")
    assert len(content) > 10_000_000
    assert json.loads(content) == run.configuration


def test_a_row_without_metrics(backend: Embedded) -> None:
    """A row without metrics is accepted, and so is one larger than a request."""
    experiment = experiment_of(backend.project)
    run = run_of(experiment)
    many = {f"m{i}": float(i) for i in range(1000)}
    told = [MetricRow(step=n, time=BEGUN, metrics=m) for n, m in enumerate([{}, many, {}])]
    with closing(backend.tracker().open(experiment)) as sink:
        assert pushed(sink, run, told).step == 2
    (found,) = backend.runs("rlexp.run", run.id)
    assert sorted(backend.points(found)) == points(told)
