"""Long trainings of the MCP server: a client waits, looks, stops, goes and comes back."""

import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import psutil
import pytest
from command_line import typed as rlexp
from in_full import IN_FULL, long
from tool_client import ToolClient, connected

from rlexp.app.commands.setup.init import init

LONG = 2_000_000
"""Environment steps of a training that does not end within a test."""
SHORT = 12_000


def words(name: str, steps: int) -> tuple[str, ...]:
    """The words of one run of a named experiment, which writes many checkpoints."""
    return (
        *("environment=corridor", "algorithm.n_steps=64", f"budget.steps={steps}"),
        *("budget.final_episodes=2", "budget.evaluation_every=null", "phase=tuning"),
        *("budget.checkpoint_every=256", "seeds.tuning=1", f"experiment={name}"),
    )


@pytest.fixture
def workspace(tmp_path: Path) -> Path:
    """A new workspace."""
    init(str(tmp_path / "workspace"))
    return tmp_path / "workspace"


def wait_until(holds: Callable[[], Any], seconds: float = 120.0) -> None:
    """Wait until a condition holds."""
    deadline = time.monotonic() + seconds
    while not holds():
        assert time.monotonic() < deadline
        time.sleep(0.1)


def running_run(client: ToolClient, name: str) -> dict[str, Any]:
    """The record of the only run of an experiment."""
    (experiment,) = client.document("status", experiment=name)["experiments"]
    return next(iter(experiment["running"]), {"step": 0})


def past(client: ToolClient, name: str) -> dict[str, Any]:
    """How the runs of an experiment have continued."""
    (experiment,) = client.document("status", experiment=name)["experiments"]
    counts: dict[str, Any] = experiment["past"]
    return counts


def wait_for_checkpoint(client: ToolClient, name: str) -> None:
    """Wait until a run has trained for long enough to have a checkpoint."""
    wait_until(lambda: running_run(client, name)["step"] > 1024)


def states(folder: Path, name: str) -> list[str]:
    """The states of the runs of an experiment."""
    return [row["state"] for row in rlexp(folder, "ls", name, "--json").content["rows"]]


def ended(processes: list[psutil.Process]) -> bool:
    """Whether none of these processes is alive."""
    alive = [p for p in processes if p.is_running() and p.status() != psutil.STATUS_ZOMBIE]
    return not alive


def test_a_long_run_is_left_cancelled_and_continued(workspace: Path) -> None:
    """`run` answers with the status in time; `cancel` stops it; the same call continues from a checkpoint."""
    with connected(workspace) as client:
        begun = client.call("run", words=words("long", LONG), wait_seconds=0, probe=False)
        assert "status" == begun.structured_content["schema"]["name"]
        (experiment,) = begun.structured_content["experiments"]
        assert ("long", True) == (experiment["experiment"], experiment["driven"])
        wait_for_checkpoint(client, "long")
        # The same call waits on, and does not find the experiment in use.
        again = client.call("run", words=words("long", LONG), wait_seconds=3, probe=False)
        assert "status" == again.structured_content["schema"]["name"]
        assert client.progress
        assert client.progress == sorted(client.progress, key=lambda update: update[0])
        assert "at step" in str(client.progress[-1][2])
        assert "ending" == client.document("cancel", target="long")["outcome"]
        wait_until(lambda: states(workspace, "long") == ["interrupted"])
        continued = client.call("run", words=words("long", LONG), wait_seconds=0, probe=False)
        assert "status" == continued.structured_content["schema"]["name"]
        # Before an attempt has read its checkpoint, the record is that of the attempt before.
        wait_until(lambda: past(client, "long")["continued"] == 1)
        assert 0 == past(client, "long")["restarted"]


def test_equal_calls_at_the_same_time_are_one(workspace: Path) -> None:
    """Two requests with the same words wait for the same training, and a third with others trains too."""
    with connected(workspace) as client:
        requests = [
            client.begin("run", words=words(name, 256), wait_seconds=200, probe=False)
            for name in ("same", "same", "other")
        ]
        outcomes = [request.result(200).structured_content for request in requests]
    assert [1, 1, 1] == [outcome["ran"] for outcome in outcomes]
    assert outcomes[0] == outcomes[1]


@long
def test_a_cancelled_request_stops_its_runs(workspace: Path) -> None:
    """A request that the client cancels leaves its run interrupted, and the command line continues it."""
    with connected(workspace) as client:
        request = client.begin("run", words=words("left", LONG), wait_seconds=600, probe=False)
        wait_until((workspace / "runs" / "left").exists)
        wait_for_checkpoint(client, "left")
        request.cancel()
        wait_until(lambda: states(workspace, "left") == ["interrupted"])
        # The server goes on.
        assert "left is unfinished: 1 interrupted" in str(
            client.call("status", experiment="left").content[0]
        )
    plan = rlexp(workspace, "run", *words("left", LONG), "--dry-run", "--json").content
    (step,) = plan["beginnings"]["continued"].values()
    assert step >= 256


@pytest.mark.parametrize("end", ["closed", "killed", "interrupted"] if IN_FULL else ["killed"])
def test_nothing_outlives_the_server(workspace: Path, end: str) -> None:
    """When the client goes, or the server is killed or interrupted, every process ends, and the run can continue."""
    with connected(workspace) as client:
        client.call("run", words=words("gone", LONG), wait_seconds=0, probe=False)
        wait_for_checkpoint(client, "gone")
        processes = client.processes()
        assert len(processes) >= 4
        if end == "killed":
            processes[0].kill()
        if end == "interrupted":
            processes[0].send_signal(2)
            wait_until(lambda: ended(processes), 60)
    wait_until(lambda: ended(processes), 60)
    assert ["interrupted"] == states(workspace, "gone")
    plan = rlexp(workspace, "run", *words("gone", LONG), "--dry-run", "--json").content
    (step,) = plan["beginnings"]["continued"].values()
    assert step >= 256


@long
def test_a_stopped_run_has_the_numbers_of_one_that_was_not(workspace: Path) -> None:
    """A run that a client cancelled and continued has the score and weights of an undisturbed one."""
    with connected(workspace) as client:
        client.call("run", words=words("disturbed", SHORT), wait_seconds=0, probe=False)
        wait_for_checkpoint(client, "disturbed")
        client.call("cancel", target="disturbed")
        outcome = client.document(
            "run", words=words("disturbed", SHORT), wait_seconds=200, probe=False
        )
        assert outcome["complete"]
        (run,) = outcome["summary"]["runs"]
        disturbed = client.document("show", target=f"disturbed/{run['run']}")
        client.call("run", words=words("undisturbed", SHORT), wait_seconds=200, probe=False)
        undisturbed = client.document("show", target=f"undisturbed/{run['run']}")
    assert disturbed["continued"]
    assert undisturbed["continued"] == []
    assert (undisturbed["score"], undisturbed["weights"]) == (
        disturbed["score"],
        disturbed["weights"],
    )
