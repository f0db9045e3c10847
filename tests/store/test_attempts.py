"""Attempts on disk: the states of runs whose processes die, and results that come late."""

import json
from pathlib import Path

import pytest
from holders import holder_of
from samples import ended, evaluated, spec, started

from rlexp.records.events import Ending, Event, Failure
from rlexp.records.run import State
from rlexp.store.journal import JournalWriter
from rlexp.store.layout import AttemptPaths, RunPaths
from rlexp.store.runs import (
    new_attempt,
    read_run,
    write_run,
    write_verdict,
)

SPEC = spec()


@pytest.fixture
def paths(tmp_path: Path) -> RunPaths:
    """A planned run."""
    paths = RunPaths(tmp_path / "it's a study" / SPEC.name)
    write_run(paths, SPEC)
    return paths


def attempt(paths: RunPaths, *events: Event) -> AttemptPaths:
    """Create the next attempt of a run with these events."""
    attempt_paths = new_attempt(paths, {"timeout": None}, {"command": ["rlexp"]}, "")
    writer = JournalWriter(attempt_paths.journal)
    for event in events:
        writer.append(event)
    writer.close()
    return attempt_paths


def test_attempts_are_folded_in_order(paths: RunPaths) -> None:
    """Attempts are folded by number: attempt 10 comes after attempt 9."""
    for number in range(1, 10):
        attempt(paths, started(number), ended(ending=Ending.INTERRUPTED))
    attempt(paths, started(10), evaluated(100, 3.0, final=True), ended())
    record = read_run(paths).record
    assert (10, State.COMPLETED, 3.0) == (record.attempts, record.state, record.score)


def test_a_run_is_running_while_a_process_holds_it(paths: RunPaths) -> None:
    """A run with a held lease is running; once its process is killed, the run is lost."""
    attempt(paths, started(), evaluated(10, 1.0))
    with holder_of(paths.lease) as process:
        assert State.RUNNING is read_run(paths).record.state
        process.close()
        assert State.LOST is read_run(paths).record.state


def test_a_run_that_ended_is_not_running_for_a_process_that_still_lives(paths: RunPaths) -> None:
    """A journal with an end outweighs a held lease."""
    attempt(paths, started(), ended(ending=Ending.PRUNED))
    with holder_of(paths.lease):
        assert State.PRUNED is read_run(paths).record.state


def test_a_verdict_ends_an_attempt_that_could_not(paths: RunPaths) -> None:
    """The verdict of the supervisor ends an attempt whose journal has no end."""
    attempt_paths = attempt(paths, started(), evaluated(10, 1.0))
    write_verdict(attempt_paths, ended(10, failure=Failure.OUT_OF_MEMORY))
    record = read_run(paths).record
    assert (State.FAILED, Failure.OUT_OF_MEMORY, 1, 1) == (
        record.state,
        record.failure,
        record.machine_failures,
        len(record.evaluations),
    )


def test_an_attempt_that_ended_itself_needs_no_verdict(paths: RunPaths) -> None:
    """The end in the journal outweighs a verdict."""
    attempt_paths = attempt(paths, started(), evaluated(100, 2.0, final=True), ended())
    write_verdict(attempt_paths, ended(failure=Failure.CRASHED))
    assert 2.0 == read_run(paths).record.score


def test_a_damaged_verdict_says_nothing(paths: RunPaths) -> None:
    """A run with a damaged verdict is lost, as without a verdict."""
    attempt_paths = attempt(paths, started())
    attempt_paths.verdict.write_text('{"schema": 1, "event": "ended"}')
    assert State.LOST is read_run(paths).record.state


def test_an_attempt_that_died_before_its_first_line_is_judged_too(paths: RunPaths) -> None:
    """An attempt without a journal can have a verdict."""
    attempt_paths = new_attempt(paths, {}, {}, "")
    assert State.LOST is read_run(paths).record.state
    write_verdict(attempt_paths, ended(0, failure=Failure.CRASHED))
    assert (State.FAILED, 1) == (read_run(paths).record.state, read_run(paths).record.attempts)


def test_a_late_line_of_an_earlier_attempt_is_refused(paths: RunPaths) -> None:
    """A line that an earlier attempt writes after the next attempt began does not count."""
    first = attempt(paths, started(1))
    attempt(paths, started(2), evaluated(10, 1.0))
    with first.journal.open("ab") as journal:
        source = JournalWriter(first.journal.with_name("late"))
        for event in (evaluated(100, 9.0, final=True), ended()):
            source.append(event)
        source.close()
        journal.write(first.journal.with_name("late").read_bytes())
    record = read_run(paths).record
    assert (State.LOST, None, [1.0]) == (
        record.state,
        record.score,
        [e.mean for e in record.evaluations],
    )


def test_unreadable_lines_are_counted(paths: RunPaths) -> None:
    """Torn and quarantined lines of all attempts are counted."""
    for number in (1, 2):
        attempt_paths = attempt(paths, started(number))
        with attempt_paths.journal.open("ab") as file:
            file.write(b"damage\n{torn")
    stored = read_run(paths)
    assert (2, 2, State.LOST) == (stored.torn, stored.quarantined, stored.record.state)


def test_a_torn_end_is_no_end(paths: RunPaths) -> None:
    """A run whose last line is incomplete has not completed."""
    attempt_paths = attempt(paths, started(), evaluated(100, 2.0, final=True), ended())
    content = attempt_paths.journal.read_bytes()
    for size in range(content.rindex(b"\n", 0, -1) + 1, len(content)):
        attempt_paths.journal.write_bytes(content[:size])
        record = read_run(paths).record
        assert (State.LOST, None) == (record.state, record.score)


def test_measurements_are_read_when_asked_for(paths: RunPaths) -> None:
    """Measurements are read on request only."""
    attempt_paths = attempt(paths, started())
    with attempt_paths.journal.open("ab") as file:
        file.write(b'{"event":"measured","time":1.0,"step":5,"metrics":{"loss":"nan"}}\n')
    assert () == read_run(paths).record.measurements
    (measured,) = read_run(paths, measurements=True).record.measurements
    assert (5, "nan") == (measured.step, str(measured.metrics["loss"]))


def test_the_number_of_an_attempt_is_granted_once(paths: RunPaths) -> None:
    """The number of a removed attempt is not used again, because it identifies the last writer."""
    attempts = [attempt(paths), attempt(paths)]
    attempts[0].folder.rename(attempts[0].folder.with_name("removed"))
    attempts.append(attempt(paths))
    assert [1, 2, 3] == [item.number for item in attempts]


def test_an_attempt_holds_its_settings_and_provenance(paths: RunPaths) -> None:
    """An attempt holds its settings, its provenance and uncommitted changes."""
    clean = new_attempt(paths, {"timeout": 5.0}, {"command": ["a b"]}, "")
    dirty = new_attempt(paths, {}, {}, "diff\n")
    assert 5.0 == json.loads(clean.settings.read_text())["timeout"]
    assert ["a b"] == json.loads(clean.provenance.read_text())["command"]
    assert (False, "diff\n") == (clean.patch.exists(), dirty.patch.read_text())


def test_a_request_to_stop_does_not_outlive_its_attempt(paths: RunPaths) -> None:
    """A new attempt removes an older stop request."""
    paths.stop.write_text("{}")
    attempt(paths)
    assert not paths.stop.exists()
