"""Runs on disk: what is written is read, and the states of runs whose processes die."""

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from holders import holder_of
from samples import configuration, ended, evaluated, experiment, spec, started

from rlexp.errors import ConfigError, RecordError
from rlexp.protocol.seeds import Phase, SeedPlan
from rlexp.records.events import Ending, Event, Failure
from rlexp.records.run import State
from rlexp.store.journal import JournalWriter
from rlexp.store.layout import AttemptPaths, ExperimentPaths, RunPaths
from rlexp.store.runs import (
    folder_size,
    new_attempt,
    read_experiment,
    read_run,
    read_runs,
    read_spec,
    write_experiment,
    write_run,
    write_verdict,
)

SPEC = spec()


@pytest.fixture
def paths(tmp_path: Path) -> RunPaths:
    """A run that is planned."""
    paths = RunPaths(tmp_path / "it's a study" / SPEC.name)
    write_run(paths, SPEC)
    return paths


@pytest.fixture
def question(tmp_path: Path) -> ExperimentPaths:
    """Where an experiment is written."""
    return ExperimentPaths(tmp_path / "question")


def attempt(paths: RunPaths, *events: Event) -> AttemptPaths:
    """The next attempt, with these events."""
    made = new_attempt(paths, {"timeout": None}, {"command": ["rlexp"]}, "")
    writer = JournalWriter(made.journal)
    for event in events:
        writer.append(event)
    writer.close()
    return made


def change(path: Path, **changes: Any) -> None:
    """Write other values into a file of JSON; `...` takes a key away."""
    plain = {**json.loads(path.read_text()), **changes}
    path.write_text(json.dumps({k: v for k, v in plain.items() if v is not ...}))


def test_an_experiment_is_read_as_it_was_asked(question: ExperimentPaths) -> None:
    """But for how it is executed, which is no part of the question."""
    seeds = SeedPlan(root=5, tuning=(7, 3), selection=0, test=4)
    asked = replace(experiment(configuration("ppo"), configuration("a2c")), seeds=seeds)
    write_experiment(question, asked)
    read = read_experiment(question)
    assert (asked, asked.fingerprint) == (read, read.fingerprint)
    operational = replace(asked, configurations=(configuration(timeout=1.0),))
    write_experiment(question, operational)
    assert (configuration(),) == read_experiment(question).configurations


@pytest.mark.parametrize(
    "changes",
    [
        {"seeds": ...},
        {"seeds": 5},
        {"seeds": {"root": 0}},
        {"configurations": ...},
        {"configurations": 5},
        {"configurations": ["ppo"]},
        {"configurations": [{}]},
        {"failures": ...},
        {"name": ...},
    ],
)
def test_a_damaged_experiment_is_named(question: ExperimentPaths, changes: dict[str, Any]) -> None:
    """Whatever is missing from it or of another kind."""
    write_experiment(question, experiment())
    change(question.definition, **changes)
    with pytest.raises(RecordError, match=r"experiment.json is damaged"):
        read_experiment(question)


def test_a_question_that_contradicts_itself_is_an_error_of_one_line(
    question: ExperimentPaths,
) -> None:
    """Even where somebody edited the file by hand."""
    write_experiment(question, experiment())
    change(question.definition, seeds={"root": 0, "tuning": [1], "selection": 0, "test": [1]})
    with pytest.raises((RecordError, ConfigError)) as caught:
        read_experiment(question)
    assert "\n" not in str(caught.value)


def test_a_run_is_known_by_its_specification(paths: RunPaths) -> None:
    """What was written is read."""
    assert SPEC == read_spec(paths)


