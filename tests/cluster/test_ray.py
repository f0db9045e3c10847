"""Whole commands on real Ray clusters: of their own, and of two nodes of which one is lost."""

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

import psutil
import pytest

from rlexp.store.layout import ExperimentPaths, RunPaths
from rlexp.store.runs import read_run

pytestmark = [
    pytest.mark.skipif(
        not os.environ.get("RLEXP_CLUSTER_TESTS"), reason="takes minutes: make test-services"
    ),
    pytest.mark.timeout(600),
]
ray = pytest.importorskip("ray", reason="Ray is not installed: pip install 'rlexp[ray]'")
HERE = Path(__file__).parent
BUDGET = (
    "budget.evaluation_every=1000",
    "budget.evaluation_episodes=2",
    "budget.final_episodes=3",
    "algorithm.n_steps=256",
)
PATIENCE = 240.0


def start(folder: Path, *arguments: str, executor: str = "ray") -> subprocess.Popen[str]:
    """Give a command in a session of its own, as a terminal does."""
    command = [sys.executable, "-m", "rlexp", "run", f"executor={executor}", "experiment=x"]
    return subprocess.Popen(
        [*command, *BUDGET, *arguments],
        cwd=folder,
        env={k: v for k, v in os.environ.items() if k != "RLEXP_RUNS"},
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        start_new_session=True,
    )


def finish(command: subprocess.Popen[str], code: int = 0) -> str:
    """Wait for a command and return what it printed."""
    output, _ = command.communicate(timeout=PATIENCE)
    assert code == command.returncode, output
    return output


def run(folder: Path, *arguments: str, executor: str = "ray") -> str:
    """Give a command that succeeds."""
    return finish(start(folder, *arguments, executor=executor))


def runs(folder: Path) -> list[RunPaths]:
    """The runs of the experiment."""
    return ExperimentPaths(folder / "runs" / "x").runs()


def returns(folder: Path) -> dict[str, Any]:
    """What every run came to: each episode of each evaluation."""
    records = {paths.folder.name: read_run(paths).record for paths in runs(folder)}
    return {name: [(e.step, e.returns) for e in r.evaluations] for name, r in records.items()}


def run_and_compare(folder: Path, *arguments: str) -> None:
    """See that the runs came to what they come to on this machine, without any fault."""
    (folder / "local").mkdir()
    run(folder / "local", *arguments, executor="local")
    assert returns(folder / "local") == returns(folder)


def states(folder: Path) -> list[str]:
    """The state of every run."""
    return [str(read_run(paths).record.state) for paths in runs(folder)]


def wait_until(holds: Callable[[], bool], what: str, seconds: float = PATIENCE) -> None:
    """Wait until something is so."""
    deadline = time.monotonic() + seconds
    while not holds():
        assert time.monotonic() < deadline, what
        time.sleep(0.2)


def has_checkpoint(folder: Path) -> bool:
    """Whether a run has one on the side of the command."""
    return any(list(paths.checkpoints.glob("[0-9]*/manifest.json")) for paths in runs(folder))


def has_told_of_a_checkpoint(folder: Path) -> bool:
    """Whether the command knows that an attempt came to one."""
    journals = [paths.attempt(1).journal for paths in runs(folder)]
    return any(j.exists() and '"event":"checkpointed"' in j.read_text() for j in journals)


def offspring(folder: Path) -> list[psutil.Process]:
    """The living processes that work in a folder or for it, of whatever parent."""
    results = []
    for process in psutil.process_iter():
        with suppress(psutil.Error):
            arguments = " ".join(process.cmdline())
            location = process.environ().get("PWD", "") or process.cwd()
            ours = str(folder) in arguments or location.startswith(str(folder))
            if ours and process.status() != psutil.STATUS_ZOMBIE:
                results.append(process)
    return results


def descendants(command: subprocess.Popen[str]) -> list[psutil.Process]:
    """What a command has started, and what that has."""
    return list(psutil.Process(command.pid).children(recursive=True))


def living(processes: list[psutil.Process]) -> list[str]:
    """The command lines of those that have not ended."""
    lines = []
    for process in processes:
        with suppress(psutil.Error):
            if process.is_running() and process.status() != psutil.STATUS_ZOMBIE:
                lines.append(" ".join(process.cmdline())[:100])
    return lines


def workers(command: subprocess.Popen[str]) -> list[psutil.Process]:
    """The workers below a command."""
    results = []
    for process in descendants(command):
        with suppress(psutil.Error):
            arguments = process.cmdline()
            if "worker" in arguments and "--while-input" in arguments:
                results.append(process)
    return results


def test_a_cluster_of_its_own_gives_the_numbers_of_this_machine(tmp_path: Path) -> None:
    """Seen or sent, runs come to what executor=local gives, and nothing is left behind."""
    arguments = ("seeds.test=2", "budget.steps=2000", "budget.checkpoint_every=500")
    for name in ("local", "seen", "sent"):
        (tmp_path / name).mkdir()
    run(tmp_path / "local", *arguments, executor="local")
    run(tmp_path / "seen", *arguments)
    output = run(tmp_path / "sent", *arguments, "executor.shared=false", "executor.return_every=2")
    assert returns(tmp_path / "local") == returns(tmp_path / "seen") == returns(tmp_path / "sent")
    assert 2 == len(returns(tmp_path / "sent"))
    assert "ray" not in output.lower().replace("executor=ray", "").replace("executor.ray", "")
    assert all(list(paths.checkpoints.iterdir()) for paths in runs(tmp_path / "sent"))
    assert ["ray.log"] == [p.name for p in (tmp_path / "sent/runs/x/jobs").iterdir()]
    wait_until(lambda: not offspring(tmp_path), "something lives on", 15)


