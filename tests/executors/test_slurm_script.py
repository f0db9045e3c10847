"""The script of Slurm jobs, run by bash as Slurm would: starts, signals and requeueing."""

import os
import signal
import subprocess
import time
from pathlib import Path

import pytest
from slurm_programs import HOSTILE, install, site, start_task

from rlexp.executors import Site

SCONTROL = 'echo "$@" >>"$(dirname "$0")/asked"'
STARTED = "rlexp: job 12_1 on this machine executes: run1\n"
"""The first line of a job's output."""


@pytest.fixture
def job_site(tmp_path: Path) -> Site:
    """A site whose run takes a minute, in a folder with a hostile name."""
    return site(tmp_path / HOSTILE, seconds=60)


@pytest.fixture
def path(tmp_path: Path) -> str:
    """A PATH with a `scontrol` that logs its calls."""
    return install(tmp_path / "bin", scontrol=SCONTROL)


def wait_for_start(job_site: Site, run: str = "run1") -> None:
    """Wait until a run has begun."""
    deadline = time.monotonic() + 20
    while not (job_site.experiment / run / "starts").exists():
        assert time.monotonic() < deadline, f"{run} did not begin"
        time.sleep(0.02)


def scontrol_calls(path: str) -> str:
    """The logged calls of `scontrol`."""
    file = Path(path.partition(":")[0], "asked")
    return file.read_text() if file.exists() else ""


def test_a_task_executes_its_own_runs(tmp_path: Path, path: str) -> None:
    """A task executes the runs of its own number, in a folder of any name."""
    job_site = site(tmp_path / HOSTILE)
    assert start_task(job_site, path).wait(20) == 0
    assert (job_site.experiment / "run1" / "model.zip").exists()
    assert not (job_site.experiment / "others").exists()
    assert scontrol_calls(path) == ""


def test_what_slurm_says_and_what_the_worker_says_is_one_file(tmp_path: Path, path: str) -> None:
    """Slurm's and the worker's output are in one file, also after a second turn of the job."""
    job_site = site(tmp_path / HOSTILE)
    (job_site.jobs / "array-x_1.txt").write_text("slurmstepd: words\n")
    for _ in range(2):
        assert start_task(job_site, path).wait(20) == 0
    assert (job_site.jobs / "own.txt").read_text() == (
        "slurmstepd: words\n" + f"{STARTED}at run1\n" * 2
    )


def test_output_is_kept_without_a_file_of_slurms(tmp_path: Path, path: str) -> None:
    """The job's file holds the worker's output where Slurm's own output file is gone."""
    job_site = site(tmp_path / HOSTILE)
    process = start_task(job_site, path)
    (job_site.jobs / "array-x_1.txt").unlink()
    assert process.wait(20) == 0
    assert (job_site.jobs / "own.txt").read_text() == f"{STARTED}at run1\n"


@pytest.mark.parametrize(("requeues", "asks"), [(True, "requeue 12_1\n"), (False, "")])
def test_a_notice_asks_for_another_turn(
    job_site: Site, path: str, requeues: bool, asks: str
) -> None:
    """SIGUSR1 reaches the worker, and its exit code 75 requeues the task if that is allowed."""
    process = start_task(job_site, path, requeues=requeues)
    wait_for_start(job_site)
    process.send_signal(signal.SIGUSR1)
    assert process.wait(20) == 75
    assert (job_site.experiment / "run1" / "signals").read_text() == f"{int(signal.SIGUSR1)}\n"
    assert scontrol_calls(path) == asks


def test_an_end_by_rlexp_asks_for_no_other_turn(job_site: Site, path: str) -> None:
    """SIGUSR2 reaches the worker as SIGTERM, and the task is not requeued."""
    process = start_task(job_site, path)
    wait_for_start(job_site)
    process.send_signal(signal.SIGUSR2)
    assert process.wait(20) == 143
    assert (job_site.experiment / "run1" / "signals").read_text() == f"{int(signal.SIGTERM)}\n"
    assert scontrol_calls(path) == ""


