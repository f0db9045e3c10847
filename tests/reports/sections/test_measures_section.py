"""Further measures in a report, such as success and cost, averaged over each run and all runs."""

import math
from typing import Any

from evidence_samples import CARTPOLE, configured, evidence, inquiry, typical
from measured_samples import grid_tested, levels, odd_measures, partly_measured, played_out
from part_blocks import column, of_kind, part_of, table

from rlexp.records.context_returns import is_worst_context
from rlexp.reports.analysis.generalisation import ordered
from rlexp.reports.drawing.blocks import IntervalFigure
from rlexp.reports.evidence.runs import Evidence
from rlexp.reports.sections.measures import MeasuresSection
from rlexp.stats.interval import Interval


def runs_with_measures(*runs: dict[str, tuple[float, ...]], **fields: Any) -> Evidence:
    """Runs of one label with these measures of two episodes."""
    return evidence(
        played_out(configured(), seed, [1.0, 2.0], measures, **fields)
        for seed, measures in enumerate(runs)
    )


def test_measures_by_hand() -> None:
    """Measures are averaged over the episodes of a run, then over runs."""
    sample = runs_with_measures(
        {"cost": (1.0, 3.0)}, {"cost": (5.0, math.nan)}, {"cost": (8.0, 8.0)}
    )
    (value,) = column(table(part_of(MeasuresSection(), sample), "measures"), "mean")
    assert isinstance(value, Interval)
    assert (5.0, 3, 0) == (value.estimate, value.n, value.seed)


def test_held_out_and_in_distribution_have_columns() -> None:
    """Both columns exist where runs were played in distribution."""
    sample = runs_with_measures(
        {"success": (0.0, 1.0)},
        {"success": (0.0, 0.0)},
        known=[1.0, 2.0],
        known_measures={"success": (1.0, 1.0)},
    )
    measures_table = table(part_of(MeasuresSection(), sample), "measures")
    values = [column(measures_table, title)[0] for title in ("held out", "in distribution")]
    assert [0.25, 1.0] == [v.estimate for v in values if isinstance(v, Interval)]


def test_success_stays_between_zero_and_one() -> None:
    """Interval and axis of success are within 0 and 1, unless a value lies outside."""
    sample = runs_with_measures(
        {"success": (0.0, 1.0)}, {"success": (1.0, 1.0)}, {"success": (1.0, 1.0)}
    )
    part = part_of(MeasuresSection(), sample)
    (value,) = column(table(part, "measures"), "mean")
    assert isinstance(value, Interval)
    assert 1.0 == value.high
    axis = of_kind(part, IntervalFigure)[0].panels[0].axis
    assert (0.0, 1.0) == (axis.low, axis.high)
    out_of_range = runs_with_measures(
        {"success": (0.0, 2.0)}, {"success": (2.0, 2.0)}, {"success": (2.0, 2.0)}
    )
    (value,) = column(table(part_of(MeasuresSection(), out_of_range), "measures"), "mean")
    assert isinstance(value, Interval)
    assert value.high is not None
    assert value.high > 2


def test_violations_stay_between_zero_and_one() -> None:
    """Violations are a share of steps, so their interval ends at 1 unless a value lies outside."""
    shares: tuple[dict[str, tuple[float, ...]], ...] = (
        {"violations": (0.0, 0.1)},
        {"violations": (0.9, 1.0)},
        {"violations": (0.0, 0.1)},
    )
    (value,) = column(
        table(part_of(MeasuresSection(), runs_with_measures(*shares)), "measures"), "mean"
    )
    assert isinstance(value, Interval)
    assert (0.0, 1.0) == (value.low, value.high)
    counts: list[dict[str, tuple[float, ...]]] = [
        {"violations": (0.0, 20 * run["violations"][1])} for run in shares
    ]
    (value,) = column(
        table(part_of(MeasuresSection(), runs_with_measures(*counts)), "measures"), "mean"
    )
    assert isinstance(value, Interval)
    assert value.high is not None
    assert value.high > 1


def test_a_count_is_never_negative() -> None:
    """Intervals of cost and violations are clipped at 0, unless the mean of a run is negative."""
    sample = runs_with_measures(
        {"cost": (0.0, 0.0), "violations": (0.0, 0.0), "drift": (0.0, 0.0)},
        {"cost": (0.0, 9.0), "violations": (-9.0, 1.0), "drift": (0.0, 9.0)},
        {"cost": (0.0, 0.0), "violations": (0.0, 0.0), "drift": (0.0, 0.0)},
    )
    measures_table = table(part_of(MeasuresSection(), sample), "measures")
    lows = [value.low for value in column(measures_table, "mean") if isinstance(value, Interval)]
    cost, violations, drift = lows
    assert cost == 0
    assert violations is not None
    assert drift is not None
    assert max(violations, drift) < 0


def test_rows_by_task_then_measure_then_label() -> None:
    """Success, cost and violations come first, and contexts are no measures."""
    part = part_of(MeasuresSection(), grid_tested())
    measures_table = table(part, "measures")
    assert ["success", "cost", "return/speed"] == list(
        dict.fromkeys(column(measures_table, "measure"))
    )
    assert ["ppo", "a2c", "dqn"] * 6 == column(measures_table, "label")
    assert [CARTPOLE] * 9 == column(measures_table, "task")[:9]
    figures = of_kind(part, IntervalFigure)
    assert ["measures-1", "measures-2"] == [figure.name for figure in figures]
    assert [5, 5, 5] == [len(mark.dots) for mark in figures[0].panels[0].marks]


def test_runs_that_lack_a_measure_are_counted() -> None:
    """The remark counts runs without the measure, and failed and unfinished runs."""
    measures_table = table(part_of(MeasuresSection(), partly_measured()), "measures")
    rows = {(row[1], row[2]): row for row in measures_table.rows}
    states = "1 failed (nan), 1 interrupted"
    success, cost, unstarted = rows["success", "a2c"], rows["cost", "a2c"], rows["cost", "dqn"]
    assert ("3 of 5", f"{states}; in distribution: 1 run") == (success[3], success[-1])
    assert ("2 of 5", f"{states}; 1 run without this measure") == (cost[3], cost[-1])
    assert ("0 of 1", "1 planned") == (unstarted[3], unstarted[-1])


def test_non_finite_measures_are_left_out() -> None:
    """A measure without values keeps its row, and so does one with an out-of-range value.

    A mean of the other episodes would look better than the run was. `rlexp show` has none, either.
    """
    sample = odd_measures()
    measures_table = table(part_of(MeasuresSection(), sample), "measures")
    values = dict(
        zip(column(measures_table, "measure"), column(measures_table, "mean"), strict=True)
    )
    assert (None, None) == (values["cost"], values["huge"])
    for member in sample.members:
        reported = {n for n in member.record.measures if not is_worst_context(n)}
        assert {"success"} == reported


def test_reports_without_measures_have_no_part() -> None:
    """Reports without measures, or only with contexts, have no section on measures."""
    assert None is MeasuresSection().part(inquiry(typical()))
    assert None is MeasuresSection().part(inquiry(levels()))


def test_parts_of_a_cost_follow_it() -> None:
    """Parts such as `cost/speed` follow `cost`, before other measures."""
    names = ["return/speed", "violations", "agility", "cost/drift", "success", "cost"]
    expected = ["success", "cost", "cost/drift", "violations", "agility", "return/speed"]
    assert expected == ordered(names)
