"""The score of a completed run by each declared rule, computed by hand."""

import pytest
from samples import completed, ended, evaluated, failed, spec, started

from rlexp.records.events import Ending, Event, Failure
from rlexp.records.run import RunRecord, State, area_under_curve, last_window


def fold(*attempts: list[Event], alive: bool = False, score: str = "final") -> RunRecord:
    """The record of a run with these attempts."""
    return RunRecord.fold(spec(score=score), attempts, alive=alive)


@pytest.mark.parametrize("failure", Failure)
def test_a_failure_is_never_a_score(failure: Failure) -> None:
    """A run that failed after its final evaluation has no score."""
    record = fold([started(), evaluated(100, 9.0, final=True), ended(failure=failure)])
    assert (State.FAILED, failure, f"reason of {failure}", None) == (
        record.state,
        record.failure,
        record.reason,
        record.score,
    )


@pytest.mark.parametrize("ending", [Ending.PRUNED, Ending.INTERRUPTED])
@pytest.mark.parametrize("score", ["final", "auc", "last_window"])
def test_only_a_completed_run_has_a_score(ending: Ending, score: str) -> None:
    """A pruned, interrupted or running run has no score."""
    events: list[Event] = [started(), evaluated(10, 9.0), evaluated(100, 9.0, final=True)]
    assert 9.0 == fold([*events, ended()], score=score).score
    assert None is fold([*events, ended(ending=ending)], score=score).score
    assert None is fold(events, score=score, alive=True).score


def test_the_area_under_the_curve_is_its_mean_height() -> None:
    """The area weights each evaluation interval by its length: (10 × 1 + 30 × 4) / 40."""
    curve = [evaluated(10, 0.0), evaluated(20, 2.0), evaluated(50, 6.0)]
    assert (10 * 1 + 30 * 4) / 40 == area_under_curve(curve)


@pytest.mark.parametrize(("curve", "expected"), [([], None), ([evaluated(10, 3.0)], 3.0)])
def test_the_area_of_a_point_is_its_height(curve: list[object], expected: float | None) -> None:
    """The area of one evaluation is its value; without evaluations there is no area."""
    assert expected == area_under_curve(curve)  # type: ignore[arg-type]


def test_the_last_window_is_the_last_tenth() -> None:
    """The last window excludes the evaluation at exactly nine tenths of the steps."""
    curve = [evaluated(90, 100.0), evaluated(91, 1.0), evaluated(100, 3.0)]
    assert 2.0 == last_window(curve, 100)


def test_an_empty_window_uses_the_last_evaluation() -> None:
    """If the last window has no evaluation, the last evaluation gives the score."""
    assert 7.0 == last_window([evaluated(10, 1.0), evaluated(50, 7.0)], 100)
    assert None is last_window([], 100)


@pytest.mark.parametrize(
    ("score", "expected"), [("final", 8.0), ("auc", 2.5), ("last_window", 4.0)]
)
def test_the_declared_rule_gives_the_score(score: str, expected: float) -> None:
    """The same events have three scores, and the rule of the budget chooses one."""
    events: list[Event] = [
        started(),
        evaluated(10, 1.0),
        evaluated(100, 4.0),
        evaluated(100, 7.0, 9.0, final=True),
        ended(),
    ]
    assert expected == fold(events, score=score).score


def test_a_completed_run_without_its_evaluation_has_no_score() -> None:
    """A completed run without a final evaluation has no score."""
    assert None is fold([started(), ended()]).score


@pytest.mark.parametrize("value", [float("nan"), float("inf"), -float("inf"), -1e200])
def test_an_unusable_mean_is_no_score(value: float) -> None:
    """A completed run has no score if its mean is NaN, infinite or too large."""
    record = completed(spec(), value)
    assert (None, State.COMPLETED, True) == (record.score, record.state, record.scoreless)


def test_a_failure_of_the_machine_is_not_scoreless() -> None:
    """A run is scoreless after a NaN failure, and not after a disk error, which is tried again."""
    scoreless = {kind: failed(spec(), kind).scoreless for kind in (Failure.NAN, Failure.DISK)}
    assert {Failure.NAN: True, Failure.DISK: False} == scoreless
