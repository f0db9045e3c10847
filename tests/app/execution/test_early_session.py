"""The server of runs starts while the plan is checked, and only where a run is missing."""

import subprocess
from pathlib import Path
from typing import Any

import pytest
from finished_runs import TINY, finish, study
from last_words import last_words
from quick_parts import quick_parts

from rlexp.app.commands.train.run import RunOptions, run
from rlexp.app.commands.train.sweep import SweepOptions, sweep
from rlexp.app.execution import preparation
from rlexp.app.observer import SilentObserver
from rlexp.errors import ConfigError, RlexpError
from rlexp.store.locks.lease import hold

quick = pytest.fixture(autouse=True)(quick_parts)
Servers = list[subprocess.Popen[bytes]]
ROLLOUT = ("algorithm.n_steps=32", "algorithm.batch_size=32")
TOO_LARGE = (
    "algorithm=dqn",
    "algorithm.buffer_size=100_000_000_000",
    "budget.steps=1_000_000_000",
    "budget.evaluation_every=500_000_000",
)


@pytest.fixture
def servers(monkeypatch: pytest.MonkeyPatch) -> Servers:
    """The servers that local executors start."""
    started: list[subprocess.Popen[bytes]] = []

    class Recorded(subprocess.Popen[bytes]):
        def __init__(self, *arguments: Any, **options: Any) -> None:
            super().__init__(*arguments, **options)
            if "rlexp.executors.server" in list(map(str, arguments[0])):
                started.append(self)

    monkeypatch.setattr(subprocess, "Popen", Recorded)
    return started


def try_run(folder: Path, *words: str, **options: Any) -> Any:
    """`rlexp run` with a tiny budget."""
    chosen = last_words(*TINY, *ROLLOUT, *words)
    return run(chosen, RunOptions(**options), study(folder), SilentObserver())


def test_the_server_starts_before_the_checks_end(
    tmp_path: Path, servers: Servers, monkeypatch: pytest.MonkeyPatch
) -> None:
    """While the plan is checked, the server imports; the error of a check ends it first."""
    states: list[int | None] = []

    def check(*_: Any) -> None:
        states.append(servers[0].poll())
        raise ConfigError("refused")

    monkeypatch.setattr(preparation, "prepare", check)
    with pytest.raises(ConfigError, match="refused"):
        try_run(tmp_path)
    assert [None] == states
    assert [-9] == [server.poll() for server in servers]
    assert not (tmp_path / "runs").exists()


@pytest.mark.parametrize(
    "words", [("environment=frozen_lake", "environment.vector.frame_stack=2"), ("agent=cnn",)]
)
def test_a_refused_run_leaves_no_process(
    tmp_path: Path, servers: Servers, words: tuple[str, ...]
) -> None:
    """When the refusal is raised, no server is left, and no folder."""
    with pytest.raises(RlexpError):
        try_run(tmp_path, *words)
    assert all(server.poll() is not None for server in servers)
    assert not (tmp_path / "runs").exists()


def test_a_refused_sweep_leaves_no_process(tmp_path: Path, servers: Servers) -> None:
    """When the refusal of a sweep is raised, no server is left."""
    searched = ("algorithm.learning_rate=interval(0.001,0.1)", "sweep.trials=2")
    chosen = last_words(*TINY, *TOO_LARGE, *searched)
    with pytest.raises(ConfigError, match="memory"):
        sweep(None, chosen, SweepOptions(), study(tmp_path), SilentObserver())
    assert all(server.poll() is not None for server in servers)


def test_an_experiment_in_use_leaves_no_process(tmp_path: Path, servers: Servers) -> None:
    """A command that another one keeps out ends its server."""
    paths = study(tmp_path).layout.experiment("tiny")
    paths.folder.mkdir(parents=True)
    with hold(paths.lock, "experiment tiny", now=0.0), pytest.raises(RlexpError, match="in use"):
        try_run(tmp_path)
    assert [-9] == [server.poll() for server in servers]


def test_without_a_missing_run_no_server_starts(tmp_path: Path, servers: Servers) -> None:
    """A finished experiment, and a plan, start no server."""
    finish(tmp_path, *ROLLOUT)
    assert 0 == try_run(tmp_path).ran
    assert try_run(tmp_path, "seeds.test=2", dry_run=True).runs == 1
    assert [] == servers


def test_one_server_executes_the_missing_runs(tmp_path: Path, servers: Servers) -> None:
    """The server that started early forks the runs, and ends with the command."""
    assert (1, True) == ((outcome := try_run(tmp_path)).ran, outcome.complete)
    assert [0] == [server.poll() for server in servers]
