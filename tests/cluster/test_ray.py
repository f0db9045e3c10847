"""Whole commands on real Ray clusters, one of which loses a node."""

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
from last_words import last_words

from rlexp.records.run import RunRecord
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
    """Start `rlexp run` with these words."""
    words = last_words(f"executor={executor}", "experiment=x", *BUDGET, *arguments)
    return give(folder, "run", *words)


def give(folder: Path, *words: str) -> subprocess.Popen[str]:
    """Start a command in a session of its own, as a terminal does."""
    return subprocess.Popen(
        [sys.executable, "-m", "rlexp", *words],
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
    """Give a command that succeeds; returns its output."""
    return finish(start(folder, *arguments, executor=executor))


def runs(folder: Path) -> list[RunPaths]:
    """The runs of the experiment."""
    return ExperimentPaths(folder / "runs" / "x").runs()


def returns(folder: Path) -> dict[str, Any]:
    """The step and the returns of every evaluation, by the run's name."""
    records = {paths.folder.name: read_run(paths).record for paths in runs(folder)}
    return {name: [(e.step, e.returns) for e in r.evaluations] for name, r in records.items()}


def run_and_compare(folder: Path, *arguments: str) -> None:
    """Run the same command locally, and check that the returns are equal."""
    (folder / "local").mkdir()
    run(folder / "local", *arguments, executor="local")
    assert returns(folder / "local") == returns(folder)


def states(folder: Path) -> list[str]:
    """The state of every run."""
    return [str(read_run(paths).record.state) for paths in runs(folder)]


def wait_until(condition: Callable[[], bool], message: str, seconds: float = PATIENCE) -> None:
    """Wait until a condition holds."""
    deadline = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < deadline, message
        time.sleep(0.2)


def has_checkpoint(folder: Path) -> bool:
    """Whether a run has a checkpoint on the machine of the command."""
    return any(list(paths.checkpoints.glob("[0-9]*/manifest.json")) for paths in runs(folder))


def has_recorded_checkpoint(folder: Path) -> bool:
    """Whether a first attempt has a checkpoint in its journal on the machine of the command."""
    journals = [paths.attempt(1).journal for paths in runs(folder)]
    return any(j.exists() and '"event":"checkpointed"' in j.read_text() for j in journals)


def processes_of(folder: Path) -> list[psutil.Process]:
    """The living processes that work in a folder or name it in their arguments."""
    processes = []
    for process in psutil.process_iter():
        with suppress(psutil.Error):
            arguments = " ".join(process.cmdline())
            location = process.environ().get("PWD", "") or process.cwd()
            belongs = str(folder) in arguments or location.startswith(str(folder))
            if belongs and process.status() != psutil.STATUS_ZOMBIE:
                processes.append(process)
    return processes


def descendants(command: subprocess.Popen[str]) -> list[psutil.Process]:
    """All processes below a command."""
    return list(psutil.Process(command.pid).children(recursive=True))


def living_commands(processes: list[psutil.Process]) -> list[str]:
    """The command lines of the processes that have not ended."""
    lines = []
    for process in processes:
        with suppress(psutil.Error):
            if process.is_running() and process.status() != psutil.STATUS_ZOMBIE:
                lines.append(" ".join(process.cmdline())[:100])
    return lines


def workers(command: subprocess.Popen[str]) -> list[psutil.Process]:
    """The workers below a command."""
    processes = []
    for process in descendants(command):
        with suppress(psutil.Error):
            arguments = process.cmdline()
            if "worker" in arguments and "--while-input" in arguments:
                processes.append(process)
    return processes


def test_a_cluster_of_its_own_gives_the_numbers_of_this_machine(tmp_path: Path) -> None:
    """Ray with or without a shared folder gives the local returns and leaves no process."""
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
    wait_until(lambda: not processes_of(tmp_path), "something lives on", 15)


@pytest.mark.parametrize("shared", ["true", "false"])
def test_extended_runs_have_the_numbers_of_fresh_ones(tmp_path: Path, shared: str) -> None:
    """A task receives the state of the parent; nothing of it is left when the run has ended."""
    run(tmp_path, "seeds.test=1", "budget.steps=4000", "experiment=fresh", executor="local")
    run(tmp_path, "seeds.test=1", "budget.steps=2000", "experiment=short", executor="local")
    words = ("budget.steps=4000", "executor=ray", f"executor.shared={shared}")
    finish(give(tmp_path, "extend", "short", *words))
    records = [only_record(tmp_path, name) for name in ("fresh", "short-4000")]
    numbers = [[(e.step, e.returns) for e in record.evaluations] for record in records]
    assert numbers[0] == numbers[1]
    assert records[0].weights == records[1].weights is not None
    assert records[0].score == records[1].score is not None
    assert [] == list((tmp_path / "runs").glob("*/*/parent"))


def only_record(folder: Path, experiment: str) -> RunRecord:
    """The record of the only run of an experiment."""
    (paths,) = ExperimentPaths(folder / "runs" / experiment).runs()
    return read_run(paths).record


def test_ctrl_c_ends_tasks_as_interrupted(tmp_path: Path) -> None:
    """After Ctrl-C the run is interrupted, its checkpoint is here, and no process is left."""
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
    wait_until(lambda: not processes_of(tmp_path), "something lives on", 15)


@pytest.mark.parametrize("shared", ["true", "false"])
def test_nothing_outlives_a_command_that_is_killed(tmp_path: Path, shared: str) -> None:
    """No process outlives a killed command, and a repeat completes with the local returns."""
    arguments = ("seeds.test=1", "budget.checkpoint_every=500", f"executor.shared={shared}")
    command = start(tmp_path, *arguments, "executor.return_every=1", "budget.steps=6000")
    wait_until(lambda: has_recorded_checkpoint(tmp_path), "no checkpoint came")
    started = descendants(command)
    assert len(started) > 5
    command.kill()
    command.communicate()
    wait_until(lambda: not living_commands(started), "something lives on", 15)
    assert [] == processes_of(tmp_path)
    run(tmp_path, *arguments, "budget.steps=6000")
    record = read_run(runs(tmp_path)[0]).record
    assert ["completed"] == states(tmp_path)
    assert 2 == record.attempts
    run_and_compare(tmp_path, "seeds.test=1", "budget.steps=6000", "budget.checkpoint_every=500")


def test_a_worker_that_is_killed_is_tried_again(tmp_path: Path) -> None:
    """A run whose worker is killed gets another attempt; each core has at most one worker."""
    arguments = ("seeds.test=3", "budget.steps=6000", "budget.checkpoint_every=500")
    command = start(tmp_path, *arguments, "executor.jobs=3", "executor.cpus=1")
    most_workers, killed_worker = 0, None
    deadline = time.monotonic() + PATIENCE
    while command.poll() is None and time.monotonic() < deadline:
        living_workers = workers(command)
        most_workers = max(most_workers, len(living_workers))
        if killed_worker is None and living_workers and has_checkpoint(tmp_path):
            killed_worker = living_workers[0]
            killed_worker.kill()
        time.sleep(0.2)
    output = finish(command)
    assert killed_worker is not None
    assert ["completed"] * 3 == states(tmp_path)
    assert 4 == sum(read_run(paths).record.attempts for paths in runs(tmp_path)), output
    assert most_workers == (os.cpu_count() or 1) or most_workers == 3


@pytest.fixture
def cluster() -> Iterator[Any]:
    """A process that starts clusters whose nodes are processes of this machine."""
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
    """Send a word to the process of the cluster and return its answer."""
    assert nodes.stdin is not None
    assert nodes.stdout is not None
    nodes.stdin.write(word + "\n")
    nodes.stdin.flush()
    return json.loads(nodes.stdout.readline())


@pytest.mark.parametrize("shared", ["true", "false"])
def test_a_node_that_dies_costs_what_was_not_sent_back(
    tmp_path: Path, cluster: subprocess.Popen[str], shared: str
) -> None:
    """A run whose node dies continues elsewhere from its newest checkpoint here."""
    address = ask(cluster, "start")
    arguments = ("seeds.test=1", "budget.steps=6000", "budget.checkpoint_every=500")
    command = start(
        tmp_path,
        *arguments,
        f"executor.address={address}",
        *(f"executor.shared={shared}", "executor.return_every=1", "executor.jobs=1"),
        "+executor.resources.here=1",
    )
    wait_until(lambda: has_recorded_checkpoint(tmp_path), "no checkpoint came")
    ask(cluster, "replace")
    output = finish(command)
    assert ["completed"] == states(tmp_path), output
    journals = [attempt.journal for attempt in runs(tmp_path)[0].attempts()[1:]]
    # An attempt that is killed before its first event leaves no journal.
    events = "".join(journal.read_text() for journal in journals if journal.exists())
    assert '"event":"continued"' in events
    run_and_compare(tmp_path, *arguments)


def test_a_node_that_sees_another_folder_is_found_out(
    tmp_path: Path, cluster: subprocess.Popen[str]
) -> None:
    """A node with another mount over runs/ gets its runs sent, and the results come back."""
    if subprocess.run(["unshare", "-m", "true"], check=False).returncode:
        pytest.skip("needs the right to mount")
    arguments = ("seeds.test=1", "budget.steps=2000", "budget.checkpoint_every=500")
    (tmp_path / "runs").mkdir()
    address = ask(cluster, f"start {tmp_path / 'runs'}")
    run(tmp_path, *arguments, f"executor.address={address}", "+executor.resources.here=1")
    assert ["completed"] == states(tmp_path)
    assert (runs(tmp_path)[0].attempt(1).folder / ".job").exists()


def test_a_cluster_that_is_not_there_is_named(tmp_path: Path) -> None:
    """A Ray address without a cluster is one line of output and exit code 70."""
    command = start(tmp_path, "seeds.test=1", "executor.address=127.0.0.1:1")
    output = finish(command, 70)
    assert "rlexp: the Ray cluster at 127.0.0.1:1 cannot be used" in output
    assert "Traceback" not in output
