"""Jobs on a real Slurm cluster of one node: submitted, preempted, cancelled, stopped, found again.

Started by `make test-services`, which sets `RLEXP_CLUSTER_TESTS`.
"""

import os
import signal
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import queued_worker
from slurm_cluster import Cluster, missing_program, running_cluster, wait_until

from rlexp import executors
from rlexp.errors import ExecutorError, RefusedRequestError
from rlexp.executors import Batch, Gone, Site
from rlexp.executors.slurm import Slurm
from rlexp.executors.slurm.session import SlurmSession
from rlexp.store.files import publish_json, read_json

pytestmark = [
    pytest.mark.skipif(not os.environ.get("RLEXP_CLUSTER_TESTS"), reason="make test-services"),
    pytest.mark.skipif(missing_program() is not None, reason=f"{missing_program()} is not here"),
    pytest.mark.timeout(900),
]
SETTINGS: dict[str, Any] = {
    "partition": None,
    "account": None,
    "qos": None,
    "time": 10,
    "memory": "100M",
    "cpus": None,
    "gpus": 0,
    "constraint": None,
    "exclude": None,
    "jobs": 20,
    "runs_per_job": 1,
    "signal_before": 30,
    "requeue": True,
    "setup": (),
    "command_prefix": None,
    "options": (),
    "poll": 1,
    "grace": 20,
}


@pytest.fixture(scope="module")
def cluster() -> Iterator[Cluster]:
    """A cluster for all tests of this file."""
    with pytest.MonkeyPatch.context() as patch, running_cluster() as running:
        patch.setenv("SLURM_CONF", str(running.configuration))
        yield running


@pytest.fixture(autouse=True)
def empty(cluster: Cluster) -> Iterator[None]:
    """Remove all jobs from the queue after each test."""
    yield
    cluster.empty()


def slurm(**changes: Any) -> Slurm:
    """The executor with default settings; keyword arguments change them."""
    return Slurm(**{**SETTINGS, **changes})


def site(folder: Path, seconds: float = 0.0, **variables: str) -> Site:
    """An experiment whose runs take `seconds` seconds each."""
    experiment = folder / "runs" / "study"
    experiment.mkdir(parents=True, exist_ok=True)
    worker = (sys.executable, queued_worker.__file__, str(experiment), str(seconds))
    return Site(
        experiment=experiment,
        jobs=experiment / "jobs",
        folder=folder,
        worker=worker,
        variables=variables,
        threads=1,
    )


def batches(count: int) -> list[Batch]:
    """Jobs of one run each."""
    return [Batch(f"key{number}", (f"run{number}",)) for number in range(count)]


def wait_until_gone(session: SlurmSession, count: int, seconds: float = 90.0) -> dict[str, str]:
    """Wait until `count` jobs are gone; returns the reasons by their keys."""
    ended_jobs: list[Gone] = []

    def are_gone() -> bool:
        ended_jobs.extend(session.poll(0.2))
        return len(ended_jobs) >= count

    wait_until(are_gone, seconds)
    assert [] == session.poll(2.0)
    return {job.key: job.reason for job in ended_jobs}


def is_running(session: SlurmSession, key: str) -> bool:
    """Whether a job has left the queue and runs, after one poll."""
    assert [] == session.poll(0.2)
    return not session.waiting(key)


@pytest.mark.parametrize("name", ["plain", 'it\'s "$HOME" `id` é 100%j; &', "back\\slash %a"])
def test_every_job_of_arrays_executes_its_runs(tmp_path: Path, name: str) -> None:
    """Six jobs, more than one array may hold, execute their own runs in a folder of any name."""
    folder = tmp_path / name
    job_site = site(folder, RLEXP_TOLD="a 'secret'")
    with slurm().dispatch(job_site) as session:
        session.submit(batches(6))
        reasons = wait_until_gone(session, 6)
    for number in range(6):
        run = job_site.experiment / f"run{number}"
        assert (run / "model.zip").exists()
        assert (run / "told").read_text() == "a 'secret'\n"
        assert f"at run{number}\n" in (job_site.jobs / f"key{number}.txt").read_text()
        assert "ended" in reasons[f"key{number}"]
    assert {f"key{n}.txt" for n in range(6)} == {path.name for path in job_site.jobs.iterdir()}


