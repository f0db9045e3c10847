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

from rlexp.reports.drawing.blocks import IntervalFigure, Tone
from rlexp.reports.sections.tasks import TasksSection


def test_a_row_for_every_label_on_every_task() -> None:
    """Rows are sorted by task, with scores of planned runs."""
    own = table(part_of(TasksSection(), incomplete()), "tasks")
    assert [CARTPOLE] * 3 + [PENDULUM] * 3 == column(own, "task")
    assert ["ppo", "a2c", "dqn"] * 2 == column(own, "label")
    assert ["5 of 5", "1 of 5", "5 of 5", "5 of 5", "5 of 5", "5 of 5"] == column(own, "runs")


def test_least_and_greatest_run_by_hand() -> None:
    """The lowest and highest run are scores of runs, not ends of an interval."""
    own = table(
        part_of(TasksSection(), of_scores({("ppo", CARTPOLE): [300.0, 100.0, 200.0]})), "tasks"
    )
    assert ([100.0], [300.0]) == (column(own, "lowest run"), column(own, "highest run"))


def test_the_figure_has_a_panel_a_task_and_a_dot_a_run() -> None:
    """The panels have random and threshold scores as lines."""
    figure = of_kind(part_of(TasksSection(), typical()), IntervalFigure)[0]
    assert [CARTPOLE, PENDULUM] == [panel.title for panel in figure.panels]
    for panel in figure.panels:
        assert [5, 5, 5] == [len(mark.dots) for mark in panel.marks]
    assert (("random", 22.5), ("threshold", 475.0)) == figure.panels[0].marked


def test_a_label_without_planned_runs_keeps_its_row() -> None:
    """The last column has the reason."""
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
    """The rows have the states of the failed runs."""
    own = part_of(TasksSection(), all_failed())
    assert [] == of_kind(own, IntervalFigure)
    assert "ppo has no score on CartPole-v1 (3 failed (nan))" == table(own, "tasks").rows[0][-1]


def test_tasks_need_no_anchors() -> None:
    """Raw scores of single tasks need no anchors."""
    own = table(part_of(TasksSection(), without_anchors()), "tasks")
    assert None not in column(own, "IQM")


def test_capped_metrics_do_not_lead_raw_scores() -> None:
    """The first metric for raw scores is in the table."""
    asked = inquiry(typical())
    gap_first = dict(reversed(list(asked.metrics.items())))
    own = TasksSection().part(replace(asked, metrics=gap_first))
    assert own is not None
    assert "mean" == table(own, "tasks").columns[3].title


def test_a_capped_metric_alone_is_of_normalised_scores() -> None:
    """The figure has no dots of raw scores, and the note has the units."""
    asked = inquiry(typical())
    own = TasksSection().part(replace(asked, metrics={"gap": asked.metrics["optimality_gap"]}))
    assert own is not None
    assert "optimality gap in normalised scores" in table(own, "tasks").note
    panel = of_kind(own, IntervalFigure)[0].panels[0]
    assert ("normalised score", (), ()) == (panel.axis.title, panel.marks[0].dots, panel.marked)


def test_failed_runs_among_the_scores_are_named() -> None:
    """The note counts failed runs that count as the task's minimum."""
    note = table(part_of(TasksSection(), worst()), "tasks").note
    assert note.endswith("count as the task's minimum: a2c on CartPole-v1 (1).")


def test_narrow_intervals_are_warned_of() -> None:
    """The warning has the number of narrow intervals and their coverage."""
    own = of_scores({k: v for k, v in typical_scores(3).items() if k[1] == CARTPOLE})
    warned = notices(part_of(TasksSection(), own, interval="percentile"))
    assert [Tone.WARNING] == [tone for tone, _ in warned]
    assert "3 of 3 intervals below are too narrow" in warned[0][1]


def test_one_run_has_a_mark_without_an_interval() -> None:
    """The mark of a single run has the estimate and a dot."""
    mark = of_kind(part_of(TasksSection(), one_run()), IntervalFigure)[0].panels[0].marks[0]
    assert (400.0, None, (400.0,)) == (mark.interval.estimate, mark.interval.low, mark.dots)


def test_an_experiment_without_runs_has_no_part() -> None:
    """An experiment without planned runs has no task."""
    assert None is TasksSection().part(inquiry(empty()))
