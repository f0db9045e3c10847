"""Commands whose MLflow server fails during the training."""

import json
import os
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from faulty_proxy import HOLE, PASS, FaultyProxy, Mode, slow, status
from in_full import IN_FULL
from last_words import last_words
from mlflow_backend import ServerBackend, mlflow_server_backend, shared_server
from postgresql_server import binaries
from warm_processes import Forked, warm_process

from rlexp.store.journal import read_journal
from rlexp.trackers.metric_rows import rows_of

OPTIONS = ("budget.evaluation_every=1024", "budget.final_episodes=2", "algorithm.n_steps=64")
RUN = (
    "run",
    "budget.steps=6144",
    *OPTIONS,
    "seeds.test=1",
    "experiment=one",
    "algorithm.n_epochs=2",
)
PRELOAD = (
    *(
        "torch",
        "stable_baselines3",
        "sb3_contrib",
        "torch._dynamo",
        "rlexp.app.execution.run_process",
    ),
    *(
        "rlexp.cli.every_command",
        "rlexp.app.commands.train.run",
        "rlexp.app.commands.order.sync",
        "rlexp.app.reporting.mirror_entry",
        "mlflow",
        "hydra",
    ),
    *("rlexp.config.compose", "pydantic", "scipy.special", "gymnasium.envs.classic_control"),
)
"""The modules that a command, its run and its mirror import."""
STARTING = ("rlexp.executors.local", "rlexp.app.tracking.mirror_client")
"""The modules that start the processes of a run and of a mirror."""
SERVER_KILLED = "the server is killed"
FAULTS: dict[str, Mode | None] = {
    SERVER_KILLED: None,
    "every answer is 500": status(500),
    "the key is refused": status(401),
    "it is slow": slow(0.4),
    "it never answers": HOLE,
}
WAIT = 2.0


@pytest.fixture
def backend(tmp_path: Path) -> Iterator[ServerBackend]:
    """A server behind a proxy."""
    if binaries() is None:
        pytest.skip("needs PostgreSQL")
    with mlflow_server_backend(tmp_path) as server_backend:
        yield server_backend


def rlexp(folder: Path, *arguments: str) -> "subprocess.Popen[str] | Forked":
    """Start a command in a folder, or fork it from a warm process."""
    command = [sys.executable, "-P", "-m", "rlexp", *arguments]
    settings: dict[str, Any] = {
        "cwd": folder,
        "env": {**os.environ, "RLEXP_HOME": str(folder / "home"), "NO_COLOR": "1"},
        "stdout": subprocess.PIPE,
        "stderr": subprocess.STDOUT,
        "text": True,
    }
    if IN_FULL:
        return subprocess.Popen(command, **settings)
    return warm_process(PRELOAD).Popen(command, **settings, warm=STARTING)


def completed_output(folder: Path, *arguments: str) -> str:
    """The output of a command that succeeds."""
    with rlexp(folder, *arguments) as command:
        output, _ = command.communicate(timeout=200)
    assert command.returncode == 0, output
    return output


def wait_until_pushed(proxy: FaultyProxy) -> None:
    """Wait until the first rows have reached the server."""
    deadline = time.monotonic() + 60
    while not any("log-batch" in request.path for request in proxy.requests):
        assert time.monotonic() < deadline, "nothing was pushed"
        time.sleep(0.05)


@pytest.mark.slow
@pytest.mark.parametrize("fault", FAULTS)
def test_a_server_that_fails_in_mid_run_costs_nothing(
    fault: str, backend: ServerBackend, tmp_path: Path
) -> None:
    """A run whose server fails equals one without trackers, and is uploaded completely later."""
    if fault != SERVER_KILLED and not IN_FULL:
        pytest.skip("takes long: make test-all")
    settings = ("tracker=mlflow", f"tracker.mlflow.uri={backend.proxy.url}")
    short_timeouts = ("tracker.mlflow.timeout=2", f"tracker.mlflow.wait={WAIT}")
    mode = FAULTS[fault]
    with rlexp(tmp_path, *RUN, *settings, *short_timeouts) as command:
        wait_until_pushed(backend.proxy)
        if mode is None:
            shared_server().kill()
        else:
            backend.proxy.mode = mode
        output, _ = command.communicate(timeout=200)
    assert command.returncode == 0, output
    (end_event,) = events(tmp_path, "ended")
    assert time.time() - end_event["time"] < WAIT + 15, output
    if mode is None:
        shared_server().start()
    backend.proxy.mode = PASS
    assert (
        json.loads(completed_output(tmp_path, "sync", "one", *settings, "--json"))["rows"][0][
            "pending"
        ]
        == 0
    )
    completed_output(tmp_path, "sync", "one", *settings)
    assert stored_points(backend) == recorded_points(tmp_path) != Counter()
    completed_output(tmp_path, *last_words(*RUN, "experiment=two"))
    assert {e["weights"] for e in events(tmp_path, "ended")} == {end_event["weights"]}


def events(folder: Path, kind: str) -> list[dict[str, float]]:
    """The events of one kind of every run."""
    result = []
    for path in sorted(folder.glob("runs/*/*/attempts/*/events.jsonl")):
        lines = [json.loads(line) for line in path.read_text().splitlines()]
        result += [line for line in lines if line["event"] == kind]
    return result


def recorded_points(folder: Path) -> Counter[tuple[str, int]]:
    """The number of records of each metric at each step of the first experiment."""
    (path,) = folder.glob("runs/one/*/attempts/1/events.jsonl")
    rows = rows_of(read_journal(path).events)
    return Counter((name, row.step) for row in rows for name in row.metrics)


def stored_points(backend: ServerBackend) -> Counter[tuple[str, int]]:
    """The number of points of each metric at each step that the server shows."""
    client = backend.client()
    experiments = client.search_experiments(filter_string="name = 'one'")
    runs = client.search_runs([e.experiment_id for e in experiments])
    newest = max((r for r in runs if "seed" in r.data.tags), key=lambda r: r.info.start_time)
    return Counter(
        (name, metric.step)
        for name in newest.data.metrics
        if name != "score"
        for metric in client.get_metric_history(newest.info.run_id, name)
    )
