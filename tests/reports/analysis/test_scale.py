"""Scores of several tasks on one scale."""

from dataclasses import replace

import numpy as np
import pytest
from evidence_samples import (
    CARTPOLE,
    PENDULUM,
    all_failed,
    constant,
    inquiry,
    of_scores,
    settings,
    typical,
    without_anchors,
)
from numpy.testing import assert_allclose

from rlexp.reports.analysis.estimates import aggregates, bounds, per_task
from rlexp.reports.analysis.scale import (
    TaskAnchors,
    anchors_by_task,
    in_units_of_scores,
    scale_of,
    task_scores,
)
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


def test_normalised_scores_are_taken_as_they_are() -> None:
    """With `normalisation=none`, aggregates over tasks are those of the recorded scores."""
    scores = {("ppo", CARTPOLE): [0.1, 0.9, 1.3, 0.5], ("ppo", PENDULUM): [0.2, 0.4, 0.6, 0.8]}
    sample = in_units_of_scores(of_scores(scores), settings(normalisation="none"))
    [row] = aggregates(inquiry(sample, normalisation="none"))
    # The middle half of the eight scores is 0.4, 0.5, 0.6 and 0.8. Capped at 1, their sum is 4.5.
    expected = {"iqm": 2.3 / 4, "mean": 4.8 / 8, "optimality_gap": 1 - 4.5 / 8}
    values = {name: row.intervals[name].estimate for name in expected}
    assert_allclose(list(values.values()), list(expected.values()), rtol=1e-12)


def test_references_in_other_units_are_not_used() -> None:
    """Normalised scores of a task that declares returns have none of its bounds and anchors."""
    sample = of_scores({("ppo", PENDULUM): [0.2, 0.4, 0.9], ("ppo", CARTPOLE): [0.0, 0.2, 0.9]})
    used = in_units_of_scores(sample, settings(normalisation="none"))
    assert ((CARTPOLE, PENDULUM), {}) == (used.unused_references, used.reference(PENDULUM))
    intervals = [row.intervals["iqm"] for row in per_task(inquiry(used, normalisation="none"))]
    # A return of CartPole is at least 0, but a normalised score may be below a random policy's.
    assert all(interval.low is not None and interval.low < 0 for interval in intervals[:1])
    assert () == bounds(inquiry(used, normalisation="none"))
    assert sample is in_units_of_scores(sample, settings())


def test_references_of_normalised_scores_are_used() -> None:
    """Bounds of a task whose anchors are 0 and 1, or not declared, limit normalised scores."""
    reference = {"random": None, "threshold": 1.0, "minimum": 0.0, "maximum": 1.0, "source": None}
    sample = of_scores({("ppo", CARTPOLE): [0.0, 0.2, 0.9]})
    configurations = [replace(m.configuration, reference=reference) for m in sample.members]
    pairs = zip(sample.members, configurations, strict=True)
    sample = replace(sample, members=tuple(replace(m, configuration=c) for m, c in pairs))
    used = in_units_of_scores(sample, settings(normalisation="none"))
    [row] = per_task(inquiry(used, normalisation="none"))
    assert ((), 0.0, 1.0) == (
        used.unused_references,
        row.intervals["iqm"].low,
        row.intervals["iqm"].high,
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


def with_datasets(*scores: tuple[float, float]) -> Evidence:
    """Two tasks, of which one has no anchors of its own, and labels of it with datasets."""
    evidence = without_anchors()
    declared = dict(zip(evidence.labels, scores, strict=False))
    members = []
    for member in evidence.members:
        if member.label in declared:
            random, expert = declared[member.label]
            dataset = {"random_score": random, "expert_score": expert}
            changed = replace(member.configuration, dataset=dataset)
            member = replace(member, configuration=changed)  # noqa: PLW2901
        members.append(member)
    return replace(evidence, members=tuple(members))


def test_a_dataset_gives_the_anchors_that_a_task_lacks() -> None:
    """The anchors of the task come first; without them, those of the datasets stand in."""
    scales = anchors_by_task(with_datasets((-1200.0, -200.0), (-1200.0, -200.0)), settings())
    expected = TaskAnchors(
        low=-1200.0, high=-200.0, source="random and expert score of the dataset"
    )
    assert expected == scales[PENDULUM]
    assert scales[CARTPOLE] == scale_of(CARTPOLE, typical(), settings())


def test_datasets_with_different_anchors_give_none() -> None:
    """Two datasets that declare different scores leave the task without anchors."""
    assert scale_of(PENDULUM, with_datasets((0.0, 1.0), (0.0, 2.0)), settings()) is None
