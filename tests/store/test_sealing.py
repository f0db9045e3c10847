"""Ended attempts are entered in the ledger once, by any command that can write it."""

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
from rlexp.store.ledger_writer import LOST, LedgerWriter, ended_attempts, seal_ended_attempts
from rlexp.store.locks.lease import hold
from rlexp.store.registers.ledger import read_ledger, sum_of_file
from rlexp.store.runs import new_attempt, write_run, write_verdict

ENDED: tuple[Event, ...] = (evaluated(100, 1.0, final=True), ended())


@pytest.fixture
def paths(tmp_path: Path) -> ExperimentPaths:
    """An experiment without runs."""
    return ExperimentPaths(tmp_path / "x")


def add_attempt(
    paths: ExperimentPaths, seed: int, events: Sequence[Event], *, patch: str = ""
) -> RunPaths:
    """Add an attempt with these events to a run."""
    run = paths.run(spec(seed).name)
    write_run(run, spec(seed))
    attempt = new_attempt(run, {}, {}, patch)
    with closing(JournalWriter(attempt.journal)) as journal:
        for event in (started(attempt.number), *events):
            journal.append(event)
    return run


def entries(paths: ExperimentPaths) -> list[Entry | None]:
    """The entries of the ledger, whose chain must be complete."""
    ledger = read_ledger(paths)
    if ledger is None:
        return []
    assert ledger.breaks == ()
    return list(ledger.entries)


def sealed_attempts(paths: ExperimentPaths) -> list[tuple[str, int, str, bool]]:
    """The run, number, ending and lateness of each attempt in the ledger, in order."""
    attempts = [e for e in entries(paths) if isinstance(e, SealedAttempt)]
    return [(e.run, e.attempt, e.ending, e.late) for e in attempts]


def test_a_completed_attempt_is_entered_with_all_its_files(paths: ExperimentPaths) -> None:
    """The entry of a completed attempt has the checksums of its files, without the log."""
    run = add_attempt(paths, 0, ENDED, patch="a change")
    for name in ("model.zip", "normalisation.npz", "attempts/1/log.txt"):
        (run.folder / name).write_text(name)
    LedgerWriter(paths).enter(run, 1)
    (entry,) = entries(paths)
    assert isinstance(entry, SealedAttempt)
    names = ("events.jsonl", "attempt.json", "provenance.json", "diff.patch")
    files = {"spec.json", "model.zip", "normalisation.npz", *(f"attempts/1/{n}" for n in names)}
    assert files == set(entry.files)
    assert {n: sum_of_file(run.folder / n) for n in files} == entry.files
    assert (run.folder.name, spec(0).id, 1) == (entry.run, entry.id, entry.attempt)
    assert ("completed", False) == (entry.ending, entry.late)


def test_a_failed_attempt_is_entered_without_its_policy(paths: ExperimentPaths) -> None:
    """The policy of a failed attempt is not entered, because the next attempt may replace it."""
    run = add_attempt(paths, 0, [])
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
    """An attempt without an end is entered as lost only once a later attempt has ended."""
    run = add_attempt(paths, 0, [evaluated(10, 1.0)])
    writer = LedgerWriter(paths)
    writer.enter_late()
    assert [] == sealed_attempts(paths)
    add_attempt(paths, 0, ENDED)
    writer.enter(run, 2)
    name = run.folder.name
    assert [(name, 1, LOST, True), (name, 2, "completed", False)] == sealed_attempts(paths)


def test_an_attempt_without_an_end_is_not_over_while_the_run_is_held(
    paths: ExperimentPaths,
) -> None:
    """An attempt without an end does not count as ended while a process holds the run."""
    run = add_attempt(paths, 0, [])
    add_attempt(paths, 0, [ended(0, failure=Failure.CRASHED)])
    with hold(run.lease, "run", now=time.time()):
        assert [2] == [a.paths.number for a in ended_attempts(run)]
    assert [1, 2] == [a.paths.number for a in ended_attempts(run)]


def test_a_missed_attempt_is_entered_late_and_once(paths: ExperimentPaths) -> None:
    """An attempt that ended unnoticed is entered late by the next command, and only once."""
    first, second = (
        add_attempt(paths, 0, ENDED),
        add_attempt(paths, 1, [ended(5, Ending.INTERRUPTED)]),
    )
    LedgerWriter(paths).enter(first, 1)
    for _ in range(2):
        LedgerWriter(paths).enter_late()
        assert [
            (first.folder.name, 1, "completed", False),
            (second.folder.name, 1, "interrupted", True),
        ] == sealed_attempts(paths)


