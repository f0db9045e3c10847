"""Estimates that several sections share: aggregates, results per task and pairs."""

import math
from dataclasses import replace

import pytest
from evidence_samples import (
    CARTPOLE,
    LABELS,
    PENDULUM,
    SAMPLES,
    all_failed,
    constant,
    empty,
    inquiry,
    not_finite,
    of_scores,
    one_label,
    one_run,
    one_task,
    reordered,
    task_failed,
    task_missing,
    typical,
    unequal_seeds,
    without_anchors,
    worst,
)
from hypothesis import given
from hypothesis import settings as hypothesis_settings
from hypothesis import strategies as st

from rlexp.reports.analysis.estimates import aggregates, pairs, per_task, unit
from rlexp.reports.evidence.runs import Evidence
from rlexp.stats.pairs.pairwise_family import Verdict

BY_HAND = of_scores(
    {
        ("ppo", CARTPOLE): [22.5, 248.75, 475.0],
        ("ppo", PENDULUM): [-150.0, -150.0, -692.5],
    }
)
"""Scores that are 0, ½, 1 and 1, 1, ½ after normalisation."""


def test_aggregates_by_hand() -> None:
    """The IQM uses the middle four of six normalised scores, the others means of tasks."""
    intervals = aggregates(inquiry(BY_HAND))[0].intervals
    estimates = {name: round(interval.estimate, 12) for name, interval in intervals.items()}
    expected = {"iqm": 0.75, "median": 2 / 3, "mean": 2 / 3, "optimality_gap": 1 / 3}
    assert {name: round(value, 12) for name, value in expected.items()} == estimates


def test_aggregates_of_one_task_are_raw() -> None:
    """On a single task only capped metrics are normalised."""
    scores = {("ppo", CARTPOLE): [400.0, 420.0, 500.0]}
    intervals = aggregates(inquiry(of_scores(scores)))[0].intervals
    assert math.isclose(440.0, intervals["mean"].estimate)
    gaps = [1 - (score - 22.5) / 452.5 for score in (400.0, 420.0)]
    assert math.isclose(sum(gaps) / 3, intervals["optimality_gap"].estimate)


def test_unit_of_one_task_and_of_several() -> None:
    """The unit is return on one task and normalised score on several."""
    assert ("return", "normalised score") == (unit(one_task()), unit(typical()))


def test_n_and_planned_runs_are_counted() -> None:
    """A run without a score counts in `planned` and not in `n`."""
    rows = aggregates(inquiry(not_finite()))
    assert [(2, 3), (2, 3)] == [(e.n, e.planned) for e in rows]
    assert {2} == {i.n for e in rows for i in e.intervals.values()}


def test_a_label_without_a_task_has_no_aggregate() -> None:
    """A label without runs on a task is not averaged over fewer tasks than other labels."""
    rows = {e.label: e for e in aggregates(inquiry(task_missing()))}
    assert {} == rows["dqn"].intervals
    assert {"dqn has no planned run on Pendulum-v1"} == set(rows["dqn"].reasons.values())
    assert list(inquiry(typical()).metrics) == list(rows["ppo"].intervals)


def test_a_label_without_a_score_on_a_task_has_no_aggregate() -> None:
    """A missing aggregate has a reason with the task and the states of its runs."""
    row = {e.label: e for e in aggregates(inquiry(task_failed()))}["dqn"]
    expected = "dqn has no score on Pendulum-v1 (5 failed (nan))"
    assert ({}, {expected}) == (row.intervals, set(row.reasons.values()))


def test_tasks_without_anchors_have_no_aggregate() -> None:
    """Raw scores of several tasks are never averaged."""
    for row in aggregates(inquiry(without_anchors())):
        assert {} == row.intervals
        assert all("Pendulum-v1 cannot be normalised" in r for r in row.reasons.values())


def test_observed_anchors_are_an_explicit_way_out() -> None:
    """With observed anchors, labels have aggregates on tasks without declared anchors."""
    for row in aggregates(inquiry(without_anchors(), normalisation="observed")):
        assert {} == row.reasons


def test_one_task_without_anchors_has_all_but_capped_metrics() -> None:
    """A single task without anchors lacks only the optimality gap."""
    configurations = [replace(m.configuration, reference={}) for m in one_task().members]
    members = tuple(
        replace(m, configuration=c)
        for m, c in zip(one_task().members, configurations, strict=True)
    )
    row = aggregates(inquiry(replace(one_task(), members=members)))[0]
    assert ["iqm", "median", "mean"] == list(row.intervals)
    assert ["optimality_gap"] == list(row.reasons)


