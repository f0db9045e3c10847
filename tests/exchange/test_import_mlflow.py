"""Runs of MLflow, read from its SQLite file without mlflow, and from any store by its client."""

import sqlite3
import time
from contextlib import closing
from math import nan
from pathlib import Path

import pytest
from import_sources import RECORDED, given

from rlexp.errors import ConfigError, TrackerUnreachable
from rlexp.exchange.importers.imported_study import (
    ENVIRONMENT,
    ImportOptions,
    MalformedError,
    ReturnKind,
)
from rlexp.exchange.importers.mlflow_store import read_mlflow_server, read_mlflow_store

OPTIONS = ImportOptions(unit=ENVIRONMENT)


@pytest.fixture
def store(tmp_path: Path) -> Path:
    """A store that MLflow wrote, with finished, diverged, killed, deleted and empty runs."""
    path = tmp_path / "mlflow.db"
    with closing(sqlite3.connect(path)) as connection:
        connection.executescript((RECORDED / "mlflow.sql").read_text())
    return path


def test_runs_of_the_store(store: Path) -> None:
    """Label, task and seed come from parameters; the curve comes from the metric."""
    study = read_mlflow_store(given(store), OPTIONS)
    runs = {run.name: run for run in study.runs}
    assert {"ppo-0", "ppo-1", "ppo-2", "ppo-3", "a2c-0", "a2c-1"} == set(runs)
    run = runs["a2c-1"]
    assert ("a2c", "CartPole-v1", 1) == (run.label, run.task, run.seed)
    assert [(100, (11.0,)), (200, (21.0,)), (300, (31.0,)), (400, (41.0,)), (500, (51.0,))] == [
        (point.step, point.returns) for point in run.points
    ]
    assert (1.7e9, 1_700_000_001.0) == (run.started, run.points[0].time)
    assert ReturnKind.EVALUATION_MEANS is run.returns
    assert "0.002" == run.details["told"]["learning_rate"]
    assert ("run parent, without eval/mean_reward",) == study.left_out


def test_runs_that_did_not_finish(store: Path) -> None:
    """A run with a non-finite value or an unfinished status is not completed."""
    runs = {run.name: run for run in read_mlflow_store(given(store), OPTIONS).runs}
    diverged, killed = runs["ppo-2"].trouble, runs["ppo-3"].trouble
    assert diverged is not None
    assert killed is not None
    assert ("failed", "nan", 200) == (diverged.ending, diverged.failure, diverged.step)
    assert ("interrupted", "MLflow says KILLED") == (killed.ending, killed.reason)


def test_the_store_is_not_written(store: Path) -> None:
    """Reading leaves the file and its folder unchanged."""
    before = store.read_bytes()
    store.parent.chmod(0o500)
    read_mlflow_store(given(store), OPTIONS)
    store.parent.chmod(0o700)
    assert before == store.read_bytes()


def test_one_of_several_experiments(store: Path) -> None:
    """If several experiments have runs, one must be named."""
    with closing(sqlite3.connect(store)) as connection, connection:
        connection.execute("UPDATE runs SET experiment_id = 2 WHERE name LIKE 'a2c%'")
    with pytest.raises(MalformedError, match=r"contains several.*there are: cartpole, empty"):
        read_mlflow_store(given(store), OPTIONS)
    options = ImportOptions(unit=ENVIRONMENT, collection="empty")
    assert 2 == len(read_mlflow_store(given(store), options).runs)
    with pytest.raises(MalformedError, match="did you mean 'cartpole'"):
        read_mlflow_store(given(store), ImportOptions(unit=ENVIRONMENT, collection="cartpol"))


def test_options_instead_of_parameters(store: Path) -> None:
    """Options replace parameters that the runs lack."""
    with closing(sqlite3.connect(store)) as connection, connection:
        connection.execute("DELETE FROM params WHERE key IN ('algo', 'env_id')")
    with pytest.raises(MalformedError, match="give --label"):
        read_mlflow_store(given(store), OPTIONS)
    options = ImportOptions(unit=ENVIRONMENT, label="x", task="y")
    assert {("x", "y")} == {
        (r.label, r.task) for r in read_mlflow_store(given(store), options).runs
    }


