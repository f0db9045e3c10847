"""What ended is entered in the ledger, once, and by whichever command can."""

import os
import shutil
import time
from collections.abc import Sequence
from contextlib import closing
from pathlib import Path

import pytest
from samples import ended, evaluated, spec, started

from rlexp.records.events import Ending, Event, Failure
from rlexp.records.ledger import Entry, RemovedRun, SealedAttempt
from rlexp.store.journal import JournalWriter
from rlexp.store.layout import ExperimentPaths, RunPaths
from rlexp.store.lease import hold
from rlexp.store.ledger import read_ledger, sum_of_file
from rlexp.store.ledger_writer import LOST, LedgerWriter, ended_attempts, seal_ended_attempts
from rlexp.store.runs import new_attempt, write_run, write_verdict

ENDED: tuple[Event, ...] = (evaluated(100, 1.0, final=True), ended())


@pytest.fixture
def paths(tmp_path: Path) -> ExperimentPaths:
    """An experiment without runs."""
    return ExperimentPaths(tmp_path / "x")


def tried(
    paths: ExperimentPaths, seed: int, events: Sequence[Event], *, patch: str = ""
) -> RunPaths:
    """A run with one attempt more."""
    run = paths.run(spec(seed).name)
    write_run(run, spec(seed))
    attempt = new_attempt(run, {}, {}, patch)
    with closing(JournalWriter(attempt.journal)) as journal:
        for event in (started(attempt.number), *events):
            journal.append(event)
    return run


def entries(paths: ExperimentPaths) -> list[Entry | None]:
    """What the ledger holds; its chain is whole."""
    ledger = read_ledger(paths)
    if ledger is None:
        return []
    assert ledger.breaks == ()
    return list(ledger.entries)


def sealed(paths: ExperimentPaths) -> list[tuple[str, int, str, bool]]:
    """Run, attempt, ending and lateness of every attempt that was entered, in order."""
    results = [e for e in entries(paths) if isinstance(e, SealedAttempt)]
    return [(e.run, e.attempt, e.ending, e.late) for e in results]


def test_a_completed_attempt_is_entered_with_all_its_files(paths: ExperimentPaths) -> None:
    """The policy is one of them; the log and the progress are none."""
    run = tried(paths, 0, ENDED, patch="a change")
    for name in ("model.zip", "normalisation.npz", "attempts/1/log.txt"):
        (run.folder / name).write_text(name)
    LedgerWriter(paths).enter(run, 1)
    (entry,) = entries(paths)
    assert isinstance(entry, SealedAttempt)
    names = ("events.jsonl", "attempt.json", "provenance.json", "diff.patch")
    own = {"spec.json", "model.zip", "normalisation.npz", *(f"attempts/1/{n}" for n in names)}
    assert own == set(entry.files)
    assert {n: sum_of_file(run.folder / n) for n in own} == entry.files
    assert (run.folder.name, spec(0).id, 1) == (entry.run, entry.id, entry.attempt)
    assert ("completed", False) == (entry.ending, entry.late)


def test_what_did_not_complete_has_no_policy(paths: ExperimentPaths) -> None:
    """One that lies there may be overwritten by the next attempt; the verdict counts."""
    run = tried(paths, 0, [])
    (run.folder / "model.zip").write_text("half-way")
    write_verdict(run.attempt(1), ended(40, failure=Failure.CRASHED))
    LedgerWriter(paths).enter(run, 1)
    (entry,) = entries(paths)
    assert isinstance(entry, SealedAttempt)
    assert "failed" == entry.ending
    assert {"spec.json", "attempts/1/verdict.json"} < set(entry.files)
    assert "model.zip" not in entry.files


def test_an_attempt_that_nobody_saw_end_is_entered_with_its_successor(
    paths: ExperimentPaths,
) -> None:
    """Before that, its process may still be dying."""
    run = tried(paths, 0, [evaluated(10, 1.0)])
    seals = LedgerWriter(paths)
    seals.enter_late()
    assert [] == sealed(paths)
    tried(paths, 0, ENDED)
    seals.enter(run, 2)
    name = run.folder.name
    assert [(name, 1, LOST, True), (name, 2, "completed", False)] == sealed(paths)


def test_an_attempt_without_an_end_is_not_over_while_the_run_is_held(
    paths: ExperimentPaths,
) -> None:
    """Its process may be the one that holds it: the one after may have been refused."""
    run = tried(paths, 0, [])
    tried(paths, 0, [ended(0, failure=Failure.CRASHED)])
    with hold(run.lease, "run", now=time.time()):
        assert [2] == [a.paths.number for a in ended_attempts(run)]
    assert [1, 2] == [a.paths.number for a in ended_attempts(run)]


