"""The script of Slurm jobs, run by bash as Slurm would: it starts, tells, waits, asks to come back."""

import os
import signal
import subprocess
import time
from pathlib import Path

import pytest
from slurm_programs import HOSTILE, install, site, start_task

from rlexp.executors import Site

SCONTROL = 'echo "$@" >>"$(dirname "$0")/asked"'


@pytest.fixture
def there(tmp_path: Path) -> Site:
    """A site whose run takes a minute, in a folder that breaks careless scripts."""
    return site(tmp_path / HOSTILE, seconds=60)


@pytest.fixture
def path(tmp_path: Path) -> str:
    """A PATH with a `scontrol` that notes what it is asked."""
    return install(tmp_path / "bin", scontrol=SCONTROL)


def begun(there: Site, run: str = "run1") -> None:
    """Wait until a run has begun."""
    deadline = time.monotonic() + 20
    while not (there.experiment / run / "starts").exists():
        assert time.monotonic() < deadline, f"{run} did not begin"
        time.sleep(0.02)


def asked(path: str) -> str:
    """What `scontrol` was asked."""
    file = Path(path.partition(":")[0], "asked")
    return file.read_text() if file.exists() else ""


def test_a_task_executes_its_own_runs(tmp_path: Path, path: str) -> None:
    """The task's number selects the file of runs, whatever is in the folder's name."""
    there = site(tmp_path / HOSTILE)
    assert start_task(there, path).wait(20) == 0
    assert (there.experiment / "run1" / "model.zip").exists()
    assert not (there.experiment / "others").exists()
    assert asked(path) == ""


def test_what_slurm_says_and_what_the_worker_says_is_one_file(tmp_path: Path, path: str) -> None:
    """Both go to the job's own file, also when the job comes a second time."""
    there = site(tmp_path / HOSTILE)
    (there.jobs / "array-x_1.txt").write_text("slurmstepd: words\n")
    for _ in range(2):
        assert start_task(there, path).wait(20) == 0
    assert (there.jobs / "own.txt").read_text() == "slurmstepd: words\nat run1\nat run1\n"


def test_output_is_kept_without_a_file_of_slurms(tmp_path: Path, path: str) -> None:
    """Where Slurm writes to nowhere, the job's file holds what the worker says."""
    there = site(tmp_path / HOSTILE)
    process = start_task(there, path)
    (there.jobs / "array-x_1.txt").unlink()
    assert process.wait(20) == 0
    assert (there.jobs / "own.txt").read_text() == "at run1\n"


@pytest.mark.parametrize(("requeues", "asks"), [(True, "requeue 12_1\n"), (False, "")])
def test_a_notice_asks_for_another_turn(there: Site, path: str, requeues: bool, asks: str) -> None:
    """USR1 reaches the worker; its exit code 75 puts the task back where `requeue` allows it."""
    process = start_task(there, path, requeues=requeues)
    begun(there)
    process.send_signal(signal.SIGUSR1)
    assert process.wait(20) == 75
    assert (there.experiment / "run1" / "signals").read_text() == f"{int(signal.SIGUSR1)}\n"
    assert asked(path) == asks


def test_an_end_by_rlexp_asks_for_no_other_turn(there: Site, path: str) -> None:
    """USR2 reaches the worker as TERM, and the task does not come back."""
    process = start_task(there, path)
    begun(there)
    process.send_signal(signal.SIGUSR2)
    assert process.wait(20) == 143
    assert (there.experiment / "run1" / "signals").read_text() == f"{int(signal.SIGTERM)}\n"
    assert asked(path) == ""