def test_an_attempt_that_was_edited_is_not_entered_again(paths: ExperimentPaths) -> None:
    """An attempt that was edited after its entry is not entered again."""
    run = add_attempt(paths, 0, ENDED)
    LedgerWriter(paths).enter(run, 1)
    run.attempt(1).journal.write_text("edited")
    LedgerWriter(paths).enter_late()
    assert 1 == len(entries(paths))


def test_a_removed_run_is_entered_as_removed(paths: ExperimentPaths) -> None:
    """A removed run is entered once as removed; new attempts of the run are entered again."""
    run = add_attempt(paths, 0, ENDED)
    LedgerWriter(paths).enter(run, 1)
    shutil.rmtree(run.folder)
    for _ in range(2):
        LedgerWriter(paths).enter_late()
    assert [RemovedRun(run=run.folder.name, late=True)] == entries(paths)[1:]
    add_attempt(paths, 0, ENDED)
    LedgerWriter(paths).enter_late()
    assert 2 == len(sealed_attempts(paths))


def test_an_unreadable_run_does_not_stop_other_entries(paths: ExperimentPaths) -> None:
    """A damaged specification or journal of one run does not stop entries of other runs."""
    (add_attempt(paths, 0, ENDED).folder / "spec.json").write_text("{")
    journal = add_attempt(paths, 1, ENDED).attempt(1).journal
    journal.unlink()
    journal.mkdir()
    name = add_attempt(paths, 2, ENDED).folder.name
    LedgerWriter(paths).enter_late()
    assert [(name, 1, "completed", True)] == sealed_attempts(paths)


def test_an_entry_that_failed_is_repeated_later(paths: ExperimentPaths) -> None:
    """An attempt is entered later if the ledger cannot be written now."""
    first, second = add_attempt(paths, 0, ENDED), add_attempt(paths, 1, ENDED)
    paths.ledger.mkdir()
    writer = LedgerWriter(paths)
    writer.enter_late()
    writer.enter(first, 1)
    paths.ledger.rmdir()
    assert [] == sealed_attempts(paths)
    writer.enter(second, 1)
    LedgerWriter(paths).enter_late()
    assert [False, True] == [late for *_, late in sealed_attempts(paths)]


def test_a_command_that_has_nothing_to_run_enters_too(paths: ExperimentPaths) -> None:
    """A command without runs enters attempts, unless another command drives the experiment."""
    add_attempt(paths, 0, ENDED)
    with hold(paths.lock, "experiment", now=time.time()):
        seal_ended_attempts(paths, now=time.time())
        assert [] == sealed_attempts(paths)
    seal_ended_attempts(paths, now=time.time())
    assert 1 == len(sealed_attempts(paths))


def test_runs_with_missing_entries_are_found_by_count(paths: ExperimentPaths) -> None:
    """A run is skipped only if its counted attempts are all in the ledger and on disk."""
    run = add_attempt(paths, 0, ENDED)
    LedgerWriter(paths).enter(run, 1)
    add_attempt(paths, 0, ENDED)
    seal_ended_attempts(paths, now=time.time(), counted={run.folder.name: 1})
    assert 1 == len(sealed_attempts(paths))
    seal_ended_attempts(paths, now=time.time(), counted={run.folder.name: 2})
    assert 2 == len(sealed_attempts(paths))
    shutil.rmtree(run.attempt(1).folder)
    add_attempt(paths, 0, ENDED)
    seal_ended_attempts(paths, now=time.time(), counted={run.folder.name: 2})
    assert 3 == len(sealed_attempts(paths))


def test_a_complete_ledger_is_not_written(paths: ExperimentPaths) -> None:
    """If all attempts are entered, no file is written and the lock is not taken."""
    LedgerWriter(paths).enter(add_attempt(paths, 0, ENDED), 1)
    paths.lock.unlink(missing_ok=True)
    before = {p: p.stat().st_mtime_ns for p in paths.folder.rglob("*")}
    seal_ended_attempts(paths, now=time.time())
    assert before == {p: p.stat().st_mtime_ns for p in paths.folder.rglob("*")}
    assert not os.path.lexists(paths.lock)
