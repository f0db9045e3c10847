"""Scores that are better the lower they are: verdicts, scales and bounds turn round."""

from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from evidence_samples import CARTPOLE, inquiry, of_scores
from minimised_samples import COSTS, SEVERAL, of_costs

from rlexp.errors import ProtocolError
from rlexp.records.events import Failure
from rlexp.records.run import State
from rlexp.reports.analysis.estimates import aggregates, bounds, pairs, per_task, unit
from rlexp.reports.analysis.scale import scale_of
from rlexp.reports.evidence.runs import Evidence
from rlexp.reports.sections.aggregates import AggregatesSection
from rlexp.reports.sections.improvement import ImprovementSection
from rlexp.reports.sections.reliability import ReliabilitySection
from rlexp.reports.sections.thresholds import follow
from rlexp.reports.sections.verdicts import VerdictsSection
from rlexp.stats.pairs.pairwise_family import Verdict

NEGATED = of_scores({key: [-cost for cost in costs] for key, costs in COSTS.items()})
"""Returns that are the costs with another sign, and so greater where the cost is lower."""


def told(evidence: Evidence, section: Any) -> str:
    """All texts of a section, on one line."""
    content = section.part(inquiry(evidence))
    return " ".join(getattr(block, "text", getattr(block, "note", "")) for block in content.blocks)


def test_verdicts_on_costs_are_those_on_negated_returns() -> None:
    """Every number of a verdict on costs is the same as on returns with the sign reversed."""
    (on_costs,), (on_returns,) = pairs(inquiry(of_costs())), pairs(inquiry(NEGATED))
    assert on_costs.decision is not None
    assert on_returns.decision is not None
    assert Verdict.BETTER is on_costs.decision.verdict
    first, second = on_costs.decision.member, on_returns.decision.member
    assert (second.adjusted_p, second.verdict) == (first.adjusted_p, first.verdict)
    assert second.comparison.difference.estimate == first.comparison.difference.estimate
    assert second.comparison.effect == first.comparison.effect


def test_estimates_of_costs_keep_their_sign() -> None:
    """Aggregates of costs are shown as they are, within the declared bounds."""
    (ppo, _) = per_task(inquiry(of_costs(maximum=13.0)))
    assert 12.1 == pytest.approx(ppo.intervals["mean"].estimate)
    assert 13.0 == ppo.intervals["mean"].high
    assert "cost" == unit(of_costs())


def test_the_page_says_that_lower_is_better() -> None:
    """The question asks for the lower score, and the rule names the order of the difference."""
    text = told(of_costs(), VerdictsSection())
    assert "Which of ppo and a2c scores lower on CartPole-v1?" in text
    assert "the mean cost of the final policy" in text
    assert "ppo is better than a2c" in text
    assert "(cost), second label minus first, because lower is better" in text
    lower = "Lower is better for IQM, median, mean and optimality gap."
    assert lower in told(of_costs(), AggregatesSection())
    assert "scores better than a run" in told(of_costs(), ImprovementSection())


def test_improvement_is_a_lower_cost() -> None:
    """A run with a lower cost beats a run with a higher one."""
    content = ImprovementSection().part(inquiry(of_costs()))
    assert content is not None
    (row,) = content.blocks[-1].rows  # type: ignore[union-attr]
    assert 1.0 == row[2].estimate  # type: ignore[union-attr]


@pytest.mark.parametrize(
    ("normalisation", "ends"),
    [("anchors", (40.0, 12.0)), ("observed", (24.0, 10.0)), ("none", (1.0, 0.0))],
)
def test_normalised_costs_are_better_the_higher_they_are(
    normalisation: str, ends: tuple[float, float]
) -> None:
    """The lower anchor of a cost is the worse end: a random policy, or the largest cost."""
    scale = scale_of(
        CARTPOLE, of_costs(), inquiry(of_costs(), normalisation=normalisation).settings
    )
    assert scale is not None
    assert ends == (scale.low, scale.high)
    points = np.array([ends[0], sum(ends) / 2, ends[1]])
    assert [0.0, 0.5, 1.0] == scale.normalised(points).tolist()


