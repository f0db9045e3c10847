"""Tasks without a scale, and tasks with very narrow anchors."""

from dataclasses import replace

from evidence_samples import CARTPOLE, PENDULUM, all_failed, incomplete, inquiry, of_scores

from rlexp.reports.analysis.estimates import aggregates, bounds, pairs
from rlexp.reports.analysis.scale import without_anchors


def test_equal_scores_have_no_observed_scale() -> None:
    """The message states that scores are equal, and does not suggest observed anchors."""
    sample = of_scores(
        {
            ("ppo", CARTPOLE): [1.0, 2.0],
            ("a2c", CARTPOLE): [3.0, 4.0],
            ("ppo", PENDULUM): [-150.0, -150.0],
            ("a2c", PENDULUM): [-150.0, -150.0],
        }
    )
    expected = "all scores on Pendulum-v1 are equal: no observed range to normalise by"
    rows = aggregates(inquiry(sample, normalisation="observed"))
    assert {expected} == {reason for e in rows for reason in e.reasons.values()}
    assert expected == pairs(inquiry(sample, normalisation="observed"))[0].reason
    context = inquiry(all_failed(), normalisation="observed")
    message = without_anchors({CARTPOLE: None}, context)
    assert "no run has a score on CartPole-v1: no observed range to normalise by" == message


def test_a_mean_over_narrow_anchors_has_no_upper_bound() -> None:
    """A mean over narrow anchors without a declared maximum has no upper bound and no error."""
    anchors = {"random": 0.0, "threshold": 0.5}
    members = tuple(
        replace(m, configuration=replace(m.configuration, reference=anchors))
        for m in incomplete().members
    )
    all_bounds = bounds(inquiry(replace(incomplete(), members=members)))
    assert [None] == list({b.high for b in all_bounds if b.label == "a2c" and b.metric == "mean"})
