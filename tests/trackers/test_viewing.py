"""Each tracker says where to look, and which package is missing."""

import shlex
from dataclasses import replace
from pathlib import Path

import pytest

from rlexp.app.observer import SilentObserver
from rlexp.app.tracking.mirror_client import ChosenTrackers, note_missing_packages
from rlexp.trackers import Tracker, viewing
from rlexp.trackers.mlflow import EXPERIMENT_ID, MLflow
from rlexp.trackers.mlflow_uri import run_list_page
from rlexp.trackers.tensorboard import TensorBoard
from rlexp.trackers.viewing import missing_package, where_to_look
from rlexp.trackers.wandb import WandB

LINK = "#/experiments?workflowType=machine_learning"


@pytest.fixture(autouse=True)
def no_settings(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """No setting of a service in the environment or in the user's files."""
    for name in ("MLFLOW_TRACKING_URI", "WANDB_MODE", "WANDB_BASE_URL", "WANDB_ENTITY"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("WANDB_CONFIG_DIR", str(tmp_path / "none"))


@pytest.mark.parametrize(
    ("tracker", "expected"),
    [
        (
            MLflow(),
            f"mlflow ui --backend-store-uri sqlite:///mlflow.db, then http://127.0.0.1:5000/{LINK}",
        ),
        (MLflow(uri="http://me:secret@there:5000/"), f"http://there:5000/{LINK}"),
        (TensorBoard(), "tensorboard --logdir tensorboard, then http://localhost:6006"),
        (
            TensorBoard(folder="two words"),
            "tensorboard --logdir 'two words', then http://localhost:6006",
        ),
        (WandB(mode="online", entity="team"), "https://wandb.ai/team/rlexp"),
        (WandB(mode="online"), "project rlexp at https://wandb.ai"),
        (WandB(mode="online", base_url="https://here", entity="me"), "https://here/me/rlexp"),
        (WandB(mode="offline"), None),
        (WandB(mode="disabled"), None),
    ],
)
def test_a_tracker_names_its_page(tracker: Tracker, expected: str | None, tmp_path: Path) -> None:
    """A tracker names the command or the address of its page, without passwords."""
    assert where_to_look(tracker, tmp_path, tmp_path / "files") == expected


@pytest.mark.parametrize("uri", [None, "http://there:5000"])
def test_mlflow_names_the_page_of_the_experiment(uri: str | None, tmp_path: Path) -> None:
    """Once MLflow has received an experiment, the link leads to the list of its runs."""
    (tmp_path / EXPERIMENT_ID).write_text("7")
    line = str(where_to_look(MLflow(uri=uri), tmp_path, tmp_path))
    server = uri or "http://127.0.0.1:5000"
    assert line.endswith(run_list_page(server, "7"))


def test_local_data_is_named_with_the_command_that_uploads_it(tmp_path: Path) -> None:
    """Offline, the line names the folder for `wandb sync` until everything was uploaded."""
    tracker, folder = WandB(mode="offline"), tmp_path / "runs" / "my files"
    run = folder / "wandb" / "offline-run-20260101_000000-abc"
    run.mkdir(parents=True)
    (run / "run-abc.wandb").touch()
    line = where_to_look(tracker, tmp_path, folder)
    assert line is not None
    assert "the data is local" in line
    assert shlex.split(line)[-3:] == ["wandb", "sync", "runs/my files/wandb"]
    other = replace(tracker, base_url="https://here")
    assert "WANDB_BASE_URL=https://here wandb sync" in str(where_to_look(other, tmp_path, folder))
    (run / "run-abc.wandb.synced").touch()
    assert where_to_look(tracker, tmp_path, folder) is None


@pytest.mark.parametrize("tracker", [WandB(), MLflow(), TensorBoard()])
def test_a_missing_package_is_named(tracker: Tracker, monkeypatch: pytest.MonkeyPatch) -> None:
    """The error of a tracker without its package has the command that installs it."""
    assert missing_package(tracker) is None
    monkeypatch.setattr(viewing, "find_spec", lambda _: None)
    monkeypatch.setattr(viewing, "install_command", lambda extra: f"install {extra}")
    refusal = missing_package(tracker)
    assert refusal is not None
    name = type(tracker).__name__.lower()
    assert str(refusal) == f"{name} is not installed: install {name}"


def test_a_plan_names_a_missing_package(monkeypatch: pytest.MonkeyPatch) -> None:
    """The note of a dry run says what is missing, how to install it, and what happens without it."""
    notes: list[str] = []
    observer = SilentObserver()
    monkeypatch.setattr(observer, "note", notes.append)
    trackers = ChosenTrackers({"wandb": WandB(), "mlflow": MLflow()})
    note_missing_packages(trackers, observer)
    assert notes == []
    monkeypatch.setattr(viewing, "find_spec", lambda name: None if name == "wandb" else object())
    monkeypatch.setattr(viewing, "install_command", lambda extra: f"install {extra}")
    note_missing_packages(trackers, observer)
    assert notes == ["wandb is not installed: install wandb; until then, nothing is sent to wandb"]