def test_a_run_that_is_there_stays_as_it_is(paths: RunPaths) -> None:
    """A command that is repeated rewrites nothing."""
    before = paths.spec.stat().st_mtime_ns, paths.spec.read_bytes()
    write_run(paths, SPEC)
    assert before == (paths.spec.stat().st_mtime_ns, paths.spec.read_bytes())


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"seed": 1}, "was changed: its content no longer has its id"),
        ({"algorithm": {"gamma": 0.5}}, "was changed"),
        ({"id": ...}, "was changed"),
        ({"root": float("nan")}, "is damaged"),
        ({"phase": "training"}, "is damaged"),
        ({"budget": ...}, "is damaged"),
        ({"schema": 7}, "is not of schema version 1"),
    ],
)
def test_a_specification_that_was_changed_is_refused(
    paths: RunPaths, changes: dict[str, Any], message: str
) -> None:
    """A score never stands under a configuration that did not make it."""
    change(paths.spec, **changes)
    with pytest.raises(RecordError, match=message):
        read_run(paths)


def test_a_run_without_attempts_is_planned(paths: RunPaths) -> None:
    """Its folder is all there is."""
    stored = read_run(paths)
    assert (State.PLANNED, 0, paths) == (stored.record.state, stored.record.attempts, stored.paths)


def test_attempts_are_folded_in_order(paths: RunPaths) -> None:
    """The tenth comes after the ninth."""
    for number in range(1, 10):
        attempt(paths, started(number), ended(ending=Ending.INTERRUPTED))
    attempt(paths, started(10), evaluated(100, 3.0, final=True), ended())
    record = read_run(paths).record
    assert (10, State.COMPLETED, 3.0) == (record.attempts, record.state, record.score)


def test_a_run_is_running_while_a_process_holds_it(paths: RunPaths) -> None:
    """And lost as soon as that process is killed."""
    attempt(paths, started(), evaluated(10, 1.0))
    with holder_of(paths.lease) as process:
        assert State.RUNNING is read_run(paths).record.state
        process.close()
        assert State.LOST is read_run(paths).record.state


def test_a_run_that_ended_is_not_running_for_a_process_that_still_lives(paths: RunPaths) -> None:
    """The journal says more than the lease."""
    attempt(paths, started(), ended(ending=Ending.PRUNED))
    with holder_of(paths.lease):
        assert State.PRUNED is read_run(paths).record.state


def test_a_verdict_ends_an_attempt_that_could_not(paths: RunPaths) -> None:
    """Who watched the process says how it died."""
    made = attempt(paths, started(), evaluated(10, 1.0))
    write_verdict(made, ended(10, failure=Failure.OUT_OF_MEMORY))
    record = read_run(paths).record
    assert (State.FAILED, Failure.OUT_OF_MEMORY, 1, 1) == (
        record.state,
        record.failure,
        record.machine_failures,
        len(record.evaluations),
    )


def test_an_attempt_that_ended_itself_needs_no_verdict(paths: RunPaths) -> None:
    """Its own word counts."""
    made = attempt(paths, started(), evaluated(100, 2.0, final=True), ended())
    write_verdict(made, ended(failure=Failure.CRASHED))
    assert 2.0 == read_run(paths).record.score


def test_a_damaged_verdict_says_nothing(paths: RunPaths) -> None:
    """The run is lost, as without it."""
    made = attempt(paths, started())
    made.verdict.write_text('{"schema": 1, "event": "ended"}')
    assert State.LOST is read_run(paths).record.state


def test_an_attempt_that_died_before_its_first_line_is_judged_too(paths: RunPaths) -> None:
    """There is no journal then, only the verdict."""
    made = new_attempt(paths, {}, {}, "")
    assert State.LOST is read_run(paths).record.state
    write_verdict(made, ended(0, failure=Failure.CRASHED))
    assert (State.FAILED, 1) == (read_run(paths).record.state, read_run(paths).record.attempts)


def test_a_late_line_of_an_earlier_attempt_is_refused(paths: RunPaths) -> None:
    """A process that was thought dead and finishes changes nothing any more."""
    first = attempt(paths, started(1))
    attempt(paths, started(2), evaluated(10, 1.0))
    with first.journal.open("ab") as late:
        source = JournalWriter(first.journal.with_name("late"))
        for event in (evaluated(100, 9.0, final=True), ended()):
            source.append(event)
        source.close()
        late.write(first.journal.with_name("late").read_bytes())
    record = read_run(paths).record
    assert (State.LOST, None, [1.0]) == (
        record.state,
        record.score,
        [e.mean for e in record.evaluations],
    )


