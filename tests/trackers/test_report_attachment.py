"""`rlexp report` attaches the report to the trackers of its experiment, once, and fails with none."""

import os
import socket
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from unittest.mock import patch

import pytest
from command_line import give, give_json
from mlflow_backend import MlflowReader, mlflow_backend
from quick_parts import quick_parts
from stored_runs import Stored, configuration, stored, study
from wandb_backend import WandBBackend, wandb_offline_backend
from warm_processes import warm_up

from rlexp.app.commands.order.sync import sync
from rlexp.app.tracking import mirror_client, report_attachment
from rlexp.store.tracker_positions import TrackerPositions

quick = pytest.fixture(autouse=True)(quick_parts)

PRELOAD = ("rlexp.app.reporting.mirror_entry", "mlflow", "mlflow.tracking.client")
FEW = (
    *("--set", "repetitions=200", "--set", "curve_repetitions=100"),
    *("--set", "section=[verdicts,missing]"),
)


@pytest.fixture(autouse=True)
def warm(monkeypatch: pytest.MonkeyPatch) -> None:
    """Fork mirrors from a process that has imported their modules."""
    for name in ("MLFLOW_TRACKING_URI", "WANDB_MODE", "WANDB_DIR"):
        monkeypatch.delenv(name, raising=False)
    warm_up(monkeypatch, mirror_client, PRELOAD)


def experiment_of(folder: Path) -> Stored:
    """An experiment of two labels with four scores each."""
    experiment = stored(
        study(folder).layout, "alpha", configuration("ppo"), configuration("a2c"), test=4
    )
    for seed in range(4):
        experiment.complete(seed, 400.0 + seed)
        experiment.complete(seed, 100.0 + seed, label="a2c")
    return experiment


def push(folder: Path, *words: str) -> None:
    """Push the experiment as `rlexp sync` does."""
    (row,) = sync(["alpha", *words], study(folder), wait=120.0).rows
    assert (row.pending, row.problem) == (0, None)


def attached_reports(reader: MlflowReader) -> list[tuple[str, bytes]]:
    """The name of each MLflow run with a report, and the content of the report."""
    client = reader.client()
    runs = client.search_runs([e.experiment_id for e in client.search_experiments()])
    path = "report/report.html"
    return [
        (str(run.info.run_name), reader.artifact(run, path))
        for run in runs
        if path in reader.artifacts(run, "report")
    ]


def test_mlflow_has_the_report_that_was_written_last(tmp_path: Path) -> None:
    """The report is attached to the first label; the same bytes are not attached again."""
    experiment = experiment_of(tmp_path)
    page = tmp_path / "reports" / "alpha" / "report.html"
    with mlflow_backend(tmp_path) as backend:
        push(tmp_path, "tracker=[mlflow]")
        assert [] == attached_reports(backend)
        assert "Attached in mlflow: mlflow ui" in give(tmp_path, "report", "alpha", *FEW)
        assert [("ppo", page.read_bytes())] == attached_reports(backend)
        before = (tmp_path / "mlflow.db").read_bytes()
        with patch.object(report_attachment, "MirrorClient", side_effect=AssertionError):
            assert "Attached in mlflow" in give(tmp_path, "report", "alpha", *FEW)
        assert before == (tmp_path / "mlflow.db").read_bytes()
        old = page.read_bytes()
        experiment.complete(0, 1.0, label="a2c")
        give(tmp_path, "report", "alpha", *FEW)
        assert [("ppo", page.read_bytes())] == attached_reports(backend) != [("ppo", old)]


@contextmanager
def _wandb(folder: Path) -> Iterator[WandBBackend]:
    with ExitStack() as stack:
        backend = stack.enter_context(wandb_offline_backend(folder))
        assert isinstance(backend, WandBBackend)
        stack.enter_context(patch.dict(os.environ, {"WANDB_BASE_URL": backend.server.url}))
        yield backend


def summaries(experiment: Stored) -> list[Path]:
    """The offline folders of the summary run that has the report as an artifact."""
    folders = experiment.paths.trackers.glob("wandb-*/wandb/offline-run-*")
    return [f for f in folders if any(b"report.html" in p.read_bytes() for p in f.glob("*.wandb"))]


