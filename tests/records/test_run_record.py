"""The record of a run, folded from the events of one or several attempts."""

import pytest
from hypothesis import given
from hypothesis import strategies as st
from samples import continued, ended, evaluated, spec, started

from rlexp.records.events import (
    Checkpointed,
    Ending,
    Event,
    Failure,
    Measured,
    Refused,
    from_plain,
    to_plain,
)
from rlexp.records.run import RunRecord, State


def fold(*attempts: list[Event], alive: bool = False, score: str = "final") -> RunRecord:
    """The record of a run with these attempts."""
    return RunRecord.fold(spec(score=score), attempts, alive=alive)


def measured(step: int, loss: float = 0.5) -> Measured:
    """A measurement of the learner at a step."""
    return Measured(time=float(step), step=step, metrics={"loss": loss})


def checkpointed(step: int) -> Checkpointed:
    """A checkpoint at a step."""
    return Checkpointed(time=float(step), step=step, name=f"checkpoints/{step}")


def steps(record: RunRecord) -> tuple[list[int], list[int], list[int]]:
    """The steps of the evaluations, measurements and checkpoints in a record."""
    return (
        [e.step for e in record.evaluations],
        [e.step for e in record.measurements],
        [e.step for e in record.checkpoints],
    )


def test_a_run_without_attempts_is_planned() -> None:
    """A run without events is planned."""
    assert RunRecord(spec=spec()) == fold()
    assert State.PLANNED is fold().state


def test_one_attempt_is_recorded_completely() -> None:
    """The record of one attempt contains everything from its events."""
    record = fold(
        [
            started(),
            measured(5),
            evaluated(10, 1.0, 3.0),
            checkpointed(50),
            evaluated(100, 4.0, 6.0, final=True),
            ended(),
        ]
    )
    assert (State.COMPLETED, 1, 100, 5.0) == (
        record.state,
        record.attempts,
        record.step,
        record.score,
    )
    assert ([10], [5], [50]) == steps(record)
    assert (100.0, 1000.0, 5.0, "abc") == (
        record.started,
        record.ended,
        record.seconds,
        record.weights,
    )


@pytest.mark.parametrize(
    ("ending", "state"),
    [
        (Ending.COMPLETED, State.COMPLETED),
        (Ending.PRUNED, State.PRUNED),
        (Ending.INTERRUPTED, State.INTERRUPTED),
    ],
)
def test_the_ending_decides_the_state(ending: Ending, state: State) -> None:
    """The ending in the last event decides the state of the run."""
    assert state is fold([started(), ended(ending=ending)]).state


def test_a_restarted_attempt_does_not_count() -> None:
    """Events before a restart are not part of the result."""
    record = fold(
        [
            started(1),
            measured(5),
            evaluated(10, 1.0),
            checkpointed(20),
            ended(failure=Failure.HUNG),
        ],
        [started(2), evaluated(10, 2.0), evaluated(100, 3.0, final=True), ended()],
    )
    assert ([10], [], []) == steps(record)
    assert (2.0, 3.0) == (record.evaluations[0].mean, record.score)
    assert (2, 1, None, None) == (
        record.attempts,
        record.machine_failures,
        record.failure,
        record.reason,
    )
    assert 200.0 == record.started


def test_a_continued_attempt_counts_up_to_its_checkpoint() -> None:
    """Events of a continued attempt count up to the step of the checkpoint, inclusive."""
    record = fold(
        [
            started(1),
            *(event for k in (10, 20, 30) for event in (measured(k), evaluated(k, float(k)))),
            checkpointed(20),
            evaluated(40, 40.0),
            ended(45, ending=Ending.INTERRUPTED),
        ],
        [started(2), continued(20), evaluated(30, 31.0), measured(35)],
        alive=True,
    )
    assert ([10, 20, 30], [10, 20, 35], [20]) == steps(record)
    assert [10.0, 20.0, 31.0] == [e.mean for e in record.evaluations]
    assert (State.RUNNING, 35, 100.0) == (record.state, record.step, record.started)
    assert None is record.seconds


