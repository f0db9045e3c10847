"""The Slurm executor against stand-ins for sbatch, squeue and scontrol."""

import os
import sys
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest
from slurm_programs import HOSTILE, install, site

from rlexp.errors import ExecutorError, RefusedRequestError
from rlexp.executors import Batch
from rlexp.executors.slurm import Slurm
from rlexp.executors.slurm.client import JobState, expand, parse_queue
from rlexp.executors.slurm.tasks import read_tasks

SETTINGS: dict[str, Any] = {
    **dict.fromkeys(("partition", "account", "qos", "time", "memory", "cpus", "constraint")),
    **dict.fromkeys(("setup", "options"), ()),
    "exclude": None,
    "command_prefix": None,
    "gpus": 0,
    "jobs": 20,
    "runs_per_job": 1,
    "signal_before": 60,
    "requeue": True,
    "poll": 0.1,
    "grace": 5,
}
NOTE = 'echo "$(basename "$0") $*" >>"$(dirname "$0")/asked"'
CONFIG = 'case "$*" in "show config") echo "MaxArraySize            = 2";; esac'
QUEUE = (
    'cat "$(dirname "$0")/queue" 2>/dev/null '
    '|| { echo "slurm_load_jobs error: no contact" >&2; exit 1; }'
)


JOB_NOTE = (
    '{"schema": 1, "executor": "slurm", "runs": ["a"], "job": "7_0", '
    '"script": "array-1", "index": 0}'
)


@pytest.fixture
def programs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder of stand-ins that log their calls; squeue prints the file `queue`."""
    folder = tmp_path / "bin"
    path = install(
        folder,
        sbatch=f"{NOTE}\necho 7",
        squeue=f"{NOTE}\n{QUEUE}",
        scontrol=f"{NOTE}\n{CONFIG}",
        scancel=NOTE,
        sinfo="echo gpu\necho long",
    )
    monkeypatch.setenv("PATH", path)
    (folder / "queue").write_text("")
    return folder


def calls_of(programs: Path, name: str) -> list[str]:
    """The logged calls of a program."""
    lines = (programs / "asked").read_text().splitlines()
    return [line for line in lines if line.startswith(name)]


def slurm(**changes: Any) -> Slurm:
    """The executor with default settings; keyword arguments change them."""
    return Slurm(**{**SETTINGS, **changes})


@pytest.mark.parametrize(
    ("name", "tasks"),
    [
        ("12", ["12"]),
        ("12_3", ["12_3"]),
        ("12_[4-6%2]", ["12_4", "12_5", "12_6"]),
        ("12_[1,4-5,9]", ["12_1", "12_4", "12_5", "12_9"]),
        ("12_[0-8:4]", ["12_0", "12_4", "12_8"]),
        ("12_[1,...]", ["12_1"]),
        ("CLUSTER: here", []),
    ],
)
def test_an_id_stands_for_tasks(name: str, tasks: list[str]) -> None:
    """The id of a waiting array is expanded to its tasks, and other text is skipped."""
    assert list(expand(name)) == tasks


def test_the_queue_is_read_line_by_line() -> None:
    """Further words after a state are dropped, and a reason may hold any character."""
    text = "12_[0-1]|PENDING|(a|b)\n12_2|CANCELLED by 1000|None\n\n"
    assert parse_queue(text) == {
        "12_0": JobState("PENDING", "(a|b)"),
        "12_1": JobState("PENDING", "(a|b)"),
        "12_2": JobState("CANCELLED", "None"),
    }


def test_a_job_is_gone_when_it_is_missing_twice(tmp_path: Path, programs: Path) -> None:
    """A job that is missing in the queue twice is gone; a job with an end state is gone at once."""
    job_site = site(tmp_path / HOSTILE)
    (programs / "queue").write_text("7_0|RUNNING|None\n7_1|RUNNING|None\n")
    with slurm().dispatch(job_site) as session:
        session.submit([Batch("a", ("run1",)), Batch("b", ("run2",))])
        assert [] == session.poll(5)
        (programs / "queue").write_text("7_1|TIMEOUT|TimeLimit\n")
        assert ["b"] == [gone.key for gone in session.poll(5)]
        (programs / "queue").write_text("7_0|RUNNING|None\n")
        assert [] == session.poll(5)
        (programs / "queue").write_text("")
        assert [] == session.poll(5)
        (gone,) = session.poll(5)
    assert ("a", "Slurm no longer knows its job 7_0") == (gone.key, gone.reason)
    assert [] == read_tasks(job_site.jobs)


def test_a_node_that_fails_may_give_its_job_back(tmp_path: Path, programs: Path) -> None:
    """A job that is queued again after a failure of its node does not count as gone."""
    job_site = site(tmp_path)
    with slurm().dispatch(job_site) as session:
        session.submit([Batch("a", ("run1",))])
        for state in ("NODE_FAIL", "PENDING", "PREEMPTED", "RUNNING"):
            (programs / "queue").write_text(f"7_0|{state}|None\n")
            assert [] == session.poll(5)
        (programs / "queue").write_text("7_0|NODE_FAIL|None\n")
        assert [] == session.poll(5)
        (gone,) = session.poll(5)
    assert gone.reason == "its Slurm job 7_0 lost its node"


def test_the_queue_is_asked_now_and_then(tmp_path: Path, programs: Path) -> None:
    """`poll` asks squeue at intervals, and a failed squeue reports no job as gone."""
    job_site = site(tmp_path)
    (programs / "queue").unlink()
    with slurm().dispatch(job_site) as session:
        session.submit([Batch("a", ("run1",))])
        for _ in range(2):
            assert [] == session.poll(0.02)
        assert [] == calls_of(programs, "squeue")
        assert [] == session.poll(5)
        assert session.trouble == "squeue: slurm_load_jobs error: no contact"
        assert session.waiting("a")
        assert [] == session.poll(0.05)
    assert len(calls_of(programs, "squeue")) == 2


def test_long_arrays_are_split(tmp_path: Path, programs: Path) -> None:
    """Three jobs are submitted as two arrays where MaxArraySize is 2."""
    job_site = site(tmp_path)
    with slurm().dispatch(job_site) as session:
        session.submit([Batch(key, (key,)) for key in "abc"])
        arguments = [line.split() for line in calls_of(programs, "sbatch")]
        assert ["--array=0-1", "--array=0-0"] == [line[2] for line in arguments]
        session.leave()


def test_what_slurm_takes_later_is_submitted_later(tmp_path: Path, programs: Path) -> None:
    """A job beyond Slurm's limit waits, and is submitted once there is room."""
    job_site = site(tmp_path)
    once = '[ -e "$0.full" ] && { echo "sbatch: error: QOSMaxSubmitJobPerUserLimit" >&2; exit 1; }'
    install(programs, sbatch=f'{NOTE}\n{once}\ntouch "$0.full"\necho 7')
    (programs / "queue").write_text("7_0|RUNNING|None\n7_1|RUNNING|None\n")
    with slurm().dispatch(job_site) as session:
        session.submit([Batch(key, (key,)) for key in "abc"])
        assert "QOSMaxSubmitJobPerUserLimit" in str(session.trouble)
        assert session.waiting("c")
        assert [] == session.poll(5)
        assert session.waiting("c")
        (programs / "sbatch.full").unlink()
        assert [] == session.poll(5)
        assert len(read_tasks(job_site.jobs)) == 3
        session.leave()


