"""Whatever is killed, nothing lives on, nothing is lost, and a repeat ends with the same numbers."""

import os
import signal
from collections.abc import Iterator
from pathlib import Path

import pytest
from in_full import long
from studies import LONG, StudyFolder, new_study, wait_until

SHORT = (
    "budget.steps=6000",
    "budget.evaluation_every=null",
    "budget.final_episodes=5",
    "seeds.test=2",
    "algorithm.n_steps=256",
    "algorithm.n_epochs=4",
)


@pytest.fixture
def study(tmp_path: Path) -> Iterator[StudyFolder]:
    """A study in a folder with a hostile name."""
    with new_study(tmp_path / "a'; echo $HOME ü [b]=c,d") as study:
        yield study


def test_kill_9_of_the_command_leaves_no_process(study: StudyFolder) -> None:
    """Two seconds after kill -9 of the command, neither server nor run nor environment lives."""
    words = (*LONG, "environment.vector.kind=subprocess", "environment.vector.count=2")
    command = study.start("run", "experiment=x", "seeds.test=2", *words)
    wait_until(lambda: len(study.workers("x")) == 2)
    wait_until(lambda: len(study.processes()) >= 8)
    command.kill()
    wait_until(lambda: not study.processes(), 2.0)


@long
def test_kill_9_of_the_command_and_a_repeat_give_the_same_numbers(study: StudyFolder) -> None:
    """The killed command, repeated at once, ends with the weights of one that ran through."""
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
    """Every file of first attempts, the monitor's and the logger's among them."""
    found = (study.folder / "runs" / "killed").glob("*/attempts/1/**/*")
    return {str(path): path.read_bytes() for path in found if path.is_file()}


def test_a_killed_run_is_attempted_again(study: StudyFolder) -> None:
    """Kill -9 of one run is recorded as crashed; its second attempt completes; the other goes on."""
    command = study.start("run", "experiment=x", *SHORT)
    first, _ = wait_until(lambda: (w := study.workers("x")) and len(w) == 2 and w)
    os.kill(first, signal.SIGKILL)
    output, _ = command.communicate(timeout=120)
    assert command.returncode == 0, output
    assert "crashed" in output
    assert "killed by signal 9; trying again" in output
    assert sorted(r["attempts"] for r in study.runs("x")) == [1, 2]


def test_kill_9_of_the_server_is_survived(study: StudyFolder) -> None:
    """When the server is killed, its runs die with it and are attempted again from a new one."""
    command = study.start("run", "experiment=x", *SHORT)
    workers = wait_until(lambda: (w := study.workers("x")) and len(w) == 2 and w)
    server = next(
        p
        for p in study.processes()
        if "rlexp.executors.server" in p.cmdline() and p.pid not in workers
    )
    server.kill()
    output, _ = command.communicate(timeout=120)
    assert command.returncode == 0, output
    assert [r["attempts"] for r in study.runs("x")] == [2, 2]
    wait_until(lambda: not study.processes(), 2.0)


@long
def test_a_repeat_of_a_finished_experiment_runs_nothing(study: StudyFolder) -> None:
    """The same command again starts no attempt and says so."""
    assert study.give("run", "experiment=x", *SHORT)[0] == 0
    code, output = study.give("run", "experiment=x", *SHORT)
    assert (code, "nothing to run" in output) == (0, True)
    assert [r["attempts"] for r in study.runs("x")] == [1, 1]


@long
def test_more_seeds_extend_an_experiment(study: StudyFolder) -> None:
    """Asking for a third seed runs that one and no other."""
    assert study.give("run", "experiment=x", *SHORT)[0] == 0
    code, output = study.give("run", "experiment=x", *SHORT[:3], "seeds.test=3", *SHORT[4:])
    assert code == 0, output
    assert sorted((r["seed"], r["attempts"]) for r in study.runs("x")) == [(0, 1), (1, 1), (2, 1)]


def test_two_commands_do_not_drive_one_experiment(study: StudyFolder) -> None:
    """The second command is refused with exit code 2 and names the first."""
    first = study.start("run", "experiment=x", "seeds.test=1", *LONG)
    wait_until(lambda: study.workers("x"))
    code, output = study.give("run", "experiment=x", "seeds.test=1", *LONG)
    assert (code, f"process {first.pid} on " in output) == (2, True)
    first.terminate()
    assert first.wait(15) == 143