def test_one_run_has_an_estimate_and_no_interval() -> None:
    """The estimate of a single run has a reason instead of an interval."""
    iqm = aggregates(inquiry(one_run()))[0].intervals["iqm"]
    assert (400.0, None, None) == (iqm.estimate, iqm.low, iqm.high)
    assert iqm.reason


def test_no_label_has_no_aggregate() -> None:
    """Without labels there are no aggregates, no results per task and no pairs."""
    assert ((), (), ()) == tuple(f(inquiry(empty())) for f in (aggregates, per_task, pairs))


def test_per_task_has_a_row_for_every_label_and_task() -> None:
    """Labels without runs on a task have a row with the reason."""
    rows = per_task(inquiry(task_missing()))
    assert [(t, label) for t in (CARTPOLE, PENDULUM) for label in LABELS] == [
        (*row.tasks, row.label) for row in rows
    ]
    assert {"dqn has no planned run on Pendulum-v1"} == set(rows[-1].reasons.values())
    assert (0, 0, ()) == (rows[-1].n, rows[-1].planned, rows[-1].scores)


def test_per_task_is_raw() -> None:
    """Scores of a task are in units of its return, in rising order."""
    rows = per_task(inquiry(BY_HAND))
    assert [(22.5, 248.75, 475.0), (-692.5, -150.0, -150.0)] == [row.scores for row in rows]
    assert math.isclose(248.75, rows[0].intervals["mean"].estimate)


def test_scores_counted_as_worst_are_in_every_number() -> None:
    """The declared minimum of a failed run is part of the mean, and of n."""
    row = {e.label: e for e in per_task(inquiry(worst()))}["a2c"]
    assert ((1.0, 300.0, 310.0), 3) == (row.scores, row.n)
    assert math.isclose(611 / 3, row.intervals["mean"].estimate)


def test_pairs_by_hand() -> None:
    """The verdict of a pair is about the mean difference, first minus second."""
    scores = {
        ("ppo", CARTPOLE): [475.0, 474.0, 473.0, 476.0],
        ("a2c", CARTPOLE): [100.0, 101.0, 99.0, 102.0],
    }
    comparisons = pairs(inquiry(of_scores(scores)))
    assert [("ppo", "a2c", (CARTPOLE,), ())] == [
        (p.first, p.second, p.tasks, p.left_out) for p in comparisons
    ]
    decision = comparisons[0].decision
    assert decision is not None
    assert Verdict.BETTER is decision.verdict
    assert math.isclose(374.0, decision.member.comparison.difference.estimate)
    assert math.isclose(2 / 70, decision.member.adjusted_p or 0)


def test_pairs_are_adjusted_for_each_other() -> None:
    """The p-values of three pairs are adjusted by Holm's method."""
    members = [p.decision.member for p in pairs(inquiry(typical())) if p.decision]
    assert [3, 3, 3] == [member.pairs for member in members]


def test_pairs_use_the_tasks_that_both_have() -> None:
    """A pair is compared on the tasks of both labels, and lists the other tasks."""
    pairs_by_labels = {(p.first, p.second): p for p in pairs(inquiry(task_missing()))}
    assert ((CARTPOLE,), (PENDULUM,)) == (
        pairs_by_labels["ppo", "dqn"].tasks,
        pairs_by_labels["ppo", "dqn"].left_out,
    )
    assert () == pairs_by_labels["ppo", "a2c"].left_out


def test_a_pair_without_a_common_task_is_not_compared() -> None:
    """Two labels without a common task have a reason instead of a verdict."""
    pair = pairs(inquiry(all_failed()))[0]
    assert (None, "ppo and a2c have no task in common on which both have a score") == (
        pair.decision,
        pair.reason,
    )


def test_a_pair_is_not_compared_on_raw_scores_of_several_tasks() -> None:
    """Scores of several tasks without anchors give a reason instead of a verdict."""
    comparisons = pairs(inquiry(without_anchors()))
    assert [None] * 3 == [p.decision for p in comparisons]
    assert all("cannot be normalised" in (p.reason or "") for p in comparisons)


