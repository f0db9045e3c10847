"""One command on every executor gives the same runs and scores, whatever happens to it.

The local and the pull executor are always tested; the clusters are tested where
`make test-services` sets `RLEXP_CLUSTER_TESTS`.
"""

import json
import os
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass, field
from importlib.util import find_spec
from itertools import pairwise
from pathlib import Path
from random import Random
from typing import Any

import psutil
import pytest
from in_full import long
from last_words import last_words
from slurm_cluster import Cluster, missing_program, running_cluster

sys.path.append(str(Path(__file__).parents[1] / "faults"))

from quick_runs import SETTINGS
from studies import StudyFolder, new_study, wait_until

from rlexp.store.layout import ExperimentPaths
from rlexp.store.locks.lease import is_held

pytestmark = pytest.mark.timeout(600)
OVERRIDES = (
    *("experiment=x", "algorithm=ppo", "environment=cartpole"),
    *("budget.steps=3000", "budget.evaluation_every=1000", "seeds.test=3"),
)
SWEEP = (
    *("experiment=x", "algorithm=ppo", "environment=cartpole"),
    "algorithm.learning_rate=tag(log, interval(1e-5, 1e-1))",
    *("budget.steps=3000", "budget.evaluation_every=1000", "tuner=random", "pruner=median"),
    *("pruner.startup_trials=2", "sweep.trials=8", "sweep.lag=2"),
    *("seeds.tuning=1", "seeds.selection=0", "seeds.test=1"),
)
EXECUTOR_OVERRIDES = {
    "local": ("executor.workers=2",),
    "pull": ("executor.grace=20",),
    "slurm": ("executor.poll=1", "executor.signal_before=30", "executor.time=10"),
    "ray": ("executor.grace=20",),
}
DETACHABLE = ("pull", "slurm")
"""Executors whose runs continue without the command that started them."""
SLOW, STUCK = {"seconds": 3.0}, {"seconds": 90.0}
LIMIT = 240.0
"""The maximum duration of a command, in seconds."""

on_a_cluster = pytest.mark.skipif(
    not os.environ.get("RLEXP_CLUSTER_TESTS"), reason="make test-services"
)
no_slurm = pytest.mark.skipif(
    missing_program() is not None, reason=f"{missing_program()} is not here"
)
no_ray = pytest.mark.skipif(find_spec("ray") is None, reason="pip install 'rlexp[ray]'")
CLUSTERS = (
    pytest.param("slurm", marks=[on_a_cluster, no_slurm]),
    pytest.param("ray", marks=[on_a_cluster, no_ray]),
)
everywhere = pytest.mark.parametrize("place", ["local", "pull", *CLUSTERS], indirect=True)
LOCAL, PULL = (pytest.param(name, marks=long) for name in ("local", "pull"))
"""Executors of long tests, where a faster test in another file shows the same."""
in_full = pytest.mark.parametrize("place", [LOCAL, PULL, *CLUSTERS], indirect=True)
detached = pytest.mark.parametrize("place", [PULL, CLUSTERS[0]], indirect=True)


@dataclass
class Command:
    """A command that runs an experiment, and the workers that were started for it."""

    process: subprocess.Popen[str]
    workers: list[subprocess.Popen[str]]

    def finish(self, code: int = 0) -> str:
        """Wait for the end of the command and its workers; returns the command's output."""
        output, _ = self.process.communicate(timeout=LIMIT)
        assert code == self.process.returncode, output
        for worker in self.workers:
            worker.wait(LIMIT)
        return output