def test_an_attempt_continued_from_step_zero() -> None:
    """An attempt that continues from step zero keeps the evaluation before training."""
    record = fold(
        [started(1), evaluated(0, 1.0), evaluated(10, 2.0)],
        [started(2), continued(0), ended()],
    )
    assert ([0], [], []) == steps(record)


def test_three_attempts_are_cut_in_order() -> None:
    """A later attempt replaces what an earlier attempt recorded after the checkpoint."""
    record = fold(
        [started(1), evaluated(10, 1.0), evaluated(20, 1.0), evaluated(30, 1.0)],
        [started(2), continued(20), evaluated(30, 2.0), evaluated(40, 2.0)],
        [started(3), continued(30, attempt=2), evaluated(40, 3.0), ended(40)],
    )
    assert [1.0, 1.0, 2.0, 3.0] == [e.mean for e in record.evaluations]


def test_an_attempt_that_died_before_it_continued() -> None:
    """An attempt that died before it continued does not change the events that count."""
    record = fold(
        [started(1), evaluated(10, 1.0), checkpointed(20), evaluated(20, 2.0)],
        [started(2)],
        [started(3), continued(20), evaluated(30, 3.0)],
    )
    assert [1.0, 2.0, 3.0] == [e.mean for e in record.evaluations]
    assert ([20], [20]) == (
        [e.step for e in record.checkpoints],
        [e.step for e in record.continuations],
    )
    assert 30 == record.spent


def test_steps_after_the_last_report_are_spent_once() -> None:
    """Steps between the last report of a killed attempt and its last checkpoint are spent, once."""
    record = fold(
        [started(1), evaluated(10, 1.0), checkpointed(20)],
        [started(2), continued(20), evaluated(30, 2.0)],
        [started(3), continued(20), evaluated(30, 2.0), evaluated(40, 3.0)],
    )
    assert 20 + 10 + 20 == record.spent


def test_a_restart_before_a_continuation() -> None:
    """An attempt that began anew does not count if the next one continues an older checkpoint."""
    refused = Refused(time=1.0, step=20, reason="code changed")
    record = fold(
        [started(1), evaluated(10, 1.0), measured(15), checkpointed(20)],
        [started(2), refused, evaluated(10, 9.0), measured(12)],
        [started(3), continued(20), evaluated(30, 3.0)],
    )
    assert ([10, 30], [15], [20]) == steps(record)
    assert [1.0, 3.0] == [e.mean for e in record.evaluations]


def test_a_refused_checkpoint_stays_in_the_record() -> None:
    """A refused checkpoint stays in the record after later attempts."""
    refused = Refused(time=1.0, step=20, reason="damaged")
    record = fold([started(1), checkpointed(20)], [started(2), refused], [started(3)])
    assert (refused,) == record.refused


def test_a_late_result_of_an_earlier_attempt_is_ignored() -> None:
    """The final result of an attempt is ignored once a later attempt has begun."""
    late: list[Event] = [started(1), evaluated(100, 9.0, final=True), ended()]
    record = fold(late, [started(2), evaluated(10, 1.0)], alive=True)
    assert (State.RUNNING, None, None, None) == (
        record.state,
        record.final,
        record.weights,
        record.score,
    )


def test_a_late_result_does_not_hide_a_lost_attempt() -> None:
    """A late result is ignored even if the next attempt never wrote a line."""
    late: list[Event] = [started(1), evaluated(100, 9.0, final=True), ended()]
    record = fold(late, [])
    assert (State.LOST, 2, None) == (record.state, record.attempts, record.score)


@pytest.mark.parametrize(("alive", "state"), [(True, State.RUNNING), (False, State.LOST)])
@pytest.mark.parametrize("events", [[], [started()], [started(), evaluated(10, 1.0)]])
def test_without_an_end_the_process_decides(
    events: list[Event], alive: bool, state: State
) -> None:
    """A run without an end is running while a process holds it, and lost otherwise."""
    assert state is fold(events, alive=alive).state