def test_local_data_of_wandb_stays_local(tmp_path: Path) -> None:
    """A report joins the files of an offline push once; no command goes online by itself."""
    experiment = experiment_of(tmp_path)
    with _wandb(tmp_path) as backend:
        push(tmp_path, "tracker=[wandb]", "tracker.wandb.mode=offline")
        assert [] == summaries(experiment)
        text = give(tmp_path, "report", "alpha", *FEW)
        assert "Attached in wandb: the data is local" in text
        (folder,) = summaries(experiment)
        give(tmp_path, "report", "alpha", *FEW)
        assert [folder] == summaries(experiment)
        for words in ([], ["tracker=[wandb]"]):
            (row,) = sync(["alpha", *words], study(tmp_path), wait=120.0).rows
            assert str(row.page).startswith("the data is local (mode offline)")
        assert {} == backend.server.runs


@pytest.mark.parametrize(("used", "words"), [(False, ()), (True, ("--output", "elsewhere"))])
def test_no_tracker_is_named_where_none_keeps_the_report(
    tmp_path: Path, used: bool, words: tuple[str, ...]
) -> None:
    """Without a push, or in another folder, no tracker is named and no process starts."""
    experiment = experiment_of(tmp_path)
    if used:
        with TrackerPositions(experiment.paths, "mlflow", "mlflow.db").holding(0.0):
            pass
    with patch.object(report_attachment, "MirrorClient", side_effect=AssertionError):
        written = give_json(tmp_path, "report-files", "report", "alpha", *FEW, *words)
    assert [] == written["attached"]


@contextmanager
def _silent_server() -> Iterator[str]:
    """The address of a server that accepts connections and never answers."""
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        listener.listen(64)
        yield f"http://127.0.0.1:{listener.getsockname()[1]}"


def test_a_server_that_never_answers_does_not_change_the_report(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The report is written, the exit code is 0, and the command for later is named."""
    experiment = experiment_of(tmp_path)
    with _silent_server() as address:
        monkeypatch.setenv("MLFLOW_TRACKING_URI", address)
        cursors = TrackerPositions(experiment.paths, "mlflow", address)
        with cursors.holding(0.0):
            cursors.move("a run", step=1)
        monkeypatch.setattr(report_attachment, "WAIT", 1.0)
        text = give(tmp_path, "report", "alpha", *FEW)
    assert (tmp_path / "reports" / "alpha" / "report.html").exists()
    assert "Not attached in mlflow: it did not answer in time" in text
    assert "To attach the report in the trackers: rlexp sync alpha" in text


@pytest.mark.parametrize("location", ["http://elsewhere:5000"])
def test_a_server_of_another_command_is_not_guessed(tmp_path: Path, location: str) -> None:
    """A tracker whose address is not configured is named with the words that push to it."""
    experiment = experiment_of(tmp_path)
    with TrackerPositions(experiment.paths, "mlflow", location).holding(0.0):
        pass
    text = give(tmp_path, "report", "alpha", *FEW)
    assert f"Not attached in mlflow: alpha was pushed by mlflow to {location}" in text


def test_a_service_without_a_run_is_left_alone(tmp_path: Path) -> None:
    """Where the first push has failed, no process starts, and the command for later is named."""
    experiment = experiment_of(tmp_path)
    with TrackerPositions(experiment.paths, "mlflow", "mlflow.db").holding(0.0):
        pass
    with patch.object(report_attachment, "MirrorClient", side_effect=AssertionError):
        text = give(tmp_path, "report", "alpha", *FEW)
    assert "Not attached in mlflow: it has no run so far" in text
    assert "rlexp sync alpha" in text


def test_a_mirror_at_work_attaches_the_report_itself(tmp_path: Path) -> None:
    """While another process pushes, no second one starts."""
    experiment = experiment_of(tmp_path)
    with TrackerPositions(experiment.paths, "mlflow", "mlflow.db").holding(0.0):
        assert "attaches the report when it ends" in give(tmp_path, "report", "alpha", *FEW)


def test_a_service_that_never_answered_has_no_page(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A push that could not begin names no place to look at."""
    experiment_of(tmp_path)
    with _silent_server() as address:
        words = ["alpha", "tracker=[mlflow]", f"tracker.mlflow.uri={address}"]
        (row,) = sync(words, study(tmp_path), wait=1.0).rows
    assert row.page is None
