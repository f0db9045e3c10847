"""The location of MLflow: allowed URIs, and databases that exist or are missing."""

import os
import sqlite3
import subprocess
import sys
from collections.abc import Iterator
from contextlib import closing, suppress
from pathlib import Path

import pytest
from in_full import long
from mlflow_backend import template
from tracked_samples import (
    experiment_of,
    preserved_environment,
    push_rows,
    run_end,
    run_of,
    sample_rows,
)

from rlexp.errors import TrackerRefused, TrackerUnreachable
from rlexp.trackers.mlflow import EXPERIMENT_ID, MLflow
from rlexp.trackers.mlflow_uri import check_database, find_location, make_database

CANARY = "opensesame"
PUSH_PROGRAM = """
import sys; sys.path[:0] = sys.argv[1:2]
from pathlib import Path
from tracked_samples import *
from rlexp.trackers.mlflow import MLflow
experiment = experiment_of(Path.cwd(), name="here")
sink = MLflow().open(experiment)
push_rows(sink, run_of(experiment), sample_rows([10, 20]))
sink.end(run_of(experiment), run_end(files={"model.zip": Path("some.zip")}))
sink.close()
"""
SEARCH_PROGRAM = """
import mlflow
(experiment,) = [e for e in mlflow.search_experiments() if e.name == "here"]
runs = mlflow.search_runs([experiment.experiment_id], output_format="list")
print(sorted((run.info.run_name, run.data.metrics.get("score")) for run in runs))
"""


