"""The fold of a run's events: one attempt, several, and what is left of dead ones."""

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
    """A number that the learner logged."""
    return Measured(time=float(step), step=step, metrics={"loss": loss})


def checkpointed(step: int) -> Checkpointed:
    """A checkpoint at a step."""
    return Checkpointed(time=float(step), step=step, name=f"checkpoints/{step}")


def steps(record: RunRecord) -> tuple[list[int], list[int], list[int]]:
    """At which steps a record holds evaluations, measurements and checkpoints."""
    return (
        [e.step for e in record.evaluations],
        [e.step for e in record.measurements],
        [e.step for e in record.checkpoints],
    )


def test_a_run_without_attempts_is_planned() -> None:
    """A run without events is planned."""
    assert RunRecord(spec=spec()) == fold()
    assert State.PLANNED is fold().state


def test_one_attempt_is_told_in_full() -> None:
    """Everything that its events say is in the record."""
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
def test_an_attempt_ends_as_it_says(ending: Ending, state: State) -> None:
    """The last event decides the state."""
    assert state is fold([started(), ended(ending=ending)]).state


def test_an_attempt_that_was_restarted_counts_for_nothing() -> None:
    """What happened before the restart is not part of the result."""
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


def test_of_a_continued_attempt_counts_what_the_checkpoint_knew() -> None:
    """Up to the step of the checkpoint, that step included."""
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


def test_an_attempt_continued_from_nothing_keeps_the_beginning() -> None:
    """A checkpoint of step zero holds the evaluation before training."""
    record = fold(
        [started(1), evaluated(0, 1.0), evaluated(10, 2.0)],
        [started(2), continued(0), ended()],
    )
    assert ([0], [], []) == steps(record)


def test_three_attempts_are_cut_one_after_the_other() -> None:
    """A later attempt cuts what an earlier one had continued."""
    record = fold(
        [started(1), evaluated(10, 1.0), evaluated(20, 1.0), evaluated(30, 1.0)],
        [started(2), continued(20), evaluated(30, 2.0), evaluated(40, 2.0)],
        [started(3), continued(30, attempt=2), evaluated(40, 3.0), ended(40)],
    )
    assert [1.0, 1.0, 2.0, 3.0] == [e.mean for e in record.evaluations]


def test_an_attempt_that_died_before_it_could_continue_takes_nothing_away() -> None:
    """The next one continues from the same checkpoint, and all that came before it counts."""
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


def test_what_began_anew_in_between_does_not_count() -> None:
    """Code was changed, and put back: what led to the checkpoint counts, and nothing else."""
    refused = Refused(time=1.0, step=20, reason="code changed")
    record = fold(
        [started(1), evaluated(10, 1.0), measured(15), checkpointed(20)],
        [started(2), refused, evaluated(10, 9.0), measured(12)],
        [started(3), continued(20), evaluated(30, 3.0)],
    )
    assert ([10, 30], [15], [20]) == steps(record)
    assert [1.0, 3.0] == [e.mean for e in record.evaluations]


def test_a_checkpoint_that_was_refused_stays_visible() -> None:
    """A refused checkpoint stays in the record after later attempts."""
    refused = Refused(time=1.0, step=20, reason="damaged")
    record = fold([started(1), checkpointed(20)], [started(2), refused], [started(3)])
    assert (refused,) == record.refused


def test_a_final_result_of_an_earlier_attempt_is_refused() -> None:
    """The attempt number is the fencing token: who comes late has lost."""
    late: list[Event] = [started(1), evaluated(100, 9.0, final=True), ended()]
    record = fold(late, [started(2), evaluated(10, 1.0)], alive=True)
    assert (State.RUNNING, None, None, None) == (
        record.state,
        record.final,
        record.weights,
        record.score,
    )


