"""Expected runs, power and level of a sequential comparison."""

from math import sqrt

import numpy as np
import pytest
from in_full import IN_FULL
from sequential_cases import FAMILIES

from rlexp.stats.resampling import Resampling
from rlexp.stats.sequential.comparison import Design, Family, decide, every_pair
from rlexp.stats.sequential.looks import take_look, unspent
from rlexp.stats.sequential.plan import ExpectedRuns, decide_many, expected_runs

STUDIES = 2000 if IN_FULL else 800
ERROR = 3.3 * sqrt(0.05 * 0.95 / STUDIES)
"""Error of a simulated level of 5 %, exceeded once in two thousand seeds."""
TOLERANCE_FACTOR = sqrt(2000 / STUDIES)
"""Factor by which tolerances grow if there are fewer than two thousand studies."""


def design_of(labels: str, group: int, interims: int, family: Family = "holm") -> Design:
    """Every pair of the labels, with a thousand relabellings."""
    return Design(
        group=group, interims=interims, pairs=every_pair(labels), family=family, repetitions=1000
    )


def simulated(design: Design, effects: dict[str, float] | None = None) -> ExpectedRuns:
    """Expected runs, simulated by many studies."""
    return expected_runs(design, effects or {}, Resampling(seed=1, repetitions=STUDIES))


@pytest.mark.parametrize("family", FAMILIES)
def test_a_batch_of_studies_ends_as_each_does_alone(family: Family) -> None:
    """Studies decided in a batch have the same decisions, interims and runs as alone."""
    design = design_of("abc", 5, 3, family)
    scores = np.random.default_rng(0).normal(size=(40, 3, 3, 5))
    scores[:, 2] += 1.5
    batch = decide_many(design, scores)
    for number, study in enumerate(scores):
        single_study = decide(design, dict(zip("abc", study, strict=True)))
        signs = {"better": 1, "worse": -1, "equal": 0}
        assert [signs[word] for word in single_study.decisions.values()] == batch.signs[
            number
        ].tolist()
        assert [*single_study.interims.values()] == batch.interims[number].tolist()
        assert [*single_study.runs.values()] == batch.runs[number].tolist()


@pytest.mark.parametrize(("group", "interims"), [(5, 1), (5, 3), (10, 3)])
def test_two_equal_labels_are_told_apart_no_more_often_than_alpha(
    group: int, interims: int
) -> None:
    """The error over all interims is at most alpha, and nearly alpha."""
    share = simulated(design_of("ab", group, interims)).any_decided
    assert 0.03 < share < 0.05 + ERROR


@pytest.mark.parametrize(("family", "group"), [("holm", 5), ("holm", 10), ("bonferroni", 5)])
def test_three_equal_labels_are_distinguished_with_probability_alpha_at_most(
    family: Family, group: int
) -> None:
    """The family-wise error over all pairs and interims is at most alpha in simulations."""
    share = simulated(design_of("abc", group, 3, family)).any_decided
    assert 0.03 < share < 0.05 + ERROR


def test_equals_are_told_apart_no_more_often_beside_a_better_label() -> None:
    """A better label beside two equal labels does not raise their error above alpha."""
    result = simulated(design_of("abc", 5, 3), {"c": 8.0})
    assert 1 == result.decided["a", "c"] == result.decided["b", "c"]
    assert 0.03 < result.decided["a", "b"] < 0.05 + ERROR


def test_heavy_tails_do_not_raise_the_level() -> None:
    """The level holds without an assumption on the distribution, here for Cauchy's."""
    scores = np.random.default_rng(2).standard_cauchy((STUDIES, 2, 3, 5))
    share = decide_many(design_of("ab", 5, 3), scores).signs.any(axis=1).mean()
    assert 0.03 < share < 0.05 + ERROR


def test_the_joint_test_is_near_its_level() -> None:
    """The joint test, whose pairs share relabellings, exceeds its level by a percent at most."""
    assert 0.03 < simulated(design_of("abc", 5, 3, "maxt")).any_decided < 0.06 + ERROR


def test_signed_relabellings_would_double_the_level() -> None:
    """The published package compares an absolute difference with signed ones.

    Its boundary is that of a one-sided test, so that equal labels are told apart twice as often.
    The code of rlexp shows the same if it is given signed differences.
    """
    relabellings = design_of("ab", 5, 1).relabellings
    scores = np.random.default_rng(1).normal(size=(STUDIES, 2, 5))
    signed = relabellings.differences(scores[:, 0], scores[:, 1], 0)
    observed, allowed = np.abs(signed[:, 0]), np.full(STUDIES, 0.05)
    for values, low, high in ((np.abs(signed), 0.03, 0.05 + ERROR), (signed, 0.08, 0.12)):
        ledger = unspent((STUDIES,), relabellings.count)
        _, look = take_look(ledger, values, observed, allowed, np.zeros(STUDIES))
        assert low < look.rejected.mean() < high


def test_expected_runs_agree_with_the_published_study() -> None:
    """Power and runs are those of a published study of one better label among three.

    The label is better by 1.2 deviations, with groups of 5 and 5 interims. The specification of the
    statistics has a power of .944 with 66.5 runs for the joint test, and of .916 with 68.2 runs for
    Bonferroni; Holm lies between.
    """
    power, runs = [], []
    for family in ("bonferroni", "holm", "maxt"):
        result = simulated(design_of("abc", 5, 5, family), {"a": 1.2})
        power.append((result.decided["a", "b"] + result.decided["a", "c"]) / 2)
        runs.append(result.runs)
        assert 75 == result.worst_case
        assert result.standard_error < 0.2 * TOLERANCE_FACTOR
    assert pytest.approx([0.916, 0.944], abs=0.015 * TOLERANCE_FACTOR) == [power[0], power[2]]
    assert pytest.approx([68.2, 66.5], abs=0.6 * TOLERANCE_FACTOR) == [runs[0], runs[2]]
    assert power[0] < power[1]
    assert runs[0] > runs[1] > runs[2]


def test_the_same_seed_expects_the_same() -> None:
    """A plan depends on the seed only: the same seed repeats it, another seed changes it."""
    design = design_of("ab", 3, 2)
    first, same, other = (
        expected_runs(design, {"a": 1}, Resampling(seed=seed, repetitions=100))
        for seed in (1, 1, 2)
    )
    assert first == same
    assert first.decided != other.decided


def test_effects_of_unknown_labels_are_refused() -> None:
    """The message names the unknown label and the labels of the design."""
    with pytest.raises(ValueError, match="label 'z' is not in the design; its labels: a, b"):
        simulated(design_of("ab", 3, 2), {"z": 1})