@pytest.fixture(autouse=True)
def installed(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Skip without MLflow, and unset the address of the user's server."""
    pytest.importorskip("mlflow")
    with preserved_environment():
        os.environ.pop("MLFLOW_TRACKING_URI", None)
        yield


def python(program: str, folder: Path, *arguments: str) -> "subprocess.CompletedProcess[str]":
    """Run a program in a folder."""
    return subprocess.run(
        [sys.executable, "-c", program, *arguments],
        cwd=folder,
        text=True,
        capture_output=True,
        timeout=200,
        check=False,
    )


@long
def test_mlflow_without_arguments_shows_the_runs(tmp_path: Path) -> None:
    """MLflow without arguments finds the mirrored runs in a folder with any name."""
    project = tmp_path / "ü ö#a"
    project.mkdir()
    (project / "some.zip").write_bytes(b"model")
    push = python(PUSH_PROGRAM, project, str(Path(__file__).parent))
    assert (0, "", "") == (push.returncode, push.stdout, push.stderr)
    search = python(SEARCH_PROGRAM, project)
    assert search.stdout.strip() == "[('ppo', None), ('ppo test seed 0', 475.5)]", search.stderr
    names = {path.name for path in project.iterdir()}
    # The sample keeps the files of its tracker in the project's folder.
    assert names == {"mlflow.db", "mlartifacts", "some.zip", EXPERIMENT_ID}
    (model,) = project.glob("mlartifacts/*/artifacts/model/model.zip")
    assert model.read_bytes() == b"model"


def test_settings_override_variables(tmp_path: Path) -> None:
    """The setting overrides MLFLOW_TRACKING_URI, which overrides the default file."""
    variables = {"MLFLOW_TRACKING_URI": "http://there:5000"}
    assert find_location("http://here/", tmp_path, variables).shown == "http://here"
    assert find_location(None, tmp_path, variables).shown == "http://there:5000"
    assert find_location(None, tmp_path, {}).file == tmp_path / "mlflow.db"
    assert (
        find_location("sqlite:///sub/x.db", tmp_path, variables).file == tmp_path / "sub" / "x.db"
    )


def test_a_destination_has_no_credentials(tmp_path: Path) -> None:
    """The destination has no credentials, and contains the experiment if set."""
    uri = f"https://me:{CANARY}@host:8443/mlflow/?token={CANARY}"
    assert MLflow(uri=uri).destination(tmp_path) == "https://host:8443/mlflow"
    assert MLflow(uri=uri, experiment="x").destination(tmp_path) == "https://host:8443/mlflow x"
    assert MLflow(uri=f"http://[{CANARY}").destination(tmp_path) == "tracker.mlflow.uri"


@pytest.mark.parametrize(
    "uri",
    [
        f"postgresql://me:{CANARY}@host/db",
        f"htp://me:{CANARY}@host",
        f"http://me:{CANARY}@",
        f"http://me:{CANARY}@[host",
        f"http://me:{CANARY}@host:port",
        f"{CANARY}",
        "databricks",
        "file:///tmp/mlruns",
        "sqlite:///nowhere/mlflow.db",
        "sqlite:///.",
        "sqlite:///:memory:",
        "sqlite:///a%20b.db",
        "sqlite:///mlflow.db?mode=ro",
    ],
)
def test_an_invalid_uri_is_refused(uri: str, tmp_path: Path) -> None:
    """The error about an invalid URI is one line without the password."""
    with pytest.raises(TrackerRefused) as caught:
        MLflow(uri=uri).open(experiment_of(tmp_path))
    text = str(caught.value)
    assert CANARY not in text
    assert "\n" not in text
    assert list(tmp_path.iterdir()) == []


def test_a_misspelt_scheme_is_named(tmp_path: Path) -> None:
    """The error about a misspelt scheme suggests the nearest one."""
    with pytest.raises(TrackerRefused, match=r"htp: .* did you mean 'http'\?"):
        MLflow(uri="htp://host").open(experiment_of(tmp_path))


def test_without_mlflow(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Without MLflow, the error has the command that installs it."""
    for name in [name for name in sys.modules if name.partition(".")[0] == "mlflow"]:
        monkeypatch.delitem(sys.modules, name)
    monkeypatch.setitem(sys.modules, "mlflow", None)
    with pytest.raises(TrackerRefused, match=r"pip install 'rlexp\[mlflow\]'"):
        MLflow().open(experiment_of(tmp_path))
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(
    ("statement", "message"),
    [
        ("UPDATE alembic_version SET version_num = 'older'", "mlflow db upgrade"),
        ("DROP TABLE alembic_version", "not one of MLflow"),
    ],
)
def test_another_database_is_left_alone(statement: str, message: str, tmp_path: Path) -> None:
    """A database of another version or program is refused and not changed."""
    file = tmp_path / "mlflow.db"
    file.write_bytes(template())
    with closing(sqlite3.connect(file)) as database:
        database.execute(statement)
        database.commit()
    before = file.read_bytes()
    with pytest.raises(TrackerRefused, match=message):
        MLflow().open(experiment_of(tmp_path))
    assert file.read_bytes() == before


def test_another_file_is_left_alone(tmp_path: Path) -> None:
    """A file that is not a database is refused and not changed."""
    (tmp_path / "mlflow.db").write_bytes(b"my thesis" * 1000)
    with pytest.raises(TrackerRefused, match="not a SQLite database"):
        MLflow().open(experiment_of(tmp_path))
    assert (tmp_path / "mlflow.db").read_bytes() == b"my thesis" * 1000


def test_a_locked_database_is_unreachable(tmp_path: Path) -> None:
    """A locked database counts as unreachable and not as refused."""
    file = tmp_path / "mlflow.db"
    file.write_bytes(template())
    with closing(sqlite3.connect(file, isolation_level=None)) as database:
        database.execute("BEGIN IMMEDIATE")
        with pytest.raises(TrackerUnreachable, match="locked"):
            check_database(file, "any")


def test_a_database_is_created_completely_or_not_at_all(tmp_path: Path) -> None:
    """An interrupted creation leaves no file, and the file of a killed process is replaced."""
    file = tmp_path / "mlflow.db"

    def write_half(temporary: Path) -> None:
        temporary.write_bytes(b"half")
        raise KeyboardInterrupt

    def write_all(temporary: Path) -> None:
        temporary.write_bytes(b"whole")

    with suppress(KeyboardInterrupt):
        make_database(file, "a", write_half)
    assert list(tmp_path.iterdir()) == []
    (tmp_path / ".mlflow.db.a").write_bytes(b"half, and killed")
    file.touch()
    make_database(file, "a", write_all)
    assert [path.name for path in tmp_path.iterdir()] == ["mlflow.db"]
    assert file.read_bytes() == b"whole"


def test_the_faster_of_two_makes_the_database(tmp_path: Path) -> None:
    """A database that another process created in the meantime is kept."""
    file = tmp_path / "mlflow.db"

    def write_late(temporary: Path) -> None:
        temporary.write_bytes(b"mine")
        file.write_bytes(b"theirs")

    make_database(file, "a", write_late)
    assert file.read_bytes() == b"theirs"
    assert [path.name for path in tmp_path.iterdir()] == ["mlflow.db"]


def test_registration_needs_models(tmp_path: Path) -> None:
    """Contradicting settings are refused before a connection is opened."""
    with pytest.raises(TrackerRefused, match="models=true"):
        MLflow(register="best", models=False).open(experiment_of(tmp_path))
    with pytest.raises(TrackerRefused, match="must not contain / or :"):
        MLflow(register="a/b").open(experiment_of(tmp_path))
    assert list(tmp_path.iterdir()) == []


def test_a_deleted_experiment_is_not_revived(tmp_path: Path) -> None:
    """The error about a deleted experiment has the command that restores it."""
    (tmp_path / "mlflow.db").write_bytes(template())
    experiment = experiment_of(tmp_path)
    MLflow().open(experiment).close()
    from mlflow import MlflowClient

    client = MlflowClient(f"sqlite:///{tmp_path / 'mlflow.db'}")
    deleted = client.get_experiment_by_name(experiment.name)
    assert deleted is not None
    client.delete_experiment(deleted.experiment_id)
    message = f"restore --experiment-id {deleted.experiment_id}.*tracker.mlflow.experiment"
    with pytest.raises(TrackerRefused, match=message):
        MLflow().open(experiment)
    sink = MLflow(experiment="another").open(experiment)
    push_rows(sink, run_of(experiment), sample_rows([10]))
    assert sink.end(run_of(experiment), run_end()).step == 10


def test_no_database_in_a_shared_folder(tmp_path: Path) -> None:
    """SQLite in a shared folder is refused with advice, and no file is created."""
    with pytest.raises(TrackerRefused, match="to its address"):
        MLflow().open(experiment_of(tmp_path, shared=True))
    assert [] == list(tmp_path.iterdir())
