"""A tracker gets every complete step of a run once, over all attempts of the run."""

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import pytest
from quick_parts import quick_parts
from samples import continued, ended, evaluated, spec, started

from rlexp.app.tracking.tracked_records import RunJournalReader
from rlexp.records.events import Ending, Event, Failure, Measured
from rlexp.records.run import State
from rlexp.records.system_metrics import SystemMeasurement
from rlexp.store.journal import JournalWriter
from rlexp.store.layout import AttemptPaths, RunPaths
from rlexp.store.registers.scorings import write_scoring
from rlexp.store.runs import new_attempt, write_run
from rlexp.store.system_metrics import append_measurement

quick = pytest.fixture(autouse=True)(quick_parts)


@pytest.fixture
def run(tmp_path: Path) -> RunPaths:
    """The folder of a run that has not started."""
    paths = RunPaths(tmp_path / "sample" / spec().name)
    write_run(paths, spec())
    return paths


def attempt(run: RunPaths, *events: Event) -> JournalWriter:
    """Write a further attempt with these events."""
    journal = JournalWriter(new_attempt(run, {}, {}, "").journal)
    for event in events:
        journal.append(event)
    return journal


def steps(feed: RunJournalReader, after: int, *, unended: bool = False) -> list[int]:
    """The steps of the rows that are complete now."""
    feed.read(after)
    return [row.step for row in feed.complete_rows(feed.read_end(unended=unended))]


def loss(step: int, value: float = 0.5) -> Measured:
    """A measurement of a learner's loss at a step."""
    return Measured(time=float(step), step=step, metrics={"loss": value})


def test_a_run_that_has_not_started_gives_no_rows(run: RunPaths) -> None:
    """A run that has not started has neither rows nor a record."""
    feed = RunJournalReader(run)
    assert ([], None, 0) == (steps(feed, -1), feed.read_end(unended=True), feed.attempt)


def test_the_last_step_is_given_when_it_is_complete(run: RunPaths) -> None:
    """The last step is complete when a later step, or the end of the run, is recorded."""
    feed, journal = RunJournalReader(run), attempt(run, started(), loss(10), loss(20))
    assert [10] == steps(feed, -1)
    journal.append(evaluated(20, 1.0))
    assert [] == steps(feed, 10)
    journal.append(loss(30))
    feed.read(10)
    (row,) = feed.complete_rows(None)
    assert {"loss", "eval/mean_reward"} <= set(row.metrics)
    journal.append(ended(30))
    assert [30] == steps(feed, 20)


def test_a_partial_line_is_read_once_it_is_complete(run: RunPaths) -> None:
    """A partly written line is read when it is complete, and only once."""
    feed, journal = RunJournalReader(run), attempt(run, started(), loss(10), loss(20), loss(30))
    content = run.attempt(1).journal.read_bytes()
    run.attempt(1).journal.write_bytes(content[:-5])
    assert [10] == steps(feed, -1)
    with run.attempt(1).journal.open("ab") as file:
        file.write(content[-5:])
    assert [20] == steps(feed, 10)
    journal.append(loss(40))


@pytest.mark.parametrize("live", [True, False], ids=["as it happens", "afterwards"])
def test_steps_that_were_trained_twice_are_given_once(run: RunPaths, *, live: bool) -> None:
    """After an attempt died at step 40 and another continued at 20, each step is given once."""
    feed, given_steps = RunJournalReader(run), list[int]()

    def read_steps(*, unended: bool = False) -> None:
        if live or unended:
            given_steps.extend(steps(feed, max(given_steps, default=-1), unended=unended))

    attempt(run, started(), *(loss(step) for step in (10, 20, 30, 40)))
    read_steps()
    second = attempt(run, started(2))
    read_steps()
    second.append(continued(20))
    read_steps()
    for step in (30, 40, 50):
        second.append(loss(step))
        read_steps()
    second.append(ended(50))
    read_steps(unended=True)
    assert [10, 20, 30, 40, 50] == given_steps


def test_a_restarted_run_gives_no_step_twice(run: RunPaths) -> None:
    """After a restart from step 0, only steps that were not given before are given."""
    feed = RunJournalReader(run)
    attempt(run, started(), loss(10), loss(20), loss(30))
    assert [10, 20] == steps(feed, -1)
    attempt(run, started(2), *(loss(step) for step in (10, 20, 30, 40)), ended(40))
    assert [30, 40] == steps(feed, 20)


