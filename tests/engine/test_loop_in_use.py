"""A run that another process executes is waited for, and no attempt of it fails."""

from collections.abc import Callable
from contextlib import closing
from dataclasses import dataclass, field
from pathlib import Path

import pytest
from samples import configuration
from single_run_loop import OneRun, loop_of

from rlexp.app.execution import run_process
from rlexp.executors import IN_USE, Exit, Job
from rlexp.protocol.seeds import Phase
from rlexp.records.events import Ending, RunEnded, RunStarted
from rlexp.records.run import State
from rlexp.store.journal import JournalWriter
from rlexp.store.layout import ExperimentPaths, RunPaths
from rlexp.store.locks.lease import hold
from rlexp.store.runs import read_run


@dataclass
class Occupied:
    """An executor whose first three jobs meet a run that another process executes."""

    run: RunPaths
    slots: int = 1
    is_starting: bool = False
    hang_timeout: float = 1e9
    grace: float = 1.0
    keys: list[str] = field(default_factory=list)
    exits: list[Exit] = field(default_factory=list)

    def submit(self, job: Job) -> None:
        """Begin an attempt, which is over at once."""
        self.keys.append(job.key)
        attempt = self.run.attempts()[-1]
        if len(self.keys) > 3:
            with closing(JournalWriter(attempt.journal)) as journal:
                journal.append(RunStarted(time=0.0, attempt=attempt.number, pid=1, host="here"))
                journal.append(RunEnded(time=0.0, step=1, ending=Ending.COMPLETED, seconds=0.0))
        self.exits = [Exit(job.key, 0 if len(self.keys) > 3 else IN_USE, None)]

    def poll(self, seconds: float) -> list[Exit]:
        """The end of the attempt."""
        exits, self.exits = self.exits, []
        return exits

    def stop(self) -> None:
        """Do nothing."""

    def kill(self, key: str) -> None:
        """Do nothing."""


def clock() -> Callable[[], float]:
    """A clock that advances by two seconds with each look."""
    times = iter(range(0, 1_000_000, 2))
    return lambda: float(next(times))


def test_a_run_in_use_is_no_failure_of_the_machine(tmp_path: Path) -> None:
    """Three attempts that meet another process are interrupted, and the fourth one completes."""
    spec = configuration().spec(Phase.TUNING, 0, 0)
    paths = ExperimentPaths(tmp_path / "sample")
    executor = Occupied(paths.run(spec.name))
    loop = loop_of(paths, executor, clock())
    loop.close_gap(OneRun(spec))
    record = read_run(paths.run(spec.name)).record
    assert (State.COMPLETED, 4, 0) == (record.state, record.attempts, record.machine_failures)


def test_a_process_of_a_run_in_use_says_so_with_its_exit_code(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """The process prints one line that names the holder, and no traceback."""
    monkeypatch.setattr(run_process, "PATIENCE", 0.1)
    run = RunPaths(tmp_path / "run")
    with hold(run.lease, "run x", now=0.0):
        assert IN_USE == run_process.execute([str(run.folder), "1"])
    (line,) = capsys.readouterr().err.splitlines()
    assert "run run is in use by another call in this process" in line