@dataclass
class Place:
    """A study whose runs train nothing, and the executor that executes them."""

    executor: str
    study: StudyFolder
    workers: list[subprocess.Popen[str]] = field(default_factory=list)

    def start(
        self, *arguments: str, quick: dict[str, Any] | None = None, workers: int = 1
    ) -> Command:
        """Start a command; with executor=pull also start workers for it."""
        variables = {SETTINGS: json.dumps(quick or {})}
        overrides = (f"executor={self.executor}", *EXECUTOR_OVERRIDES[self.executor])
        process = self.study.start(*arguments, *overrides, variables=variables)
        if self.executor != "pull":
            return Command(process, [])
        wait_until(lambda: process.poll() is not None or self.orders())
        if process.poll() is not None and not self.orders():
            return Command(process, [])
        started = [
            self.study.start("worker", "x", "--workers=1", "--idle=60", variables=variables)
            for _ in range(workers)
        ]
        self.workers += started
        return Command(process, started)

    def give(self, *arguments: str, code: int = 0, **settings: Any) -> str:
        """Give a command and wait for its end; returns its output."""
        return self.start(*arguments, **settings).finish(code)

    def orders(self) -> list[str]:
        """The names of the runs that have an order file."""
        return sorted(p.stem for p in (self.folder / "orders").glob("[!.]*.json"))

    @property
    def folder(self) -> Path:
        """The folder of the experiment."""
        return self.study.folder / "runs" / "x"

    def runs(self, key: str) -> dict[str, Any]:
        """One value of every run, by the run's name."""
        return {run["run"]: run[key] for run in self.study.runs("x")}

    def attempts(self) -> int:
        """The number of attempts of all runs."""
        return sum(len(run.attempts()) for run in ExperimentPaths(self.folder).runs())

    def is_driven(self) -> bool:
        """Whether a command holds the experiment."""
        return is_held(ExperimentPaths(self.folder).lock)

    def wait_for_starts(self, count: int = 1) -> list[dict[str, Any]]:
        """Wait until `count` attempts have begun; returns their start events."""
        starts: list[dict[str, Any]] = wait_until(
            lambda: len(events := self.study.events("x", "started")) >= count and events, LIMIT
        )
        return starts

    def signs_of_life(self) -> dict[str, list[tuple[float, float]]]:
        """The first and the last sign of life of each attempt, by the run's name."""
        lifetimes: dict[str, list[tuple[float, float]]] = {}
        for run in ExperimentPaths(self.folder).runs():
            for attempt in run.attempts():
                # An attempt that is killed before its first event leaves no journal.
                if not attempt.journal.exists():
                    continue
                start = json.loads(attempt.journal.read_text().splitlines()[0])["time"]
                lifetime = start, attempt.progress.stat().st_mtime
                lifetimes.setdefault(run.folder.name, []).append(lifetime)
        return lifetimes

    def end_workers(self) -> None:
        """Wait for the end of the workers and until no run is running."""
        for worker in self.workers:
            worker.wait(LIMIT)
        wait_until(lambda: "running" not in self.runs("state").values(), LIMIT)


@pytest.fixture(scope="module")
def cluster() -> Iterator[Cluster]:
    """A Slurm cluster for all tests of this file that need one."""
    with running_cluster() as running:
        yield running


