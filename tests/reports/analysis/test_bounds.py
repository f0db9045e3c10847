"""What runs without a score could change."""

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


def one_absent() -> Evidence:
    """Three of four runs have a score; the fourth was never run."""
    own = configured()
    missing = member(RunRecord(spec=run_spec(own, 3)), own)
    return evidence([*scored(own, [100.0, 200.0, 300.0]), missing])


def by_metric(own: Evidence) -> dict[str, AggregateBounds]:
    """Bounds of the only label that has any, by name of the metric."""
    return {b.metric: b for b in bounds(inquiry(own))}


def test_complete_runs_need_no_bounds() -> None:
    """Without a missing score there are no bounds."""
    assert () == bounds(inquiry(typical()))


def test_bounds_of_a_mean_by_hand() -> None:
    """The bounds replace the missing score by 1 and by 500."""
    own = by_metric(one_absent())["mean"]
    assert (1, 200.0, 601 / 4, 1100 / 4, None) == (
        own.absent,
        own.alone,
        own.low,
        own.high,
        own.reason,
    )


def test_bounds_of_an_interquartile_mean_by_hand() -> None:
    """The bounds use the middle two of four runs, for every value of the missing score."""
    own = by_metric(one_absent())["iqm"]
    assert (150.0, 250.0) == (own.low, own.high)


def test_bounds_of_metrics_where_lower_is_better_are_not_swapped() -> None:
    """The lower bound of the optimality gap comes from the largest possible score."""
    own = by_metric(one_absent())["optimality_gap"]
    gaps = [1 - (score - 22.5) / 452.5 for score in (100.0, 200.0, 300.0)]
    assert math.isclose(sum(gaps) / 4, own.low or 0)
    assert math.isclose((sum(gaps) + 1 - (1.0 - 22.5) / 452.5) / 4, own.high or 0)


def test_bounds_of_a_label_whose_runs_all_failed() -> None:
    """Without any score there is no estimate, and the bounds are those of the task."""
    own = next(b for b in bounds(inquiry(all_failed())) if b.metric == "mean")
    assert (3, None, 1.0, 500.0) == (own.absent, own.alone, own.low, own.high)


def test_a_task_without_a_minimum_has_no_lower_bound() -> None:
    """The reason names the task and the setting that it would have to declare."""
    own = next(b for b in bounds(inquiry(task_failed())) if b.metric == "mean")
    assert None is own.low
    assert own.high is not None
    assert "Pendulum-v1 declares no environment.reference.minimum" in (own.reason or "")


def test_an_interquartile_mean_may_be_bounded_without_a_declared_minimum() -> None:
    """One missing score of four is trimmed, so the bound is finite without a minimum."""
    own = configured("ppo", "Pendulum-v1")
    missing = member(RunRecord(spec=run_spec(own, 3)), own)
    found = by_metric(evidence([*scored(own, [-300.0, -200.0, -150.0]), missing]))
    assert (-250.0, None, None) == (found["iqm"].low, found["iqm"].reason, found["mean"].low)


def test_failed_runs_that_count_as_worst_are_bounded_too() -> None:
    """The bounds contain the aggregate without failed runs, and with their best scores."""
    own = by_metric(worst())["mean"]
    assert (1, 305.0, 611 / 3, 1110 / 3) == (own.absent, own.alone, own.low, own.high)


def test_a_label_without_an_aggregate_has_no_bounds() -> None:
    """A label with a missing task or missing anchors has a reason instead of bounds."""
    runs = task_missing().members
    own = configured("dqn")
    broken_one = [
        member(RunRecord(spec=m.record.spec), own)
        if (m.label, m.task, m.record.spec.seed) == ("dqn", CARTPOLE, 0)
        else m
        for m in runs
    ]
    found = by_metric(evidence(broken_one))["mean"]
    expected = AggregateBounds(
        label="dqn", metric="mean", absent=1, reason="dqn has no planned run on Pendulum-v1"
    )
    assert expected == found


def test_without_anchors_there_are_no_bounds() -> None:
    """The reason is the one of the missing aggregate."""
    own = without_anchors()
    first = replace(own.members[0], record=RunRecord(spec=own.members[0].record.spec))
    found = bounds(inquiry(replace(own, members=(first, *own.members[1:]))))
    assert all("cannot be normalised" in (b.reason or "") for b in found)
    assert 4 == len(found)


@pytest.mark.parametrize("score", [1.0, 22.5, 60.0, 79.0, 135.0, 300.0, 475.0, 500.0])
def test_bounds_hold_for_any_missing_score_with_unequal_numbers_of_runs(
    score: float,
) -> None:
    """The bounds hold where a run of one task has twice the weight of a run of the other."""
    first, second = configured(), configured(task="Pendulum-v1")
    rest = scored(second, [-1235 + share * (-150 + 1235) for share in (0.125, 1.0, 1.0, 0.625)])
    absent = member(RunRecord(spec=run_spec(first, 1)), first)
    told = by_metric(evidence([*scored(first, [475.0]), absent, *rest]))
    whole = inquiry(evidence([*scored(first, [475.0, score]), *rest]))
    cells = [whole.evidence.cells["ppo", task] for task in whole.evidence.tasks]
    for name, metric in whole.metrics.items():
        own = task_scores(cells, anchors_by_task(whole.evidence, whole.settings))
        low, high = told[name].low, told[name].high
        assert low is not None
        assert high is not None
        assert low - 1e-12 <= float(metric(own)) <= high + 1e-12


def test_narrow_anchors_do_not_push_an_unbounded_score_out_of_range() -> None:
    """With narrow anchors, a score without a bound gives a metric without a bound, and no error."""
    own = configured("ppo", "Pendulum-v1")
    narrow = replace(own, reference={"random": 0.0, "threshold": 1e-3, "source": "by hand"})
    missing = member(RunRecord(spec=run_spec(narrow, 3)), narrow)
    found = by_metric(evidence([*scored(narrow, [1e-4, 2e-4, 3e-4]), missing]))
    assert (None, None) == (found["mean"].low, found["mean"].high)
    assert None is found["optimality_gap"].high
    assert (0.9 + 0.8 + 0.7) / 4 == pytest.approx(found["optimality_gap"].low)


def test_the_estimate_lies_within_its_bounds() -> None:
    """The aggregate of the other runs lies within the bounds, for any scores."""
    for own in bounds(inquiry(incomplete())):
        assert own.low is not None
        assert own.alone is not None
        assert own.high is not None
        assert own.low < own.alone < own.high
