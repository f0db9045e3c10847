"""Bounds on aggregates where runs have no score."""

import math
from dataclasses import replace

import pytest
from evidence_samples import (
    CARTPOLE,
    all_failed,
    configured,
    evidence,
    incomplete,
    inquiry,
    member,
    run_spec,
    scored,
    task_failed,
    task_missing,
    typical,
    without_anchors,
    worst,
)

from rlexp.records.run import RunRecord
from rlexp.reports.analysis.estimates import AggregateBounds, bounds
from rlexp.reports.analysis.scale import anchors_by_task, task_scores
from rlexp.reports.evidence.runs import Evidence


def one_missing_score() -> Evidence:
    """Three of four runs have a score; the fourth was never run."""
    configuration = configured()
    missing = member(RunRecord(spec=run_spec(configuration, 3)), configuration)
    return evidence([*scored(configuration, [100.0, 200.0, 300.0]), missing])


def by_metric(sample: Evidence) -> dict[str, AggregateBounds]:
    """Bounds of a sample by name of the metric."""
    return {b.metric: b for b in bounds(inquiry(sample))}


def test_complete_runs_need_no_bounds() -> None:
    """Without a missing score there are no bounds."""
    assert () == bounds(inquiry(typical()))


def test_bounds_of_a_mean_by_hand() -> None:
    """The bounds replace the missing score by 1 and by 500."""
    mean_bounds = by_metric(one_missing_score())["mean"]
    assert (1, 200.0, 601 / 4, 1100 / 4, None) == (
        mean_bounds.absent,
        mean_bounds.alone,
        mean_bounds.low,
        mean_bounds.high,
        mean_bounds.reason,
    )


def test_bounds_of_an_interquartile_mean_by_hand() -> None:
    """The bounds use the middle two of four runs, for every value of the missing score."""
    iqm_bounds = by_metric(one_missing_score())["iqm"]
    assert (150.0, 250.0) == (iqm_bounds.low, iqm_bounds.high)


def test_bounds_of_metrics_where_lower_is_better_are_not_swapped() -> None:
    """The lower bound of the optimality gap comes from the largest possible score."""
    gap_bounds = by_metric(one_missing_score())["optimality_gap"]
    gaps = [1 - (score - 22.5) / 452.5 for score in (100.0, 200.0, 300.0)]
    assert math.isclose(sum(gaps) / 4, gap_bounds.low or 0)
    assert math.isclose((sum(gaps) + 1 - (1.0 - 22.5) / 452.5) / 4, gap_bounds.high or 0)


def test_bounds_of_a_label_whose_runs_all_failed() -> None:
    """Without any score the bounds are the least and the greatest score of the task."""
    mean_bounds = next(b for b in bounds(inquiry(all_failed())) if b.metric == "mean")
    assert (3, None, 1.0, 500.0) == (
        mean_bounds.absent,
        mean_bounds.alone,
        mean_bounds.low,
        mean_bounds.high,
    )


def test_a_task_without_a_minimum_has_no_lower_bound() -> None:
    """A missing lower bound has a reason that names the task and the undeclared setting."""
    mean_bounds = next(b for b in bounds(inquiry(task_failed())) if b.metric == "mean")
    assert None is mean_bounds.low
    assert mean_bounds.high is not None
    assert "Pendulum-v1 declares no environment.reference.minimum" in (mean_bounds.reason or "")


def test_an_interquartile_mean_may_be_bounded_without_a_declared_minimum() -> None:
    """One missing score of four is trimmed, so the bound is finite without a minimum."""
    configuration = configured("ppo", "Pendulum-v1")
    missing = member(RunRecord(spec=run_spec(configuration, 3)), configuration)
    bounds_by_metric = by_metric(
        evidence([*scored(configuration, [-300.0, -200.0, -150.0]), missing])
    )
    assert (-250.0, None, None) == (
        bounds_by_metric["iqm"].low,
        bounds_by_metric["iqm"].reason,
        bounds_by_metric["mean"].low,
    )


