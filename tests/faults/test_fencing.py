"""Attempts that were superseded cannot change their run when they wake up."""

import hashlib
import json
import os
import signal
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import closing
from dataclasses import replace
from pathlib import Path

import pytest
from in_full import long
from samples import continued, ended, evaluated, spec, started
from studies import LONG, StudyFolder, new_study, wait_until

from rlexp.app.execution.run_process import GUARD_CHECK_EVERY, RunListener
from rlexp.records.checkpoint import MODEL, STATE, Checkpoint
from rlexp.records.events import Ending, Event, Failure, Measured, RunEnded
from rlexp.records.run import RunRecord, State
from rlexp.store.checkpoints import checkpoint_files, checkpoint_folders
from rlexp.store.checkpoints.checkpoint_files import publish_checkpoint
from rlexp.store.checkpoints.manifest import MANIFEST
from rlexp.store.files import publish
from rlexp.store.journal import JournalWriter
from rlexp.store.layout import AttemptPaths, ExperimentPaths, RunPaths
from rlexp.store.runs import new_attempt, read_attempts, read_run, write_run, write_verdict

SPEC = spec()
SHARED = {"locks": {"RLEXP_SHARED": ""}, "heartbeats": {"RLEXP_SHARED": "1"}}
QUICK = ("run", "experiment=x", "seeds.test=4", "budget.steps=3000")


@pytest.fixture
def paths(tmp_path: Path) -> RunPaths:
    """A run that is planned."""
    paths = RunPaths(tmp_path / SPEC.name)
    write_run(paths, SPEC)
    return paths


def attempt(paths: RunPaths, *events: Event) -> AttemptPaths:
    """Make the next attempt, with these events."""
    attempt_paths = new_attempt(paths, {"timeout": None}, {"command": ["rlexp"]}, "")
    append(attempt_paths, *events)
    return attempt_paths


def append(attempt_paths: AttemptPaths, *events: Event) -> None:
    """Append events, as a process does that has not noticed that it was superseded."""
    late_journal = attempt_paths.folder / f"late-{time.monotonic_ns()}"
    with closing(JournalWriter(late_journal)) as writer:
        for event in events:
            writer.append(event)
    with attempt_paths.journal.open("ab") as file:
        file.write(late_journal.read_bytes())
    late_journal.unlink()


def record_of(paths: RunPaths) -> RunRecord:
    """The record of the run, measurements included."""
    return read_run(paths, measurements=True).record


LATE: Mapping[str, list[Event]] = {
    "completed": [
        evaluated(90, 9.0),
        evaluated(100, 9.0, final=True),
        replace(ended(), time=1e12, weights="late"),
    ],
    "crashed": [replace(ended(80, failure=Failure.CRASHED), time=1e12)],
    "begun again": [started(1), Measured(time=1e12, step=70, metrics={"loss": 1.0})],
    "continued": [continued(50)],
}


@pytest.mark.parametrize("late", sorted(LATE))
@pytest.mark.parametrize(
    "second",
    [
        [],
        [started(2)],
        [started(2), evaluated(50, 1.0)],
        [started(2), evaluated(100, 2.0, final=True), replace(ended(), weights="second")],
        [started(2), continued(50), evaluated(60, 3.0)],
        [started(2), ended(0, ending=Ending.INTERRUPTED)],
    ],
)
def test_a_lower_attempt_that_goes_on_writing_changes_no_record(
    paths: RunPaths, second: list[Event], late: str
) -> None:
    """Late events of a superseded attempt do not change the record, whatever their time is."""
    first = attempt(paths, started(1), evaluated(50, 1.0))
    attempt(paths, *second)
    before = record_of(paths)
    append(first, *LATE[late])
    assert before == record_of(paths)