def test_an_end_by_slurm_comes_once(there: Site, path: str) -> None:
    """TERM, which Slurm sends to the worker too, is not passed on, and the script waits for it."""
    process = start_task(there, path)
    begun(there)
    process.send_signal(signal.SIGTERM)
    time.sleep(0.3)
    assert process.poll() is None
    assert not (there.experiment / "run1" / "signals").exists()
    children = subprocess.run(
        ["ps", "-o", "pid=", "--ppid", str(process.pid)],
        capture_output=True,
        text=True,
        check=True,
    )
    os.kill(int(children.stdout.split()[0]), signal.SIGTERM)
    assert process.wait(20) == 143
    assert asked(path) == ""


def test_signals_that_come_while_it_waits_do_not_cut_it_short(there: Site, path: str) -> None:
    """After several signals the exit code is still the worker's, and its last words are there."""
    process = start_task(there, path, variables={"RLEXP_LINGERS": "0.5"})
    begun(there)
    for _ in range(5):
        process.send_signal(signal.SIGUSR1)
        time.sleep(0.05)
    assert process.wait(20) == 75
    assert (there.experiment / "run1" / "checkpoints" / "1").exists()


def test_turns_without_progress_come_to_an_end(tmp_path: Path, path: str) -> None:
    """The third turn in a row that reaches no new checkpoint is the last; progress forgives."""
    there = site(tmp_path / HOSTILE, seconds=60)

    def turn(run: str) -> None:
        (there.experiment / run / "starts").unlink(missing_ok=True)
        process = start_task(there, path, run=run)
        begun(there, run)
        process.send_signal(signal.SIGUSR1)
        assert process.wait(20) == 75

    turn("stuck")
    turn("stuck")
    (there.jobs / "own.idle").write_text("2\n")
    turn("run1")
    assert (there.jobs / "own.idle").read_text() == "0\n"
    for _ in range(3):
        turn("stuck")
    assert asked(path) == "requeue 12_1\n" * 5
    assert (there.jobs / "own.txt").read_text().endswith("give the job more time\n")


def test_setup_comes_first_in_the_studys_folder(tmp_path: Path, path: str) -> None:
    """Lines of the user's run in the study's folder and change the worker's environment."""
    there = site(tmp_path / HOSTILE)
    setup = ('export RLEXP_TOLD="$(basename "$PWD" | wc -l)"', "PATH=/nowhere")
    assert start_task(there, path, setup=setup).wait(20) == 0
    assert (there.experiment / "run1" / "told").read_text().strip() == "2"


def test_a_setup_that_fails_ends_the_task(tmp_path: Path, path: str) -> None:
    """After a line that fails nothing starts, and its exit code is the task's."""
    there = site(tmp_path / HOSTILE)
    assert start_task(there, path, setup=("(exit 3)", "echo never")).wait(20) == 3
    assert (there.jobs / "own.txt").read_text() == ""
    assert not (there.experiment / "run1").exists()


def test_a_notice_during_the_setup_is_not_lost(there: Site, path: str) -> None:
    """USR1 before the worker is started puts the task back, and no run begins."""
    process = start_task(there, path, setup=("echo in; sleep 0.4",))
    deadline = time.monotonic() + 20
    while "in" not in (there.jobs / "array-x_1.txt").read_text():
        assert time.monotonic() < deadline
        time.sleep(0.02)
    process.send_signal(signal.SIGUSR1)
    assert process.wait(20) == 75
    assert not (there.experiment / "run1").exists()
    assert asked(path) == "requeue 12_1\n"


def test_a_folder_that_is_not_there_ends_the_task(tmp_path: Path, path: str) -> None:
    """On a node that does not see the study's folder nothing starts, and the file says why."""
    there = site(tmp_path / "x")
    process = start_task(there, path, setup=("cd /nowhere-at-all",))
    assert process.wait(20) == 1
    assert "/nowhere-at-all: No such file or directory" in (there.jobs / "own.txt").read_text()


def test_nothing_secret_is_in_the_script(there: Site, path: str) -> None:
    """What the environment of the worker holds is not written down."""
    process = start_task(there, path)
    process.kill()
    process.wait()
    assert "a secret" not in (there.jobs / "array-x.sh").read_text()
