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

from rlexp.reports.drawing.blocks import IntervalFigure, Table, Tone
from rlexp.reports.sections.tasks import TasksSection
from rlexp.stats.interval import Interval


def test_a_row_for_every_label_on_every_task() -> None:
    """Rows are sorted by task and then by score, the best first, with the planned runs."""
    tasks_table = table(part_of(TasksSection(), incomplete()), "tasks")
    assert [CARTPOLE] * 3 + [PENDULUM] * 3 == column(tasks_table, "task")
    iqms = [row[3].estimate for row in tasks_table.rows if isinstance(row[3], Interval)]
    for on_task in (iqms[:3], iqms[3:]):
        assert sorted(on_task, reverse=True) == on_task
    labels, runs = column(tasks_table, "label"), column(tasks_table, "runs")
    assert [{"ppo", "a2c", "dqn"}] * 2 == [set(labels[:3]), set(labels[3:])]
    assert "1 of 5" == runs[labels.index("a2c")]
    assert 5 == runs.count("5 of 5")


def test_least_and_greatest_run_by_hand() -> None:
    """The lowest and highest run are scores of runs, not ends of an interval."""
    tasks_table = table(
        part_of(TasksSection(), of_scores({("ppo", CARTPOLE): [300.0, 100.0, 200.0]})), "tasks"
    )
    assert ([100.0], [300.0]) == (
        column(tasks_table, "lowest run"),
        column(tasks_table, "highest run"),
    )


def test_the_figure_has_a_panel_a_task_and_a_dot_a_run() -> None:
    """Each task has a panel with a dot for each run, and lines for reference scores."""
    figure = of_kind(part_of(TasksSection(), typical()), IntervalFigure)[0]
    assert [CARTPOLE, PENDULUM] == [panel.title for panel in figure.panels]
    for panel in figure.panels:
        assert [5, 5, 5] == [len(mark.dots) for mark in panel.marks]
    assert (("random", 22.5), ("threshold", 475.0)) == figure.panels[0].marked


def test_a_label_without_planned_runs_keeps_its_row() -> None:
    """A label without planned runs has empty cells and the reason."""
    tasks_table = table(part_of(TasksSection(), task_missing()), "tasks")
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
    assert expected == tasks_table.rows[-1]


def test_all_failed_has_a_table_and_no_figure() -> None:
    """The rows of failed labels have the states of their runs, without a figure."""
    part = part_of(TasksSection(), all_failed())
    assert [] == of_kind(part, IntervalFigure)
    assert "ppo has no score on CartPole-v1 (3 failed (nan))" == table(part, "tasks").rows[0][-1]


def test_tasks_need_no_anchors() -> None:
    """Raw scores of single tasks need no anchors."""
    tasks_table = table(part_of(TasksSection(), without_anchors()), "tasks")
    assert None not in column(tasks_table, "IQM")


def test_capped_metrics_do_not_lead_raw_scores() -> None:
    """The table shows the first metric that suits raw scores."""
    context = inquiry(typical())
    gap_first = dict(reversed(list(context.metrics.items())))
    part = TasksSection().part(replace(context, metrics=gap_first))
    assert part is not None
    assert "mean" == table(part, "tasks").columns[3].title


def test_a_capped_metric_alone_is_of_normalised_scores() -> None:
    """The figure has no dots of raw scores, and the note has the units."""
    context = inquiry(typical())
    part = TasksSection().part(
        replace(context, metrics={"gap": context.metrics["optimality_gap"]})
    )
    assert part is not None
    assert "optimality gap in normalised scores" in table(part, "tasks").note
    panel = of_kind(part, IntervalFigure)[0].panels[0]
    assert ("normalised score", (), ()) == (panel.axis.title, panel.marks[0].dots, panel.marked)


def test_failed_runs_among_the_scores_are_named() -> None:
    """The note counts failed runs that count as the task's minimum."""
    note = table(part_of(TasksSection(), worst()), "tasks").note
    assert note.endswith("count as the task's minimum: a2c on CartPole-v1 (1).")


def test_narrow_intervals_are_warned_of() -> None:
    """A warning has the number of narrow intervals."""
    sample = of_scores({k: v for k, v in typical_scores(3).items() if k[1] == CARTPOLE})
    messages = notices(part_of(TasksSection(), sample, interval="percentile"))
    assert [Tone.WARNING] == [tone for tone, _ in messages]
    assert "3 of 3 intervals below are too narrow" in messages[0][1]


def test_one_run_has_a_mark_without_an_interval() -> None:
    """The mark of a single run has the estimate and a dot."""
    mark = of_kind(part_of(TasksSection(), one_run()), IntervalFigure)[0].panels[0].marks[0]
    assert (400.0, None, (400.0,)) == (mark.interval.estimate, mark.interval.low, mark.dots)


def test_an_experiment_without_runs_has_no_part() -> None:
    """An experiment without planned runs has no task."""
    assert None is TasksSection().part(inquiry(empty()))


def test_two_groups_of_runs_are_told() -> None:
    """A notice names the label whose runs are solved or failed, with both groups."""
    scores = {("ppo", CARTPOLE): [496.0, 28.0, 42.0, 500.0, 62.0], ("a2c", CARTPOLE): [1.0, 2.0]}
    every = [text for _, text in notices(part_of(TasksSection(), of_scores(scores)))]
    told = [text for text in every if "two groups" in text]
    assert 1 == len(told)
    assert f"ppo on {CARTPOLE} (3 of 28 to 62, 2 of 496.0 to 500.0)." in told[0]
    assert "a2c" not in told[0]


def test_labels_with_a_dataset_have_their_normalised_score() -> None:
    """A label whose dataset declares its anchors has a row with the score that D4RL would print."""
    evidence = of_scores(
        {("sac", PENDULUM): [-700.0, -700.0], ("td3", PENDULUM): [-200.0, -200.0]}
    )
    dataset = {"random_score": -1200.0, "expert_score": -200.0}
    members = tuple(
        replace(m, configuration=replace(m.configuration, dataset=dataset))
        if m.label == "sac"
        else m
        for m in evidence.members
    )
    changed = replace(evidence, members=members)
    scores = table(part_of(TasksSection(), changed), "d4rl-scores")
    assert [(PENDULUM, "sac", -1200.0, -200.0, 50.0, 2)] == [*scores.rows]
    assert ["tasks"] == [block.name for block in of_kind(part_of(TasksSection(), evidence), Table)]