def test_a_late_verdict_changes_no_record(paths: RunPaths) -> None:
    """A late verdict on a superseded attempt is not written, and ignored if it exists."""
    first = attempt(paths, started(1), evaluated(50, 1.0))
    attempt(paths, started(2), evaluated(100, 2.0, final=True), ended())
    before = record_of(paths)
    write_verdict(first, ended(60, failure=Failure.CRASHED))
    assert not first.verdict.exists()
    first.verdict.write_text(
        json.dumps({"schema": 1, "event": "ended", "time": 9e9, "step": 60, "ending": "failed"})
    )
    assert before == record_of(paths)


def test_what_an_attempt_wrote_before_the_next_one_counts(paths: RunPaths) -> None:
    """Events and verdicts before the next attempt count, also if no fence was recorded."""
    first = attempt(paths, started(1), evaluated(50, 1.0))
    write_verdict(first, ended(50, failure=Failure.CRASHED))
    second = attempt(paths, started(2), evaluated(70, 1.0))
    assert (2, 1, 120) == (
        (record := record_of(paths)).attempts,
        record.machine_failures,
        record.spent,
    )
    settings = json.loads(second.settings.read_text())
    assert {"attempt": 1, "judged": True} == {
        key: settings["before"][key] for key in ("attempt", "judged")
    }
    del settings["before"]
    second.settings.write_text(json.dumps(settings))
    assert record == record_of(paths)


@pytest.mark.parametrize("damage", [{}, [], {"attempt": 1}, {"attempt": 1, "bytes": -1}, 7])
def test_a_damaged_fence_hides_nothing(paths: RunPaths, damage: object) -> None:
    """An attempt before a damaged fence counts in full."""
    attempt(paths, started(1), ended(50, failure=Failure.CRASHED))
    second = attempt(paths, started(2))
    second.settings.write_text(json.dumps({"schema": 1, "before": damage}))
    assert 1 == record_of(paths).machine_failures


def contents(folder: Path) -> dict[str, str]:
    """The hash of every file below a folder, except logs, counters and leases."""
    left_out = {
        "log.txt",
        "progress.bin",
        "0.monitor.csv",
        "progress.csv",
        ".lease",
        ".lease.holder",
        ".claim",
        ".claim.holder",
    }
    return {
        str(path.relative_to(folder)): hashlib.sha256(path.read_bytes()).hexdigest()
        for path in sorted(folder.rglob("*"))
        if path.is_file() and path.name not in left_out
    }


def test_who_is_superseded_while_it_writes_a_checkpoint_publishes_none(
    paths: RunPaths, monkeypatch: pytest.MonkeyPatch
) -> None:
    """An attempt that is superseded while it writes a checkpoint does not publish it."""
    first = attempt(paths, started(1))
    for step in (20, 30):
        publish_checkpoint(paths, checkpoint(step), {"run": SPEC.id})
    original_write, before = checkpoint_folders.write_file, contents(paths.checkpoints)

    def write(path: Path, content: bytes) -> None:
        original_write(path, content)
        if path.name == MANIFEST:
            attempt(paths, started(2))

    monkeypatch.setattr(checkpoint_files, "write_file", write)
    with closing(JournalWriter(first.folder / "own.jsonl")) as journal:
        listener = RunListener(paths, first, journal)
        assert 0 == exit_code_of_fork(lambda: listener.checkpoint(checkpoint(10)))
    assert before == contents(paths.checkpoints)


def checkpoint(step: int) -> Checkpoint:
    """A checkpoint without experience."""
    return Checkpoint(step=step, files={MODEL: b"m", STATE: b"s"})


ACTIONS: Mapping[str, Callable[[RunListener], object]] = {
    "evaluation": lambda listener: listener.emit(evaluated(50, 1.0)),
    "end": lambda listener: listener.emit(ended()),
    "model": lambda listener: listener.publish("model.zip", lambda p: p.write_bytes(b"first")),
    "checkpoint": lambda listener: listener.checkpoint(checkpoint(20)),
    "discarding": lambda listener: listener.goes_on_from(5),
    "looking": lambda listener: listener.stopping(),
    "measurement": lambda listener: listener.emit(Measured(time=1.0, step=1, metrics={})),
}


