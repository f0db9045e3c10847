"""Every executor hands compiled runs to one process in turn, and they end with the bits of local runs.

The local and the pull executor are always tested; the clusters are tested where
`make test-services` sets `RLEXP_CLUSTER_TESTS`.
"""

import os
import subprocess
import sys
from collections.abc import Iterator
from importlib.util import find_spec
from pathlib import Path

import pytest
from commands_in_turn import Events, events_of, processes, run, start, wait_for, weights

sys.path.append(str(Path(__file__).parents[1] / "cluster"))

from slurm_cluster import missing_program, running_cluster

pytestmark = pytest.mark.timeout(600)
CLUSTER = bool(os.environ.get("RLEXP_CLUSTER_TESTS"))
SEEDS = "seeds.test=3"
SLURM = ("executor.poll=1", "executor.signal_before=30", "executor.time=10")


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """A folder for experiments, and for the compiled code of a user."""
    made = tmp_path_factory.mktemp("executors")
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("RLEXP_HOME", str(made))
        patch.setenv("OMP_NUM_THREADS", "1")
        yield made


@pytest.fixture(scope="module")
def local(folder: Path) -> Events:
    """The events of runs that the command's own process has executed."""
    return run(folder, "local", SEEDS)


def check(local: Events, events: Events) -> None:
    """The runs have the bits of local ones, and one process executed them all."""
    assert weights(local) == weights(events)
    assert 1 == len({pid for rows in events.values() for pid in processes(rows)})


def test_a_worker_executes_compiled_runs_in_turn(local: Events, folder: Path) -> None:
    """A worker of the pull executor has one process for all runs that it takes."""
    command = start(folder, "pulled", SEEDS, "executor=pull")
    wait_for(folder / "runs" / "pulled", "orders/[!.]*.json")
    words = ("worker", "pulled", "--workers=1", "--idle=5")
    worker = subprocess.Popen([sys.executable, "-m", "rlexp", *words], cwd=folder)
    assert 0 == command.wait(500)
    assert 0 == worker.wait(500)
    check(local, events_of(folder / "runs" / "pulled"))


@pytest.mark.skipif(not CLUSTER or find_spec("ray") is None, reason="make test-services")
def test_a_job_of_ray_executes_compiled_runs_in_turn(local: Events, folder: Path) -> None:
    """A job of Ray that holds three runs has one process for them."""
    check(local, run(folder, "ray", SEEDS, "executor=ray", "executor.runs_per_job=3"))


@pytest.mark.skipif(not CLUSTER or missing_program() is not None, reason="make test-services")
def test_a_job_of_slurm_executes_compiled_runs_in_turn(
    local: Events, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A job of Slurm that holds three runs has one process for them."""
    with running_cluster() as cluster:
        monkeypatch.setenv("SLURM_CONF", str(cluster.configuration))
        words = ("executor=slurm", "executor.runs_per_job=3", *SLURM)
        check(local, run(folder, "slurm", SEEDS, *words))
        cluster.empty()