def test_a_late_result_does_not_hide_that_the_next_attempt_was_lost() -> None:
    """A late result is ignored, even if the next attempt never wrote a line."""
    late: list[Event] = [started(1), evaluated(100, 9.0, final=True), ended()]
    record = fold(late, [])
    assert (State.LOST, 2, None) == (record.state, record.attempts, record.score)


@pytest.mark.parametrize(("alive", "state"), [(True, State.RUNNING), (False, State.LOST)])
@pytest.mark.parametrize("events", [[], [started()], [started(), evaluated(10, 1.0)]])
def test_without_an_end_a_process_decides(events: list[Event], alive: bool, state: State) -> None:
    """A run that nobody holds any more is lost."""
    assert state is fold(events, alive=alive).state


def test_only_the_last_attempt_can_be_running() -> None:
    """That a process lives says nothing of the attempts before it."""
    record = fold([started(1)], [started(2), ended(ending=Ending.INTERRUPTED)], alive=True)
    assert State.INTERRUPTED is record.state


def test_failures_of_the_machine_are_counted() -> None:
    """Failures of the machine are counted; those of the configuration are not."""
    ends = [
        ended(failure=Failure.CRASHED),
        ended(ending=Ending.INTERRUPTED),
        ended(failure=Failure.NAN),
        ended(failure=Failure.HUNG),
    ]
    attempts: list[list[Event]] = [[started(k + 1), end] for k, end in enumerate(ends)]
    record = fold(*attempts)
    assert (4, 2) == (record.attempts, record.machine_failures)


def test_a_loss_logged_late_does_not_turn_back_the_steps() -> None:
    """The learner may log a step that evaluations have passed."""
    assert 20 == fold([started(), evaluated(20, 1.0), measured(15)], alive=True).step


@given(st.lists(st.sampled_from([1, 2, 3]), max_size=6))
def test_folding_what_was_kept_keeps_it(cuts: list[int]) -> None:
    """The events of the record, folded as one attempt, make the same curve again."""
    attempts: list[list[Event]] = [[started(1), evaluated(10, 0.0), evaluated(20, 0.0)]]
    for number, cut in enumerate(cuts, 2):
        curve = (evaluated(s, float(number)) for s in range(10 * cut + 10, 50, 10))
        attempts.append([started(number), continued(10 * cut), *curve])
    record = fold(*attempts)
    again = fold([started(1), *record.evaluations])
    assert record.evaluations == again.evaluations
    found = [e.step for e in record.evaluations]
    assert sorted(set(found)) == found


@pytest.mark.timeout(10)
def test_many_measurements_are_folded_in_time() -> None:
    """A long run's journal takes time in proportion to its lines."""
    record = fold([started(), *(measured(step) for step in range(50_000))], alive=True)
    assert (50_000, 49_999) == (len(record.measurements), record.step)


def test_seconds_that_are_no_number_are_unknown() -> None:
    """A journal may hold them as words; the run and its score are not lost."""
    end = {**to_plain(ended()), "seconds": "nan"}
    record = RunRecord.fold(
        spec(), [[started(), evaluated(100, 9.0, final=True), from_plain(end)]]
    )
    assert (State.COMPLETED, 9.0, None) == (record.state, record.score, record.seconds)


@pytest.mark.parametrize(
    ("second", "restarts", "begun"),
    [
        ([started(2), evaluated(10, 1.0)], 1, 0),
        ([started(2), Refused(time=1.0, step=20, reason="damaged")], 1, 0),
        ([started(2), continued(20), evaluated(30, 1.0)], 0, 20),
        ([started(2)], 0, 0),
        ([], 0, 20),
    ],
)
def test_attempts_that_began_anew_are_counted(
    second: list[Event], restarts: int, begun: int
) -> None:
    """Neither those that continued, nor those that died before they trained."""
    first: list[Event] = [started(1), checkpointed(20), evaluated(20, 1.0)]
    record = fold(first, second)
    assert (restarts, begun) == (record.restarts, record.begun)
    assert 0 == fold(first).restarts
