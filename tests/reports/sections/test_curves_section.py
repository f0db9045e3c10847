"""Learning curves in a report."""

from dataclasses import replace
from functools import cache

import pytest
from curve_figures import aggregate_line, figures, part_of, run_lines
from curve_samples import run
from evidence_samples import (
    CARTPOLE,
    SAMPLES,
    evidence,
    inquiry,
    reordered,
    typical,
)
from hypothesis import given
from hypothesis import strategies as st

from rlexp.records.events import Ending, Failure
from rlexp.reports.analysis.curves import SHOWN, by_seconds, by_steps
from rlexp.reports.drawing.blocks import SectionContent, Text
from rlexp.reports.evidence.runs import PlannedRun
from rlexp.reports.sections.curves import LearningCurvesSection

NAN = float("nan")


def test_interquartile_mean_of_aligned_runs() -> None:
    """At each evaluation the thick line is the mean of the middle half of the runs."""
    heights = ([10.0, 20.0], [0.0, 40.0], [20.0, 90.0], [400.0, 30.0])
    figure = figures(evidence(run(h, seed) for seed, h in enumerate(heights)))[0]
    line = aggregate_line(figure)
    assert (1000.0, 2000.0) == line.x
    assert (15.0, 35.0) == line.y
    assert line.low is not None
    assert 4 == len(run_lines(figure))
    assert (("threshold", 475.0),) == figure.marks
    assert "ppo: 4 of 4 runs." == figure.note


def test_a_run_that_stops_is_not_carried_beyond_its_end() -> None:
    """After a run has failed, the line uses the remaining runs, and the note counts them."""
    members = [run([10.0, 20.0, 30.0, 40.0], 0), run([20.0, 30.0, 40.0, 50.0], 1)]
    failed_run = run([90.0, 100.0], 2, failure=Failure.NAN)
    figure = figures(evidence([*members, failed_run]))[0]
    # Of three runs 3/4 of one are cut at each end: (10 + 4 · 20 + 90) / 6.
    assert (30.0, 40.0, 35.0, 45.0) == pytest.approx(aggregate_line(figure).y)
    assert (
        "ppo: 3 of 3 runs up to 2,000, then 2; no band where fewer than 3 runs are left."
        == figure.note
    )
    assert (90.0, 100.0) in [line.y for line in run_lines(figure)]


def test_fewer_than_half_of_the_runs_are_no_aggregate() -> None:
    """The line ends where fewer than half of the runs go on; single runs are drawn in full."""
    members = [run([10.0, 20.0], seed, failure=Failure.CRASHED) for seed in range(2)]
    figure = figures(evidence([*members, run([10.0, 20.0, 30.0], 2)]))[0]
    assert (1000.0, 2000.0) == aggregate_line(figure).x
    assert (1000.0, 2000.0, 3000.0) in [line.x for line in run_lines(figure)]


def test_an_evaluation_that_is_no_number_is_a_gap() -> None:
    """An evaluation that is NaN is a gap in the curve of its run, and the note counts it."""
    figure = figures(evidence([run([10.0, NAN, 30.0], 0), run([20.0, 30.0, 40.0], 1)]))[0]
    assert (15.0, 30.0, 35.0) == aggregate_line(figure).y
    assert (10.0, None, 30.0) in [line.y for line in run_lines(figure)]
    assert "non-finite evaluations: 1, in 1 of 2 runs" in figure.note
    assert "2 of 2 runs up to 1,000, then 1 up to 2,000, then 2" in figure.note


def test_a_point_without_any_number_is_empty() -> None:
    """The line has a gap where no run has a number."""
    figure = figures(evidence([run([10.0, NAN, 30.0], 0)]))[0]
    assert (10.0, None, 30.0) == aggregate_line(figure).y


def test_wall_clock_counts_from_the_start_of_the_run() -> None:
    """Seconds count from the start of a run; the line begins where every run was evaluated."""
    members = [
        run([10.0, 20.0], 0, times=[5.0, 10.0]),
        run([30.0, 40.0], 1, times=[6.0, 10.0]),
    ]
    figure = figures(evidence(members))[1]
    assert "curves-time-1" == figure.name
    assert (6.0, 10.0) == aggregate_line(figure).x
    assert (20.0, 30.0) == aggregate_line(figure).y
    assert "ppo: 2 of 2 runs" in figure.note


@pytest.mark.parametrize("times", [[5.0, 4.0], [5.0, 5.0], [-1.0, 4.0]])
def test_a_clock_that_was_set_back_is_told(times: list[float]) -> None:
    """A run whose times do not rise has a curve by steps and no curve by wall-clock."""
    sample = evidence([run([10.0, 20.0], 0, times=times), run([10.0, 20.0], 1)])
    assert 2 == len(by_steps(sample, "ppo", CARTPOLE).curves)
    assert 1 == len(by_seconds(sample, "ppo", CARTPOLE).curves)
    expected = "1 of 2 runs left out, because the times of their evaluations do not increase"
    assert expected in figures(sample)[1].note