@pytest.fixture
def place(
    request: pytest.FixtureRequest, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> Iterator[Place]:
    """An executor with an empty study; at the end neither commands nor jobs are left."""
    slurm = request.getfixturevalue("cluster") if request.param == "slurm" else None
    monkeypatch.setenv("OMP_NUM_THREADS", "1")
    if slurm is not None:
        monkeypatch.setenv("SLURM_CONF", str(slurm.configuration))
    with new_study(tmp_path / "a study", quick=True) as study:
        yield Place(request.param, study)
    if slurm is not None:
        slurm.empty()


@pytest.fixture(scope="module")
def scores(tmp_path_factory: pytest.TempPathFactory) -> dict[str, float]:
    """The scores of an undisturbed local command."""
    with new_study(tmp_path_factory.mktemp("alone"), quick=True) as study:
        code, output = study.give("run", *OVERRIDES, "-q")
        assert code == 0, output
        return {run["run"]: run["score"] for run in study.runs("x")}


def check_scores(place: Place, scores: dict[str, float]) -> None:
    """Check the scores, that no order is left, and that attempts of a run do not overlap."""
    assert scores == place.runs("score")
    assert [] == place.orders()
    lifetimes = place.signs_of_life()
    assert lifetimes.keys() == scores.keys()
    for run_lifetimes in lifetimes.values():
        assert all(end <= start for (_, end), (start, _) in pairwise(run_lifetimes))


@everywhere
def test_every_run_is_executed_once(place: Place, scores: dict[str, float]) -> None:
    """Each executor gives the local scores in one attempt per run, and a repeat runs nothing."""
    place.give("run", *OVERRIDES)
    check_scores(place, scores)
    assert {1} == set(place.runs("attempts").values())
    assert "nothing to run" in place.give("run", *OVERRIDES)
    assert {1} == set(place.runs("attempts").values())


@pytest.mark.parametrize("place", [LOCAL, "pull", *CLUSTERS], indirect=True)
def test_a_run_that_is_killed_is_tried_again(place: Place, scores: dict[str, float]) -> None:
    """A run whose process is killed gets one further attempt and ends with the same score."""
    command = place.start("run", *OVERRIDES, quick=SLOW)
    psutil.Process(place.wait_for_starts()[0]["pid"]).kill()
    command.finish()
    check_scores(place, scores)
    assert [1, 1, 2] == sorted(place.runs("attempts").values())
    assert ["crashed"] == [e["failure"] for e in verdicts(place) if e["ending"] == "failed"]


def check_ledger(place: Place) -> None:
    """Check that `rlexp verify` finds the records as the ledger has them."""
    code, output = place.study.give("verify", "x")
    assert code == 0, output


def verdicts(place: Place) -> list[dict[str, Any]]:
    """The verdicts on attempts that ended without an event of their own."""
    return [json.loads(p.read_text()) for p in place.folder.glob("*/attempts/*/verdict.json")]


@in_full
def test_what_a_configuration_fails_is_not_tried_again(place: Place) -> None:
    """A run whose environment raises an error fails for good, and the command fails with it."""
    output = place.give(
        "run", *last_words(*OVERRIDES, "seeds.test=1"), quick={"raises": True}, code=1
    )
    assert ["failed"] == list(place.runs("state").values()), output
    assert [1] == list(place.runs("attempts").values())
    assert [] == place.orders()
    assert "no motor" in output


@in_full
def test_a_command_that_is_killed_can_be_given_again(
    place: Place, scores: dict[str, float]
) -> None:
    """A repeat after kill -9 of the command gives the same scores without overlapping attempts."""
    command = place.start("run", *OVERRIDES, quick=SLOW)
    place.wait_for_starts()
    command.process.kill()
    command.process.communicate()
    place.give("run", *OVERRIDES, quick=SLOW)
    place.end_workers()
    check_scores(place, scores)
    if place.executor in DETACHABLE:
        assert {1} == set(place.runs("attempts").values())


@in_full
def test_a_cancelled_command_can_be_given_again(place: Place, scores: dict[str, float]) -> None:
    """`rlexp cancel` interrupts the runs of a command, and the same command continues them."""
    command = place.start("run", *OVERRIDES, quick=STUCK)
    place.wait_for_starts()
    assert "asked process" in cancel(place, "x")
    command.finish(143)
    place.end_workers()
    assert {"interrupted"} <= set(place.runs("state").values()) <= {"interrupted", "planned"}
    assert [] == place.orders()
    assert [] == verdicts(place)
    place.give("run", *OVERRIDES)
    check_scores(place, scores)


def cancel(place: Place, target: str) -> str:
    """Cancel an experiment or a run; returns the single line of output."""
    code, output = place.study.give("cancel", target)
    assert (0, 1) == (code, len(output.splitlines())), output
    return output


@detached
def test_detached_runs_can_be_cancelled(place: Place, scores: dict[str, float]) -> None:
    """`rlexp cancel` interrupts runs after `--detach`, and the same command continues them."""
    assert (
        "will continue without this command"
        in place.start("run", *OVERRIDES, "--detach", quick=STUCK).process.communicate(
            timeout=LIMIT
        )[0]
    )
    place.wait_for_starts()
    assert "removed 3 runs" in cancel(place, "x")
    place.end_workers()
    assert "submitted to" not in place.study.give("status", "x")[1]
    assert {"interrupted"} <= set(place.runs("state").values()) <= {"interrupted", "planned"}
    assert [] == place.orders()
    assert "nothing to cancel" in cancel(place, "x")
    place.give("run", *OVERRIDES)
    check_scores(place, scores)


@detached
def test_detached_runs_come_to_their_end(place: Place, scores: dict[str, float]) -> None:
    """Runs complete without their command after `--detach`, and a repeat runs nothing."""
    command = place.start("run", *OVERRIDES, "--detach", quick=SLOW)
    assert "3 runs are queued" in command.process.communicate(timeout=LIMIT)[0]
    wait_until(lambda: set(place.runs("state").values()) == {"completed"}, LIMIT)
    wait_until(lambda: not place.orders())
    assert "nothing to run" in place.give("run", *OVERRIDES)
    check_scores(place, scores)
    assert {1} == set(place.runs("attempts").values())


@detached
@pytest.mark.parametrize("kills", [0, 1], ids=["first attempt", "later attempt"])
def test_a_run_that_is_just_starting_is_taken_up(
    place: Place, scores: dict[str, float], kills: int
) -> None:
    """A repeat while attempts wait before their first event waits for them and makes no other."""
    gate = place.study.folder / "gate"
    quick = {"gate": str(gate), "seconds": 2.0}
    if not kills:
        gate.touch()
    detached_command = place.start(
        "run", *last_words(*OVERRIDES, "seeds.test=1"), "--detach", quick=quick
    )
    detached_command.process.communicate(timeout=LIMIT)
    if kills:
        start = place.wait_for_starts()[0]
        gate.touch()
        psutil.Process(start["pid"]).kill()
    wait_until(lambda: place.attempts() == 1 + kills, LIMIT)
    repeat = place.start("run", *last_words(*OVERRIDES, "seeds.test=1"), quick=quick, workers=0)
    wait_until(place.is_driven)
    time.sleep(2.0)
    gate.unlink()
    repeat.finish()
    place.end_workers()
    assert 1 + kills == place.attempts()
    assert ["crashed"] * kills == [verdict["failure"] for verdict in verdicts(place)]
    check_once(place)


def check_once(place: Place) -> None:
    """Check that one attempt completed the run, that none came after it, and the ledger."""
    assert ["completed"] == list(place.runs("state").values())
    endings = [event["ending"] for event in place.study.events("x", "ended")]
    assert (1, "completed") == (endings.count("completed"), endings[-1])
    check_ledger(place)


@pytest.mark.parametrize("place", [CLUSTERS[1]], indirect=True)
def test_a_ray_command_that_is_killed_while_a_run_starts_can_be_given_again(place: Place) -> None:
    """Ray ends an attempt before its first event with its command, and a repeat trains once."""
    gate = place.study.folder / "gate"
    gate.touch()
    arguments, quick = ("run", *last_words(*OVERRIDES, "seeds.test=1")), {"gate": str(gate)}
    command = place.start(*arguments, quick=quick)
    wait_until(lambda: place.attempts() == 1, LIMIT)
    command.process.kill()
    command.process.communicate()
    repeat = place.start(*arguments, quick=quick)
    wait_until(place.is_driven)
    gate.unlink()
    repeat.finish()
    check_once(place)


@pytest.mark.parametrize(
    "place", [pytest.param("slurm", marks=[on_a_cluster, no_slurm])], indirect=True
)
@pytest.mark.parametrize("seed", range(30))
def test_a_starting_job_is_disturbed_at_any_moment(place: Place, seed: int) -> None:
    """A repeat, a kill or a cancellation at a random moment trains the run once and loses none."""
    random, quick = Random(seed), {"starting": 1.0, "seconds": 0.5}
    arguments = ("run", *last_words(*OVERRIDES, "seeds.test=1"))
    place.start(*arguments, "--detach", quick=quick).process.communicate(timeout=LIMIT)
    time.sleep(random.uniform(0.0, 6.0))
    disturbance = random.choice(["repeat", "kill", "cancel"])
    if disturbance == "cancel":
        cancel(place, "x")
    command = place.start(*arguments, quick=quick)
    if disturbance == "kill":
        time.sleep(random.uniform(0.0, 6.0))
        command.process.kill()
        command.process.communicate()
        command = place.start(*arguments, quick=quick)
    command.finish()
    # A cancelled process that has not begun to listen ends by the signal, and is judged so.
    assert {"interrupted"} >= {verdict["ending"] for verdict in verdicts(place)}
    assert 1 == place.attempts() or disturbance == "cancel"
    check_once(place)


@pytest.mark.parametrize("place", [LOCAL, CLUSTERS[1]], indirect=True)
def test_detach_is_refused_where_runs_need_their_command(place: Place) -> None:
    """Other executors refuse `--detach` in one line that names slurm and pull."""
    output = place.start("run", *OVERRIDES, "--detach").process.communicate(timeout=LIMIT)[0]
    assert 1 == len(output.splitlines()), output
    assert "executor=slurm or executor=pull" in output
    assert not place.folder.exists() or [] == place.study.events("x", "started")


@in_full
def test_one_run_is_cancelled_alone(place: Place, scores: dict[str, float]) -> None:
    """One cancelled run stays interrupted, the others complete, and a repeat continues it."""
    command = place.start("run", *OVERRIDES, quick={"seconds": 6.0})
    place.wait_for_starts()
    run = next(name for name, state in place.runs("state").items() if state == "running")
    assert f"asked run {run} to stop" in cancel(place, f"x/{run}")
    command.finish(1)
    place.end_workers()
    assert "interrupted" == place.runs("state")[run]
    assert {1} == set(place.runs("attempts").values())
    assert {**scores, run: None} == place.runs("score")
    assert [] == place.orders()
    place.give("run", *OVERRIDES)
    check_scores(place, scores)


@pytest.fixture(scope="module")
def trials(tmp_path_factory: pytest.TempPathFactory) -> list[Any]:
    """The trials and the choice of a local sweep with at least one pruned run."""
    with new_study(tmp_path_factory.mktemp("sweep"), quick=True) as study:
        arguments = ("executor=local", *EXECUTOR_OVERRIDES["local"])
        code, output = study.give(
            "sweep", *SWEEP, *arguments, variables={SETTINGS: json.dumps(SLOW)}
        )
        assert code == 0, output
        assert "pruned" in {run["ending"] for run in study.events("x", "ended")}
        return trials_and_choice(study.folder / "runs" / "x")


def trials_and_choice(experiment: Path) -> list[Any]:
    """The numbers and parameters of a sweep's trials, and the configuration that it chose."""
    lines = map(json.loads, (experiment / "trials.jsonl").read_text().splitlines())
    selection = json.loads((experiment / "selection.json").read_text())
    return [*((line["number"], line["parameters"]) for line in lines), selection]


@in_full
def test_a_sweep_is_the_same(place: Place, trials: list[Any]) -> None:
    """A sweep with pruned runs has the same trials and winner on every executor."""
    place.give("sweep", *SWEEP, quick=SLOW, workers=2)
    assert trials == trials_and_choice(place.folder)
    assert [] == place.orders()


@in_full
def test_heartbeats_change_nothing(
    place: Place, scores: dict[str, float], monkeypatch: pytest.MonkeyPatch
) -> None:
    """With RLEXP_SHARED=1 a killed run gets one further attempt and ends with the same score."""
    monkeypatch.setenv("RLEXP_SHARED", "1")
    command = place.start("run", *OVERRIDES, quick=SLOW)
    with suppress(psutil.NoSuchProcess):
        psutil.Process(place.wait_for_starts()[0]["pid"]).kill()
    command.finish()
    check_scores(place, scores)
    assert [1, 1, 2] == sorted(place.runs("attempts").values())
    assert "nothing to run" in place.give("run", *OVERRIDES)