@pytest.fixture
def listener(paths: RunPaths) -> Iterator[RunListener]:
    """The listener of a first attempt, with two checkpoints before it."""
    first = attempt(paths, started(1))
    for step in (10, 20):
        publish_checkpoint(paths, checkpoint(step), {"run": SPEC.id})
    with closing(JournalWriter(first.folder / "own.jsonl")) as journal:
        yield RunListener(paths, first, journal)


@pytest.mark.parametrize("action", sorted(ACTIONS))
@pytest.mark.parametrize("happens", ["superseded", "removed"])
def test_a_process_of_a_superseded_or_removed_attempt_ends(
    paths: RunPaths,
    listener: RunListener,
    capfd: pytest.CaptureFixture[str],
    action: str,
    happens: str,
) -> None:
    """A process of a superseded or removed attempt writes nothing, says why and ends with 0."""
    if happens == "superseded":
        attempt(paths, started(2))
        expected = "attempt 1 was superseded by attempt 2: nothing more is recorded\n"
    else:
        paths.attempt(1).folder.rename(paths.folder / "elsewhere")
        expected = "attempt 1 was removed: nothing more is recorded\n"
    before = contents(paths.folder)
    assert (0, expected) == (
        exit_code_of_fork(lambda: ACTIONS[action](listener)),
        capfd.readouterr().out,
    )
    assert before == contents(paths.folder)


@pytest.mark.parametrize("action", sorted(ACTIONS))
@pytest.mark.parametrize("folder", ["", "attempts", "attempts/1", "checkpoints"])
def test_a_process_whose_folder_was_swapped_for_a_link_ends(
    paths: RunPaths,
    listener: RunListener,
    capfd: pytest.CaptureFixture[str],
    action: str,
    folder: str,
) -> None:
    """A run writes nothing through a link that took the place of one of its folders meanwhile."""
    swapped = paths.folder / folder if folder else paths.folder
    elsewhere = swapped.rename(paths.folder.parent / "elsewhere")
    swapped.symlink_to(elsewhere)
    before = contents(elsewhere)
    assert exit_code_of_fork(lambda: ACTIONS[action](listener)) == 0
    assert f"{swapped} was replaced by a link" in capfd.readouterr().out
    assert before == contents(elsewhere)


def test_no_verdict_is_written_through_a_link(paths: RunPaths) -> None:
    """The verdict on an attempt whose run was swapped for a link is not written."""
    first = attempt(paths, started(1))
    paths.folder.symlink_to(paths.folder.rename(paths.folder.parent / "elsewhere"))
    write_verdict(first, ended(60, failure=Failure.CRASHED))
    assert not first.verdict.exists()


def exit_code_of_fork(act: Callable[[], object]) -> int:
    """The exit code of a fork that calls a function; 9 where the function returns."""
    pid = os.fork()
    if pid == 0:
        try:
            act()
        finally:
            os._exit(9)
    return os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])


def test_who_is_superseded_while_it_writes_publishes_nothing(paths: RunPaths) -> None:
    """An attempt that is superseded while it writes a model leaves the newer model unchanged."""
    first = attempt(paths, started(1))
    publish(paths.model, b"second")

    def write(temporary: Path) -> None:
        temporary.write_bytes(b"first")
        attempt(paths, started(2))

    with closing(JournalWriter(first.folder / "own.jsonl")) as journal:
        listener = RunListener(paths, first, journal)
        assert 0 == exit_code_of_fork(lambda: listener.publish("model.zip", write))
    assert b"second" == paths.model.read_bytes()
    assert [] == list(paths.folder.glob(".*.model.zip"))


