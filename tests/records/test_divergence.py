"""The comparison of two executions of a run, and the first difference between them."""

from collections.abc import Sequence
from dataclasses import replace
from math import nan

import pytest
from samples import continued, ended, evaluated, spec, started

from rlexp.records.divergence import Divergence, Likeness, first_divergence, likeness
from rlexp.records.events import Event, Measured
from rlexp.records.run import RunRecord


def measured(step: int, **metrics: float) -> Measured:
    """Metrics of the learner; an underscore stands for the slash in names of the library."""
    return Measured(
        time=float(step),
        step=step,
        metrics={k.replace("_", "/", 1): v for k, v in metrics.items()},
    )


def record(*attempts: Sequence[Event], weights: str = "abc") -> RunRecord:
    """The record of several attempts, the last of which completed with these weights."""
    journals = [[started(k), *events] for k, events in enumerate(attempts, 1)]
    journals[-1].append(replace(ended(), weights=weights))
    return RunRecord.fold(spec(), journals)


TRAINING = (
    evaluated(10, 1.0, 2.0),
    measured(10, train_loss=0.5, time_fps=100.0),
    evaluated(20, 3.0, 4.0),
    measured(20, train_loss=0.25, time_fps=90.0),
)
FINAL = evaluated(100, 7.0, 9.0, final=True)


def test_identical() -> None:
    """Executions with equal weights and episodes are identical, even at other times and speeds."""
    slower = [replace(e, time=e.time + 5.0) for e in TRAINING[:-1]]
    second = record([*slower, measured(20, train_loss=0.25, time_fps=3.0), FINAL])
    first = record([*TRAINING, FINAL])
    assert Likeness.IDENTICAL is likeness(first, second)
    assert first_divergence(first, second) is None


def test_nan_returns_are_equal() -> None:
    """A NaN return equals the NaN return of the other execution."""
    first, second = (record([evaluated(10, nan), FINAL]) for _ in range(2))
    assert Likeness.IDENTICAL is likeness(first, second)
    assert first_divergence(first, second) is None


def test_different_weights() -> None:
    """If only the weights differ, the scores are equal and the divergence names the weights."""
    first, second = record([*TRAINING, FINAL]), record([*TRAINING, FINAL], weights="abd")
    assert Likeness.EQUAL_SCORES is likeness(first, second)
    expected = Divergence(step=100, event="ended", field="weights", first="abc", second="abd")
    assert expected == first_divergence(first, second)


def test_unknown_weights_are_not_identical() -> None:
    """Executions without recorded weights have equal scores and are not identical."""
    without_weights = replace(record([*TRAINING, FINAL]), weights=None)
    assert Likeness.EQUAL_SCORES is likeness(without_weights, without_weights)


def test_different_evaluation_with_equal_score() -> None:
    """Executions that differ in an episode during training have equal scores at best."""
    first = record([*TRAINING, FINAL])
    second = record([TRAINING[0], TRAINING[1], evaluated(20, 3.0, 5.0), TRAINING[3], FINAL])
    assert Likeness.EQUAL_SCORES is likeness(first, second)
    expected = Divergence(step=20, event="evaluated", field="returns[1]", first=4.0, second=5.0)
    assert expected == first_divergence(first, second)


def test_different_scores() -> None:
    """Executions with different scores are different; the divergence is the first difference."""
    first = record([*TRAINING, FINAL])
    logged = measured(10, train_loss=0.75, time_fps=100.0)
    second = record([TRAINING[0], logged, *TRAINING[2:], evaluated(100, 7.0, 8.0, final=True)])
    assert Likeness.DIFFERENT is likeness(first, second)
    expected = Divergence(step=10, event="measured", field="train/loss", first=0.5, second=0.75)
    assert expected == first_divergence(first, second)


def test_different_lengths_of_an_episode() -> None:
    """Episodes with equal returns and different lengths are a divergence."""
    first = record([replace(TRAINING[0], lengths=(1, 1)), FINAL])
    second = record([replace(TRAINING[0], lengths=(1, 2)), FINAL])
    divergence = first_divergence(first, second)
    assert divergence is not None
    assert ("lengths[1]", 1, 2) == (divergence.field, divergence.first, divergence.second)


@pytest.mark.parametrize("second_index", [0, 1])
def test_missing_metric(second_index: int) -> None:
    """A metric that only one execution logged is a divergence with None for the other one."""
    measurements = [measured(10, train_loss=0.5), measured(10, train_loss=0.5, train_std=1.0)]
    records = [record([m, FINAL], weights=str(k)) for k, m in enumerate(measurements)]
    divergence = first_divergence(records[1 - second_index], records[second_index])
    assert divergence is not None
    assert "train/std" == divergence.field
    assert [None, 1.0][:: 1 if second_index else -1] == [divergence.first, divergence.second]


def test_another_order_of_events() -> None:
    """If one execution logs earlier than the other, the divergence names both next events."""
    first = record([measured(10, train_loss=0.5), FINAL])
    second = record([measured(12, train_loss=0.5), FINAL], weights="abd")
    expected = Divergence(
        step=10,
        event="measured",
        field="next event",
        first="measured at step 10",
        second="measured at step 12",
    )
    assert expected == first_divergence(first, second)


def test_an_execution_that_ends_earlier() -> None:
    """The first event that the shorter execution lacks is the divergence."""
    first, second = record([*TRAINING, FINAL]), record([*TRAINING], weights="abc")
    divergence = first_divergence(first, second)
    assert divergence is not None
    assert (100, "evaluated at step 100", "ended at step 100") == (
        divergence.step,
        divergence.first,
        divergence.second,
    )


def test_logs_after_a_continuation_do_not_count() -> None:
    """Logs after a checkpoint are not compared, because the library logs them at other steps."""
    uninterrupted = record([*TRAINING, measured(30, train_loss=0.1), FINAL])
    after_checkpoint: list[Event] = [continued(20), measured(35, train_loss=0.2), FINAL]
    assert first_divergence(uninterrupted, record(TRAINING, after_checkpoint)) is None
    assert Likeness.IDENTICAL is likeness(uninterrupted, record(TRAINING, after_checkpoint))


def test_logs_before_a_continuation_count() -> None:
    """Logs up to the checkpoint are compared."""
    first = record([measured(10, train_loss=0.5), FINAL])
    second = record([measured(10, train_loss=0.6)], [continued(20), FINAL], weights="abd")
    divergence = first_divergence(first, second)
    assert divergence is not None
    assert (10, "train/loss") == (divergence.step, divergence.field)


def test_evaluations_after_a_continuation_count() -> None:
    """Evaluations are compared even after a continuation."""
    first = record([*TRAINING, evaluated(30, 1.0), FINAL])
    second = record(TRAINING, [continued(20), evaluated(30, 2.0), FINAL])
    divergence = first_divergence(first, second)
    assert divergence is not None
    assert (30, "returns[0]") == (divergence.step, divergence.field)