def test_jobs_get_this_commands_environment(
    tmp_path: Path, programs: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Jobs get the site's variables and SLURM_CONF, but no variable of the command's own job."""
    monkeypatch.setenv("SLURM_MEM_PER_CPU", "1")
    monkeypatch.setenv("SLURM_CONF", "kept")
    monkeypatch.setenv("SQUEUE_STATES", "FAILED")
    install(
        programs,
        sbatch='env >"$(dirname "$0")/submitted"\necho "7;cluster"',
        squeue='env >"$(dirname "$0")/looked"',
    )
    with slurm().dispatch(site(tmp_path)) as session:
        session.submit([Batch("a", ("run1",))])
        session.poll(5)
        session.leave()
    job_environment, queue_environment = (
        (programs / name).read_text() for name in ("submitted", "looked")
    )
    assert "RLEXP_TOLD=a secret\n" in job_environment
    assert "SLURM_CONF=kept\n" in job_environment
    assert "SLURM_MEM_PER_CPU" not in job_environment
    assert "SQUEUE_STATES" not in queue_environment


def test_a_job_that_was_taken_too_late_is_found(tmp_path: Path, programs: Path) -> None:
    """Jobs that Slurm accepted although sbatch timed out are found in the queue."""
    job_site = site(tmp_path)
    install(
        programs,
        sbatch='echo "sbatch: error: Socket timed out on send/recv operation" >&2; exit 1',
        squeue=f'echo "9|{job_site.jobs}/$(basename "{job_site.jobs}"/array-*.sh)"',
    )
    with slurm().dispatch(job_site) as session:
        session.submit([Batch("a", ("run1",))])
        session.leave()
    assert ["9_0"] == [task.name for task in read_tasks(job_site.jobs)]


@pytest.mark.parametrize(
    ("slurm_error", "message"),
    [
        (
            "invalid partition specified: lnog\nsbatch: error: Batch job submission failed: Invalid",
            "specified: lnog; partitions here: gpu, long; did you mean 'long'?; set executor.part",
        ),
        ("Batch job submission failed: Invalid account or …", "name yours with executor.account"),
        ("unrecognized option '--x'", "change executor.options"),
        ("something new", "sbatch: something new"),
    ],
)
def test_a_refusal_is_one_line(
    tmp_path: Path, programs: Path, slurm_error: str, message: str
) -> None:
    """A refusal is one line with Slurm's words and advice, and no file is left."""
    job_site = site(tmp_path)
    install(programs, sbatch=f"cat >&2 <<'E'\nsbatch: error: {slurm_error}\nE\nexit 1")
    with (
        slurm(partition="lnog").dispatch(job_site) as session,
        pytest.raises(RefusedRequestError) as error,
    ):
        session.submit([Batch("a", ("run1",))])
    assert 2 == error.value.exit_code
    assert message in str(error.value)
    assert "\n" not in str(error.value)
    assert [] == list(job_site.jobs.iterdir())


@pytest.mark.parametrize(
    "slurm_error",
    ["Unable to contact slurm controller", "Socket timed out on send/recv operation"],
)
def test_silence_is_no_refusal(tmp_path: Path, programs: Path, slurm_error: str) -> None:
    """A controller that does not answer is an error of the machine, with exit code 70."""
    job_site = site(tmp_path)
    install(programs, sbatch=f"echo 'sbatch: error: {slurm_error}' >&2; exit 1")
    with slurm().dispatch(job_site) as session, pytest.raises(ExecutorError) as error:
        session.submit([Batch("a", ("run1",))])
    assert 70 == error.value.exit_code


def test_what_no_node_has_is_refused_before_anything_is_submitted(
    tmp_path: Path, programs: Path
) -> None:
    """A request beyond every node that `sinfo` lists is refused, and sbatch is not called."""
    install(programs, sinfo="echo 'long*|8|16000|(null)'")
    with (
        pytest.raises(RefusedRequestError, match=r"lower executor\.cpus to 8"),
        slurm(cpus=9).dispatch(site(tmp_path)),
    ):
        pass
    assert not (programs / "asked").exists()


def test_the_prefix_comes_before_the_workers_command(tmp_path: Path, programs: Path) -> None:
    """The words of executor.command_prefix come first in the command of the job's script."""
    job_site = site(tmp_path)
    prefix = "apptainer exec --bind '/my data' rl.sif"
    with slurm(command_prefix=prefix).dispatch(job_site) as session:
        session.submit([Batch("a", ("run1",))])
        (script,) = job_site.jobs.glob("*.sh")
        assert f"\nworker=({prefix} {sys.executable} " in script.read_text()


def test_without_slurm_one_line_says_so(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Without sbatch the error suggests executor=local."""
    monkeypatch.setenv("PATH", str(tmp_path))
    with (
        pytest.raises(ExecutorError, match=r"sbatch is not on PATH.*executor=local"),
        slurm().dispatch(site(tmp_path)),
    ):
        pass


def test_stopping_asks_in_this_order(tmp_path: Path, programs: Path) -> None:
    """`stop` forbids requeueing, withdraws waiting jobs, and then signals running jobs."""
    with slurm().dispatch(site(tmp_path)) as session:
        session.submit([Batch("a", ("run1",))])
        (programs / "asked").unlink()
        session.stop()
        assert (programs / "asked").read_text().splitlines() == [
            "scontrol update JobId=7 Requeue=0",
            "scancel --state=PENDING 7",
            "scancel --batch --signal=USR2 7",
        ]
        session.leave()


def test_jobs_end_with_the_command_unless_they_are_left(tmp_path: Path, programs: Path) -> None:
    """Jobs are cancelled when their command fails, but not after `leave`."""
    job_site = site(tmp_path)
    with slurm().dispatch(job_site) as session:
        session.submit([Batch("a", ("run1",))])
        session.leave()
    assert [] == calls_of(programs, "scancel")
    with suppress(KeyboardInterrupt), slurm().dispatch(job_site) as session:
        session.submit([Batch("b", ("run1",))])
        raise KeyboardInterrupt
    assert ["scancel 7"] == calls_of(programs, "scancel")


def test_damaged_notes_are_passed_over(tmp_path: Path, programs: Path) -> None:
    """Damaged, foreign and forged job files are skipped, and no Slurm command is called."""
    job_site = site(tmp_path)
    for name, text in {
        "a": "{",
        "b": '{"schema": 1, "executor": "ray"}',
        "c": '{"schema": 1, "executor": "slurm", "runs": 3}',
        "e": JOB_NOTE.replace("7_0", "--user=root"),
        "f": JOB_NOTE.replace("array-1", "../array-1"),
    }.items():
        (job_site.jobs / f"{name}.json").write_text(text)
    os.mkfifo(job_site.jobs / "d.json")
    assert [] == read_tasks(job_site.jobs)
    assert slurm().cancel(job_site.jobs) == 0
    assert not (programs / "asked").exists()
