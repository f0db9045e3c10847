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
    anchors = TaskAnchors(low=-1235.0, high=-150.0, source="")
    scores = np.asarray([-1235.0, -692.5, -150.0, 0.0])
    assert_allclose([0.0, 0.5, 1.0, 1235 / 1085], anchors.normalised(scores), rtol=1e-15)


def test_anchors_are_random_and_threshold() -> None:
    """The anchors of a task and their source come from the configuration."""
    expected = TaskAnchors(low=22.5, high=475.0, source="random and threshold score (measured)")
    assert expected == scale_of(CARTPOLE, typical(), settings())


def test_without_a_threshold_the_maximum_counts() -> None:
    """A task without a threshold uses its largest possible score."""

    def with_maximum_only(sample: Evidence) -> Evidence:
        reference = {"random": -500.0, "threshold": None, "maximum": 0.0, "source": None}
        configurations = [replace(m.configuration, reference=reference) for m in sample.members]
        pairs = zip(sample.members, configurations, strict=True)
        return replace(sample, members=tuple(replace(m, configuration=c) for m, c in pairs))

    expected = TaskAnchors(
        low=-500.0, high=0.0, source="random and maximum score (the configuration)"
    )
    assert expected == scale_of(CARTPOLE, with_maximum_only(typical()), settings())


def test_a_task_without_anchors_has_no_scale() -> None:
    """A task without anchors does not affect other tasks."""
    anchors = anchors_by_task(without_anchors(), settings())
    assert (False, True) == (anchors[CARTPOLE] is None, anchors[PENDULUM] is None)


def test_observed_anchors_are_the_least_and_the_greatest_score() -> None:
    """Observed anchors are taken over all labels, and their source states this."""
    sample = of_scores({("ppo", CARTPOLE): [3.0, 7.0], ("a2c", CARTPOLE): [1.0, 5.0]})
    anchors = scale_of(CARTPOLE, sample, settings(normalisation="observed"))
    assert anchors is not None
    assert (1.0, 7.0, True) == (
        anchors.low,
        anchors.high,
        "depends on the compared labels" in anchors.source,
    )


@pytest.mark.parametrize("make", [constant, all_failed])
def test_nothing_observed_gives_no_scale(make: object) -> None:
    """Equal scores, or no scores, give no observed anchors."""
    assert callable(make)
    assert None is scale_of(CARTPOLE, make(), settings(normalisation="observed"))


def test_task_scores_are_normalised_task_by_task() -> None:
    """Every task is normalised by its own anchors."""
    sample = of_scores({("ppo", CARTPOLE): [22.5, 475.0], ("ppo", PENDULUM): [-150.0]})
    normalised = task_scores(sample.of_label("ppo"), anchors_by_task(sample, settings()))
    assert ([0.0, 1.0, 1.0], (2, 1)) == (list(normalised.values), normalised.sizes)


def test_task_scores_without_a_scale_are_raw() -> None:
    """Scores without anchors are in units of the return."""
    sample = of_scores({("ppo", CARTPOLE): [475.0, 22.5]})
    assert [22.5, 475.0] == list(task_scores(sample.of_label("ppo"), None).values)


def test_task_scores_need_anchors() -> None:
    """The error names the task that has no anchors."""
    sample = without_anchors()
    with pytest.raises(ValueError, match="Pendulum-v1 has no anchors"):
        task_scores(sample.of_label("ppo"), anchors_by_task(sample, settings()))