def test_what_ended_unseen_is_entered_late_and_once(paths: ExperimentPaths) -> None:
    """By the next command that drives the experiment, and by no other one after it."""
    first, second = tried(paths, 0, ENDED), tried(paths, 1, [ended(5, Ending.INTERRUPTED)])
    LedgerWriter(paths).enter(first, 1)
    for _ in range(2):
        LedgerWriter(paths).enter_late()
        assert [
            (first.folder.name, 1, "completed", False),
            (second.folder.name, 1, "interrupted", True),
        ] == sealed(paths)


def test_an_attempt_that_was_edited_is_not_entered_again(paths: ExperimentPaths) -> None:
    """The first entry is the one that counts."""
    run = tried(paths, 0, ENDED)
    LedgerWriter(paths).enter(run, 1)
    run.attempt(1).journal.write_text("edited")
    LedgerWriter(paths).enter_late()
    assert 1 == len(entries(paths))


def test_a_run_that_is_gone_is_entered_as_that(paths: ExperimentPaths) -> None:
    """Once; when it is made anew, its attempts are entered anew."""
    run = tried(paths, 0, ENDED)
    LedgerWriter(paths).enter(run, 1)
    shutil.rmtree(run.folder)
    for _ in range(2):
        LedgerWriter(paths).enter_late()
    assert [RemovedRun(run=run.folder.name, late=True)] == entries(paths)[1:]
    tried(paths, 0, ENDED)
    LedgerWriter(paths).enter_late()
    assert 2 == len(sealed(paths))


def test_a_run_that_cannot_be_read_hinders_no_other(paths: ExperimentPaths) -> None:
    """Neither a specification that is damaged nor a journal that is a folder."""
    (tried(paths, 0, ENDED).folder / "spec.json").write_text("{")
    journal = tried(paths, 1, ENDED).attempt(1).journal
    journal.unlink()
    journal.mkdir()
    name = tried(paths, 2, ENDED).folder.name
    LedgerWriter(paths).enter_late()
    assert [(name, 1, "completed", True)] == sealed(paths)


def test_what_cannot_be_entered_now_is_entered_later(paths: ExperimentPaths) -> None:
    """A ledger that cannot be written stops nothing."""
    first, second = tried(paths, 0, ENDED), tried(paths, 1, ENDED)
    paths.ledger.mkdir()
    seals = LedgerWriter(paths)
    seals.enter_late()
    seals.enter(first, 1)
    paths.ledger.rmdir()
    assert [] == sealed(paths)
    seals.enter(second, 1)
    LedgerWriter(paths).enter_late()
    assert [False, True] == [late for *_, late in sealed(paths)]


def test_a_command_that_has_nothing_to_run_enters_too(paths: ExperimentPaths) -> None:
    """Unless another one drives the experiment, which does it itself."""
    tried(paths, 0, ENDED)
    with hold(paths.lock, "experiment", now=time.time()):
        seal_ended_attempts(paths, now=time.time())
        assert [] == sealed(paths)
    seal_ended_attempts(paths, now=time.time())
    assert 1 == len(sealed(paths))


def test_a_run_with_more_attempts_than_are_entered_is_looked_at(paths: ExperimentPaths) -> None:
    """One whose attempts are as many as the ledger has is not."""
    run = tried(paths, 0, ENDED)
    LedgerWriter(paths).enter(run, 1)
    tried(paths, 0, ENDED)
    seal_ended_attempts(paths, now=time.time(), counted={run.folder.name: 1})
    assert 1 == len(sealed(paths))
    seal_ended_attempts(paths, now=time.time(), counted={run.folder.name: 2})
    assert 2 == len(sealed(paths))
    shutil.rmtree(run.attempt(1).folder)
    tried(paths, 0, ENDED)
    seal_ended_attempts(paths, now=time.time(), counted={run.folder.name: 2})
    assert 3 == len(sealed(paths))


def test_where_everything_is_entered_nothing_is_written(paths: ExperimentPaths) -> None:
    """Not even the lock is taken."""
    LedgerWriter(paths).enter(tried(paths, 0, ENDED), 1)
    paths.lock.unlink(missing_ok=True)
    before = {p: p.stat().st_mtime_ns for p in paths.folder.rglob("*")}
    seal_ended_attempts(paths, now=time.time())
    assert before == {p: p.stat().st_mtime_ns for p in paths.folder.rglob("*")}
    assert not os.path.lexists(paths.lock)
