"""Results task by task in a report."""

from dataclasses import replace

from evidence_samples import (
    CARTPOLE,
    PENDULUM,
    all_failed,
    empty,
    incomplete,
    inquiry,
    of_scores,
    one_run,
    task_missing,
    typical,
    typical_scores,
    without_anchors,
    worst,
)
from part_blocks import column, notices, of_kind, part_of, table

from rlexp.reports.drawing.blocks import Intervals, Tone
from rlexp.reports.sections.tasks import TasksSection


def test_a_row_for_every_label_on_every_task() -> None:
    """Tasks outermost; runs as k of those planned."""
    own = table(part_of(TasksSection(), incomplete()), "tasks")
    assert [CARTPOLE] * 3 + [PENDULUM] * 3 == column(own, "task")
    assert ["ppo", "a2c", "dqn"] * 2 == column(own, "label")
    assert ["5 of 5", "1 of 5", "5 of 5", "5 of 5", "5 of 5", "5 of 5"] == column(own, "runs")


def test_least_and_greatest_run_by_hand() -> None:
    """They are scores of runs, not ends of an interval."""
    own = table(
        part_of(TasksSection(), of_scores({("ppo", CARTPOLE): [300.0, 100.0, 200.0]})), "tasks"
    )
    assert ([100.0], [300.0]) == (column(own, "lowest run"), column(own, "highest run"))


def test_the_figure_has_a_panel_a_task_and_a_dot_a_run() -> None:
    """Random and threshold scores are marked."""
    figure = of_kind(part_of(TasksSection(), typical()), Intervals)[0]
    assert [CARTPOLE, PENDULUM] == [panel.title for panel in figure.panels]
    for panel in figure.panels:
        assert [5, 5, 5] == [len(mark.dots) for mark in panel.marks]
    assert (("random", 22.5), ("threshold", 475.0)) == figure.panels[0].marked


def test_what_was_not_asked_for_keeps_its_row() -> None:
    """With the reason in the last column."""
    own = table(part_of(TasksSection(), task_missing()), "tasks")
    expected = (
        PENDULUM,
        "dqn",
        "0 of 0",
        None,
        None,
        None,
        None,
        "dqn has no planned run on Pendulum-v1",
    )
    assert expected == own.rows[-1]


def test_all_failed_has_a_table_and_no_figure() -> None:
    """Rows say what became of the runs."""
    own = part_of(TasksSection(), all_failed())
    assert [] == of_kind(own, Intervals)
    assert "ppo has no score on CartPole-v1 (3 failed (nan))" == table(own, "tasks").rows[0][-1]


def test_tasks_need_no_anchors() -> None:
    """Raw scores of one task are comparable as they are."""
    own = table(part_of(TasksSection(), without_anchors()), "tasks")
    assert None not in column(own, "IQM")


def test_capped_metrics_do_not_lead_raw_scores() -> None:
    """The first metric that raw scores have stands in the table."""
    asked = inquiry(typical())
    gap_first = dict(reversed(list(asked.metrics.items())))
    own = TasksSection().part(replace(asked, metrics=gap_first))
    assert own is not None
    assert "mean" == table(own, "tasks").columns[3].title


def test_a_capped_metric_alone_is_of_normalised_scores() -> None:
    """Its figure has no raw dots, and the note says what the units are."""
    asked = inquiry(typical())
    own = TasksSection().part(replace(asked, metrics={"gap": asked.metrics["optimality_gap"]}))
    assert own is not None
    assert "optimality gap in normalised scores" in table(own, "tasks").note
    panel = of_kind(own, Intervals)[0].panels[0]
    assert ("normalised score", (), ()) == (panel.axis.title, panel.marks[0].dots, panel.marked)


def test_failed_runs_among_the_scores_are_named() -> None:
    """Where they count as the task's minimum."""
    note = table(part_of(TasksSection(), worst()), "tasks").note
    assert note.endswith("count as the task's minimum: a2c on CartPole-v1 (1).")


def test_narrow_intervals_are_warned_of() -> None:
    """How many of them, and by how much."""
    own = of_scores({k: v for k, v in typical_scores(3).items() if k[1] == CARTPOLE})
    warned = notices(part_of(TasksSection(), own, interval="percentile"))
    assert [Tone.WARNING] == [tone for tone, _ in warned]
    assert "3 of 3 intervals below are too narrow" in warned[0][1]


def test_one_run_has_a_mark_without_an_interval() -> None:
    """The estimate and the dot are there."""
    mark = of_kind(part_of(TasksSection(), one_run()), Intervals)[0].panels[0].marks[0]
    assert (400.0, None, (400.0,)) == (mark.interval.estimate, mark.interval.low, mark.dots)


def test_nothing_asked_for_has_no_part() -> None:
    """There is no task."""
    assert None is TasksSection().part(inquiry(empty()))
