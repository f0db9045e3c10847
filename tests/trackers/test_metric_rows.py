"""Conversion of events into rows, one row for each environment step."""

import math
from dataclasses import replace

from hypothesis import given
from hypothesis import strategies as st
from samples import ended, evaluated, started

from rlexp.records.events import Event, Measured
from rlexp.trackers.metric_rows import merge_rows, rows_of


def measured(step: int, **metrics: float) -> Measured:
    """An event with metrics of the learner at a step."""
    return Measured(time=float(step), step=step, metrics=metrics)


def test_events_of_one_step_are_one_row() -> None:
    """A measurement and an evaluation at one step are one row; rows are sorted by step."""
    rows = rows_of(
        [started(), measured(20, loss=0.5), evaluated(20, 1.0, 3.0), evaluated(10, 4.0)]
    )
    assert [(row.step, dict(row.metrics)) for row in rows] == [
        (10, {"eval/mean_reward": 4.0, "eval/std_reward": 0.0, "eval/mean_ep_length": 1.0}),
        (
            20,
            {
                "loss": 0.5,
                "eval/mean_reward": 2.0,
                "eval/std_reward": 1.0,
                "eval/mean_ep_length": 1.0,
            },
        ),
    ]


def test_the_final_evaluation_is_no_point_of_the_curve() -> None:
    """The final evaluation has its own metric names."""
    (row,) = rows_of([evaluated(10, 4.0, 6.0, final=True), ended()])
    assert row.metrics["final/mean_reward"] == 5.0
    assert "eval/mean_reward" not in row.metrics


def test_an_evaluation_with_a_nan_return() -> None:
    """A NaN return makes the mean and the standard deviation NaN."""
    (row,) = rows_of([evaluated(10, 1.0, math.nan)])
    assert math.isnan(row.metrics["eval/mean_reward"])
    assert math.isnan(row.metrics["eval/std_reward"])


def test_a_measure_never_replaces_the_return() -> None:
    """A measure with the name of the mean return gets another name."""
    (row,) = rows_of([replace(evaluated(10, 4.0), measures={"mean_reward": (7.0,)})])
    assert (4.0, 7.0) == (
        row.metrics["eval/mean_reward"],
        row.metrics["eval/measure/mean_reward"],
    )


@given(st.lists(st.tuples(st.integers(0, 9), st.sampled_from("abc"), st.floats(-1, 1))), st.data())
def test_rows_in_two_parts_are_those_of_the_whole(
    values: list[tuple[int, str, float]], data: st.DataObject
) -> None:
    """Rows of a journal cut at any event equal those of the whole journal."""
    events: list[Event] = [measured(step, **{name: value}) for step, name, value in values]
    cut = data.draw(st.integers(0, len(events)))
    all_rows, merged_rows = (
        rows_of(events),
        merge_rows(rows_of(events[:cut]), rows_of(events[cut:])),
    )
    assert [(r.step, dict(r.metrics)) for r in all_rows] == [
        (r.step, dict(r.metrics)) for r in merged_rows
    ]


def test_a_measure_is_the_mean_of_the_episodes_that_report_it() -> None:
    """Trackers receive each measure; an episode without it does not hide the others."""
    measures = {"success": (1.0, 0.0), "cost": (3.0, math.nan), "odd": (math.nan, math.nan)}
    (row,) = rows_of([replace(evaluated(10, 4.0, 6.0), measures=measures)])
    assert (0.5, 3.0) == (row.metrics["eval/success"], row.metrics["eval/cost"])
    assert "eval/odd" not in row.metrics