def test_an_end_by_slurm_comes_once(job_site: Site, path: str) -> None:
    """The script does not forward SIGTERM, which Slurm also sends to the worker, and waits."""
    process = start_task(job_site, path)
    wait_for_start(job_site)
    process.send_signal(signal.SIGTERM)
    time.sleep(0.3)
    assert process.poll() is None
    assert not (job_site.experiment / "run1" / "signals").exists()
    children = subprocess.run(
        ["ps", "-o", "pid=", "--ppid", str(process.pid)],
        capture_output=True,
        text=True,
        check=True,
    )
    os.kill(int(children.stdout.split()[0]), signal.SIGTERM)
    assert process.wait(20) == 143
    assert scontrol_calls(path) == ""


def test_signals_that_come_while_it_waits_do_not_cut_it_short(job_site: Site, path: str) -> None:
    """After several signals the script still waits for the worker and its exit code."""
    process = start_task(job_site, path, variables={"RLEXP_LINGERS": "0.5"})
    wait_for_start(job_site)
    for _ in range(5):
        process.send_signal(signal.SIGUSR1)
        time.sleep(0.05)
    assert process.wait(20) == 75
    assert (job_site.experiment / "run1" / "checkpoints" / "1").exists()


def test_turns_without_progress_come_to_an_end(tmp_path: Path, path: str) -> None:
    """A task is requeued until three turns in a row reach no new checkpoint."""
    job_site = site(tmp_path / HOSTILE, seconds=60)

    def turn(run: str) -> None:
        (job_site.experiment / run / "starts").unlink(missing_ok=True)
        process = start_task(job_site, path, run=run)
        wait_for_start(job_site, run)
        process.send_signal(signal.SIGUSR1)
        assert process.wait(20) == 75

    turn("stuck")
    turn("stuck")
    (job_site.jobs / "own.idle").write_text("2\n")
    turn("run1")
    assert (job_site.jobs / "own.idle").read_text() == "0\n"
    for _ in range(3):
        turn("stuck")
    assert scontrol_calls(path) == "requeue 12_1\n" * 5
    assert (job_site.jobs / "own.txt").read_text().endswith("give the job more time\n")


def test_setup_comes_first_in_the_studys_folder(tmp_path: Path, path: str) -> None:
    """Setup lines run in the study's folder and change the worker's environment."""
    job_site = site(tmp_path / HOSTILE)
    setup = ('export RLEXP_TOLD="$(basename "$PWD" | wc -l)"', "PATH=/nowhere")
    assert start_task(job_site, path, setup=setup).wait(20) == 0
    assert (job_site.experiment / "run1" / "told").read_text().strip() == "2"


def test_a_setup_that_fails_ends_the_task(tmp_path: Path, path: str) -> None:
    """A failing setup line ends the task with its exit code, and no run begins."""
    job_site = site(tmp_path / HOSTILE)
    assert start_task(job_site, path, setup=("(exit 3)", "echo never")).wait(20) == 3
    assert (job_site.jobs / "own.txt").read_text() == STARTED
    assert not (job_site.experiment / "run1").exists()


def test_a_notice_during_the_setup_is_not_lost(job_site: Site, path: str) -> None:
    """SIGUSR1 during the setup requeues the task, and no run begins."""
    process = start_task(job_site, path, setup=("echo in; sleep 0.4",))
    deadline = time.monotonic() + 20
    while "in" not in (job_site.jobs / "array-x_1.txt").read_text():
        assert time.monotonic() < deadline
        time.sleep(0.02)
    process.send_signal(signal.SIGUSR1)
    assert process.wait(20) == 75
    assert not (job_site.experiment / "run1").exists()
    assert scontrol_calls(path) == "requeue 12_1\n"


def test_a_folder_that_is_not_there_ends_the_task(tmp_path: Path, path: str) -> None:
    """A task that cannot enter a folder in its setup ends, and the job's file says why."""
    job_site = site(tmp_path / "x")
    process = start_task(job_site, path, setup=("cd /nowhere-at-all",))
    assert process.wait(20) == 1
    assert "/nowhere-at-all: No such file or directory" in (job_site.jobs / "own.txt").read_text()


def test_nothing_secret_is_in_the_script(job_site: Site, path: str) -> None:
    """The script does not hold the variables of the worker."""
    process = start_task(job_site, path)
    process.kill()
    process.wait()
    assert "a secret" not in (job_site.jobs / "array-x.sh").read_text()