def test_a_random_policy_below_the_threshold_is_no_anchor() -> None:
    """A cost has no scale if a random policy is better than the threshold."""
    evidence = of_costs(random=5.0)
    assert scale_of(CARTPOLE, evidence, inquiry(evidence).settings) is None


def test_several_tasks_are_compared_by_normalised_costs() -> None:
    """Over several tasks, differences are first minus second in normalised scores."""
    report = inquiry(of_costs(SEVERAL))
    (pair,) = pairs(report)
    assert pair.decision is not None
    assert Verdict.BETTER is pair.decision.verdict
    first, second = (label.intervals["mean"].estimate for label in aggregates(report))
    assert first > second
    assert "first label minus second" in told(of_costs(SEVERAL), VerdictsSection())


@pytest.mark.parametrize("scores", [COSTS, SEVERAL])
def test_bounds_enclose_the_aggregate_of_the_scored_runs(scores: Any) -> None:
    """With a missing run, an aggregate lies between its bounds on raw and normalised scales."""
    evidence = of_costs(scores)
    first, *others = evidence.members
    failed = replace(first, record=replace(first.record, state=State.FAILED, final=None))
    report = inquiry(replace(evidence, members=(failed, *others)))
    for bound in bounds(report):
        assert bound.low is not None
        assert bound.alone is not None
        assert bound.high is not None
        assert bound.low < bound.alone < bound.high


def test_a_failed_run_counts_as_the_largest_cost() -> None:
    """With failures=worst, a failed run has the largest declared cost."""
    evidence = of_costs()
    first, *others = evidence.members
    failed = replace(
        first, record=replace(first.record, state=State.FAILED, final=None, failure=Failure.NAN)
    )
    experiments = (replace(evidence.experiments[0], failures="worst"),)
    evidence = replace(evidence, members=(failed, *others), experiments=experiments)
    assert 50.0 == evidence.cells["ppo", CARTPOLE].scores[-1]


def test_a_cost_reaches_its_threshold_from_above() -> None:
    """A run reaches the threshold of a cost at its first evaluation at or below it."""
    followed = follow(of_costs(), "ppo", CARTPOLE, 12.0)
    assert 2 == followed.successes
    assert 0 == follow(of_costs(), "a2c", CARTPOLE, 12.0).successes


def test_the_worst_runs_are_those_with_the_highest_cost() -> None:
    """The CVaR of costs is the mean of the highest ones, and lower is better."""
    content = ReliabilitySection().part(inquiry(of_costs()))
    assert content is not None
    table = content.blocks[-1]
    titles = [column.title for column in table.columns]  # type: ignore[union-attr]
    column = titles.index("CVaR of scores ↓")
    assert [14.0, 24.0] == [row[column].estimate for row in table.rows]  # type: ignore[union-attr]


def test_different_quantities_are_not_compared() -> None:
    """Scores of a measure and of returns on one task are refused, and so are two directions."""
    costs, returns = of_costs(), NEGATED
    ppo = [m for m in costs.members if m.label == "ppo"]
    a2c = [m for m in returns.members if m.label == "a2c"]
    with pytest.raises(ProtocolError, match=r"cost \(lower is better\) for ppo, return for a2c"):
        replace(costs, members=(*ppo, *a2c))
    upwards = of_costs(direction="maximise")
    a2c = [m for m in upwards.members if m.label == "a2c"]
    with pytest.raises(ProtocolError, match="different quantities"):
        replace(costs, members=(*ppo, *a2c))


def test_a_maximised_measure_is_compared_like_returns() -> None:
    """Without a declared direction, higher is better."""
    (pair,) = pairs(inquiry(of_costs(direction="maximise")))
    assert pair.decision is not None
    assert Verdict.WORSE is pair.decision.verdict
    assert "scores higher" in told(of_costs(direction="maximise"), VerdictsSection())