def test_out_of_range_returns_are_no_scores() -> None:
    """A run with an out-of-range return counts as a run without a score."""
    sample = of_scores({("ppo", CARTPOLE): [1e120, 1.0], ("a2c", CARTPOLE): [1.0, 2.0]})
    cell = sample.cells["ppo", CARTPOLE]
    assert (1, 2) == (cell.n, cell.planned)
    pair = pairs(inquiry(sample))[0]
    assert pair.decision is not None
    assert ((1,), (2,)) == pair.decision.member.comparison.sizes


def test_a_margin_is_in_units_of_the_score() -> None:
    """Equal labels are equivalent with a margin that is wide enough."""
    scores = {
        ("ppo", CARTPOLE): [400.0, 401.0, 402.0, 403.0],
        ("a2c", CARTPOLE): [400.5, 401.5, 402.5, 403.5],
    }
    pair = pairs(inquiry(of_scores(scores), margin=50.0))[0]
    assert pair.decision is not None
    assert Verdict.EQUIVALENT is pair.decision.verdict


def test_constant_scores_decide_nothing() -> None:
    """Equal scores without variance are undecided, with a reason."""
    decision = pairs(inquiry(constant()))[0].decision
    assert decision is not None
    assert Verdict.UNDECIDED is decision.verdict
    assert "all runs" in decision.reason


def test_unequal_numbers_of_runs_are_all_used() -> None:
    """All runs are used where labels have different numbers of runs."""
    rows = {e.label: e for e in aggregates(inquiry(unequal_seeds()))}
    assert [10, 8, 9] == [rows[label].n for label in LABELS]


def test_one_label_has_no_pair() -> None:
    """A single label has no pair."""
    assert () == pairs(inquiry(one_label()))


@pytest.mark.parametrize("name", SAMPLES)
@hypothesis_settings(max_examples=3)
@given(seed=st.integers(0, 1000))
def test_no_number_depends_on_the_order_of_the_runs(name: str, seed: int) -> None:
    """The same runs in another order give the same numbers."""
    sample: Evidence = SAMPLES[name]()
    ordered, shuffled = inquiry(sample), inquiry(reordered(sample, seed))
    for numbers in (aggregates, per_task, pairs):
        assert numbers(ordered) == numbers(shuffled)


def test_a_difference_is_no_larger_than_returns_allow() -> None:
    """The interval of a difference of means of returns in [1, 500] is clipped to ±499."""
    sample = of_scores(
        {("ppo", CARTPOLE): (500.0, 500.0, 1.0), ("a2c", CARTPOLE): (1.0, 1.0, 500.0)}
    )
    (pair,) = pairs(inquiry(sample))
    assert pair.decision is not None
    difference = pair.decision.member.comparison.mean_difference
    assert difference.low is not None
    assert (True, 499.0) == (difference.low >= -499.0, difference.high)


def test_an_optimality_gap_above_its_cap_has_no_negative_end() -> None:
    """The interval of a gap above 1, of a policy worse than random, still begins at 0."""
    # Normalised scores -1.3, 0.5 and -0.5 have gaps 2.3, 0.5 and 1.5.
    scores = [22.5 + 452.5 * score for score in (-1.3, 0.5, -0.5)]
    gap = aggregates(inquiry(of_scores({("ppo", CARTPOLE): scores})))[0].intervals[
        "optimality_gap"
    ]
    assert math.isclose(4.3 / 3, gap.estimate)
    assert gap.high is not None
    assert (0.0, True) == (gap.low, gap.high > 1)


def test_an_optimality_gap_lies_between_zero_and_its_cap() -> None:
    """The interval of the optimality gap is clipped to 0 and its cap."""
    sample = of_scores({("ppo", CARTPOLE): (500.0, 500.0, 22.5)})
    gap = aggregates(inquiry(sample))[0].intervals["optimality_gap"]
    assert (0.0, 1.0) == (gap.low, gap.high)


def test_two_runs_have_no_interval() -> None:
    """No metric of two runs has an interval, and the estimate lists the runs."""
    sample = of_scores({("ppo", CARTPOLE): (400.0, 300.0)})
    for estimate in aggregates(inquiry(sample))[0].intervals.values():
        assert (None, None) == (estimate.low, estimate.high)
        assert "too few runs for an interval (n = 2)" == estimate.reason
    assert ((300.0, 400.0),) == aggregates(inquiry(sample))[0].intervals["iqm"].runs
