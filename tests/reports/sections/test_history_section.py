"""The history of a search in a report."""

from dataclasses import replace

from evidence_samples import inquiry, typical
from part_blocks import notices, of_kind, part_of
from sweep_samples import (
    default_won,
    just_begun,
    minimised,
    none_succeeded,
    searching,
    swept,
    swept_evidence,
    trial,
    two_sweeps,
)

from rlexp.reports.drawing.blocks import ScatterFigure
from rlexp.reports.evidence.runs import Evidence
from rlexp.reports.sections.history import SearchHistorySection


def figure(sample: Evidence) -> ScatterFigure:
    """The only figure of the section."""
    figures = of_kind(part_of(SearchHistorySection(), sample), ScatterFigure)
    assert 1 == len(figures)
    return figures[0]


def test_there_is_no_part_without_a_sweep() -> None:
    """A report of plain runs has no search history."""
    assert None is SearchHistorySection().part(inquiry(typical()))


def test_kinds_of_trials_are_separate() -> None:
    """Each kind of trial has its own points, at the end of the trial."""
    scatter = figure(swept())
    clouds = {cloud.label: cloud for cloud in scatter.clouds}
    assert ["complete", "screened", "default", "tuned"] == list(clouds)
    assert (("trial 2",), (60_000.0,), (430.0,)) == (
        clouds["complete"].names,
        clouds["complete"].x,
        clouds["complete"].y,
    )
    assert ("tuned (trial 5)",) == clouds["tuned"].names
    assert ("default (trial 0)",) == clouds["default"].names
    assert 6 == len(clouds["screened"].x)


def test_trials_without_a_value_are_counted() -> None:
    """The note counts trials without a value."""
    assert figure(swept()).note.endswith("no value: 1 failed, 1 pruned, 1 unfinished.")


def test_the_incumbent_is_a_step_line() -> None:
    """The step line ignores screened trials and extends to the end of the search."""
    line = figure(swept()).lines[0]
    assert ("incumbent", True) == (line.label, line.steps)
    assert (20_000.0, 60_000.0, 120_000.0, 240_000.0) == line.x
    assert (330.0, 430.0, 490.0, 490.0) == line.y


def test_of_trials_that_end_together_the_best_leads() -> None:
    """The best of trials that end at the same step is the incumbent."""
    trials = (
        trial(0, 1.0, 1.0, 1.0, ended_at=10),
        trial(1, 3.0, 3.0, 3.0, ended_at=10),
        trial(2, 2.0, 2.0, 2.0, ended_at=10),
    )
    sample = replace(swept(), sweeps=(swept_evidence(trials=trials),))
    assert ((10.0,), (3.0,)) == (figure(sample).lines[0].x, figure(sample).lines[0].y)


def test_the_incumbent_of_a_minimised_objective_falls() -> None:
    """The incumbent of a minimised objective falls, without lines for test scores."""
    scatter = figure(minimised())
    assert (330.0, 330.0) == scatter.lines[0].y
    assert "environment steps to the threshold" == scatter.y.title
    assert () == scatter.marks


def test_test_scores_are_horizontal_lines() -> None:
    """Test scores of winner and default are lines; a default that won has one line."""
    expected = (("tuned on test seeds", 450.0), ("default on test seeds", 320.0))
    assert expected == figure(swept()).marks
    assert (("default on test seeds", 320.0),) == figure(default_won()).marks
    assert () == figure(searching()).marks


def test_without_a_value_there_is_a_notice() -> None:
    """A sweep without values has a notice with the number of trials by state."""
    text = notices(part_of(SearchHistorySection(), none_succeeded()))[0][1]
    assert "No trial of sample has a value yet (4 trials: 4 failed)." == text
    text = notices(part_of(SearchHistorySection(), just_begun()))[0][1]
    assert "No trial of sample has a value yet (there is no trial)." == text


def test_where_no_trial_could_win_there_is_no_incumbent() -> None:
    """Screened trials are drawn without an incumbent."""
    sample = replace(swept(), sweeps=(swept_evidence(trials=(trial(1, 2.0),), selection=None),))
    assert ((), "screened") == (figure(sample).lines, figure(sample).clouds[0].label)


def test_several_sweeps_have_a_figure_each() -> None:
    """Each figure has the name of its experiment."""
    names = [f.name for f in of_kind(part_of(SearchHistorySection(), two_sweeps()), ScatterFigure)]
    assert ["history-sample", "history-other"] == names
