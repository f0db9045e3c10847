"""After any kill no process is left, no result is lost, and a repeat gives the same numbers."""

import os
import signal
from collections.abc import Iterator
from pathlib import Path

import psutil
import pytest
from in_full import long
from studies import LONG, StudyFolder, new_study, unhurried, wait_until

SHORT = (
    "budget.steps=6000",
    "budget.evaluation_every=null",
    "budget.final_episodes=5",
    "seeds.test=2",
    "algorithm.n_steps=256",
    "algorithm.n_epochs=4",
)
LASTING = {"RLEXP_QUICK": '{"seconds": 600, "again": 0}'}
HOSTILE = "a'; echo $HOME ü [b]=c,d"


@pytest.fixture
def study(tmp_path: Path) -> Iterator[StudyFolder]:
    """A study in a folder with a hostile name."""
    with new_study(tmp_path / HOSTILE, warm=True) as study:
        yield study


@pytest.fixture
def quick(tmp_path: Path) -> Iterator[StudyFolder]:
    """A study whose runs train nothing, in a folder with a hostile name."""
    with new_study(tmp_path / HOSTILE, quick=True, warm=True) as study:
        yield study


def test_kill_9_of_the_command_leaves_no_process(tmp_path: Path) -> None:
    """Two seconds after kill -9 of the command neither server nor run nor environment lives."""
    arguments = (*LONG, "environment.vector.kind=subprocess", "environment.vector.count=2")
    with new_study(tmp_path / HOSTILE) as study:
        command = study.start("run", "experiment=x", "seeds.test=2", *arguments)
        wait_until(lambda: len(study.workers("x")) == 2)
        wait_until(lambda: len(study.processes()) >= 10)
        command.kill()
        wait_until(lambda: not study.processes(), unhurried(2.0))


@long
def test_kill_9_of_the_command_and_a_repeat_give_the_same_numbers(study: StudyFolder) -> None:
    """A killed command that is repeated at once ends with the weights of an undisturbed one."""
    assert study.give("run", "experiment=control", *SHORT)[0] == 0
    command = study.start("run", "experiment=killed", *SHORT)
    wait_until(lambda: len(study.workers("killed")) == 2)
    command.kill()
    wait_until(lambda: not study.processes(), 10.0)
    before = first_attempts(study)
    code, output = study.give("run", "experiment=killed", *SHORT)
    assert code == 0, output
    assert before == first_attempts(study), "a second attempt wrote into the first"
    expected = sorted(e["weights"] for e in study.events("control", "ended"))
    assert expected == sorted(e["weights"] for e in study.events("killed", "ended"))
    assert [(r["attempts"], r["state"]) for r in study.runs("killed")] == [(2, "completed")] * 2


def first_attempts(study: StudyFolder) -> dict[str, bytes]:
    """Every file of first attempts by path, logs of monitor and logger included."""
    paths = (study.folder / "runs" / "killed").glob("*/attempts/1/**/*")
    return {str(path): path.read_bytes() for path in paths if path.is_file()}


def test_a_killed_run_is_attempted_again(quick: StudyFolder) -> None:
    """A killed run is recorded as crashed and completes in its second attempt."""
    slow = {"RLEXP_QUICK": '{"seconds": 3, "again": 0}'}
    command = quick.start("run", "experiment=x", *SHORT, variables=slow)
    first, _ = wait_until(lambda: (w := quick.workers("x")) and len(w) == 2 and w)
    os.kill(first, signal.SIGKILL)
    output, _ = command.communicate(timeout=120)
    assert command.returncode == 0, output
    assert "crashed" in output
    assert "killed by signal 9; trying again" in output
    assert sorted(r["attempts"] for r in quick.runs("x")) == [1, 2]
    assert {r["state"] for r in quick.runs("x")} == {"completed"}


def test_kill_9_of_the_server_is_survived(quick: StudyFolder) -> None:
    """The runs of a killed server are attempted again from a new server."""
    command = quick.start("run", "experiment=x", *SHORT, variables=LASTING)
    workers = wait_until(lambda: (w := quick.workers("x")) and len(w) == 2 and w)
    (server,) = psutil.Process(command.pid).children()
    runs = [run.pid for guard in server.children() for run in guard.children()]
    assert sorted(workers) == sorted(runs)
    server.kill()
    output, _ = command.communicate(timeout=120)
    assert command.returncode == 0, output
    assert [("completed", 2)] * 2 == [(r["state"], r["attempts"]) for r in quick.runs("x")]
    wait_until(lambda: not quick.processes(), unhurried(2.0))


@long
def test_a_repeat_of_a_finished_experiment_runs_nothing(study: StudyFolder) -> None:
    """A repeat of a finished experiment starts no attempt and says so."""
    assert study.give("run", "experiment=x", *SHORT)[0] == 0
    code, output = study.give("run", "experiment=x", *SHORT)
    assert (code, "nothing to run" in output) == (0, True)
    assert [r["attempts"] for r in study.runs("x")] == [1, 1]


@long
def test_more_seeds_extend_an_experiment(study: StudyFolder) -> None:
    """A third seed adds one run and repeats none."""
    assert study.give("run", "experiment=x", *SHORT)[0] == 0
    code, output = study.give("run", "experiment=x", *SHORT[:3], "seeds.test=3", *SHORT[4:])
    assert code == 0, output
    assert sorted((r["seed"], r["attempts"]) for r in study.runs("x")) == [(0, 1), (1, 1), (2, 1)]


def test_two_commands_do_not_drive_one_experiment(quick: StudyFolder) -> None:
    """A second command for an experiment is refused with code 2 and names the first."""
    first = quick.start("run", "experiment=x", "seeds.test=1", *LONG, variables=LASTING)
    wait_until(lambda: quick.workers("x"))
    code, output = quick.give("run", "experiment=x", "seeds.test=1", *LONG)
    assert (code, f"process {first.pid} on " in output) == (2, True)
    first.terminate()
    assert first.wait(60) == 143
