"""Aggregates in a report."""

from dataclasses import replace

from evidence_samples import (
    CARTPOLE,
    all_failed,
    constant,
    empty,
    evidence,
    inquiry,
    of_scores,
    one_run,
    one_task,
    settings,
    task_missing,
    typical,
    typical_scores,
    without_anchors,
)
from part_blocks import column, notices, of_kind, part_of, table, texts

from rlexp.reports.analysis.estimates import aggregates
from rlexp.reports.analysis.scale import in_units_of_scores
from rlexp.reports.drawing.blocks import IntervalFigure, Table, Tone
from rlexp.reports.sections.aggregates import AggregatesSection


def test_the_table_holds_what_was_estimated() -> None:
    """The table has a row per label, a column per metric, and intervals in its cells."""
    aggregates_table = table(part_of(AggregatesSection(), typical()), "aggregates")
    estimates = {e.label: list(e.intervals.values()) for e in aggregates(inquiry(typical()))}
    assert estimates == {row[0]: list(row[2:]) for row in aggregates_table.rows}
    assert ["10 of 10: 5 on each of 2 tasks"] * 3 == column(aggregates_table, "runs")
    titles = ["label", "runs", "IQM", "median of task means", "mean", "optimality gap"]
    assert titles == [c.title for c in aggregates_table.columns]


def test_the_figure_draws_the_same_numbers() -> None:
    """The figure has a panel per metric and a mark per label, with the numbers of the table."""
    figure = of_kind(part_of(AggregatesSection(), typical()), IntervalFigure)[0]
    expected = ["IQM", "median of task means", "mean", "optimality gap"]
    assert expected == [p.title for p in figure.panels]
    aggregates_table = table(part_of(AggregatesSection(), typical()), "aggregates")
    for panel in figure.panels:
        assert column(aggregates_table, panel.title) == [mark.interval for mark in panel.marks]
    assert "Lower is better for optimality gap." in figure.note


def test_normalised_scores_have_a_table_of_anchors() -> None:
    """The table of anchors has both anchors of each task and their source."""
    anchors_table = table(part_of(AggregatesSection(), typical()), "anchors")
    expected = (CARTPOLE, 22.5, 475.0, "random and threshold score (measured)")
    assert expected == anchors_table.rows[0]


def test_scores_that_are_normalised_already_are_said_to_be() -> None:
    """With `normalisation=none` the text says so, and the table of anchors is left out."""
    part = part_of(AggregatesSection(), typical(), normalisation="none")
    assert "Scores are taken as normalised already (normalisation=none)" in texts(part)[0]
    assert "If they are returns, these aggregates mean nothing." in texts(part)[0]
    assert ["aggregates"] == [t.name for t in of_kind(part, Table)]
    alone = part_of(AggregatesSection(), one_task(), normalisation="none")
    assert "Scores are taken as normalised already" in texts(alone)[0]


def test_references_in_other_units_are_warned_about() -> None:
    """Where scores are taken as normalised, tasks that declare returns are named."""
    used = in_units_of_scores(typical(), settings(normalisation="none"))
    part = part_of(AggregatesSection(), used, normalisation="none")
    expected = (
        "CartPole-v1 and Pendulum-v1: the configuration declares a random score other than 0"
    )
    warned = [text for tone, text in notices(part) if tone is Tone.WARNING]
    assert any(text.startswith(expected) for text in warned)
    usual = notices(part_of(AggregatesSection(), typical()))
    assert not any("declares" in text for _, text in usual)


def test_units_of_one_task() -> None:
    """Scores of a single task are raw, except for capped metrics."""
    part = part_of(AggregatesSection(), one_task())
    assert texts(part)[0].startswith("All runs on CartPole-v1, in units of its return.")
    note = table(part, "aggregates").note
    assert "In units of the return; optimality gap in normalised scores." in note
    axes = [panel.axis.title for panel in of_kind(part, IntervalFigure)[0].panels]
    assert ["return", "return", "return", "normalised score"] == axes


def test_a_label_without_an_aggregate_keeps_its_row() -> None:
    """A label without an aggregate has empty cells and a notice with the reason."""
    part = part_of(AggregatesSection(), task_missing())
    assert ("dqn", "5 of 5", None, None, None, None) == table(part, "aggregates").rows[2]
    expected = (Tone.WARNING, "No aggregate: dqn has no planned run on Pendulum-v1.")
    assert expected == notices(part)[0]
    labels = [m.label for m in of_kind(part, IntervalFigure)[0].panels[0].marks]
    assert ["ppo", "a2c"] == labels


def test_a_reason_that_all_share_is_said_once() -> None:
    """One notice names the missing anchors of all labels."""
    part = part_of(AggregatesSection(), without_anchors())
    assert [Tone.PROBLEM] == [tone for tone, _ in notices(part)]
    assert [] == of_kind(part, IntervalFigure)


def test_a_reason_of_one_metric_denies_no_other() -> None:
    """On one task without anchors the optimality gap is absent, and the notice names it alone."""
    members = [
        replace(m, configuration=replace(m.configuration, reference={}))
        for m in without_anchors().members
        if m.task == CARTPOLE
    ]
    part = part_of(AggregatesSection(), evidence(members))
    assert [] != of_kind(part, IntervalFigure)
    (text,) = [text for _, text in notices(part) if text.startswith("No ")]
    assert text.startswith("No optimality gap: CartPole-v1 ")


def test_all_failed_says_so_for_every_label() -> None:
    """Labels without scores have empty rows and a problem each, and no figure."""
    part = part_of(AggregatesSection(), all_failed())
    assert [Tone.PROBLEM] * 2 == [tone for tone, _ in notices(part)]
    assert [None] * 2 == column(table(part, "aggregates"), "IQM")


def test_no_interval_is_a_warning_with_its_reason() -> None:
    """Labels with one run or equal scores have an estimate and a warning."""
    messages = notices(part_of(AggregatesSection(), one_run()))
    assert (Tone.WARNING, "No interval for ppo: too few runs for an interval (n = 1).") in messages
    messages = notices(part_of(AggregatesSection(), constant()))
    assert (Tone.WARNING, "No interval for ppo and a2c: all runs are equal.") in messages


def test_narrow_intervals_are_warned_of() -> None:
    """Intervals with a simulated coverage below 90 % give a warning."""
    scores = {k: v for k, v in typical_scores(3).items() if k[1] == CARTPOLE}
    messages = notices(part_of(AggregatesSection(), of_scores(scores), interval="percentile"))
    assert [Tone.WARNING] == [tone for tone, _ in messages]
    assert "IQM and mean are too narrow for ppo, a2c and dqn" in messages[0][1]
    assert "in 68.1 % of simulations" in messages[0][1]
    ((_, text),) = notices(part_of(AggregatesSection(), one_task()))
    assert "mean are too narrow for ppo" in text


def test_an_experiment_without_runs_has_no_part() -> None:
    """An experiment without planned runs has no aggregates."""
    assert None is AggregatesSection().part(inquiry(empty()))
