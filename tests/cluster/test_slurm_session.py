"""Jobs on a real Slurm cluster of one node: submitted, told apart, preempted, stopped, found again.

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

from rlexp.errors import ExecutorError
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
    """A queue without jobs, whatever the test left."""
    yield
    cluster.empty()


def slurm(**changes: Any) -> Slurm:
    """The executor, with changes."""
    return Slurm(**{**SETTINGS, **changes})


def site(folder: Path, seconds: float = 0.0, **variables: str) -> Site:
    """An experiment whose runs take so many seconds each."""
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


def gone(session: SlurmSession, count: int, seconds: float = 90.0) -> dict[str, str]:
    """Wait for jobs to be gone; the reasons by their keys."""
    results: list[Gone] = []

    def all_gone() -> bool:
        results.extend(session.poll(0.2))
        return len(results) >= count

    wait_until(all_gone, seconds)
    assert [] == session.poll(2.0)
    return {each.key: each.reason for each in results}


def is_running(session: SlurmSession, key: str) -> bool:
    """Look, and say whether a job is no longer in the queue."""
    assert [] == session.poll(0.2)
    return not session.waiting(key)


@pytest.mark.parametrize("name", ["plain", 'it\'s "$HOME" `id` é 100%j; &', "back\\slash %a"])
def test_every_job_of_arrays_executes_its_runs(tmp_path: Path, name: str) -> None:
    """Six jobs, more than an array may hold here, each find their runs in any folder."""
    folder = tmp_path / name
    there = site(folder, RLEXP_TOLD="a 'secret'")
    with slurm().dispatch(there) as session:
        session.submit(batches(6))
        reasons = gone(session, 6)
    for number in range(6):
        run = there.experiment / f"run{number}"
        assert (run / "model.zip").exists()
        assert (run / "told").read_text() == "a 'secret'\n"
        assert f"at run{number}\n" in (there.jobs / f"key{number}.txt").read_text()
        assert "ended" in reasons[f"key{number}"]
    assert {f"key{n}.txt" for n in range(6)} == {path.name for path in there.jobs.iterdir()}


def test_a_preempted_job_goes_on_from_its_checkpoint(tmp_path: Path, cluster: Cluster) -> None:
    """A job that makes room for one of a higher partition comes back and ends by itself."""
    there = site(tmp_path, seconds=300)
    with slurm(partition="low", cpus=2).dispatch(there) as session:
        session.submit(batches(1))
        wait_until((there.experiment / "run0" / "starts").exists)
        cluster.ask("sbatch", "-p", "high", "-c2", "-o/dev/null", "--wrap=sleep 3")
        gone(session, 1)
    assert (there.experiment / "run0" / "starts").read_text() == "0\n1\n"
    assert (there.experiment / "run0" / "signals").read_text() == "10\n"
    assert (there.experiment / "run0" / "model.zip").exists()


def test_a_job_that_slurm_requeues_is_told_once(tmp_path: Path, cluster: Cluster) -> None:
    """An administrator's requeue reaches the worker as one TERM, and the job goes on."""
    there = site(tmp_path, seconds=300)
    with slurm().dispatch(there) as session:
        session.submit(batches(1))
        wait_until((there.experiment / "run0" / "starts").exists)
        array = cluster.ask("squeue", "-h", "-o", "%F")
        cluster.ask("scontrol", "requeue", f"{array}_0")
        gone(session, 1)
    assert (there.experiment / "run0" / "signals").read_text() == "15\n"
    assert (there.experiment / "run0" / "starts").read_text() == "0\n1\n"


def test_a_job_at_its_limit_without_progress_ends(tmp_path: Path, cluster: Cluster) -> None:
    """A job whose worker asks to be queued again is, until three tries reach nothing new."""
    there = site(tmp_path, seconds=300)
    tries = 0

    def announce() -> bool:
        nonlocal tries
        starts = there.experiment / "stuck" / "starts"
        if starts.exists() and len(starts.read_text().splitlines()) > tries:
            tries += 1
            cluster.ask("scancel", "--batch", "--signal=USR1", f"--user={os.getuid()}")
        return bool(session.poll(0.2))

    with slurm().dispatch(there) as session:
        session.submit([Batch("a", ("stuck",))])
        wait_until(announce, 120)
    assert tries == 3
    assert "three tries reached no new checkpoint" in (there.jobs / "a.txt").read_text()


def test_a_job_at_its_time_limit_goes_on(tmp_path: Path) -> None:
    """Slurm's own notice before the limit makes the worker write a checkpoint and come back."""
    there = site(tmp_path, seconds=300)
    with slurm(time=1, signal_before=50).dispatch(there) as session:
        session.submit(batches(1))
        gone(session, 1, seconds=150)
    assert (there.experiment / "run0" / "signals").read_text() == "10\n"
    assert (there.experiment / "run0" / "starts").read_text() == "0\n1\n"


