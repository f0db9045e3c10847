"""A run between the making of its attempt and its first event is taken up, and never done twice."""

import json
import subprocess
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from random import Random

import psutil
import pytest
from in_full import IN_FULL
from studies import StudyFolder, new_study, wait_until

from rlexp.store.layout import ExperimentPaths, RunPaths

OVERRIDES = (
    *("algorithm=ppo", "environment=cartpole", "seeds.test=1"),
    *("budget.steps=3000", "budget.evaluation_every=1000", "executor=pull", "executor.grace=20"),
)
WAIT = 30.0
"""Longest duration of a command in seconds."""
MOMENTS = 200 if IN_FULL else 5
"""Random moments at which a starting run is disturbed."""


@dataclass(frozen=True, slots=True)
class Start:
    """An experiment of one run, whose attempts wait before their first event.

    Attributes:
        name: The name of the experiment.
        quick: Settings of the runs (`quick_runs`).
    """

    study: StudyFolder
    name: str
    quick: dict[str, float | str]

    @property
    def folder(self) -> ExperimentPaths:
        """The folder of the experiment."""
        return ExperimentPaths(self.study.folder / "runs" / self.name)

    @property
    def arguments(self) -> tuple[str, ...]:
        """The command that orders the run."""
        return ("run", f"experiment={self.name}", *OVERRIDES)

    @property
    def run(self) -> RunPaths:
        """The folder of the run."""
        (run,) = self.folder.runs()
        return run

    @property
    def order(self) -> Path:
        """The order of the run."""
        return self.folder.orders / f"{self.run.folder.name}.json"

    def start(self, *arguments: str) -> subprocess.Popen[str]:
        """Start a command."""
        variables = {"RLEXP_QUICK": json.dumps(self.quick)}
        return self.study.start(*arguments, variables=variables)

    def detach(self) -> None:
        """Order the run and leave."""
        code, output = self.study.give(*self.arguments, "--detach")
        assert code == 0, output

    def work(self, idle: float = 10.0) -> subprocess.Popen[str]:
        """Start a worker."""
        return self.start("worker", self.name, f"--idle={idle}")

    def repeat(self) -> subprocess.Popen[str]:
        """Start the command again and wait until it has ordered the run anew."""
        before = self.order.stat().st_ino
        command = self.start(*self.arguments)
        wait_until(lambda: self.order.stat().st_ino != before)
        return command

    def attempts(self) -> int:
        """The number of attempts of the run."""
        return len(self.run.attempts())

    def endings(self) -> list[str]:
        """How the attempts ended, by their journals."""
        return [event["ending"] for event in self.study.events(self.name, "ended")]

    def verdicts(self) -> list[str]:
        """The failures of attempts that another process judged."""
        files = self.folder.folder.glob("*/attempts/*/verdict.json")
        return [json.loads(path.read_text())["failure"] for path in files]

    def check_once(self) -> None:
        """Check that the last attempt alone completed the run, and that the ledger is true."""
        assert ["completed"] == [run["state"] for run in self.study.runs(self.name)]
        assert 1 == self.endings().count("completed")
        assert "completed" == self.endings()[-1]
        code, output = self.study.give("verify", self.name)
        assert code == 0, output


def finish(process: subprocess.Popen[str], code: int = 0) -> None:
    """Wait for the end of a command."""
    output, _ = process.communicate(timeout=WAIT)
    assert code == process.returncode, output


@pytest.fixture
def study(tmp_path: Path) -> Iterator[StudyFolder]:
    """A study whose runs train nothing."""
    with new_study(tmp_path / "a study", quick=True, warm=True) as study:
        yield study


