"""The plan of a command: runs that are missing, done, or tried again."""

import pytest
from hypothesis import given
from hypothesis import strategies as st
from samples import completed, ended, evaluated, failed, spec, started

from rlexp.engine.source import Plan, make_plan
from rlexp.protocol.spec import RunSpec
from rlexp.records.events import Ending, Event, Failure
from rlexp.records.run import FURTHER_ATTEMPTS, RunRecord, State

SPECS = [spec(seed) for seed in range(5)]


def stopped(run_spec: RunSpec, ending: Ending) -> RunRecord:
    """A run that ended with this ending."""
    return RunRecord.fold(run_spec, [[started(), evaluated(10, 1.0), ended(10, ending=ending)]])


def lost(run_spec: RunSpec) -> RunRecord:
    """A run whose process is gone."""
    return RunRecord.fold(run_spec, [[started()]])


def running(run_spec: RunSpec) -> RunRecord:
    """A run whose process lives."""
    return RunRecord.fold(run_spec, [[started()]], alive=True)


def plan(*records: RunRecord, retry: bool = False) -> Plan:
    """The plan of all specs with these records."""
    return make_plan(SPECS, {record.spec.id: record for record in records}, retry=retry)


def execute(planned: Plan) -> list[RunRecord]:
    """The records of a plan that was executed."""
    return [completed(item, 1.0) for item in planned.missing]


def test_without_records_everything_is_missing() -> None:
    """Without records all specs are missing, in their order."""
    assert Plan(tuple(SPECS), (), ()) == plan()
    assert 5 * 100 == plan().steps


def test_what_is_completed_is_done() -> None:
    """Completed and pruned runs are done; the others are missing."""
    result = plan(completed(SPECS[1], 1.0), stopped(SPECS[2], Ending.PRUNED))
    assert Plan((SPECS[0], SPECS[3], SPECS[4]), (SPECS[1], SPECS[2]), ()) == result
    assert 300 == result.steps


@given(st.sets(st.sampled_from(range(5))), st.booleans())
def test_after_the_plan_was_executed_it_is_empty(completed_seeds: set[int], retry: bool) -> None:
    """The plan of the same command is empty once its runs are completed."""
    before = [completed(SPECS[k], 0.0) for k in completed_seeds]
    planned = plan(*before, retry=retry)
    after = plan(*before, *execute(planned), retry=retry)
    assert ((), tuple(SPECS), 0) == (after.missing, after.done, after.steps)


@given(st.lists(st.sampled_from(range(5))))
def test_every_run_has_one_place(kinds: list[int]) -> None:
    """Every spec is either missing, done or failed, whatever its record is."""
    records = [
        RunRecord(spec=SPECS[0]),
        completed(SPECS[1], 1.0),
        failed(SPECS[2]),
        failed(SPECS[3], Failure.CRASHED),
        lost(SPECS[4]),
    ]
    planned = plan(*(records[k] for k in kinds))
    specs = [*planned.missing, *planned.done, *planned.failed]
    assert {item.id for item in SPECS} == {item.id for item in specs}
    assert len(SPECS) == len(specs)


def test_records_of_other_runs_do_not_matter() -> None:
    """Records of runs outside the specs leave the plan unchanged."""
    assert plan() == plan(completed(spec(99), 1.0), completed(spec(0, steps=99), 1.0))


def test_a_larger_question_misses_only_what_is_new() -> None:
    """With more seeds only the runs of the new seeds are missing."""
    records = {item.id: completed(item, 1.0) for item in SPECS}
    more_specs = [spec(seed) for seed in range(8)]
    assert tuple(more_specs[5:]) == make_plan(more_specs, records).missing


MACHINE = [f for f in Failure if f.of_the_machine and f is not Failure.DISK]


def test_a_full_disk_costs_no_attempt() -> None:
    """A run may run again after any number of failures by a full disk."""
    assert failed(SPECS[0], Failure.DISK, 9).may_run()


@pytest.mark.parametrize("failure", MACHINE)
@pytest.mark.parametrize("times", range(1, 4))
def test_what_the_machine_failed_gets_two_further_attempts(failure: Failure, times: int) -> None:
    """A run that the machine failed gets three attempts in all."""
    assert (times <= FURTHER_ATTEMPTS) == failed(SPECS[0], failure, times).may_run()
    assert 2 == FURTHER_ATTEMPTS


@pytest.mark.parametrize("failure", [Failure.NAN, Failure.ENVIRONMENT, Failure.USER])
def test_what_the_configuration_failed_is_final_until_retry(failure: Failure) -> None:
    """A run that its configuration failed may run again only with retry."""
    record = failed(SPECS[0], failure)
    assert (False, True) == (record.may_run(), record.may_run(retry=True))
    assert (SPECS[0],) == plan(record).failed
    assert (SPECS[0] in plan(record, retry=True).missing, plan(record, retry=True).failed) == (
        True,
        (),
    )


@pytest.mark.parametrize("state", [State.INTERRUPTED, State.LOST, State.RUNNING, State.PLANNED])
def test_what_has_no_result_is_continued(state: State) -> None:
    """An interrupted, lost, running or planned run may run."""
    record = {
        State.INTERRUPTED: stopped(SPECS[0], Ending.INTERRUPTED),
        State.LOST: lost(SPECS[0]),
        State.RUNNING: running(SPECS[0]),
        State.PLANNED: RunRecord(spec=SPECS[0]),
    }[state]
    assert (state, True) == (record.state, record.may_run())


@pytest.mark.parametrize("retry", [False, True])
def test_what_has_a_result_is_never_run_again(retry: bool) -> None:
    """A completed or pruned run may not run again, not even with retry."""
    for record in (completed(SPECS[0], 1.0), stopped(SPECS[0], Ending.PRUNED)):
        assert not record.may_run(retry=retry)


def test_an_interruption_does_not_use_up_an_attempt() -> None:
    """A run with two machine failures may run, however often it was interrupted."""
    attempts: list[list[Event]] = [
        [started(1), ended(ending=Ending.INTERRUPTED)],
        [started(2), ended(ending=Ending.INTERRUPTED)],
        [started(3), ended(failure=Failure.CRASHED)],
        [started(4), ended(ending=Ending.INTERRUPTED)],
        [started(5), ended(failure=Failure.CRASHED)],
    ]
    assert RunRecord.fold(SPECS[0], attempts).may_run()
