"""Scales that there cannot be, and scales so narrow that bounds grow beyond any score."""

from dataclasses import replace

from evidence_samples import CARTPOLE, PENDULUM, all_failed, incomplete, inquiry, of_scores

from rlexp.reports.analysis.estimates import aggregates, bounds, pairs
from rlexp.reports.analysis.scale import without_anchors


def test_equal_scores_have_no_observed_scale() -> None:
    """The message states that scores are equal, and does not suggest observed anchors again."""
    flat = of_scores(
        {
            ("ppo", CARTPOLE): [1.0, 2.0],
            ("a2c", CARTPOLE): [3.0, 4.0],
            ("ppo", PENDULUM): [-150.0, -150.0],
            ("a2c", PENDULUM): [-150.0, -150.0],
        }
    )
    expected = "all scores on Pendulum-v1 are equal: no observed range to normalise by"
    own = aggregates(inquiry(flat, normalisation="observed"))
    assert {expected} == {reason for e in own for reason in e.reasons.values()}
    assert expected == pairs(inquiry(flat, normalisation="observed"))[0].reason
    asked = inquiry(all_failed(), normalisation="observed")
    told = without_anchors({CARTPOLE: None}, asked)
    assert "no run has a score on CartPole-v1: no observed range to normalise by" == told


def test_a_narrow_scale_has_bounds() -> None:
    """An unbounded score stays within the valid range after normalisation by narrow anchors."""
    narrow = {"random": 0.0, "threshold": 0.5}
    members = tuple(
        replace(m, configuration=replace(m.configuration, reference=narrow))
        for m in incomplete().members
    )
    found = bounds(inquiry(replace(incomplete(), members=members)))
    assert [None] == list({b.high for b in found if b.label == "a2c" and b.metric == "mean"})