def test_metrics_without_steps(store: Path) -> None:
    """A metric that was logged without steps is refused."""
    with closing(sqlite3.connect(store)) as connection, connection:
        connection.execute("UPDATE metrics SET step = 0")
    with pytest.raises(MalformedError, match="logged without steps"):
        read_mlflow_store(given(store), OPTIONS)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ("DROP TABLE params", "lacks the tables params"),
        (
            "ALTER TABLE metrics RENAME TO m; CREATE VIEW metrics AS SELECT * FROM m",
            "lacks the tables metrics",
        ),
        ("ALTER TABLE metrics RENAME COLUMN step TO steps", "no such column"),
        ("UPDATE metrics SET step = -1", "a step is -1"),
        ("UPDATE metrics SET step = 'x'", "not a number"),
        ("UPDATE runs SET name = char(27) || '[31m'", "its name is"),
        ("UPDATE params SET value = 'no' WHERE key = 'seed'", "seed is 'no'"),
        ("DELETE FROM metrics", "no series is a known"),
    ],
)
def test_damaged_stores(store: Path, change: str, message: str) -> None:
    """A file that is not a valid store is refused."""
    with closing(sqlite3.connect(store)) as connection:
        connection.execute("PRAGMA legacy_alter_table = ON")
        connection.executescript(change)
    with pytest.raises(MalformedError, match=message):
        read_mlflow_store(given(store), OPTIONS)


def test_every_cut_of_a_store(store: Path) -> None:
    """A store that is cut anywhere is refused in one line."""
    content = store.read_bytes()
    for count in range(100, len(content), 1999):
        store.write_bytes(content[:count])
        with pytest.raises(MalformedError) as caught:
            read_mlflow_store(given(store), OPTIONS)
        assert "\n" not in str(caught.value)


def test_reading_ends(store: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Reading a store stops after the time limit."""
    for name, value in {"PATIENCE": 0.0, "EVERY": 1}.items():
        monkeypatch.setattr(f"rlexp.exchange.importers.mlflow_store.{name}", value)
    with pytest.raises(MalformedError, match="interrupted"):
        read_mlflow_store(given(store), OPTIONS)


def test_mlflow_itself(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A store written by MLflow is read alike from the file and by the client."""
    pytest.importorskip("mlflow")
    from mlflow.entities import Metric
    from mlflow.tracking import MlflowClient

    monkeypatch.chdir(tmp_path)
    address = f"sqlite:///{tmp_path}/mlflow.db"
    client = MlflowClient(address)
    experiment = client.create_experiment("toy", artifact_location=str(tmp_path / "artifacts"))
    for seed in (0, 1):
        run = client.create_run(experiment, run_name=f"sac-{seed}").info.run_id
        for key, value in {"algorithm": "sac", "env": "Toy-v0", "seed": seed}.items():
            client.log_param(run, key, value)
        values = [1.0, 2.0, nan] if seed else [1.0, 2.0, 3.0]
        metrics = [Metric("eval/return", value, 5, step) for step, value in enumerate(values)]
        client.log_batch(run, metrics)
        client.set_terminated(run)
    options = ImportOptions(unit=ENVIRONMENT, metric="eval/return")
    from_file = read_mlflow_store(given(tmp_path / "mlflow.db"), options)
    from_client = read_mlflow_server(address, options)
    for first, second in zip(
        *(sorted(study.runs, key=lambda r: r.name) for study in (from_file, from_client)),
        strict=True,
    ):
        assert (first.label, first.task, first.seed) == (second.label, second.task, second.seed)
        assert (first.points, first.trouble) == (second.points, second.trouble)
    assert ["failed"] == [r.trouble.ending for r in from_client.runs if r.trouble]


def test_a_server_that_is_not_there() -> None:
    """A missing server is reported within seconds."""
    pytest.importorskip("mlflow")
    start = time.monotonic()
    with pytest.raises(TrackerUnreachable, match=r"127\.0\.0\.1:9"):
        read_mlflow_server("http://user:secret@127.0.0.1:9", OPTIONS)
    assert time.monotonic() - start < 30


def test_units_of_a_server() -> None:
    """An import without the unit of steps is refused before any request."""
    with pytest.raises(ConfigError, match="--steps-unit"):
        read_mlflow_server("http://127.0.0.1:9", ImportOptions())
