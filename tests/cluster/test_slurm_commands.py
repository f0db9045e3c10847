"""Whole commands on a real Slurm cluster of one node: the same results, whatever the jobs meet.

Started by `make test-services`, which sets `RLEXP_CLUSTER_TESTS`.
"""

import json
import os
import re
import signal
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from slurm_cluster import Cluster, missing_program, running_cluster, wait_until

pytestmark = [
    pytest.mark.skipif(not os.environ.get("RLEXP_CLUSTER_TESTS"), reason="make test-services"),
    pytest.mark.skipif(missing_program() is not None, reason=f"{missing_program()} is not here"),
    pytest.mark.timeout(900),
]
SHORT = (
    *("algorithm=ppo", "environment=cartpole", "algorithm.n_steps=128"),
    *("budget.evaluation_every=512", "budget.evaluation_episodes=2", "budget.final_episodes=5"),
    *("budget.checkpoint_every=512", "budget.steps=1024"),
)
LONG = (*SHORT[:-1], "budget.steps=5120")
SWEEP = (
    *SHORT,
    *("algorithm.learning_rate=tag(log, interval(1e-5, 1e-1))", "tuner=random", "pruner=median"),
    *("pruner.startup_trials=2", "sweep.trials=5", "sweep.lag=2"),
    *("seeds.tuning=1", "seeds.selection=0", "seeds.test=1"),
)
SLURM = ("executor=slurm", "executor.poll=1", "executor.signal_before=30", "executor.time=10")
LIMIT = 400.0
"""The maximum duration of a command, in seconds."""


@pytest.fixture(scope="module")
def cluster() -> Iterator[Cluster]:
    """A cluster for all tests of this file."""
    with running_cluster() as running:
        yield running


@dataclass(slots=True)
class Folder:
    """A study in a folder whose name needs quotes, and the commands that are given there."""

    path: Path
    cluster: Cluster
    started: list[subprocess.Popen[bytes]] = field(default_factory=list)

    def start(self, *arguments: str) -> subprocess.Popen[bytes]:
        """Start a command, which is ended with the test."""
        with (self.path / "output").open("ab") as output:
            process = subprocess.Popen(
                [sys.executable, "-m", "rlexp", *arguments],
                cwd=self.path,
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=output,
                env={
                    **os.environ,
                    "SLURM_CONF": str(self.cluster.configuration),
                    "OMP_NUM_THREADS": "1",
                },
            )
        self.started.append(process)
        return process

    def give(self, *arguments: str) -> str:
        """Give a command and wait for its success; returns its output."""
        start = len(self.output())
        code = self.start(*arguments).wait(LIMIT)
        output = self.output()[start:]
        assert code == 0, output
        return output

    def output(self) -> str:
        """The output of all commands."""
        file = self.path / "output"
        return file.read_text() if file.exists() else ""

    def events(self, experiment: str, kind: str) -> list[dict[str, Any]]:
        """All events of a kind."""
        journals = (self.path / "runs" / experiment).glob("*/attempts/*/events.jsonl")
        *lines, _ = "".join(path.read_text() for path in journals).split("\n")
        return [event for line in lines if (event := json.loads(line))["event"] == kind]

    def weights(self, experiment: str) -> list[str]:
        """The hashes of the final weights of all completed runs."""
        return sorted(e["weights"] for e in self.events(experiment, "ended") if e["weights"])

    def weights_by_run(self, experiment: str) -> dict[str, str]:
        """The hash of the final weights of each completed run."""
        return {
            path.parents[2].name: weights[0]
            for path in (self.path / "runs" / experiment).glob("*/attempts/*/events.jsonl")
            if (weights := re.findall(r'"weights":"(\w+)"', path.read_text()))
        }

    def attempts(self, experiment: str) -> int:
        """The number of attempts of all runs."""
        return len(list((self.path / "runs" / experiment).glob("*/attempts/*")))

    def jobs(self) -> list[str]:
        """The jobs in the queue."""
        return self.cluster.ask("squeue", "-h", "-r", "-o", "%i").split()


@pytest.fixture
def study(tmp_path: Path, cluster: Cluster) -> Iterator[Folder]:
    """An empty study; at the end neither commands nor jobs are left."""
    path = tmp_path / "it's 100%j"
    path.mkdir()
    folder = Folder(path, cluster)
    yield folder
    for process in folder.started:
        process.kill()
        process.wait()
    cluster.empty()


@pytest.fixture(scope="module")
def control(tmp_path_factory: pytest.TempPathFactory, cluster: Cluster) -> list[str]:
    """The final weights of two long runs that executor=local made undisturbed."""
    folder = Folder(tmp_path_factory.mktemp("control"), cluster)
    folder.give("run", *LONG, "seeds.test=2", "experiment=a", "executor=local")
    return folder.weights("a")


def has_checkpoints(study: Folder, count: int) -> bool:
    """Whether at least `count` runs of experiment `a` have a checkpoint."""
    runs = {path.parent.parent for path in (study.path / "runs" / "a").glob("*/checkpoints/*")}
    return len(runs) >= count


