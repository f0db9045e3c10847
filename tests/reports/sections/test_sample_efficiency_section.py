"""Sample efficiency in a report."""

from functools import cache

import pytest
from curve_samples import run
from evidence_samples import CARTPOLE, PENDULUM, SAMPLES, evidence, inquiry, reordered, typical
from hypothesis import given
from hypothesis import strategies as st

from rlexp.records.events import Failure
from rlexp.reports.drawing.blocks import Callout, LineFigure, SectionContent, Table, Value
from rlexp.reports.evidence.runs import Evidence, PlannedRun
from rlexp.reports.sections.sample_efficiency import ALL_TASKS, SampleEfficiencySection
from rlexp.stats.interval import Interval

NAN = float("nan")
HALF = {CARTPOLE: (22.5 + 475.0) / 2, PENDULUM: (-1235.0 - 150.0) / 2}
FULL = {CARTPOLE: 475.0, PENDULUM: -150.0}
"""Returns that are normalised to a half and to one."""


def part_of(evidence: Evidence, **changes: object) -> SectionContent:
    """The section on sample efficiency, which must exist."""
    part = SampleEfficiencySection().part(inquiry(evidence, **changes))
    assert part is not None
    return part


def rows_of(evidence: Evidence) -> dict[tuple[Value, Value], tuple[Value, ...]]:
    """The further cells of each row of the table, by task and label."""
    table = next(b for b in part_of(evidence).blocks if isinstance(b, Table))
    return {(row[0], row[1]): row[2:] for row in table.rows}


def figure_of(evidence: Evidence, **changes: object) -> LineFigure:
    """The figure over all tasks, which must exist."""
    return next(b for b in part_of(evidence, **changes).blocks if isinstance(b, LineFigure))


def area(row: tuple[Value, ...]) -> Interval:
    """The interval of a row, which must exist."""
    assert isinstance(row[1], Interval)
    return row[1]


def both_tasks() -> list[PlannedRun]:
    """Two runs on each of two tasks, from half of the scale to its end."""
    return [
        run([HALF[task], FULL[task]], seed, task=task)
        for task in (CARTPOLE, PENDULUM)
        for seed in range(2)
    ]


def test_area_is_the_mean_height() -> None:
    """The area is the mean height of a curve, averaged over the middle half of the runs."""
    members = [run([10.0 + k, 30.0 + k, 30.0 + k], seed) for seed, k in enumerate((0, 5, 7, 100))]
    row = rows_of(evidence(members))[CARTPOLE, "ppo"]
    assert ("4 of 4", 4) == (row[0], area(row).n)
    assert area(row).estimate == pytest.approx(31.0)
    assert ("25, 30, 32, 125",) == row[2:]


def test_an_interval_ends_where_returns_do() -> None:
    """The interval of an area is clipped to the possible returns, raw or normalised."""
    members = [run([2.0, 2.0], 0), run([2.0, 2.0], 1), run([90.0, 90.0], 2)]
    assert 1.0 == area(rows_of(evidence(members))[CARTPOLE, "ppo"]).low
    heights = {CARTPOLE: (499.0, 499.0, 100.0), PENDULUM: (-1.0, -1.0, -1000.0)}
    runs = [
        run([height] * 2, seed, task=task)
        for task, task_heights in heights.items()
        for seed, height in enumerate(task_heights)
    ]
    highest = (0.0 + 1235.0) / (1235.0 - 150.0)
    assert area(rows_of(evidence(runs))[ALL_TASKS, "ppo"]).high == pytest.approx(highest)


def test_only_completed_runs_have_an_area() -> None:
    """A failed run has no area, and the row counts the run."""
    members = [run([10.0, 20.0], 0), run([90.0, 90.0], 1, failure=Failure.CRASHED)]
    row = rows_of(evidence(members))[CARTPOLE, "ppo"]
    assert ("1 of 2", 15.0, None) == (row[0], area(row).estimate, area(row).low)
    assert ("15.00", "not completed: 1 failed (crashed)") == row[2:]


