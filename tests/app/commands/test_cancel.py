"""`rlexp cancel` stops only the commands and runs that it names."""

import json
import os
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from command_line import rlexp
from quick_parts import quick_parts
from stored_runs import STARTED, Stored, evaluated, stored, study
from warm_processes import Forked, warm_process

from rlexp.app.commands.train.cancel import CancelOutcome, cancel
from rlexp.app.reading.summary import RunRow, describe_run, read_entries
from rlexp.errors import RecordError
from rlexp.protocol.seeds import Phase
from rlexp.store.files import read_json
from rlexp.store.layout import ExperimentPaths, Layout
from rlexp.store.locks.lease import hold
from rlexp.store.run_queue import RunOrder, queued_runs, write_order
from rlexp.store.runs import new_attempt, read_experiment

quick = pytest.fixture(autouse=True)(quick_parts)

HOLD = """
import signal, sys, time
from pathlib import Path
from rlexp.store.locks.lease import hold
signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))
with hold(Path(sys.argv[1]), "it", now=0.0):
    print("held", flush=True)
    time.sleep(60)
"""


@pytest.fixture
def alpha(tmp_path: Path) -> Stored:
    """An experiment with one run that never ended."""
    alpha = stored(Layout(tmp_path / "runs"))
    alpha.attempt(0, [evaluated(50, 1.0)])
    return alpha


@contextmanager
def holder(path: Path) -> Iterator[subprocess.Popen[str]]:
    """Another process that holds a lock and exits with 143 on SIGTERM."""
    with subprocess.Popen(
        [sys.executable, "-c", HOLD, str(path)], stdout=subprocess.PIPE, text=True
    ) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == "held\n"
        try:
            yield process
        finally:
            process.kill()


def output_of(target: str, folder: Path) -> str:
    """The output of `rlexp cancel` for a target."""
    printed = rlexp(folder, "cancel", target)
    assert 0 == printed.code
    return printed.out


def test_the_command_that_runs_an_experiment_gets_sigterm(alpha: Stored, tmp_path: Path) -> None:
    """The process that holds the lock gets SIGTERM."""
    with holder(alpha.paths.lock) as process:
        assert f"asked process {process.pid}" in output_of("alpha", tmp_path)
        assert process.wait(10) == 143


def test_an_experiment_without_a_command_is_left_alone(alpha: Stored, tmp_path: Path) -> None:
    """No process gets a signal if the id beside the lock now belongs to another process."""
    entry = {"pid": os.getppid(), "host": socket.gethostname(), "since": 0}
    alpha.paths.lock.touch()
    alpha.paths.lock.with_name(".lock.holder").write_text(json.dumps(entry))
    output = output_of("alpha", tmp_path)
    assert output == "nothing to cancel: no command runs experiment alpha\n"


@pytest.mark.parametrize(
    ("entry", "message"),
    [
        ({"pid": 1, "host": "elsewhere"}, "is run by process 1 on elsewhere; cancel it on that"),
        ({"pid": None, "host": socket.gethostname()}, "could not be identified"),
        ({"pid": -1, "host": socket.gethostname()}, "could not be identified"),
        ({"pid": 2**22 + 1, "host": socket.gethostname()}, "could not be identified"),
        ({}, "could not be identified"),
    ],
)
def test_only_the_holder_of_the_lock_is_signalled(
    alpha: Stored,
    tmp_path: Path,
    entry: dict[str, Any],
    message: str,
) -> None:
    """A holder on another machine, or one that cannot be identified, gets no signal."""
    with holder(alpha.paths.lock) as process:
        alpha.paths.lock.with_name(".lock.holder").write_text(json.dumps(entry))
        assert message in output_of("alpha", tmp_path)
        assert process.poll() is None


def test_a_process_that_does_not_hold_the_lock_is_not_signalled(
    alpha: Stored, tmp_path: Path
) -> None:
    """A process whose id is beside the lock gets no signal if another process holds the lock."""
    bystander = subprocess.Popen(["sleep", "60"])
    try:
        with holder(alpha.paths.lock) as process:
            entry = {"pid": bystander.pid, "host": socket.gethostname()}
            alpha.paths.lock.with_name(".lock.holder").write_text(json.dumps(entry))
            assert "could not be identified" in output_of("alpha", tmp_path)
            assert (None, None) == (bystander.poll(), process.poll())
    finally:
        bystander.kill()
        bystander.wait()


def test_a_running_run_reads_the_request_to_stop(alpha: Stored, tmp_path: Path) -> None:
    """The process of a run gets a request to stop, and the next attempt removes the request."""
    run = alpha.run(0)
    with hold(run.lease, "the run", now=STARTED):
        assert f"asked run {run.folder.name} to stop" in output_of(run.folder.name, tmp_path)
    expected = {"ending": "interrupted", "reason": "cancelled by the user"}
    assert expected == read_json(run.stop)
    new_attempt(run, {}, {}, "")
    assert not run.stop.exists()