@pytest.mark.parametrize("kind", ["heartbeats", pytest.param("locks", marks=long)])
def test_a_suspended_run_that_wakes_changes_nothing(tmp_path: Path, kind: str) -> None:
    """A suspended process that wakes after another attempt completed its run changes nothing."""
    with new_study(tmp_path / "study", warm=True) as study:
        arguments = ("run", "experiment=x", "seeds.test=1", "budget.checkpoint_every=256", *LONG)
        command = study.start(*arguments, variables=SHARED[kind])
        wait_until(lambda: study.events("x", "checkpointed"))
        (worker,) = study.workers("x")
        os.kill(worker, signal.SIGSTOP)
        (run,) = ExperimentPaths(study.folder / "runs" / "x").runs()
        second = complete_elsewhere(run)
        expected, before = contents(run.folder), record_of(run)
        # Until then, measurements are written without a check for newer attempts.
        time.sleep(GUARD_CHECK_EVERY)
        os.kill(worker, signal.SIGCONT)
        output, _ = command.communicate(timeout=60)
        assert 0 == command.returncode, output
        assert expected == contents(run.folder)
        assert (State.COMPLETED, "second", before) == (
            before.state,
            before.weights,
            record_of(run),
        )
        last = run.attempt(1).log.read_text().splitlines()[-1]
        assert "attempt 1 was superseded by attempt 2: nothing more is recorded" == last
        assert model_hash_in_ledger(study, run, second) == hashlib.sha256(b"second").hexdigest()
        assert 0 == study.give("verify", "x")[0]


def complete_elsewhere(run: RunPaths) -> AttemptPaths:
    """The next attempt, completed as a process of another machine would complete it."""
    budget = run_steps(run)
    second = new_attempt(run, {"timeout": None}, {"command": ["rlexp"]}, "")
    publish(run.model, b"second")
    end = RunEnded(
        time=time.time(), step=budget, ending=Ending.COMPLETED, seconds=1.0, weights="second"
    )
    append(second, started(2), evaluated(budget, 5.0, final=True), end)
    return second


def run_steps(run: RunPaths) -> int:
    """The budget of the run in steps."""
    return int(json.loads(run.spec.read_text())["budget"]["steps"])


def model_hash_in_ledger(study: StudyFolder, run: RunPaths, attempt: AttemptPaths) -> str:
    """The hash of an attempt's model in the ledger."""
    lines = (study.folder / "runs" / "x" / "ledger.jsonl").read_text().splitlines()
    (entry,) = [
        entry
        for entry in map(json.loads, lines)
        if (entry.get("run"), entry.get("attempt")) == (run.folder.name, attempt.number)
    ]
    return str(entry["files"]["model.zip"])


def scores(study: StudyFolder) -> list[tuple[object, ...]]:
    """Seed, state and score of every run."""
    return sorted((r["seed"], r["state"], r["score"]) for r in study.runs("x"))


def test_an_experiment_in_a_shared_folder_survives_kill_9(tmp_path: Path) -> None:
    """A killed and repeated experiment with heartbeats has the scores of one with locks."""
    with new_study(tmp_path / "control", quick=True, warm=True) as control:
        assert 0 == control.give(*QUICK)[0]
        expected = scores(control)
    with new_study(tmp_path / "shared", quick=True, warm=True) as study:
        slow = {**SHARED["heartbeats"], "RLEXP_QUICK": '{"seconds": 30}'}
        command = study.start(*QUICK, variables=slow)
        wait_until(lambda: study.workers("x"))
        code, output = study.give(*QUICK, variables=SHARED["heartbeats"])
        assert (2, True) == (code, f"process {command.pid} on " in output), output
        assert ", silent for " in output
        command.kill()
        wait_until(lambda: not study.processes(), 10.0)
        code, output = study.give(*QUICK, variables=SHARED["heartbeats"])
        assert 0 == code, output
        assert expected == scores(study)
        hidden_files = [p.name for p in (study.folder / "runs" / "x").rglob(".*")]
        assert [] == [name for name in hidden_files if "lock" in name or "lease" in name], (
            hidden_files
        )


def test_attempts_are_read_as_they_were_made(paths: RunPaths) -> None:
    """The events of each attempt end where the next attempt was made."""
    attempts = [attempt(paths, started(number)) for number in (1, 2, 3)]
    for item in attempts:
        append(item, evaluated(50, 1.0))
    assert [1, 1, 2] == [len(item.events) for item in read_attempts(paths)]
