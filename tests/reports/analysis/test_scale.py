"""Scores of several tasks on one scale."""

from dataclasses import replace

import numpy as np
import pytest
from evidence_samples import (
    CARTPOLE,
    PENDULUM,
    all_failed,
    constant,
    of_scores,
    settings,
    typical,
    without_anchors,
)
from numpy.testing import assert_allclose

from rlexp.reports.analysis.scale import TaskAnchors, anchors_by_task, scale_of, task_scores
from rlexp.reports.evidence.runs import Evidence


def test_normalised_by_hand() -> None:
    """The lower anchor becomes 0, the upper anchor 1, and scores outside are not clipped."""
    own = TaskAnchors(low=-1235.0, high=-150.0, source="")
    scores = np.asarray([-1235.0, -692.5, -150.0, 0.0])
    assert_allclose([0.0, 0.5, 1.0, 1235 / 1085], own.normalised(scores), rtol=1e-15)


def test_anchors_are_random_and_threshold() -> None:
    """The anchors and their source come from the configuration."""
    expected = TaskAnchors(low=22.5, high=475.0, source="random and threshold score (measured)")
    assert expected == scale_of(CARTPOLE, typical(), settings())


def test_without_a_threshold_the_maximum_counts() -> None:
    """A task without a threshold uses its largest possible score."""

    def bare(own: Evidence) -> Evidence:
        reference = {"random": -500.0, "threshold": None, "maximum": 0.0, "source": None}
        configured = [replace(m.configuration, reference=reference) for m in own.members]
        pairs = zip(own.members, configured, strict=True)
        return replace(own, members=tuple(replace(m, configuration=c) for m, c in pairs))

    expected = TaskAnchors(
        low=-500.0, high=0.0, source="random and maximum score (the configuration)"
    )
    assert expected == scale_of(CARTPOLE, bare(typical()), settings())


def test_a_task_without_anchors_has_no_scale() -> None:
    """A task without anchors does not affect other tasks."""
    found = anchors_by_task(without_anchors(), settings())
    assert (False, True) == (found[CARTPOLE] is None, found[PENDULUM] is None)


def test_observed_anchors_are_the_least_and_the_greatest_score() -> None:
    """Observed anchors are taken over all labels, and their source states this."""
    own = of_scores({("ppo", CARTPOLE): [3.0, 7.0], ("a2c", CARTPOLE): [1.0, 5.0]})
    found = scale_of(CARTPOLE, own, settings(normalisation="observed"))
    assert found is not None
    assert (1.0, 7.0, True) == (
        found.low,
        found.high,
        "depends on the compared labels" in found.source,
    )


@pytest.mark.parametrize("make", [constant, all_failed])
def test_nothing_observed_gives_no_scale(make: object) -> None:
    """Equal scores, or no scores, give no observed anchors."""
    assert callable(make)
    assert None is scale_of(CARTPOLE, make(), settings(normalisation="observed"))


def test_task_scores_are_normalised_task_by_task() -> None:
    """Every task is normalised by its own anchors."""
    own = of_scores({("ppo", CARTPOLE): [22.5, 475.0], ("ppo", PENDULUM): [-150.0]})
    found = task_scores(own.of_label("ppo"), anchors_by_task(own, settings()))
    assert ([0.0, 1.0, 1.0], (2, 1)) == (list(found.values), found.sizes)


def test_task_scores_without_a_scale_are_raw() -> None:
    """Scores without anchors are in units of the return."""
    own = of_scores({("ppo", CARTPOLE): [475.0, 22.5]})
    assert [22.5, 475.0] == list(task_scores(own.of_label("ppo"), None).values)


def test_task_scores_need_anchors() -> None:
    """The error names the task without anchors."""
    own = without_anchors()
    with pytest.raises(ValueError, match="Pendulum-v1 has no anchors"):
        task_scores(own.of_label("ppo"), anchors_by_task(own, settings()))