def test_a_preempted_job_goes_on_from_its_checkpoint(tmp_path: Path, cluster: Cluster) -> None:
    """A job that is preempted by a higher partition is queued again and completes."""
    job_site = site(tmp_path, seconds=300)
    with slurm(partition="low", cpus=2).dispatch(job_site) as session:
        session.submit(batches(1))
        wait_until((job_site.experiment / "run0" / "starts").exists)
        cluster.ask("sbatch", "-p", "high", "-c2", "-o/dev/null", "--wrap=sleep 3")
        wait_until_gone(session, 1)
    assert (job_site.experiment / "run0" / "starts").read_text() == "0\n1\n"
    assert (job_site.experiment / "run0" / "signals").read_text() == "10\n"
    assert (job_site.experiment / "run0" / "model.zip").exists()


def test_a_job_that_slurm_requeues_is_told_once(tmp_path: Path, cluster: Cluster) -> None:
    """A requeue by an administrator sends the worker one SIGTERM, and the job runs again."""
    job_site = site(tmp_path, seconds=300)
    with slurm().dispatch(job_site) as session:
        session.submit(batches(1))
        wait_until((job_site.experiment / "run0" / "starts").exists)
        array = cluster.ask("squeue", "-h", "-o", "%F")
        cluster.ask("scontrol", "requeue", f"{array}_0")
        wait_until_gone(session, 1)
    assert (job_site.experiment / "run0" / "signals").read_text() == "15\n"
    assert (job_site.experiment / "run0" / "starts").read_text() == "0\n1\n"


def test_a_job_at_its_limit_without_progress_ends(tmp_path: Path, cluster: Cluster) -> None:
    """A job that asks to be requeued ends after three tries without a new checkpoint."""
    job_site = site(tmp_path, seconds=300)
    tries = 0

    def announce() -> bool:
        nonlocal tries
        starts = job_site.experiment / "stuck" / "starts"
        if starts.exists() and len(starts.read_text().splitlines()) > tries:
            tries += 1
            cluster.ask("scancel", "--batch", "--signal=USR1", f"--user={os.getuid()}")
        return bool(session.poll(0.2))

    with slurm().dispatch(job_site) as session:
        session.submit([Batch("a", ("stuck",))])
        wait_until(announce, 120)
    assert tries == 3
    assert "three tries reached no new checkpoint" in (job_site.jobs / "a.txt").read_text()