@pytest.mark.parametrize("means", [[], [10.0], [10.0, NAN, 30.0]])
def test_a_run_without_two_finite_evaluations_has_no_area(means: list[float]) -> None:
    """Too few or non-finite evaluations give no area, with the reason."""
    row = rows_of(evidence([run(means, 0)]))[CARTPOLE, "ppo"]
    assert ("0 of 1", None, "1 without at least two evaluations, all finite") == row


def test_over_all_tasks_the_area_is_normalised() -> None:
    """The area of a curve from a half to one is three quarters, on tasks of any return."""
    row = rows_of(evidence(both_tasks()))[ALL_TASKS, "ppo"]
    assert ("4 of 4", 2) == (row[0], area(row).tasks)
    assert area(row).estimate == pytest.approx(0.75)


def test_curves_over_all_tasks_are_normalised() -> None:
    """With equal budgets, curves over all tasks are normalised returns by environment steps."""
    figure = figure_of(evidence(both_tasks()))
    assert "environment steps" == figure.x.title
    assert (1000.0, 2000.0) == figure.lines[0].x
    assert (0.5, 1.0) == pytest.approx(figure.lines[0].y)
    assert "ppo: 4 of 4 runs" in figure.note


def test_different_budgets_are_put_on_one_axis_as_shares() -> None:
    """With different budgets, the axis is the share of each task's budget."""
    members = [
        run([HALF[CARTPOLE], FULL[CARTPOLE]], 0, steps=2000),
        run([HALF[PENDULUM]] * 2 + [FULL[PENDULUM]] * 2, 0, task=PENDULUM, steps=4000),
    ]
    figure = figure_of(evidence(members))
    assert "share of the task's budget" == figure.x.title
    assert (0.5, 0.75, 1.0) == figure.lines[0].x
    assert (0.5, 0.75, 1.0) == pytest.approx(figure.lines[0].y)


def test_a_label_without_a_task_is_named() -> None:
    """A label without a task has no line and no area over all tasks, with the reason."""
    sample = SAMPLES["task_missing"]()
    assert "dqn: — (Pendulum-v1: no run planned on this task)." in figure_of(sample).note
    assert (None, None, "no area on Pendulum-v1") == rows_of(sample)[ALL_TASKS, "dqn"][1:]
    assert ("0 of 0", None, None, "no run planned") == rows_of(sample)[PENDULUM, "dqn"]


def test_tasks_without_anchors_are_not_put_together() -> None:
    """Without anchors a notice replaces the figure, and no row is over all tasks."""
    part = part_of(SAMPLES["without_anchors"]())
    assert isinstance(part.blocks[0], Callout)
    assert "Pendulum-v1 cannot be normalised" in part.blocks[0].text
    assert not [task for task, _ in rows_of(SAMPLES["without_anchors"]()) if task == ALL_TASKS]


def test_one_task_has_a_table_only() -> None:
    """With one task the section has a table and no figure."""
    assert [Table] == [type(block) for block in part_of(SAMPLES["one_task"]()).blocks]


def test_nothing_run_has_rows_of_dashes() -> None:
    """Without a run every label has a row with the reason."""
    rows = rows_of(SAMPLES["nothing_run"]())
    assert [("0 of 3", None, "not completed: 3 planned")] * 2 == list(rows.values())


def test_no_more_points_than_asked_for() -> None:
    """The curve over all tasks has the requested number of points."""
    assert 5 == len(figure_of(typical(), curve_points=5).lines[0].x)


def test_an_experiment_without_runs_has_no_part() -> None:
    """An experiment without planned runs has no section on sample efficiency."""
    assert SampleEfficiencySection().part(inquiry(SAMPLES["empty"]())) is None


@cache
def part_of_sample(sample: str) -> SectionContent | None:
    """The section of a sample, with its runs in their original order."""
    return SampleEfficiencySection().part(inquiry(SAMPLES[sample]()))


@given(st.integers(0, 10_000), st.sampled_from(sorted(SAMPLES)))
def test_the_order_of_the_runs_does_not_matter(seed: int, sample: str) -> None:
    """The same runs in another order give the same section."""
    original = SAMPLES[sample]()
    assert part_of_sample(sample) == SampleEfficiencySection().part(
        inquiry(reordered(original, seed))
    )