def test_failed_runs_that_count_as_worst_are_bounded_too() -> None:
    """The bounds replace the score of a failed run by the least and the greatest score."""
    mean_bounds = by_metric(worst())["mean"]
    assert (1, 305.0, 611 / 3, 1110 / 3) == (
        mean_bounds.absent,
        mean_bounds.alone,
        mean_bounds.low,
        mean_bounds.high,
    )


def test_a_label_without_an_aggregate_has_no_bounds() -> None:
    """A label without planned runs on a task has a reason instead of bounds."""
    runs = task_missing().members
    configuration = configured("dqn")
    changed_runs = [
        member(RunRecord(spec=m.record.spec), configuration)
        if (m.label, m.task, m.record.spec.seed) == ("dqn", CARTPOLE, 0)
        else m
        for m in runs
    ]
    mean_bounds = by_metric(evidence(changed_runs))["mean"]
    expected = AggregateBounds(
        label="dqn", metric="mean", absent=1, reason="dqn has no planned run on Pendulum-v1"
    )
    assert expected == mean_bounds


def test_without_anchors_there_are_no_bounds() -> None:
    """Without anchors every metric has a reason instead of bounds."""
    sample = without_anchors()
    unstarted_run = replace(
        sample.members[0], record=RunRecord(spec=sample.members[0].record.spec)
    )
    all_bounds = bounds(inquiry(replace(sample, members=(unstarted_run, *sample.members[1:]))))
    assert all("cannot be normalised" in (b.reason or "") for b in all_bounds)
    assert 4 == len(all_bounds)


@pytest.mark.parametrize("score", [1.0, 22.5, 60.0, 79.0, 135.0, 300.0, 475.0, 500.0])
def test_bounds_hold_for_any_missing_score_with_unequal_numbers_of_runs(
    score: float,
) -> None:
    """The bounds contain the true value where tasks have different numbers of runs."""
    first, second = configured(), configured(task="Pendulum-v1")
    other_runs = scored(
        second, [-1235 + share * (-150 + 1235) for share in (0.125, 1.0, 1.0, 0.625)]
    )
    missing_run = member(RunRecord(spec=run_spec(first, 1)), first)
    bounds_by_metric = by_metric(evidence([*scored(first, [475.0]), missing_run, *other_runs]))
    complete = inquiry(evidence([*scored(first, [475.0, score]), *other_runs]))
    cells = [complete.evidence.cells["ppo", task] for task in complete.evidence.tasks]
    for name, metric in complete.metrics.items():
        normalised = task_scores(cells, anchors_by_task(complete.evidence, complete.settings))
        low, high = bounds_by_metric[name].low, bounds_by_metric[name].high
        assert low is not None
        assert high is not None
        assert low - 1e-12 <= float(metric(normalised)) <= high + 1e-12


def test_narrow_anchors_do_not_push_an_unbounded_score_out_of_range() -> None:
    """With narrow anchors, a score without a bound gives a metric without a bound, and no error."""
    configuration = configured("ppo", "Pendulum-v1")
    narrow = replace(
        configuration, reference={"random": 0.0, "threshold": 1e-3, "source": "by hand"}
    )
    missing = member(RunRecord(spec=run_spec(narrow, 3)), narrow)
    bounds_by_metric = by_metric(evidence([*scored(narrow, [1e-4, 2e-4, 3e-4]), missing]))
    assert (None, None) == (bounds_by_metric["mean"].low, bounds_by_metric["mean"].high)
    assert None is bounds_by_metric["optimality_gap"].high
    assert (0.9 + 0.8 + 0.7) / 4 == pytest.approx(bounds_by_metric["optimality_gap"].low)


def test_the_estimate_lies_within_its_bounds() -> None:
    """The aggregate of the scored runs lies within its bounds."""
    for aggregate in bounds(inquiry(incomplete())):
        assert aggregate.low is not None
        assert aggregate.alone is not None
        assert aggregate.high is not None
        assert aggregate.low < aggregate.alone < aggregate.high