def test_a_job_at_its_time_limit_goes_on(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Slurm's signal before the time limit makes the worker save a checkpoint and run again."""
    # A limit that leaves time to train would make this test take minutes.
    monkeypatch.setattr(executors.slurm, "EARLY", 0)
    monkeypatch.setattr(executors.slurm, "REQUEUE_WAIT", 0)
    job_site = site(tmp_path, seconds=300)
    with slurm(time=1, signal_before=50).dispatch(job_site) as session:
        session.submit(batches(1))
        wait_until_gone(session, 1, seconds=150)
    assert (job_site.experiment / "run0" / "signals").read_text() == "10\n"
    assert (job_site.experiment / "run0" / "starts").read_text() == "0\n1\n"


def test_stopping_withdraws_and_asks(tmp_path: Path) -> None:
    """`stop` sends running jobs one SIGTERM and removes waiting jobs from the queue."""
    job_site = site(tmp_path, seconds=300)
    with slurm().dispatch(job_site) as session:
        session.submit(batches(4))
        wait_until(lambda: len(list(job_site.experiment.glob("*/starts"))) == 2)
        wait_until(lambda: is_running(session, "key0"))
        assert [False, True] == [session.waiting("key0"), session.waiting("key3")]
        wait_until(lambda: is_running(session, "key0") and session.reason("key3") != "None")
        assert session.reason("key3") in {"Resources", "Priority"}
        session.stop()
        wait_until_gone(session, 4)
    signals = [path.read_text() for path in job_site.experiment.glob("*/signals")]
    assert signals == ["15\n", "15\n"]
    assert len(list(job_site.experiment.glob("*/starts"))) == 2


def test_a_cancelled_and_a_failed_job_are_told(tmp_path: Path, cluster: Cluster) -> None:
    """The reason of a job's end names a cancellation, or the exit code of a failure."""
    job_site = site(tmp_path, seconds=300)
    with slurm().dispatch(job_site) as session:
        session.submit(batches(1))
        wait_until((job_site.experiment / "run0" / "starts").exists)
        cluster.ask("scancel", f"--user={os.getuid()}")
        assert "was cancelled" in wait_until_gone(session, 1)["key0"]
    with slurm(setup=("echo before", "false", "echo after")).dispatch(job_site) as session:
        session.submit([Batch("b", ("run1",))])
        assert "failed with exit code 1" in wait_until_gone(session, 1)["b"]
    assert (job_site.jobs / "b.txt").read_text().endswith(" executes: run1\nbefore\n")
    assert not (job_site.experiment / "run1").exists()


def test_what_was_left_is_found_again(tmp_path: Path) -> None:
    """A later command finds the jobs that an earlier command left in the queue."""
    job_site = site(tmp_path, seconds=300)
    with slurm().dispatch(job_site) as session:
        session.submit(batches(2))
        session.leave()
    (job_site.jobs / "other.json").write_text("{}")
    with slurm().dispatch(job_site) as session:
        assert {batch.key for batch in session.earlier_jobs()} == {"key0", "key1"}
        wait_until(lambda: is_running(session, "key0"))
    # A session that ends without `stop` or `leave` cancels its jobs.
    with slurm().dispatch(job_site) as session:
        session.earlier_jobs()
        wait_until(lambda: session.poll(0.2) is not None and not session.earlier_jobs())


def test_jobs_are_cancelled_from_what_is_kept(tmp_path: Path) -> None:
    """`cancel` ends the jobs of an experiment even where their files lack the job ids."""
    job_site = site(tmp_path, seconds=300)
    with slurm().dispatch(job_site) as session:
        session.submit(batches(3))
        session.leave()
        wait_until(lambda: len(list(job_site.experiment.glob("*/starts"))) == 2)
        for path in job_site.jobs.glob("*.json"):
            publish_json(path, {**read_json(path), "job": None})
        assert slurm().cancel(job_site.jobs) == 3
        assert 2 == len(list(job_site.jobs.glob("*.json")))
        assert len(wait_until_gone(session, 3)) == 3
    assert [path.read_text() for path in job_site.experiment.glob("*/signals")] == ["15\n", "15\n"]
    assert slurm().cancel(job_site.jobs) == 0


def test_nothing_is_said_while_slurm_is_silent(tmp_path: Path, cluster: Cluster) -> None:
    """While the Slurm controller is down no job counts as gone; later the job ends as usual."""
    job_site = site(tmp_path, seconds=12)
    with slurm().dispatch(job_site) as session:
        session.submit(batches(1))
        wait_until((job_site.experiment / "run0" / "starts").exists)
        # SIGTERM, because a killed controller forgets the jobs that it has not saved.
        cluster.kill("slurmctld", signal.SIGTERM)
        wait_until(lambda: session.poll(0.2) or session.trouble, 120)
        assert "Unable to contact slurm controller" in str(session.trouble)
        with pytest.raises(ExecutorError, match="Unable to contact"):
            slurm().cancel(job_site.jobs)
        cluster.start("slurmctld")
        assert "ended" in wait_until_gone(session, 1)["key0"]
        assert session.trouble is None
    assert (job_site.experiment / "run0" / "model.zip").exists()


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"time": 90}, "time limit"),
        ({"constraint": "quantum"}, "executor.constraint"),
        ({"options": ("--mystery=1",)}, "change executor.options"),
    ],
)
def test_a_refusal_says_what_to_do(tmp_path: Path, changes: dict[str, Any], message: str) -> None:
    """A refusal by Slurm is one line that says what to change, and no file is left."""
    job_site = site(tmp_path)
    with (
        slurm(**changes).dispatch(job_site) as session,
        pytest.raises(ExecutorError) as error,
    ):
        session.submit(batches(2))
    assert message in str(error.value)
    assert "\n" not in str(error.value)
    assert [] == list(job_site.jobs.iterdir())


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"partition": "hgih"}, "partitions here: high, low; did you mean 'high'"),
        ({"cpus": 99}, "lower executor.cpus to 2"),
        ({"memory": "4G"}, "lower executor.memory to 1000 MB"),
        ({"gpus": 1}, "lower executor.gpus to 0"),
    ],
)
def test_what_no_node_has_is_refused(
    tmp_path: Path, changes: dict[str, Any], message: str
) -> None:
    """A request that no node of the cluster can meet is refused before a job is submitted."""
    with (
        pytest.raises(RefusedRequestError) as error,
        slurm(**changes).dispatch(site(tmp_path)),
    ):
        pass
    assert message in str(error.value)
    assert "\n" not in str(error.value)
