"""Performance profiles in a report."""

from dataclasses import replace

import pytest
from evidence_samples import CARTPOLE, SAMPLES, inquiry, of_scores, reordered, typical
from hypothesis import given
from hypothesis import strategies as st

from rlexp.reports.drawing.blocks import Callout, LineFigure, SectionContent
from rlexp.reports.evidence.runs import Evidence
from rlexp.reports.sections.profiles import PerformanceProfilesSection


def part_of(evidence: Evidence, **changes: object) -> SectionContent:
    """The section on performance profiles, which must exist."""
    part = PerformanceProfilesSection().part(inquiry(evidence, **changes))
    assert part is not None
    return part


def figure_of(evidence: Evidence, **changes: object) -> LineFigure:
    """The figure of the section, which must exist."""
    return next(b for b in part_of(evidence, **changes).blocks if isinstance(b, LineFigure))


def notices_text(evidence: Evidence) -> str:
    """The texts of all notices of the section."""
    return " ".join(b.text for b in part_of(evidence).blocks if isinstance(b, Callout))


def test_steps_stand_at_the_scores() -> None:
    """The share of runs above τ falls only where a run scores τ."""
    figure = figure_of(of_scores({("ppo", CARTPOLE): [100.0, 400.0, 100.0, 300.0]}))
    line = figure.lines[0]
    assert (85.0, 100.0, 300.0, 400.0, 415.0) == line.x
    assert (1.0, 0.5, 0.25, 0.0, 0.0) == line.y
    assert line.steps
    assert "Share of runs with a score above τ" == figure.title


def test_several_tasks_are_normalised_and_weigh_the_same() -> None:
    """Scores are normalised, and tasks have equal weight for any number of runs."""
    half, full = (22.5 + 475.0) / 2, 475.0
    scores = {
        ("ppo", CARTPOLE): [half, half, full, full],
        ("ppo", "Pendulum-v1"): [-150.0, -150.0],
    }
    line = figure_of(of_scores(scores)).lines[0]
    assert (0.475, 0.5, 1.0, 1.025) == pytest.approx(line.x)
    assert (1.0, 0.75, 0.0, 0.0) == line.y


def test_no_more_points_than_asked_for() -> None:
    """With more scores than points, thresholds are spread evenly."""
    scores = {("ppo", CARTPOLE): [float(k * k) for k in range(40)]}
    figure = figure_of(of_scores(scores), curve_points=20)
    x = figure.lines[0].x
    assert 20 == len(x)
    assert x[1] - x[0] == pytest.approx(x[-1] - x[-2])


def test_a_label_without_a_task_is_named() -> None:
    """A label without planned runs on a task has no line, and the note has the reason."""
    figure = figure_of(SAMPLES["task_missing"]())
    assert ["ppo", "a2c"] == [line.label for line in figure.lines]
    assert "dqn: — (no run planned on Pendulum-v1)." in figure.note


def test_a_task_whose_runs_all_failed_is_named() -> None:
    """A label without a score on a task has no line, and the note counts its runs."""
    figure = figure_of(SAMPLES["task_failed"]())
    assert "dqn: — (no score on Pendulum-v1: 5 failed (nan))." in figure.note


def test_tasks_without_anchors_are_not_put_together() -> None:
    """Without anchors a notice names the task and the setting that helps."""
    words = notices_text(SAMPLES["without_anchors"]())
    assert "Pendulum-v1 cannot be normalised" in words
    assert "normalisation=observed" in words


def test_an_observed_scale_is_told() -> None:
    """The note states that an observed scale depends on the compared labels."""
    figure = figure_of(SAMPLES["without_anchors"](), normalisation="observed")
    assert "depends on the compared labels" in figure.note


@pytest.mark.parametrize(
    ("sample", "expected"),
    [
        ("one_run", "ppo: 1 of 1 run; no band: too few runs for an interval (n = 1)."),
        ("constant", "ppo: 5 of 5 runs; no band: all runs "),
        ("not_finite", "ppo: 2 of 3 runs; no band: too few runs for an interval (n = 2)."),
        ("worst", "a2c: 3 of 3 runs (1 of them without a score, counted as the task's minimum)."),
        ("incomplete", "a2c: 6 of 10 runs over 2 tasks; no band"),
    ],
)
def test_what_a_line_rests_on_is_told(sample: str, expected: str) -> None:
    """The note counts the runs of a line, and has the reason for a missing band."""
    assert expected in figure_of(SAMPLES[sample]()).note


@pytest.mark.parametrize("sample", ["all_failed", "nothing_run"])
def test_no_score_at_all(sample: str) -> None:
    """Without any score a notice has the reason."""
    words = notices_text(SAMPLES[sample]())
    assert "a2c: — (no score on CartPole-v1: 3 " in words


def test_an_experiment_without_runs_has_no_part() -> None:
    """An experiment without planned runs has no profiles."""
    assert PerformanceProfilesSection().part(inquiry(SAMPLES["empty"]())) is None


def test_bands_hold_their_lines() -> None:
    """Every band surrounds its line."""
    for line in figure_of(typical()).lines:
        assert line.low is not None
        assert line.high is not None
        for ends in zip(line.low, line.y, line.high, strict=True):
            assert sorted(end for end in ends if end is not None) == list(ends)


@given(st.integers(0, 10_000), st.sampled_from(sorted(SAMPLES)))
def test_the_order_of_the_runs_does_not_matter(seed: int, sample: str) -> None:
    """The same runs in another order give the same section."""
    evidence = SAMPLES[sample]()
    expected = PerformanceProfilesSection().part(inquiry(evidence))
    assert expected == PerformanceProfilesSection().part(inquiry(reordered(evidence, seed)))


def test_seeds_that_change_places_change_nothing() -> None:
    """The section stays the same if two seeds exchange their scores."""
    evidence = typical()
    members = list(evidence.members)
    members[0], members[1] = (
        replace(members[0], record=replace(members[1].record, spec=members[0].record.spec)),
        replace(members[1], record=replace(members[0].record, spec=members[1].record.spec)),
    )
    assert part_of(evidence) == part_of(replace(evidence, members=tuple(members)))
