"""Two executions of a run are compared number by number, and the first difference is named."""

from collections.abc import Sequence
from dataclasses import replace
from math import nan

import pytest
from samples import continued, ended, evaluated, spec, started

from rlexp.records.divergence import Divergence, Likeness, first_divergence, likeness
from rlexp.records.events import Event, Measured
from rlexp.records.run import RunRecord


def measured(step: int, **metrics: float) -> Measured:
    """What the learner logged; an underscore stands for the slash of the library's names."""
    return Measured(
        time=float(step),
        step=step,
        metrics={k.replace("_", "/", 1): v for k, v in metrics.items()},
    )


def record(*attempts: Sequence[Event], weights: str = "abc") -> RunRecord:
    """The record of attempts, the last of which completed with these weights."""
    begun = [[started(k), *events] for k, events in enumerate(attempts, 1)]
    begun[-1].append(replace(ended(), weights=weights))
    return RunRecord.fold(spec(), begun)


LEARNT = (
    evaluated(10, 1.0, 2.0),
    measured(10, train_loss=0.5, time_fps=100.0),
    evaluated(20, 3.0, 4.0),
    measured(20, train_loss=0.25, time_fps=90.0),
)
FINAL = evaluated(100, 7.0, 9.0, final=True)


def test_identical() -> None:
    """Equal weights and episodes are identical, even at other times and speeds."""
    slower = [replace(e, time=e.time + 5.0) for e in LEARNT[:-1]]
    other = record([*slower, measured(20, train_loss=0.25, time_fps=3.0), FINAL])
    one = record([*LEARNT, FINAL])
    assert Likeness.IDENTICAL is likeness(one, other)
    assert first_divergence(one, other) is None


def test_no_number_equals_itself() -> None:
    """A return that is NaN equals another NaN."""
    one, other = (record([evaluated(10, nan), FINAL]) for _ in range(2))
    assert Likeness.IDENTICAL is likeness(one, other)
    assert first_divergence(one, other) is None


def test_other_weights() -> None:
    """Weights that differ alone are equal scores, and are what is named."""
    one, other = record([*LEARNT, FINAL]), record([*LEARNT, FINAL], weights="abd")
    assert Likeness.EQUAL_SCORES is likeness(one, other)
    expected = Divergence(step=100, event="ended", field="weights", first="abc", second="abd")
    assert expected == first_divergence(one, other)


def test_unknown_weights_are_not_identical() -> None:
    """Executions without recorded weights are not called identical."""
    nothing = replace(record([*LEARNT, FINAL]), weights=None)
    assert Likeness.EQUAL_SCORES is likeness(nothing, nothing)


def test_other_evaluation_with_equal_score() -> None:
    """An episode during training that differs makes the scores equal at best."""
    one = record([*LEARNT, FINAL])
    other = record([LEARNT[0], LEARNT[1], evaluated(20, 3.0, 5.0), LEARNT[3], FINAL])
    assert Likeness.EQUAL_SCORES is likeness(one, other)
    expected = Divergence(step=20, event="evaluated", field="returns[1]", first=4.0, second=5.0)
    assert expected == first_divergence(one, other)


def test_other_score() -> None:
    """Another score is different, though the first difference came earlier."""
    one = record([*LEARNT, FINAL])
    logged = measured(10, train_loss=0.75, time_fps=100.0)
    other = record([LEARNT[0], logged, *LEARNT[2:], evaluated(100, 7.0, 8.0, final=True)])
    assert Likeness.DIFFERENT is likeness(one, other)
    expected = Divergence(step=10, event="measured", field="train/loss", first=0.5, second=0.75)
    assert expected == first_divergence(one, other)


def test_length_of_an_episode() -> None:
    """Episodes of equal return and other length differ."""
    one = record([replace(LEARNT[0], lengths=(1, 1)), FINAL])
    other = record([replace(LEARNT[0], lengths=(1, 2)), FINAL])
    found = first_divergence(one, other)
    assert found is not None
    assert ("lengths[1]", 1, 2) == (found.field, found.first, found.second)


@pytest.mark.parametrize("there", [0, 1])
def test_missing_metric(there: int) -> None:
    """What only one of them logged is named, with nothing for the other."""
    pair = [measured(10, train_loss=0.5), measured(10, train_loss=0.5, train_std=1.0)]
    records = [record([m, FINAL], weights=str(k)) for k, m in enumerate(pair)]
    found = first_divergence(records[1 - there], records[there])
    assert found is not None
    assert "train/std" == found.field
    assert [None, 1.0][:: 1 if there else -1] == [found.first, found.second]


def test_another_order_of_events() -> None:
    """Where one logs earlier than the other, the next event of each is named."""
    one = record([measured(10, train_loss=0.5), FINAL])
    other = record([measured(12, train_loss=0.5), FINAL], weights="abd")
    expected = Divergence(
        step=10,
        event="measured",
        field="next event",
        first="measured at step 10",
        second="measured at step 12",
    )
    assert expected == first_divergence(one, other)


def test_end_of_the_shorter() -> None:
    """What a run that ended early lacks is the first difference."""
    one, other = record([*LEARNT, FINAL]), record([*LEARNT], weights="abc")
    found = first_divergence(one, other)
    assert found is not None
    assert (100, "evaluated at step 100", "ended at step 100") == (
        found.step,
        found.first,
        found.second,
    )


def test_logs_after_a_continuation_do_not_count() -> None:
    """After a checkpoint the library logs at another cadence, which is no difference of the run."""
    one = record([*LEARNT, measured(30, train_loss=0.1), FINAL])
    later: list[Event] = [continued(20), measured(35, train_loss=0.2), FINAL]
    assert first_divergence(one, record(LEARNT, later)) is None
    assert Likeness.IDENTICAL is likeness(one, record(LEARNT, later))


def test_logs_before_a_continuation_count() -> None:
    """What was logged up to the checkpoint is compared."""
    one = record([measured(10, train_loss=0.5), FINAL])
    other = record([measured(10, train_loss=0.6)], [continued(20), FINAL], weights="abd")
    found = first_divergence(one, other)
    assert found is not None
    assert (10, "train/loss") == (found.step, found.field)


def test_evaluations_after_a_continuation_count() -> None:
    """Evaluations are compared throughout."""
    one = record([*LEARNT, evaluated(30, 1.0), FINAL])
    other = record(LEARNT, [continued(20), evaluated(30, 2.0), FINAL])
    found = first_divergence(one, other)
    assert found is not None
    assert (30, "returns[0]") == (found.step, found.field)