def test_what_could_not_be_read_is_counted(paths: RunPaths) -> None:
    """Torn and quarantined lines of all attempts."""
    for number in (1, 2):
        made = attempt(paths, started(number))
        with made.journal.open("ab") as file:
            file.write(b"damage\n{torn")
    stored = read_run(paths)
    assert (2, 2, State.LOST) == (stored.torn, stored.quarantined, stored.record.state)


def test_an_end_that_was_torn_is_no_end(paths: RunPaths) -> None:
    """A run whose last line is half there did not complete."""
    made = attempt(paths, started(), evaluated(100, 2.0, final=True), ended())
    content = made.journal.read_bytes()
    for size in range(content.rindex(b"\n", 0, -1) + 1, len(content)):
        made.journal.write_bytes(content[:size])
        record = read_run(paths).record
        assert (State.LOST, None) == (record.state, record.score)


def test_measurements_are_read_when_asked_for(paths: RunPaths) -> None:
    """Without them reading is quick, and nothing else differs."""
    made = attempt(paths, started())
    with made.journal.open("ab") as file:
        file.write(b'{"event":"measured","time":1.0,"step":5,"metrics":{"loss":"nan"}}\n')
    assert () == read_run(paths).record.measurements
    (measured,) = read_run(paths, measurements=True).record.measurements
    assert (5, "nan") == (measured.step, str(measured.metrics["loss"]))


def test_the_number_of_an_attempt_is_granted_once(paths: RunPaths) -> None:
    """It is the fencing token, also where earlier attempts were removed."""
    made = [attempt(paths), attempt(paths)]
    made[0].folder.rename(made[0].folder.with_name("removed"))
    made.append(attempt(paths))
    assert [1, 2, 3] == [one.number for one in made]


def test_an_attempt_says_what_it_was_asked_and_where_it_comes_from(paths: RunPaths) -> None:
    """Uncommitted changes are kept beside it, if there are any."""
    clean = new_attempt(paths, {"timeout": 5.0}, {"command": ["a b"]}, "")
    dirty = new_attempt(paths, {}, {}, "diff\n")
    assert 5.0 == json.loads(clean.settings.read_text())["timeout"]
    assert ["a b"] == json.loads(clean.provenance.read_text())["command"]
    assert (False, "diff\n") == (clean.patch.exists(), dirty.patch.read_text())


def test_a_request_to_stop_does_not_outlive_its_attempt(paths: RunPaths) -> None:
    """The next attempt was asked for after it."""
    paths.stop.write_text("{}")
    attempt(paths)
    assert not paths.stop.exists()


def test_what_cannot_be_read_hides_nothing_else(tmp_path: Path) -> None:
    """Damaged runs are named, the others are read."""
    places = [RunPaths(tmp_path / name) for name in ("a", "b", "c")]
    for place in places:
        write_run(place, SPEC)
    places[1].spec.write_text("{")
    runs, damaged = read_runs(places)
    assert [places[0], places[2]] == [run.paths for run in runs]
    assert [True] == [str(places[1].spec) in text for text in damaged]


def test_the_phase_is_a_phase_again(paths: RunPaths) -> None:
    """A record of a test is never taken for anything else."""
    assert Phase.TEST is read_spec(paths).phase


def test_the_size_of_a_folder_is_that_of_its_files(tmp_path: Path) -> None:
    """Links count as themselves, so that a loop has an end."""
    (tmp_path / "a").mkdir()
    (tmp_path / "a" / "x").write_bytes(b"12345")
    (tmp_path / "y").write_bytes(b"123")
    (tmp_path / "loop").symlink_to(tmp_path)
    link = (tmp_path / "loop").lstat().st_size
    assert 8 <= folder_size(tmp_path) <= 8 + link