def test_only_the_last_attempt_can_be_running() -> None:
    """A living process does not change the state of a run whose last attempt ended."""
    record = fold([started(1)], [started(2), ended(ending=Ending.INTERRUPTED)], alive=True)
    assert State.INTERRUPTED is record.state


def test_failures_of_the_machine_are_counted() -> None:
    """Failures of the machine are counted; failures of the configuration are not."""
    ends = [
        ended(failure=Failure.CRASHED),
        ended(ending=Ending.INTERRUPTED),
        ended(failure=Failure.HUNG),
        ended(failure=Failure.NAN),
    ]
    attempts: list[list[Event]] = [[started(k + 1), end] for k, end in enumerate(ends)]
    record = fold(*attempts)
    assert (4, 2) == (record.attempts, record.machine_failures)


def test_a_retried_run_gets_its_further_attempts_again() -> None:
    """After a final failure, the next attempt counts failures of the machine from zero."""
    crash = ended(failure=Failure.CRASHED)
    attempts: list[list[Event]] = [[started(k + 1), crash] for k in range(3)]
    assert not fold(*attempts).may_run()
    for number in (4, 5):
        attempts.append([started(number), crash])
        assert fold(*attempts).may_run()
    attempts.append([started(6), crash])
    assert not fold(*attempts).may_run()
    assert fold(*attempts).may_run(retry=True)


def test_a_late_measurement_does_not_reduce_the_step() -> None:
    """The step of a run is the largest one, even if the learner logs an earlier step later."""
    assert 20 == fold([started(), evaluated(20, 1.0), measured(15)], alive=True).step


@given(st.lists(st.sampled_from([1, 2, 3]), max_size=6))
def test_folding_a_record_again_keeps_its_evaluations(cuts: list[int]) -> None:
    """The evaluations of a record, folded as one attempt, give the same evaluations."""
    attempts: list[list[Event]] = [[started(1), evaluated(10, 0.0), evaluated(20, 0.0)]]
    for number, cut in enumerate(cuts, 2):
        curve = (evaluated(s, float(number)) for s in range(10 * cut + 10, 50, 10))
        attempts.append([started(number), continued(10 * cut), *curve])
    record = fold(*attempts)
    refolded = fold([started(1), *record.evaluations])
    assert record.evaluations == refolded.evaluations
    evaluation_steps = [e.step for e in record.evaluations]
    assert sorted(set(evaluation_steps)) == evaluation_steps


@pytest.mark.timeout(10)
def test_many_measurements_are_folded_in_time() -> None:
    """A journal with 50,000 measurements is folded within the time limit."""
    record = fold([started(), *(measured(step) for step in range(50_000))], alive=True)
    assert (50_000, 49_999) == (len(record.measurements), record.step)


def test_nan_seconds_are_unknown() -> None:
    """Seconds that a journal holds as NaN are unknown; the run keeps its score."""
    end = {**to_plain(ended()), "seconds": "nan"}
    record = RunRecord.fold(
        spec(), [[started(), evaluated(100, 9.0, final=True), from_plain(end)]]
    )
    assert (State.COMPLETED, 9.0, None) == (record.state, record.score, record.seconds)


@pytest.mark.parametrize(
    ("second", "restarts", "start_step"),
    [
        ([started(2), evaluated(10, 1.0)], 1, 0),
        ([started(2), Refused(time=1.0, step=20, reason="damaged")], 1, 0),
        ([started(2), continued(20), evaluated(30, 1.0)], 0, 20),
        ([started(2)], 0, 0),
        ([], 0, 20),
    ],
)
def test_attempts_that_began_anew_are_counted(
    second: list[Event], restarts: int, start_step: int
) -> None:
    """Attempts that continued, and attempts that died before training, are not restarts."""
    first: list[Event] = [started(1), checkpointed(20), evaluated(20, 1.0)]
    record = fold(first, second)
    assert (restarts, start_step) == (record.restarts, record.begun)
    assert 0 == fold(first).restarts