def test_ctrl_c_ends_tasks_as_interrupted(tmp_path: Path) -> None:
    """After Ctrl-C runs that are elsewhere leave checkpoints here; the same command goes on."""
    arguments = ("seeds.test=1", "budget.checkpoint_every=500", "executor.shared=false")
    command = start(tmp_path, *arguments, "budget.steps=60000")
    wait_until(
        lambda: bool(returns(tmp_path)) and any(returns(tmp_path).values()),
        "nothing was evaluated",
    )
    os.killpg(command.pid, signal.SIGINT)
    finish(command, 130)
    assert ["interrupted"] == states(tmp_path)
    assert has_checkpoint(tmp_path)
    wait_until(lambda: not offspring(tmp_path), "something lives on", 15)


@pytest.mark.parametrize("shared", ["true", "false"])
def test_nothing_outlives_a_command_that_is_killed(tmp_path: Path, shared: str) -> None:
    """Seconds after kill -9 neither the cluster nor a worker lives; the same command goes on."""
    arguments = ("seeds.test=1", "budget.checkpoint_every=500", f"executor.shared={shared}")
    command = start(tmp_path, *arguments, "executor.return_every=1", "budget.steps=6000")
    wait_until(lambda: has_told_of_a_checkpoint(tmp_path), "no checkpoint came")
    started = descendants(command)
    assert len(started) > 5
    command.kill()
    command.communicate()
    wait_until(lambda: not living(started), "something lives on", 15)
    assert [] == offspring(tmp_path)
    run(tmp_path, *arguments, "budget.steps=6000")
    attempts = read_run(runs(tmp_path)[0]).record
    assert ["completed"] == states(tmp_path)
    assert 2 == attempts.attempts
    run_and_compare(tmp_path, "seeds.test=1", "budget.steps=6000", "budget.checkpoint_every=500")


def test_a_worker_that_is_killed_is_tried_again(tmp_path: Path) -> None:
    """After kill -9 of a worker another attempt is made; cores are given to one run each."""
    arguments = ("seeds.test=3", "budget.steps=6000", "budget.checkpoint_every=500")
    command = start(tmp_path, *arguments, "executor.jobs=3", "executor.cpus=1")
    most, killed = 0, None
    deadline = time.monotonic() + PATIENCE
    while command.poll() is None and time.monotonic() < deadline:
        alive = workers(command)
        most = max(most, len(alive))
        if killed is None and alive and has_checkpoint(tmp_path):
            killed = alive[0]
            killed.kill()
        time.sleep(0.2)
    output = finish(command)
    assert killed is not None
    assert ["completed"] * 3 == states(tmp_path)
    assert 4 == sum(read_run(paths).record.attempts for paths in runs(tmp_path)), output
    assert most == (os.cpu_count() or 1) or most == 3


@pytest.fixture
def cluster() -> Iterator[Any]:
    """Starts clusters of nodes that are processes of this machine."""
    arguments = [sys.executable, str(HERE / "ray_nodes.py")]
    with subprocess.Popen(
        arguments,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        text=True,
        env={**os.environ, "RAY_USAGE_STATS_ENABLED": "0"},
    ) as nodes:
        yield nodes
        assert nodes.stdin is not None
        nodes.stdin.close()
        nodes.wait(60)


def ask(nodes: subprocess.Popen[str], word: str) -> Any:
    """Tell the cluster something, and read its answer."""
    assert nodes.stdin is not None
    assert nodes.stdout is not None
    nodes.stdin.write(word + "\n")
    nodes.stdin.flush()
    return json.loads(nodes.stdout.readline())


@pytest.mark.parametrize("shared", ["true", "false"])
def test_a_node_that_dies_costs_what_was_not_sent_back(
    tmp_path: Path, cluster: subprocess.Popen[str], shared: str
) -> None:
    """A run whose node dies goes on elsewhere from the checkpoint that is here."""
    address = ask(cluster, "start")
    arguments = ("seeds.test=1", "budget.steps=6000", "budget.checkpoint_every=500")
    command = start(
        tmp_path,
        *arguments,
        f"executor.address={address}",
        *(f"executor.shared={shared}", "executor.return_every=1", "executor.jobs=1"),
        "+executor.resources.here=1",
    )
    wait_until(lambda: has_told_of_a_checkpoint(tmp_path), "no checkpoint came")
    ask(cluster, "replace")
    output = finish(command)
    assert ["completed"] == states(tmp_path), output
    journal = runs(tmp_path)[0].attempt(2).journal.read_text()
    assert '"event":"continued"' in journal
    run_and_compare(tmp_path, *arguments)


def test_a_node_that_sees_another_folder_is_found_out(
    tmp_path: Path, cluster: subprocess.Popen[str]
) -> None:
    """Where a node has something else mounted over runs/, runs are sent there and come back."""
    if subprocess.run(["unshare", "-m", "true"], check=False).returncode:
        pytest.skip("needs the right to mount")
    arguments = ("seeds.test=1", "budget.steps=2000", "budget.checkpoint_every=500")
    (tmp_path / "runs").mkdir()
    address = ask(cluster, f"start {tmp_path / 'runs'}")
    run(tmp_path, *arguments, f"executor.address={address}", "+executor.resources.here=1")
    assert ["completed"] == states(tmp_path)
    assert (runs(tmp_path)[0].attempt(1).folder / ".job").exists()


def test_a_cluster_that_is_not_there_is_named(tmp_path: Path) -> None:
    """An address that nobody answers at is one line, and its code that of an executor."""
    command = start(tmp_path, "seeds.test=1", "executor.address=127.0.0.1:1")
    output = finish(command, 70)
    assert "rlexp: the Ray cluster at 127.0.0.1:1 cannot be used" in output
    assert "Traceback" not in output
