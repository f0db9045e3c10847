"""A command sees every run that it orders to its end, whenever a worker began the run."""

from collections import deque
from contextlib import closing
from dataclasses import dataclass, field
from pathlib import Path

import pytest
from samples import configuration

from rlexp.app.execution.launch_settings import claim_run
from rlexp.app.observer import SilentWatcher
from rlexp.engine import remote_loop
from rlexp.engine.jobs import Jobs
from rlexp.engine.remote_loop import Dispatch
from rlexp.engine.run_in_flight import AttemptSettings
from rlexp.engine.source import RunList
from rlexp.executors import Gone
from rlexp.executors.pull import PullSession
from rlexp.protocol.seeds import Phase
from rlexp.records.events import Ending, RunEnded, RunStarted
from rlexp.records.run import RunRecord, State
from rlexp.store.journal import JournalWriter
from rlexp.store.layout import AttemptPaths, ExperimentPaths
from rlexp.store.run_queue import RunOrder, remove_order, write_order
from rlexp.store.runs import new_attempt, read_run

LOOKS = 20
"""Polls after which the test fails."""


@dataclass(slots=True)
class Worker(PullSession):
    """A worker of one run, whose attempt ends when the command polls for the first time."""

    experiment: ExperimentPaths = field(kw_only=True)
    run: str = field(kw_only=True)
    attempt: AttemptPaths | None = None
    looks: int = 0

    def begin(self) -> None:
        """Begin the attempt for an order of an earlier command."""
        self.attempt = new_attempt(self.experiment.run(self.run), {}, {}, "")

    def poll(self, seconds: float) -> list[Gone]:
        """End the attempt at the first poll, and remove the order that exists by then."""
        self.looks += 1
        assert self.looks < LOOKS, "the command waits for an attempt that is over"
        if self.looks == 1 and self.attempt is not None:
            with closing(JournalWriter(self.attempt.journal)) as journal:
                journal.append(RunStarted(time=0.0, attempt=1, pid=1, host="here"))
                journal.append(
                    RunEnded(time=1.0, step=1, ending=Ending.COMPLETED, seconds=1.0, weights="0")
                )
            remove_order(self.experiment, self.run)
        return []


@dataclass(slots=True)
class RecordingWatcher(SilentWatcher):
    """A watcher that keeps the records of the runs that ended."""

    records: list[RunRecord] = field(default_factory=list)

    def ended(self, record: RunRecord, *, again: bool) -> None:
        """Keep a record."""
        assert not again
        self.records.append(record)


@pytest.mark.parametrize("begins", ["before the reading", "before the order"])
def test_an_attempt_that_began_around_the_order_answers_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, begins: str
) -> None:
    """An attempt that a worker began before the order was written completes the run."""
    spec = configuration().spec(Phase.TEST, 0, 0)
    paths = ExperimentPaths(tmp_path / "sample")
    worker, watcher = Worker(slots=1, experiment=paths, run=spec.name), RecordingWatcher()

    def begin_and_write(paths: ExperimentPaths, run: str, order: RunOrder) -> None:
        worker.begin()
        write_order(paths, run, order)

    if begins == "before the order":
        monkeypatch.setattr(remote_loop, "write_order", begin_and_write)
    else:
        worker.begin()
    Dispatch(
        experiment=paths,
        session=worker,
        jobs=Jobs(worker, 1, lambda _: None, lambda: 0.0),
        grace=1.0,
        orders=lambda _: AttemptSettings(settings={}, provenance={}, patch="", timeout=None),
        command=("rlexp", "run"),
        claim=claim_run,
        watcher=watcher,
        asked_to_stop=lambda: False,
        left=lambda: False,
        monotonic=lambda: 0.0,
        now=lambda: 0.0,
    ).close_gap(RunList(deque([spec])))
    assert [State.COMPLETED] == [record.state for record in watcher.records]
    assert 1 == read_run(paths.run(spec.name), spec).record.attempts
