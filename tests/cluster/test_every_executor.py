"""What a command promises on every executor: the same runs, whatever befalls them.

Here and with workers always; on the clusters where `make test-services` sets `RLEXP_CLUSTER_TESTS`.
"""

import json
import os
import subprocess
import sys
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass, field
from importlib.util import find_spec
from itertools import pairwise
from pathlib import Path
from typing import Any

import psutil
import pytest
from in_full import long
from slurm_cluster import Cluster, missing_program, running_cluster

sys.path.append(str(Path(__file__).parents[1] / "faults"))

from quick_runs import SETTINGS
from studies import StudyFolder, new_study, wait_until

from rlexp.store.layout import ExperimentPaths

pytestmark = pytest.mark.timeout(600)
ASKED = (
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
WORDS = {
    "local": ("executor.workers=2",),
    "pull": ("executor.grace=20",),
    "slurm": ("executor.poll=1", "executor.signal_before=30", "executor.time=10"),
    "ray": ("executor.grace=20",),
}
GOES_ON = ("pull", "slurm")
"""Those whose runs do not need the command that asked for them."""
SLOW, STUCK = {"seconds": 3.0}, {"seconds": 90.0}
LIMIT = 240.0
"""Seconds that a command may take."""

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
"""Where a faster test of another file shows the same."""
in_full = pytest.mark.parametrize("place", [LOCAL, PULL, *CLUSTERS], indirect=True)
detached = pytest.mark.parametrize("place", [PULL, CLUSTERS[0]], indirect=True)


@dataclass
class Command:
    """A command that drives an experiment, and the workers that somebody started for it."""

    process: subprocess.Popen[str]
    workers: list[subprocess.Popen[str]]

    def finish(self, code: int = 0) -> str:
        """Wait for its end and theirs; what the command printed."""
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
        """Give a command, and where somebody else starts workers, be somebody else."""
        variables = {SETTINGS: json.dumps(quick or {})}
        own = (f"executor={self.executor}", *WORDS[self.executor])
        process = self.study.start(*arguments, *own, variables=variables)
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
        """Give a command and wait for its end."""
        return self.start(*arguments, **settings).finish(code)

    def orders(self) -> list[str]:
        """The runs that orders are there for."""
        return sorted(p.stem for p in (self.folder / "orders").glob("[!.]*.json"))

    @property
    def folder(self) -> Path:
        """The experiment's."""
        return self.study.folder / "runs" / "x"

    def runs(self, key: str) -> dict[str, Any]:
        """Something of every run."""
        return {run["run"]: run[key] for run in self.study.runs("x")}

    def begun(self, count: int = 1) -> list[dict[str, Any]]:
        """Wait until so many attempts have begun; they."""
        results: list[dict[str, Any]] = wait_until(
            lambda: len(own := self.study.events("x", "started")) >= count and own, LIMIT
        )
        return results

    def signs_of_life(self) -> dict[str, list[tuple[float, float]]]:
        """When each attempt of each run began, and when it last showed that it lived."""
        results: dict[str, list[tuple[float, float]]] = {}
        for run in ExperimentPaths(self.folder).runs():
            for attempt in run.attempts():
                begun = json.loads(attempt.journal.read_text().splitlines()[0])["time"]
                lived = begun, attempt.progress.stat().st_mtime
                results.setdefault(run.folder.name, []).append(lived)
        return results

    def end_workers(self) -> None:
        """Wait until nobody is at a run any more."""
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
    """The scores of one command on this machine that nothing disturbed."""
    with new_study(tmp_path_factory.mktemp("alone"), quick=True) as study:
        code, output = study.give("run", *ASKED, "-q")
        assert code == 0, output
        return {run["run"]: run["score"] for run in study.runs("x")}


def check_scores(place: Place, scores: dict[str, float]) -> None:
    """See that every run came to what it comes to undisturbed, and that nothing is left to do."""
    assert scores == place.runs("score")
    assert [] == place.orders()
    lives = place.signs_of_life()
    assert lives.keys() == scores.keys()
    for lived in lives.values():
        assert all(last <= begun for (_, last), (begun, _) in pairwise(lived))


@everywhere
def test_every_run_is_executed_once(place: Place, scores: dict[str, float]) -> None:
    """Scores are those of this machine, in one attempt each; given again, a command does nothing."""
    place.give("run", *ASKED)
    check_scores(place, scores)
    assert {1} == set(place.runs("attempts").values())
    assert "nothing to run" in place.give("run", *ASKED)
    assert {1} == set(place.runs("attempts").values())


@pytest.mark.parametrize("place", [LOCAL, "pull", *CLUSTERS], indirect=True)
def test_a_run_that_is_killed_is_tried_again(place: Place, scores: dict[str, float]) -> None:
    """After kill -9 of its process a run is attempted once more, and ends the same."""
    command = place.start("run", *ASKED, quick=SLOW)
    psutil.Process(place.begun()[0]["pid"]).kill()
    command.finish()
    check_scores(place, scores)
    assert [1, 1, 2] == sorted(place.runs("attempts").values())
    assert ["crashed"] == [e["failure"] for e in verdicts(place) if e["ending"] == "failed"]


def verdicts(place: Place) -> list[dict[str, Any]]:
    """What others said of attempts that ended without a word."""
    return [json.loads(p.read_text()) for p in place.folder.glob("*/attempts/*/verdict.json")]


@in_full
def test_what_a_configuration_fails_is_not_tried_again(place: Place) -> None:
    """A run whose environment raises has failed for good, and the command with it."""
    output = place.give("run", *ASKED, "seeds.test=1", quick={"raises": True}, code=1)
    assert ["failed"] == list(place.runs("state").values()), output
    assert [1] == list(place.runs("attempts").values())
    assert [] == place.orders()
    assert "no motor" in output


@in_full
def test_a_command_that_is_killed_can_be_given_again(
    place: Place, scores: dict[str, float]
) -> None:
    """After kill -9 in the middle, the same command ends the same; no run is ever in two hands."""
    command = place.start("run", *ASKED, quick=SLOW)
    place.begun()
    command.process.kill()
    command.process.communicate()
    place.give("run", *ASKED, quick=SLOW)
    place.end_workers()
    check_scores(place, scores)
    if place.executor in GOES_ON:
        assert {1} == set(place.runs("attempts").values())


@in_full
def test_a_cancelled_command_can_be_given_again(place: Place, scores: dict[str, float]) -> None:
    """`rlexp cancel` interrupts what runs, and the same command continues it."""
    command = place.start("run", *ASKED, quick=STUCK)
    place.begun()
    assert "asked process" in cancelled(place, "x")
    command.finish(143)
    place.end_workers()
    assert {"interrupted"} <= set(place.runs("state").values()) <= {"interrupted", "planned"}
    assert [] == place.orders()
    assert [] == verdicts(place)
    place.give("run", *ASKED)
    check_scores(place, scores)


def cancelled(place: Place, target: str) -> str:
    """Cancel something; the one line that is said."""
    code, output = place.study.give("cancel", target)
    assert (0, 1) == (code, len(output.splitlines())), output
    return output


@detached
def test_what_goes_on_alone_can_be_cancelled(place: Place, scores: dict[str, float]) -> None:
    """After `--detach` too, runs are interrupted, and the same command continues them."""
    assert (
        "will continue without this command"
        in place.start("run", *ASKED, "--detach", quick=STUCK).process.communicate(timeout=LIMIT)[
            0
        ]
    )
    place.begun()
    assert "removed 3 runs" in cancelled(place, "x")
    place.end_workers()
    assert "submitted to" not in place.study.give("status", "x")[1]
    assert {"interrupted"} <= set(place.runs("state").values()) <= {"interrupted", "planned"}
    assert [] == place.orders()
    assert "nothing to cancel" in cancelled(place, "x")
    place.give("run", *ASKED)
    check_scores(place, scores)


@detached
def test_what_goes_on_alone_comes_to_its_end(place: Place, scores: dict[str, float]) -> None:
    """After `--detach` the runs end as if the command had waited, which sees so afterwards."""
    command = place.start("run", *ASKED, "--detach", quick=SLOW)
    assert "3 runs are queued" in command.process.communicate(timeout=LIMIT)[0]
    wait_until(lambda: set(place.runs("state").values()) == {"completed"}, LIMIT)
    wait_until(lambda: not place.orders())
    assert "nothing to run" in place.give("run", *ASKED)
    check_scores(place, scores)
    assert {1} == set(place.runs("attempts").values())


@pytest.mark.parametrize("place", [LOCAL, CLUSTERS[1]], indirect=True)
def test_what_cannot_go_on_alone_says_what_to_do(place: Place) -> None:
    """Elsewhere `--detach` is one line that names what to do instead, and nothing is started."""
    output = place.start("run", *ASKED, "--detach").process.communicate(timeout=LIMIT)[0]
    assert 1 == len(output.splitlines()), output
    assert "executor=slurm or executor=pull" in output
    assert not place.folder.exists() or [] == place.study.events("x", "started")


@in_full
def test_one_run_is_cancelled_alone(place: Place, scores: dict[str, float]) -> None:
    """A run that is asked to end does so and stays so; the others go on to their end."""
    command = place.start("run", *ASKED, quick={"seconds": 6.0})
    place.begun()
    run = next(name for name, state in place.runs("state").items() if state == "running")
    assert f"asked run {run} to stop" in cancelled(place, f"x/{run}")
    command.finish(1)
    place.end_workers()
    assert "interrupted" == place.runs("state")[run]
    assert {1} == set(place.runs("attempts").values())
    assert {**scores, run: None} == place.runs("score")
    assert [] == place.orders()
    place.give("run", *ASKED)
    check_scores(place, scores)


@pytest.fixture(scope="module")
def trials(tmp_path_factory: pytest.TempPathFactory) -> list[Any]:
    """The trials of one sweep on this machine, one of which is pruned, and what it chose."""
    with new_study(tmp_path_factory.mktemp("sweep"), quick=True) as study:
        arguments = ("executor=local", *WORDS["local"])
        code, output = study.give(
            "sweep", *SWEEP, *arguments, variables={SETTINGS: json.dumps(SLOW)}
        )
        assert code == 0, output
        assert "pruned" in {run["ending"] for run in study.events("x", "ended")}
        return proposed(study.folder / "runs" / "x")


def proposed(experiment: Path) -> list[Any]:
    """The trials of a sweep, their numbers and parameters, and the configuration that it chose."""
    lines = map(json.loads, (experiment / "trials.jsonl").read_text().splitlines())
    chosen = json.loads((experiment / "selection.json").read_text())
    return [*((line["number"], line["parameters"]) for line in lines), chosen]


@in_full
def test_a_sweep_is_the_same(place: Place, trials: list[Any]) -> None:
    """Trials and winner are those of this machine, though some runs end early."""
    place.give("sweep", *SWEEP, quick=SLOW, workers=2)
    assert trials == proposed(place.folder)
    assert [] == place.orders()


@in_full
def test_heartbeats_change_nothing(
    place: Place, scores: dict[str, float], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Where the folder counts as seen by several machines, a killed run ends the same, once."""
    monkeypatch.setenv("RLEXP_SHARED", "1")
    command = place.start("run", *ASKED, quick=SLOW)
    with suppress(psutil.NoSuchProcess):
        psutil.Process(place.begun()[0]["pid"]).kill()
    command.finish()
    check_scores(place, scores)
    assert [1, 1, 2] == sorted(place.runs("attempts").values())
    assert "nothing to run" in place.give("run", *ASKED)