def test_stopping_withdraws_and_asks(tmp_path: Path) -> None:
    """Jobs that run end their workers by one TERM, those that wait never start."""
    there = site(tmp_path, seconds=300)
    with slurm().dispatch(there) as session:
        session.submit(batches(4))
        wait_until(lambda: len(list(there.experiment.glob("*/starts"))) == 2)
        wait_until(lambda: is_running(session, "key0"))
        assert [False, True] == [session.waiting("key0"), session.waiting("key3")]
        wait_until(lambda: is_running(session, "key0") and session.reason("key3") != "None")
        assert session.reason("key3") in {"Resources", "Priority"}
        session.stop()
        gone(session, 4)
    messages = [path.read_text() for path in there.experiment.glob("*/signals")]
    assert messages == ["15\n", "15\n"]
    assert len(list(there.experiment.glob("*/starts"))) == 2


def test_a_cancelled_and_a_failed_job_are_told(tmp_path: Path, cluster: Cluster) -> None:
    """What somebody cancels, and what ends with an error, says so."""
    there = site(tmp_path, seconds=300)
    with slurm().dispatch(there) as session:
        session.submit(batches(1))
        wait_until((there.experiment / "run0" / "starts").exists)
        cluster.ask("scancel", f"--user={os.getuid()}")
        assert "was cancelled" in gone(session, 1)["key0"]
    with slurm(setup=("echo before", "false", "echo after")).dispatch(there) as session:
        session.submit([Batch("b", ("run1",))])
        assert "failed with exit code 1" in gone(session, 1)["b"]
    assert (there.jobs / "b.txt").read_text() == "before\n"
    assert not (there.experiment / "run1").exists()


def test_what_was_left_is_found_again(tmp_path: Path) -> None:
    """A later command knows the jobs that an earlier one left, and only the jobs that are there."""
    there = site(tmp_path, seconds=300)
    with slurm().dispatch(there) as session:
        session.submit(batches(2))
        session.leave()
    (there.jobs / "other.json").write_text("{}")
    with slurm().dispatch(there) as session:
        assert {batch.key for batch in session.earlier_jobs()} == {"key0", "key1"}
        wait_until(lambda: is_running(session, "key0"))
    # That context ended with neither word: so do the jobs.
    with slurm().dispatch(there) as session:
        session.earlier_jobs()
        wait_until(lambda: session.poll(0.2) is not None and not session.earlier_jobs())


def test_jobs_are_cancelled_from_what_is_kept(tmp_path: Path) -> None:
    """No command has to be alive to end jobs, not even one that lived to write down their ids."""
    there = site(tmp_path, seconds=300)
    with slurm().dispatch(there) as session:
        session.submit(batches(3))
        session.leave()
        wait_until(lambda: len(list(there.experiment.glob("*/starts"))) == 2)
        for path in there.jobs.glob("*.json"):
            publish_json(path, {**read_json(path), "job": None})
        assert slurm().cancel(there.jobs) == 3
        assert 2 == len(list(there.jobs.glob("*.json")))
        assert len(gone(session, 3)) == 3
    assert [path.read_text() for path in there.experiment.glob("*/signals")] == ["15\n", "15\n"]
    assert slurm().cancel(there.jobs) == 0


def test_nothing_is_said_while_slurm_is_silent(tmp_path: Path, cluster: Cluster) -> None:
    """While the controller is down no job counts as gone, and afterwards all is as before."""
    there = site(tmp_path, seconds=12)
    with slurm().dispatch(there) as session:
        session.submit(batches(1))
        wait_until((there.experiment / "run0" / "starts").exists)
        # As an administrator stops it: what a killed one had not yet saved, it has forgotten.
        cluster.kill("slurmctld", signal.SIGTERM)
        wait_until(lambda: session.poll(0.2) or session.trouble, 120)
        assert "Unable to contact slurm controller" in str(session.trouble)
        with pytest.raises(ExecutorError, match="Unable to contact"):
            slurm().cancel(there.jobs)
        cluster.start("slurmctld")
        assert "ended" in gone(session, 1)["key0"]
        assert session.trouble is None
    assert (there.experiment / "run0" / "model.zip").exists()


@pytest.mark.parametrize(
    ("changes", "messages"),
    [
        ({"partition": "hgih"}, "partitions here: high, low; did you mean 'high'"),
        ({"cpus": 99}, "lower executor.cpus"),
        ({"time": 90}, "time limit"),
        ({"constraint": "quantum"}, "executor.constraint"),
        ({"gpus": 1}, "executor.gpus"),
        ({"options": ("--mystery=1",)}, "change executor.options"),
    ],
)
def test_a_refusal_says_what_to_do(tmp_path: Path, changes: dict[str, Any], messages: str) -> None:
    """What Slurm refuses is one line with what to change, and leaves nothing behind."""
    there = site(tmp_path)
    with (
        slurm(**changes).dispatch(there) as session,
        pytest.raises(ExecutorError) as error,
    ):
        session.submit(batches(2))
    assert messages in str(error.value)
    assert "\n" not in str(error.value)
    assert [] == list(there.jobs.iterdir())