def test_a_run_that_is_not_running_gets_no_request(alpha: Stored, tmp_path: Path) -> None:
    """A run that is not running gets no request, which would stop a later attempt."""
    alpha.complete(1, 1.0)
    for seed, state in ((0, "lost"), (1, "completed")):
        name = f"alpha/{alpha.run(seed).folder.name}"
        assert f"is not running (state: {state})" in output_of(name, tmp_path)
        assert not alpha.run(seed).stop.exists()


def test_a_queued_run_is_removed_from_the_queue(alpha: Stored, tmp_path: Path) -> None:
    """A queued run leaves the queue unless an active command would queue it again."""
    run = alpha.run(0)
    write_order(alpha.paths, run.folder.name, RunOrder(after=1, settings={}, command=("rlexp",)))
    with hold(alpha.paths.lock, "it", now=STARTED):
        assert CancelOutcome.QUEUED is cancel(run.folder.name, study(tmp_path)).outcome
    assert [run.folder.name] == queued_runs(alpha.paths)
    document = rlexp(tmp_path, "cancel", run.folder.name, "--json").document("cancellation")
    assert ("withdrawn", 1, "lost") == tuple(
        document[key] for key in ("outcome", "withdrawn", "state")
    )
    assert [] == queued_runs(alpha.paths)


def test_a_request_that_cannot_be_written_is_a_one_line_error(
    alpha: Stored, tmp_path: Path
) -> None:
    """A folder in place of the request file gives an error of rlexp."""
    run = alpha.run(0)
    (run.stop / "in the way").mkdir(parents=True)
    with (
        hold(run.lease, "the run", now=STARTED),
        pytest.raises(RecordError, match="cannot write to"),
    ):
        cancel(run.folder.name, study(tmp_path))


class Commands:
    """`rlexp` in a separate folder, as users run it, in forks of a warm process."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.environment = {**os.environ, "OMP_NUM_THREADS": "1", "RLEXP_HOME": str(folder)}
        self.environment.pop("RLEXP_RUNS", None)

    def start(self, *words: str) -> Forked:
        """Start a command."""
        return warm_process().Popen(
            [sys.executable, "-m", "rlexp", *words],
            cwd=self.folder,
            env=self.environment,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            warm=["rlexp.executors.local"],
        )

    def answer(self, *words: str) -> str:
        """The output of a command that must succeed."""
        process = self.start(*words)
        printed, _ = process.communicate(timeout=60)
        assert process.returncode == 0, printed
        return printed

    def runs(self) -> list[RunRow]:
        """The runs of `short`, in order of their seeds, as `rlexp ls` describes them."""
        paths = ExperimentPaths(self.folder / "runs" / "short")
        if not paths.definition.exists():
            return []
        entries = read_entries(paths, read_experiment(paths), Phase.TEST)
        return [describe_run(configuration, run_record) for configuration, run_record in entries]

    def states(self) -> list[str]:
        """The states of the runs."""
        return [row.state for row in self.runs()]


def wait_for(condition: Callable[[], bool], seconds: float) -> None:
    """Wait until a condition holds."""
    deadline = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < deadline, "it did not happen in time"
        time.sleep(0.05)


def test_a_run_and_then_its_command_are_cancelled(tmp_path: Path) -> None:
    """After a run is cancelled, the next run starts; a cancelled command ends within seconds."""
    commands = Commands(tmp_path)
    arguments = ("experiment=short", "budget.steps=200000", "seeds.test=2", "executor.workers=1")
    command = commands.start("run", "algorithm=ppo", "environment=cartpole", *arguments)
    try:
        wait_for(lambda: commands.states()[:1] == ["running"], 90)
        (name,) = (row.run for row in commands.runs() if row.seed == 0)
        answer = commands.answer("cancel", f"short/{name}")
        assert f"asked run {name} to stop" in answer
        assert answer.rstrip().endswith("to continue it: rlexp resume short")
        wait_for(lambda: commands.states() == ["interrupted", "running"], 30)
        assert f"asked process {command.pid}" in commands.answer("cancel", "short")
        printed, _ = command.communicate(timeout=10)
    finally:
        command.kill()
    assert command.returncode == 143, printed
    rows = json.loads(commands.answer("ls", "short", "--json"))["rows"]
    assert [("interrupted", 1), ("interrupted", 1)] == [(r["state"], r["attempts"]) for r in rows]
    assert rows[0]["reason"] == "cancelled by the user"
    assert "nothing to cancel" in commands.answer("cancel", "short")