def begin(study: StudyFolder, earlier: int) -> tuple[Start, subprocess.Popen[str], Path]:
    """Order a run without its command, whose attempt after `earlier` crashes waits at a gate.

    Returns:
        The run, its worker, and the file of the gate.
    """
    gate = study.folder / "gate"
    start = Start(study, "x", {"gate": str(gate), "seconds": 1.0})
    if not earlier:
        gate.touch()
    start.detach()
    worker = start.work()
    if earlier:
        begun = wait_until(lambda: study.events("x", "started"))[0]
        gate.touch()
        psutil.Process(begun["pid"]).kill()
    wait_until(lambda: start.attempts() == 1 + earlier)
    return start, worker, gate


both = pytest.mark.parametrize("earlier", [0, 1], ids=["first attempt", "later attempt"])


@both
def test_a_command_takes_up_a_run_that_is_just_starting(study: StudyFolder, earlier: int) -> None:
    """A command that is given while an attempt begins waits for it and makes no other."""
    start, worker, gate = begin(study, earlier)
    assert ["running"] == [run["state"] for run in study.runs("x")]
    command = start.repeat()
    gate.unlink()
    finish(command)
    finish(worker)
    assert 1 + earlier == start.attempts()
    assert ["crashed"] * earlier == start.verdicts()
    start.check_once()


@both
@pytest.mark.parametrize("target", ["experiment", "run"])
def test_a_run_that_is_just_starting_is_cancelled(
    study: StudyFolder, earlier: int, target: str
) -> None:
    """A cancellation while an attempt begins interrupts it, and the same command continues it."""
    start, worker, gate = begin(study, earlier)
    name = "x" if target == "experiment" else f"x/{start.run.folder.name}"
    code, output = study.give("cancel", name)
    assert (0, 1) == (code, len(output.splitlines())), output
    gate.unlink()
    finish(worker)
    assert ["interrupted"] == start.endings()
    finish(study.start(*start.arguments[:-2]))
    assert ["interrupted", "completed"] == start.endings()
    start.check_once()


def test_a_run_that_is_just_starting_is_not_removed(study: StudyFolder) -> None:
    """`rlexp rm` refuses a run whose attempt has written nothing yet."""
    start, worker, gate = begin(study, 0)
    code, output = study.give("rm", f"x/{start.run.folder.name}", "--yes")
    assert (2, True) == (code, "is in use by" in output), output
    gate.unlink()
    finish(worker)
    start.check_once()


@pytest.mark.parametrize("seed", range(MOMENTS))
def test_a_starting_run_is_disturbed_at_any_moment(study: StudyFolder, seed: int) -> None:
    """A repeat, a kill or a cancellation at a random moment trains the run once and loses none."""
    random = Random(seed)
    start = Start(study, "x", {"starting": 0.4, "seconds": 0.2})
    start.detach()
    first = start.work()
    time.sleep(random.uniform(0.0, 1.5))
    disturbance = random.choice(
        ["repeat", "kill", "cancel x", f"cancel x/{start.run.folder.name}", "two"]
    )
    if disturbance.startswith("cancel"):
        code, output = study.give(*disturbance.split())
        assert code == 0, output
    command = start.start(*start.arguments)
    if disturbance == "kill":
        time.sleep(random.uniform(0.0, 1.0))
        command.kill()
        command.communicate()
        command = start.start(*start.arguments)
    commands = [command]
    if disturbance == "two":
        commands.append(start.start(*start.arguments))
    # A worker without an order and without a command would leave at once.
    wait_until(lambda: any(c.poll() == 0 for c in commands) or start.order.exists())
    second = start.work(idle=60.0)
    for command in commands:
        command.communicate(timeout=WAIT)
    # Of two commands, either may be the first to hold the experiment; the other is refused.
    codes = sorted(command.returncode for command in commands)
    assert codes in ([0], [0, 0], [0, 2])
    finish(first)
    finish(second)
    assert [] == start.verdicts()
    assert start.endings() == ["interrupted"] * (start.attempts() - 1) + ["completed"]
    assert 1 == start.attempts() or disturbance.startswith("cancel")
    start.check_once()
