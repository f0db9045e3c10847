"""An unreachable or refusing W&B gives one line with the reason within the time limit."""

import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from wandb_backend import KEY, WandBBackend, forked_wandb, wandb_online_backend
from wandb_samples import aggregate, experiment_in, run_end, tracked_run

from rlexp.errors import RlexpError, TrackerRefused
from rlexp.trackers import ExperimentSummary, MetricRow, SyncPosition, viewing
from rlexp.trackers.wandb import CLOUD, WandB, resolve_settings
from rlexp.trackers.wandb_process import error_answer

TIMEOUT = 1.0


@pytest.fixture
def backend(tmp_path: Path) -> Iterator[WandBBackend]:
    """A backend of W&B online with a timeout of one second."""
    with forked_wandb(), wandb_online_backend(tmp_path) as backend:
        assert isinstance(backend, WandBBackend)
        yield WandBBackend(backend.server, "online", TIMEOUT)


def opening_error(backend: WandBBackend, folder: Path) -> str:
    """The error when the tracker is opened, which is raised within the time limit."""
    start = time.monotonic()
    with pytest.raises(RlexpError) as raised:
        backend.tracker().open(experiment_in(folder))
    assert time.monotonic() - start < TIMEOUT + 10
    text = str(raised.value)
    assert "\n" not in text
    assert KEY not in text
    return f"{type(raised.value).__name__}: {text}"


@pytest.mark.parametrize(
    ("fault", "message"),
    [
        (401, "TrackerRefused: W&B rejected the request with status 401: check the key"),
        (429, "TrackerUnreachable: W&B cannot be reached: no answer in time"),
        ("garbage", "TrackerUnreachable: W&B cannot be reached"),
    ],
)
def test_a_server_that_fails(
    backend: WandBBackend, tmp_path: Path, fault: int | str, message: str
) -> None:
    """A wrong key is refused; with temporary errors W&B is unreachable."""
    backend.server.fault = fault
    assert opening_error(backend, tmp_path).startswith(message)


def test_a_server_that_does_not_answer(backend: WandBBackend, tmp_path: Path) -> None:
    """A server that accepts and never answers delays the command for the timeout only."""
    backend.server.delay = 30.0
    assert "no answer in time" in opening_error(backend, tmp_path)


def test_no_server(backend: WandBBackend, tmp_path: Path) -> None:
    """Without a listening server W&B is unreachable."""
    backend.stop()
    assert opening_error(backend, tmp_path).startswith("TrackerUnreachable: W&B cannot be reached")


def test_no_key(backend: WandBBackend, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Without a key there is no prompt, and the error names the ways to set it."""
    monkeypatch.delenv("WANDB_API_KEY")
    message = opening_error(backend, tmp_path)
    assert message == (
        "TrackerRefused: W&B has no key: run wandb login, set WANDB_API_KEY, or use "
        "tracker.wandb.mode=offline"
    )


def test_an_invalid_project(backend: WandBBackend, tmp_path: Path) -> None:
    """An error of W&B about a run's settings is passed on."""
    tracker = WandB(base_url=backend.server.url, mode="online", project="a/b", timeout=4.0)
    sink = tracker.open(experiment_in(tmp_path))
    with pytest.raises(TrackerRefused, match="Invalid project name"):
        sink.begin(tracked_run(), SyncPosition())
    sink.close()


def test_not_installed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Without the package, the error has the command that installs it."""
    monkeypatch.setattr(viewing, "find_spec", lambda name: None)
    with pytest.raises(TrackerRefused, match=r"pip install 'rlexp\[wandb\]'"):
        WandB(mode="online").open(experiment_in(tmp_path))


def test_disabled_does_nothing(
    backend: WandBBackend, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """With WANDB_MODE=disabled every row is accepted and nothing is sent or written."""
    monkeypatch.setenv("WANDB_MODE", "disabled")
    tracker = WandB(base_url=backend.server.url)
    assert tracker.destination(tmp_path) == ""
    sink, run = tracker.open(experiment_in(tmp_path)), tracked_run()
    assert sink.begin(run, SyncPosition(step=3)).step == 3
    assert sink.push(run, [MetricRow(step=9, time=0.0, metrics={})]).step == 9
    assert sink.end(run, run_end(step=9)).step == 9
    sink.summarise(ExperimentSummary(aggregates=[aggregate(1.0)], groups=[]))
    sink.close()
    assert backend.server.traffic == []
    assert list(tmp_path.iterdir()) == []


def test_an_unknown_mode(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """An unknown mode is refused before a process is started."""
    monkeypatch.setenv("WANDB_MODE", "onlin")
    with pytest.raises(TrackerRefused, match="WANDB_MODE is 'onlin': choose online, offline"):
        WandB().open(experiment_in(tmp_path))


def test_order_of_settings(tmp_path: Path) -> None:
    """Settings come from rlexp, then the variable, the project's file and the user's file."""
    user, project = tmp_path / "user", tmp_path / "project"
    for folder, text in (
        (user, "[default]\nmode = offline\nbase_url = https://user\nentity = user%20\n"),
        (project / "wandb", "[default]\nbase_url = https://me:secret@project/\n"),
    ):
        folder.mkdir(parents=True)
        (folder / "settings").write_text(text)
    variables = {"WANDB_CONFIG_DIR": str(user)}
    settings = resolve_settings(variables, project, None, None, None)
    assert (settings.mode, settings.entity) == ("offline", "user%20")
    assert (settings.base_url, settings.address) == (
        "https://me:secret@project",
        "https://project",
    )
    settings = resolve_settings(
        {**variables, "WANDB_MODE": "dryrun"}, project, "online", None, "own"
    )
    assert (settings.mode, settings.entity) == ("online", "own")
    empty_folder = {"WANDB_CONFIG_DIR": str(tmp_path)}
    settings = resolve_settings(
        {**empty_folder, "WANDB_MODE": "dryrun"}, tmp_path, None, None, None
    )
    assert (settings.mode, settings.base_url, settings.entity) == ("offline", CLOUD, None)
    assert (
        WandB(base_url="https://me:secret@there")
        .destination(tmp_path)
        .endswith("at https://there")
    )


@pytest.mark.parametrize(
    ("text", "kind"),
    [
        ('returned error 404: {"errors":[{"message":"entity of-nobody not found"}]}', "refused"),
        ("permission denied", "refused"),
        ("run was previously created and deleted; try a new run name", "refused"),
        ("filestream: failed to upload: 403 Forbidden", "refused"),
        ("returned error 503: busy", "unreachable"),
        ("context deadline exceeded\nwhile retrying: HTTP 429: slow down", "unreachable"),
        ("invalid character '<' looking for beginning of value", "unreachable"),
        ("dial tcp: lookup api.wandb.ai: no such host", "unreachable"),
    ],
)
def test_what_errors_mean(text: str, kind: str) -> None:
    """Final errors are refused, others are unreachable, and no message contains the key."""
    ((actual, message),) = error_answer(
        RuntimeError(f"{text} {KEY} https://me:pw@there"), KEY
    ).items()
    assert actual == kind
    assert KEY not in message
    assert "pw" not in message
    assert "\n" not in message