def test_an_unfinished_run_is_drawn_as_far_as_it_is() -> None:
    """A run that is still in progress has a curve."""
    figure = figures(evidence([run([10.0, 20.0], 0, ending=None)]))[0]
    assert (10.0, 20.0) == aggregate_line(figure).y


def test_a_label_without_planned_runs_is_named() -> None:
    """A label without planned runs on a task is in the note, with a dash and the reason."""
    figure = next(f for f in figures(SAMPLES["task_missing"]()) if f.title == "Pendulum-v1")
    assert "dqn: — (no run planned on this task)." in figure.note


def test_runs_without_an_evaluation_are_counted_by_state() -> None:
    """The note counts runs without an evaluation by state."""
    figure = figures(SAMPLES["incomplete"]())[0]
    assert "2 of 5 runs without an evaluation (1 planned, 1 unreadable)" in figure.note


@pytest.mark.parametrize(
    ("members", "expected"),
    [
        ([run([10.0], 0), run([20.0], 1)], "ppo: 2 of 2 runs evaluated once"),
        ([run([], 0)], "ppo: 1 of 1 run without an evaluation (1 completed)"),
        ([run([], 0, failure=Failure.USER)], "ppo: 1 of 1 run without an evaluation (1 failed"),
        ([run([], 0, ending=Ending.INTERRUPTED)], "(1 interrupted)"),
    ],
)
def test_one_evaluation_or_none_is_no_curve(members: list[PlannedRun], expected: str) -> None:
    """With at most one evaluation per run there is a text instead of a figure."""
    part = part_of(evidence(members))
    assert [Text] == [type(block) for block in part.blocks]
    assert isinstance(part.blocks[0], Text)
    assert expected in part.blocks[0].text


def test_one_label_with_a_single_evaluation_beside_another() -> None:
    """A label with one evaluation is a point, and the note says so."""
    members = [run([10.0, 20.0], 0), run([30.0], 0, label="a2c")]
    figure = figures(evidence(members))[0]
    assert ((1000.0,), (30.0,)) == (
        aggregate_line(figure, "a2c").x,
        aggregate_line(figure, "a2c").y,
    )
    assert "a2c: 1 of 1 run, at a single point, 1,000; no band" in figure.note


def test_no_more_points_and_runs_than_are_readable() -> None:
    """Lines have the requested number of points, and only 30 of many runs are drawn."""
    members = [run([float(seed + k) for k in range(11)], seed) for seed in range(40)]
    figure = figures(evidence(members), curve_points=5)[0]
    assert 5 == len(aggregate_line(figure).x)
    assert {5} == {len(line.x) for line in run_lines(figure)}
    assert SHOWN == len(run_lines(figure))
    assert "40 of 40 runs; 30 of its single runs shown" in figure.note


def test_the_runs_shown_reach_from_the_worst_to_the_best() -> None:
    """If only some runs are drawn, the worst and the best run are among them."""
    members = [run([10.0, float((7 * seed) % 40)], seed) for seed in range(40)]
    lines = run_lines(figures(evidence(members))[0])
    assert [(10.0, 0.0), (10.0, 39.0)] == [lines[0].y, lines[-1].y]
    falling_runs = [run([float(-seed), 100.0 * seed], seed) for seed in range(40)]
    lines = run_lines(figures(evidence(falling_runs))[0])
    assert [(0.0, 0.0), (-39.0, 3900.0)] == [lines[0].y, lines[-1].y]


def test_an_experiment_without_runs_has_no_part() -> None:
    """An experiment without planned runs has no learning curves."""
    assert LearningCurvesSection().part(inquiry(SAMPLES["empty"]())) is None


@cache
def part_of_sample(sample: str) -> SectionContent | None:
    """The section of a sample, with its runs in their original order."""
    return LearningCurvesSection().part(inquiry(SAMPLES[sample]()))


@given(st.integers(0, 10_000), st.sampled_from(sorted(SAMPLES)))
def test_the_order_of_the_runs_does_not_matter(seed: int, sample: str) -> None:
    """The same runs in another order give the same section."""
    original = SAMPLES[sample]()
    assert part_of_sample(sample) == LearningCurvesSection().part(
        inquiry(reordered(original, seed))
    )


def test_seeds_that_change_places_change_nothing() -> None:
    """The section stays the same if two seeds exchange their curves."""
    sample = typical()
    first, second, *others = sample.members
    swapped = (
        replace(first, record=replace(second.record, spec=first.record.spec)),
        replace(second, record=replace(first.record, spec=second.record.spec)),
    )
    assert part_of(sample) == part_of(replace(sample, members=(*swapped, *others)))
