"""A command sees every run that it orders to its end, whenever a worker began the run."""

from collections import deque
from collections.abc import Callable, Sequence
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
from rlexp.executors import Batch, Gone
from rlexp.executors.pull import PullSession
from rlexp.protocol.seeds import Phase
from rlexp.records.events import Ending, RunEnded, RunStarted
from rlexp.records.ledger import SealedAttempt
from rlexp.records.run import RunRecord, State
from rlexp.store import runs
from rlexp.store.journal import JournalWriter
from rlexp.store.layout import AttemptPaths, ExperimentPaths, RunPaths
from rlexp.store.locks.lease import Lease
from rlexp.store.registers.ledger import read_ledger
from rlexp.store.run_queue import RunOrder, remove_order, write_order
from rlexp.store.runs import new_attempt, read_run

LOOKS = 20
"""Polls after which the test fails."""


@dataclass(slots=True)
class Worker(PullSession):
    """A worker of one run, whose attempt ends when the command polls for the first time.

    Attributes:
        claims: Whether the worker holds the claim of the run until its attempt ends.
        job: The job of an earlier command that started the worker; it is gone with the attempt.
    """

    experiment: ExperimentPaths = field(kw_only=True)
    run: str = field(kw_only=True)
    claims: bool = False
    job: str | None = None
    attempt: AttemptPaths | None = None
    claim: Lease | None = None
    looks: int = 0
    submitted: list[str] = field(default_factory=list)

    def begin(self) -> None:
        """Begin the attempt for an order of an earlier command."""
        paths = self.experiment.run(self.run)
        if self.claims:
            paths.folder.mkdir(parents=True, exist_ok=True)
            self.claim = claim_run(paths, lambda: None)
        self.attempt = new_attempt(paths, {}, {}, "")

    def earlier_jobs(self) -> list[Batch]:
        """The job that started the worker."""
        return [Batch(self.job, (self.run,))] if self.job else []

    def submit(self, batches: Sequence[Batch]) -> None:
        """Record the jobs of the command."""
        self.submitted += [batch.key for batch in batches]

    def poll(self, seconds: float) -> list[Gone]:
        """End the attempt at the first poll, and remove the order that exists by then."""
        self.looks += 1
        assert self.looks < LOOKS, "the command waits for an attempt that is over"
        if self.looks == 1 and self.attempt is not None:
            end_attempt(self.attempt)
            if self.claim is not None:
                self.claim.release()
            remove_order(self.experiment, self.run)
        if self.looks == 1 and self.job is not None:
            return [Gone(self.job, "job 7 ended")]
        return [Gone(key, "it failed") for key in self.submitted[-1:]]


def end_attempt(attempt: AttemptPaths) -> None:
    """Write the journal of a completed attempt."""
    with closing(JournalWriter(attempt.journal)) as journal:
        journal.append(RunStarted(time=0.0, attempt=attempt.number, pid=1, host="here"))
        journal.append(
            RunEnded(time=1.0, step=1, ending=Ending.COMPLETED, seconds=1.0, weights="0")
        )


@dataclass(slots=True)
class RecordingWatcher(SilentWatcher):
    """A watcher that keeps the records of the runs that ended, and whether they go on."""

    records: list[RunRecord] = field(default_factory=list)
    again: list[bool] = field(default_factory=list)

    def ended(self, record: RunRecord, *, again: bool) -> None:
        """Keep a record."""
        self.records.append(record)
        self.again.append(again)


SPEC = configuration().spec(Phase.TEST, 0, 0)


def dispatch(
    worker: Worker, asked_to_stop: Callable[[], bool] = lambda: False
) -> RecordingWatcher:
    """Order the run from a worker; returns the records of its attempts that ended."""
    watcher = RecordingWatcher()
    Dispatch(
        experiment=worker.experiment,
        session=worker,
        jobs=Jobs(worker, 1, lambda _: None, lambda: 0.0),
        grace=1.0,
        orders=lambda _: AttemptSettings(settings={}, provenance={}, patch="", timeout=None),
        command=("rlexp", "run"),
        claim=claim_run,
        watcher=watcher,
        asked_to_stop=asked_to_stop,
        left=lambda: False,
        monotonic=lambda: 0.0,
        now=lambda: 0.0,
    ).close_gap(RunList(deque([SPEC])))
    return watcher


def sealed(experiment: ExperimentPaths) -> list[tuple[int, str]]:
    """The number and the ending of each attempt in the ledger."""
    ledger = read_ledger(experiment)
    entries = ledger.entries if ledger else ()
    return [(e.attempt, e.ending) for e in entries if isinstance(e, SealedAttempt)]


@pytest.mark.parametrize("begins", ["before the reading", "before the order"])
@pytest.mark.parametrize("claims", [True, False], ids=["claimed", "unclaimed"])
@pytest.mark.parametrize("job", [None, "earlier"])
def test_an_attempt_that_began_around_the_order_answers_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, begins: str, claims: bool, job: str | None
) -> None:
    """An attempt that a worker began before the order completes the run, also if its job is gone."""
    paths = ExperimentPaths(tmp_path / "sample")
    worker = Worker(slots=1, experiment=paths, run=SPEC.name, claims=claims, job=job)

    def begin_and_write(paths: ExperimentPaths, run: str, order: RunOrder) -> None:
        worker.begin()
        write_order(paths, run, order)

    if begins == "before the order":
        monkeypatch.setattr(remote_loop, "write_order", begin_and_write)
    else:
        worker.begin()
    watcher = dispatch(worker)
    assert [State.COMPLETED] == [record.state for record in watcher.records]
    assert [False] == watcher.again
    assert 1 == read_run(paths.run(SPEC.name), SPEC).record.attempts
    assert [(1, "completed")] == sealed(paths)


def test_an_attempt_that_ends_while_it_is_read_is_not_lost(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A run that ends between the reading of its journal and of its leases is completed."""
    paths = ExperimentPaths(tmp_path / "sample")
    worker = Worker(slots=1, experiment=paths, run=SPEC.name)
    worker.begin()

    def end_and_look(paths: RunPaths) -> bool:
        end_attempt(paths.attempt(1))
        return False

    monkeypatch.setattr(runs, "is_taken", end_and_look)
    assert State.COMPLETED is read_run(paths.run(SPEC.name), SPEC).record.state


def test_the_job_of_an_earlier_command_ends_without_a_crash(tmp_path: Path) -> None:
    """A run whose earlier job ends without an attempt gets a new job, and no attempt is blamed."""
    paths = ExperimentPaths(tmp_path / "sample")
    worker = Worker(slots=1, experiment=paths, run=SPEC.name, job="earlier")
    watcher = dispatch(worker)
    assert [State.PLANNED, *[State.FAILED] * 3] == [record.state for record in watcher.records]
    assert [True, True, True, False] == watcher.again
    assert 3 == len(worker.submitted)
    assert [(number, "failed") for number in (1, 2, 3)] == sealed(paths)


def test_a_run_that_ends_at_a_stop_is_reported(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A run whose attempt begins and ends between two readings is reported, also at a stop."""
    paths = ExperimentPaths(tmp_path / "sample")
    worker = Worker(slots=1, experiment=paths, run=SPEC.name)

    def end_and_look(paths: RunPaths) -> bool:
        if not paths.attempts():
            end_attempt(new_attempt(paths, {}, {}, ""))
        return False

    monkeypatch.setattr(remote_loop, "is_taken", end_and_look)
    watcher = dispatch(worker, asked_to_stop=lambda: worker.looks > 0)
    assert [State.COMPLETED] == [record.state for record in watcher.records]
    assert [False] == watcher.again