@pytest.mark.parametrize(
    ("end", "state", "expected_steps"),
    [
        (ended(20), State.COMPLETED, [10, 20]),
        (ended(20, Ending.PRUNED), State.PRUNED, [10, 20]),
        (ended(20, failure=Failure.NAN), State.FAILED, [10, 20]),
        (ended(20, Ending.INTERRUPTED), State.INTERRUPTED, [10]),
    ],
)
def test_the_record_is_given_when_the_run_has_ended(
    run: RunPaths, end: Event, state: State, expected_steps: Sequence[int]
) -> None:
    """A run that has ended gives its record; only an interrupted run keeps its last step."""
    feed, journal = RunJournalReader(run), attempt(run, started(), loss(10), loss(20))
    feed.read(-1)
    assert feed.read_end(unended=False) is None
    journal.append(end)
    feed.read(-1)
    record = feed.read_end(unended=False)
    assert record is not None
    assert (state, expected_steps) == (
        record.state,
        [row.step for row in feed.complete_rows(record)],
    )


def test_a_run_without_an_end_is_lost_only_if_no_command_executes_it(run: RunPaths) -> None:
    """A run without an end counts as lost only if no command executes it."""
    attempt(run, started(), loss(10))
    feed = RunJournalReader(run)
    feed.read(-1)
    assert feed.read_end(unended=False) is None
    record = feed.read_end(unended=True)
    assert record is not None
    assert State.LOST is record.state


def test_rows_that_a_service_lost_are_read_again(run: RunPaths) -> None:
    """Rows are read again if a service has fewer rows than the cursor says."""
    attempt(run, started(), loss(10), loss(20), loss(30), ended(30))
    feed = RunJournalReader(run)
    assert [30] == steps(feed, 20)
    feed.reread(-1)
    assert [10, 20, 30] == [row.step for row in feed.complete_rows(feed.read_end(unended=False))]


def measure(run: RunPaths, number: int, *measured_steps: int) -> None:
    """Append measurements of the machine to an attempt."""
    for step in measured_steps:
        append_measurement(
            run.attempt(number),
            SystemMeasurement(
                time=float(step),
                step=step,
                seconds=1.0,
                processor_percent=float(number),
                memory_bytes=1,
                processes=1,
                machine_processor_percent=0.0,
                machine_memory_bytes=1,
                machine_memory_percent=0.0,
            ),
        )


def test_measurements_of_the_machine_are_rows(run: RunPaths) -> None:
    """A measurement joins the row of its step, or is a row of its own."""
    feed, journal = RunJournalReader(run), attempt(run, started(), loss(10), loss(20))
    measure(run, 1, 10, 15)
    assert [10, 15] == steps(feed, -1)
    journal.append(ended(20))
    measure(run, 1, 20)
    feed.read(15)
    (row,) = feed.complete_rows(feed.read_end(unended=False))
    assert {"loss", "system/process_cpu_utilization_percentage"} <= set(row.metrics)


def test_a_measurement_that_is_ahead_hides_no_step(
    run: RunPaths, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A step that is recorded while the files are read is given, although the machine is ahead."""
    feed, journal = RunJournalReader(run), attempt(run, started(), loss(10))
    fold = feed._fold

    def record_and_fold(attempts: list[AttemptPaths]) -> None:
        # Between the two readings, the run records step 20 and is measured at later steps.
        fold(attempts)
        journal.append(loss(20))
        measure(run, 1, 25, 30)

    monkeypatch.setattr(feed, "_fold", record_and_fold)
    first = steps(feed, -1)
    rest = steps(feed, max(first, default=-1))
    assert [20] == [step for step in (*first, *rest) if step == 20]


def test_measurements_of_an_earlier_attempt_count_up_to_its_continuation(run: RunPaths) -> None:
    """A step that was trained twice has the measurements of the later attempt alone."""
    attempt(run, started(), loss(10), loss(20), loss(30))
    measure(run, 1, 5, 25)
    attempt(run, started(2), continued(20, 1), loss(30), ended(40))
    measure(run, 2, 25)
    feed = RunJournalReader(run)
    feed.read(-1)
    rows = feed.complete_rows(feed.read_end(unended=False))
    name = "system/process_cpu_utilization_percentage"
    assert {5: 1.0, 25: 2.0} == {r.step: r.metrics[name] for r in rows if name in r.metrics}


def test_the_claim_of_a_candidate_is_never_given(tmp_path: Path) -> None:
    """The end of a run of a stream waits for the score of the trusted code, and has no other score."""
    candidate = replace(spec(), code="c" * 40)
    paths = RunPaths(tmp_path / "sample" / candidate.name)
    write_run(paths, candidate)
    feed = RunJournalReader(paths)
    journal = attempt(paths, started(), loss(10), loss(20))
    assert [10] == steps(feed, -1)
    for event in (evaluated(30, 1_000.0, final=True), ended(30)):
        journal.append(event)
    assert ([10], None) == (steps(feed, -1), feed.read_end(unended=True))
    write_scoring(paths, evaluated(30, 2.0, final=True))
    feed.read(-1)
    record = feed.read_end(unended=True)
    assert record is not None
    assert 2.0 == record.score
    rows = feed.complete_rows(record)
    assert [10, 20, 30] == [row.step for row in rows]
    assert 2.0 == rows[-1].metrics["final/mean_reward"]