def test_a_run_is_the_same_here_and_there(study: Folder) -> None:
    """Runs in Slurm jobs end with the weights of local runs, and no job is left."""
    arguments = (*SHORT, "seeds.test=3")
    study.give("run", *arguments, "experiment=a", *SLURM)
    study.give("run", *arguments, "experiment=b", "executor=local")
    assert study.weights("a") == study.weights("b")
    assert len(study.weights("a")) == 3
    wait_until(lambda: not study.jobs())
    assert {".txt"} == {path.suffix for path in (study.path / "runs/a/jobs").iterdir()}


def test_a_sweep_is_the_same_here_and_there(study: Folder) -> None:
    """A sweep in Slurm jobs chooses the winner of a local sweep and trains the same weights."""
    study.give("sweep", *SWEEP, "experiment=a", *SLURM, "executor.jobs=2")
    study.give("sweep", *SWEEP, "experiment=b", "executor=local", "executor.workers=2")
    selections = [json.loads((study.path / f"runs/{n}/selection.json").read_text()) for n in "ab"]
    assert selections[0] == selections[1]
    sweeps = [json.loads(study.give("show", n, "--json"))["sweep"] for n in "ab"]
    for key in ("trials", "latest", "best", "winner"):
        assert sweeps[0][key] == sweeps[1][key], key
    there, here = map(study.weights_by_run, "ab")
    # A run that is told late that it is pruned ends all the same: here or there alone.
    both = set(there) & set(here)
    assert len(both) >= 6
    assert [there[run] for run in both] == [here[run] for run in both]


def test_preempted_runs_end_as_if_nothing_had_been(study: Folder, control: list[str]) -> None:
    """Runs of preempted jobs continue from checkpoints and end with the undisturbed weights."""
    run = study.start("run", *LONG, "seeds.test=2", "experiment=a", *SLURM)
    wait_until(partial(has_checkpoints, study, 2), 180)
    study.cluster.ask("sbatch", "-p", "high", "-c2", "-o/dev/null", "--wrap=sleep 2")
    assert run.wait(LIMIT) == 0, study.output()
    assert study.weights("a") == control
    assert study.attempts("a") == 4
    assert "continued from a checkpoint" in study.output()


def test_cancelled_jobs_are_tried_again(study: Folder, control: list[str]) -> None:
    """Runs of jobs that somebody cancels get a second attempt with the undisturbed weights."""
    run = study.start("run", *LONG, "seeds.test=2", "experiment=a", *SLURM)
    wait_until(partial(has_checkpoints, study, 2), 180)
    study.cluster.ask("scancel", f"--user={os.getuid()}")
    assert run.wait(LIMIT) == 0, study.output()
    assert study.weights("a") == control
    assert study.attempts("a") == 4


def test_a_node_that_dies_costs_no_run(study: Folder, control: list[str]) -> None:
    """Runs of a node that dies and comes back end with the undisturbed weights."""
    run = study.start("run", *LONG, "seeds.test=2", "experiment=a", *SLURM)
    wait_until(partial(has_checkpoints, study, 2), 180)
    study.cluster.kill("slurmd")
    study.cluster.end_processes()
    study.cluster.start("slurmd")
    assert run.wait(LIMIT) == 0, study.output()
    assert study.weights("a") == control


def test_a_killed_command_doubles_nothing(study: Folder, control: list[str]) -> None:
    """Jobs outlive kill -9 of their command, and a repeat waits for them without new attempts."""
    arguments = ("run", *LONG, "seeds.test=2", "experiment=a", *SLURM)
    run = study.start(*arguments)
    wait_until(partial(has_checkpoints, study, 2), 180)
    jobs = study.jobs()
    run.send_signal(signal.SIGKILL)
    run.wait()
    assert study.jobs() == jobs
    study.give(*arguments)
    assert study.weights("a") == control
    assert study.attempts("a") == 2


def test_detached_runs_go_on_alone(study: Folder, control: list[str]) -> None:
    """Jobs run on after `--detach`, `status` shows them, and a repeat makes no new attempts."""
    arguments = ("run", *LONG, "seeds.test=2", "experiment=a", *SLURM)
    assert "will continue without this command" in study.give(*arguments, "--detach")
    assert len(study.jobs()) == 2
    wait_until(partial(has_checkpoints, study, 2), 180)
    assert "ppo-test-0" in study.give("status", "a")
    study.give(*arguments)
    assert study.weights("a") == control
    assert study.attempts("a") == 2


def test_interrupted_runs_leave_no_jobs(study: Folder) -> None:
    """Ctrl-C interrupts the runs that have begun and leaves no job in the queue."""
    run = study.start("run", *LONG, "seeds.test=4", "experiment=a", *SLURM)
    wait_until(partial(has_checkpoints, study, 2), 180)
    run.send_signal(signal.SIGINT)
    assert run.wait(120) == 130, study.output()
    endings = [event["ending"] for event in study.events("a", "ended")]
    assert endings == ["interrupted", "interrupted"]
    wait_until(lambda: not study.jobs())
