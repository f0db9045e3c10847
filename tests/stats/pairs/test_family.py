"""Families of comparisons: adjusted p-values, verdicts, and the seeds that they need."""

from itertools import combinations
from math import comb

import numpy as np
import pytest
from comparison_cases import (
    FEW,
    every_pair,
    family_of,
    family_of_pairs,
    label,
    normal_labels,
)
from in_full import IN_FULL

from rlexp.stats.aggregate import Negative, Statistic, interquartile_mean, mean
from rlexp.stats.pairs import pairwise_family
from rlexp.stats.pairs.difference import estimate_metric_difference, spreads_differ
from rlexp.stats.pairs.pairwise_family import Family, FamilyMember, Verdict, decide, holm
from rlexp.stats.pairs.permutation import permutation_distribution
from rlexp.stats.pairs.reach import (
    MOST_LABELS,
    Correction,
    correction_of,
    seeds_to_decide,
    smallest_adjusted_p,
    smallest_p_of_seeds,
)
from rlexp.stats.pairs.test_inversion import t_test
from rlexp.stats.resampling import Resampling
from rlexp.stats.task_scores import TaskScores

SAMPLES = 1500 if IN_FULL else 300
LOW, HIGH = label([1.0, 2.0, 3.0, 4.0, 5.0]), label([11.0, 12.0, 13.0, 14.0, 15.0])
ONE_RUN = label([3.0])
OTHER = label([101.0, 103.0, 104.0, 105.0, 109.0])


def single(x: TaskScores, y: TaskScores, statistic: Statistic = mean) -> FamilyMember:
    """The decision on a single pair."""
    return decide(family_of([x, y], statistic))[0]


@pytest.mark.parametrize(
    ("count", "expected"),
    [
        (2, Correction.NONE),
        (3, Correction.CLOSED),
        (MOST_LABELS, Correction.CLOSED),
        (MOST_LABELS + 1, Correction.STRETCHES),
    ],
)
def test_the_number_of_labels_decides_about_the_correction(
    count: int, expected: Correction
) -> None:
    """Up to seven labels are tested by all partitions, and more by stretches."""
    family = family_of([LOW] * count)
    assert (expected, count) == (family.correction, family.labels)
    assert expected is correction_of(count)


def test_pairs_on_different_tasks_are_corrected_by_holm() -> None:
    """Pairs without numbers of labels are corrected by Holm, but a single pair is not."""
    assert Correction.HOLM is family_of_pairs([(LOW, HIGH)] * 2).correction
    assert Correction.NONE is family_of_pairs([(LOW, HIGH)]).correction
    assert 2 == family_of_pairs([(LOW, HIGH)]).labels


def test_a_family_has_the_scores_of_each_label() -> None:
    """Scores are those of labels 0, 1, 2, whatever the order of the pairs."""
    members = [(2, 1), (0, 2), (1, 0)]
    labels = [LOW, HIGH, OTHER]
    family = Family(
        pairs=[(labels[a], labels[b]) for a, b in members],
        members=members,
        statistic=mean,
        resampling=FEW,
    )
    assert labels == family.scores()
    verdicts = [member.verdict for member in decide(family)]
    assert [Verdict.BETTER, Verdict.WORSE, Verdict.BETTER] == verdicts


def test_p_values_of_pairs_on_different_tasks_are_adjusted_by_holm() -> None:
    """Three equal p-values of 2 / 252 are each multiplied by three."""
    results = decide(family_of_pairs([(HIGH, LOW), (LOW, HIGH), (HIGH, LOW)]))
    assert [6 / 252] * 3 == pytest.approx([member.adjusted_p for member in results])
    assert [6 / 252] * 3 == pytest.approx([member.adjusted_smallest_p for member in results])
    assert [Verdict.BETTER, Verdict.WORSE, Verdict.BETTER] == [m.verdict for m in results]
    # The interval is at the level of Holm's first step.
    assert 1 - 0.05 / 3 == pytest.approx(results[0].comparison.difference.level)


def test_a_pair_without_a_test_counts_in_holms_correction() -> None:
    """A pair without a test stays undecided, but the other pair is adjusted for two pairs."""
    results = decide(family_of_pairs([(HIGH, LOW), (ONE_RUN, LOW)]))
    assert pytest.approx(4 / 252) == results[0].adjusted_p
    assert (None, 1.0, True, Verdict.UNDECIDED) == (
        results[1].adjusted_p,
        results[1].adjusted_smallest_p,
        results[1].out_of_reach,
        results[1].verdict,
    )


def test_a_label_without_a_test_leaves_the_other_labels_decided() -> None:
    """Beside a label with one run, two other labels are decided; its own pairs are not."""
    results = dict(zip(every_pair(3), decide(family_of([LOW, HIGH, ONE_RUN])), strict=True))
    assert Verdict.WORSE is results[0, 1].verdict
    for pair in [(0, 2), (1, 2)]:
        assert (None, True) == (results[pair].adjusted_p, results[pair].out_of_reach)
        assert Verdict.UNDECIDED is results[pair].verdict


def test_more_pairs_put_a_decision_by_holm_out_of_reach() -> None:
    """At 5 runs the smallest p-value is 2 / 252: six pairs can be decided, seven cannot."""
    assert not decide(family_of_pairs([(HIGH, LOW)] * 6))[0].out_of_reach
    assert decide(family_of_pairs([(HIGH, LOW)] * 7))[0].out_of_reach


@pytest.mark.parametrize(
    ("p", "equivalence_p", "sign", "expected"),
    [
        (0.05, None, 1, Verdict.BETTER),
        (0.05, None, -1, Verdict.WORSE),
        (0.051, None, 1, Verdict.UNDECIDED),
        (None, None, 1, Verdict.UNDECIDED),
        (0.01, None, 0, Verdict.UNDECIDED),
        (0.05, 0.051, -1, Verdict.WORSE),
        (0.05, 0.05, 1, Verdict.EQUIVALENT),
        (0.5, 0.05, 1, Verdict.EQUIVALENT),
        (0.5, 0.5, 1, Verdict.UNDECIDED),
    ],
)
def test_the_verdict_follows_from_the_p_values(
    p: float | None, equivalence_p: float | None, sign: int, expected: Verdict
) -> None:
    """A p-value of alpha decides, equivalence comes first, and a difference of 0 has no side."""
    pair = {1: (HIGH, LOW), -1: (LOW, HIGH), 0: (LOW, LOW)}[sign]
    member = FamilyMember(
        comparison=single(*pair).comparison,
        correction=Correction.NONE,
        pairs=1,
        labels=2,
        alpha=0.05,
        adjusted_p=p,
        adjusted_smallest_p=0.0,
        adjusted_equivalence_p=equivalence_p,
    )
    assert expected is member.verdict


def test_a_p_value_of_exactly_alpha_decides() -> None:
    """With 19 random relabellings the clearest difference has p = 0.05, which decides."""
    labels = [label(np.arange(20.0)), label(np.arange(20.0) + 100)]
    (member,) = decide(family_of(labels, resampling=Resampling(repetitions=19)))
    assert not member.out_of_reach
    assert Verdict.WORSE is member.verdict


@pytest.mark.parametrize("statistic", [mean, interquartile_mean])
@pytest.mark.parametrize("spreads", [(3.0, 1.0), (1.0, 3.0), (1.0, 1.0)])
def test_the_level_holds_with_unequal_numbers_of_runs(
    spreads: tuple[float, float], statistic: Statistic
) -> None:
    """Four runs and ten runs of the same mean are told apart about as rarely as alpha."""
    generator = np.random.default_rng(8)
    false_verdicts = 0
    for _ in range(SAMPLES):
        x, y = (
            label(generator.normal(0, spread, n))
            for spread, n in zip(spreads, (4, 10), strict=True)
        )
        guard = estimate_metric_difference(x, y, statistic, FEW)
        p = permutation_distribution([x, y], statistic, FEW).p
        false_verdicts += max(p, t_test(guard, 0.0)) <= 0.05
    # With spreads of 3 to 1 Welch's test has a level of 6 %.
    assert false_verdicts / SAMPLES <= 0.06 + 3 * (0.06 * 0.94 / SAMPLES) ** 0.5


GUARDED: tuple[list[float], list[float]] = (
    [0.0, 10.0, 20.0, 30.0],
    [0.1 * k for k in range(12)],
)


def test_with_unequal_numbers_of_runs_the_larger_p_value_counts() -> None:
    """Welch's p-value counts if it is the larger, here against a significant permutation test."""
    member = single(label(GUARDED[0]), label(GUARDED[1]))
    pair = member.comparison
    assert pair.permutation.p is not None
    assert pair.welch.p is not None
    assert pair.permutation.p < pair.welch.p
    assert pair.welch.p == pytest.approx(member.adjusted_p, rel=1e-12)
    assert Verdict.UNDECIDED is member.verdict
    assert "permutation test (exact) with Welch's test" == pair.deciding.method


def test_with_unequal_numbers_of_runs_welchs_test_must_be_possible() -> None:
    """With unequal numbers of runs a pair stays undecided if Welch's test is impossible."""
    low, high = [1.0] * 5, [2.0] * 5
    assert Verdict.BETTER is single(label(high), label(low)).verdict
    member = single(label([*high, 2.0]), label(low))
    assert (None, Verdict.UNDECIDED) == (member.adjusted_p, member.verdict)
    reason = member.comparison.deciding.reason or ""
    assert reason.startswith("with unequal numbers of runs Welch's test must agree: within each")


@pytest.mark.parametrize("count", [3, MOST_LABELS + 1])
def test_guarded_p_values_in_a_family_are_at_least_those_of_holm(count: int) -> None:
    """If numbers of runs differ, adjusted p-values are at least Holm's of the guarded tests."""
    generator = np.random.default_rng(2)
    labels = [label(generator.normal(k, 1 + k % 2, 4 + k % 2)) for k in range(count)]
    members = decide(family_of(labels))
    guarded = holm([member.comparison.deciding.p or 0.0 for member in members])
    for member, p in zip(members, guarded, strict=True):
        assert member.adjusted_p is not None
        assert member.adjusted_p >= p
    assert {member.comparison.guard is None for member in members} == {True, False}


def test_a_guard_hides_no_clear_difference() -> None:
    """Three labels with 4, 5 and 6 runs, far apart, are all decided."""
    generator = np.random.default_rng(3)
    labels = [label(generator.normal(100 * k, 1, 4 + k)) for k in range(3)]
    assert {Verdict.WORSE} == {member.verdict for member in decide(family_of(labels))}


def test_equivalence_is_corrected_by_holm() -> None:
    """Three pairs of equal labels within the margin have three times the p-value of one pair."""
    runs = label(np.linspace(0, 1, 20))
    single_p = decide(family_of([runs, runs], margin=0.4))[0].adjusted_equivalence_p
    assert single_p is not None
    members = decide(family_of([runs] * 3, margin=0.4))
    assert [3 * single_p] * 3 == pytest.approx([m.adjusted_equivalence_p for m in members])
    assert {Verdict.EQUIVALENT} == {member.verdict for member in members}


def test_the_verdict_is_about_the_declared_metric() -> None:
    """A label is better by the middle half of its runs, and worse by their mean."""
    # Of each label 15 runs are steady. Five runs of the first collapse, five of the other excel.
    steady = np.linspace(-2, 2, 15)
    labels = [label([*steady + 500, *[0.0] * 5]), label([*steady + 480, *[900.0] * 5])]
    resampling = Resampling(repetitions=1999)
    for statistic, expected in (
        (interquartile_mean, Verdict.BETTER),
        (mean, Verdict.WORSE),
        (Negative(mean), Verdict.BETTER),
    ):
        (member,) = decide(family_of(labels, statistic, resampling))
        assert expected is member.verdict
        interval = member.comparison.difference
        assert interval.low is not None
        assert interval.high is not None
        assert (interval.low > 0) == (expected is Verdict.BETTER)
        assert (interval.high < 0) == (expected is Verdict.WORSE)
        # By hand: 15/20 · 500 − 15/20 · 480 − 5/20 · 900.
        assert -210 == pytest.approx(member.comparison.mean_difference.estimate)


def test_a_few_collapsed_runs_do_not_turn_the_verdict_around() -> None:
    """15 runs solved and 5 collapsed are not worse by the middle half than a steady label."""
    labels = [label([500.0] * 15 + [100.0] * 5), label([475.0 + k / 2 for k in range(20)])]
    by_middle, by_mean = (
        decide(family_of(labels, statistic, Resampling(repetitions=1999)))[0]
        for statistic in (interquartile_mean, mean)
    )
    # By hand: the middle half of the first is 500, and its mean 400; the second has 479.75.
    assert 500 - 479.75 == pytest.approx(by_middle.comparison.difference.estimate)
    assert 400 - 479.75 == pytest.approx(by_mean.comparison.difference.estimate)
    assert by_middle.verdict is not Verdict.WORSE
    assert by_mean.verdict is not Verdict.BETTER
    for member in (by_middle, by_mean):
        interval = member.comparison.difference
        assert interval.low is not None
        assert interval.high is not None
        assert (interval.low <= 0 <= interval.high) == (not member.different)


@pytest.mark.parametrize("runs", [5, 15])
def test_the_level_of_interquartile_means_holds_with_unequal_spreads(runs: int) -> None:
    """With spreads of 3 to 1 and equal numbers of runs, few labels of equal middles differ."""
    generator = np.random.default_rng(4)
    samples, false_verdicts = SAMPLES // 2, 0
    for seed in range(samples):
        x, y = normal_labels(generator, [0, 0], runs, spreads=[3.0, 1.0])
        resampling = Resampling(seed=seed, repetitions=199)
        p = permutation_distribution([x, y], interquartile_mean, resampling, 199).p
        if spreads_differ(x, y, interquartile_mean):
            guard = estimate_metric_difference(x, y, interquartile_mean, resampling)
            p = max(p, t_test(guard, 0.0))
        false_verdicts += p <= 0.05
    # The permutation test alone has a level of 14 % for many runs, and both tests of 6 %.
    assert false_verdicts / samples <= 0.06 + 3 * (0.06 * 0.94 / samples) ** 0.5


def test_no_pairs_make_no_family() -> None:
    """A family without pairs is empty and raises no error."""
    assert [] == decide(family_of_pairs([]))


@pytest.mark.parametrize(
    ("correction", "pairs", "labels", "expected"),
    [
        (Correction.NONE, 1, 2, 0.01),
        (Correction.CLOSED, 21, 7, 0.01),
        (Correction.HOLM, 6, 4, 0.06),
        (Correction.HOLM, 200, 20, 1.0),
        (Correction.STRETCHES, 45, 10, 1 - 0.99**5),
    ],
)
def test_the_smallest_adjusted_p_value(
    correction: Correction, pairs: int, labels: int, expected: float
) -> None:
    """Closed testing needs no adjustment of a pair, Holm multiplies, stretches take the root."""
    assert expected == pytest.approx(smallest_adjusted_p(0.01, correction, pairs, labels))


@pytest.mark.parametrize("runs", [4, 5])
@pytest.mark.parametrize("count", [2, 3, 5, MOST_LABELS + 1])
def test_the_clearest_difference_reaches_the_smallest_adjusted_p_value(
    count: int, runs: int
) -> None:
    """Labels far apart have adjusted p-values equal to the smallest possible one."""
    labels = normal_labels(np.random.default_rng(1), [1000.0 * k for k in range(count)], runs)
    for member in decide(family_of(labels)):
        assert member.adjusted_smallest_p == pytest.approx(member.adjusted_p, rel=1e-9)
        assert member.out_of_reach == (member.verdict is Verdict.UNDECIDED)


@pytest.mark.parametrize(("n", "tasks"), [(2, 1), (3, 1), (5, 1), (2, 3)])
def test_the_smallest_p_value_of_seeds_is_that_of_their_runs(n: int, tasks: int) -> None:
    """The smallest p-value that is promised for seeds is that of the test of their runs."""
    low, high = (label(*[np.arange(float(n)) + far] * tasks) for far in (0, 1e6))
    assert smallest_p_of_seeds(n, tasks) == pytest.approx(single(high, low).adjusted_p)


@pytest.mark.parametrize(
    ("tasks", "correction", "pairs", "labels", "alpha", "expected"),
    [
        (1, Correction.NONE, 1, 2, 0.05, 4),
        (1, Correction.NONE, 1, 2, 0.1, 3),
        (1, Correction.NONE, 1, 2, 0.01, 5),
        (1, Correction.HOLM, 3, 3, 0.05, 5),
        (1, Correction.HOLM, 6, 4, 0.05, 5),
        (1, Correction.HOLM, 7, 4, 0.05, 6),
        (1, Correction.CLOSED, 3, 3, 0.05, 4),
        (1, Correction.CLOSED, 21, 7, 0.05, 4),
        (1, Correction.STRETCHES, 28, 8, 0.05, 5),
        (1, Correction.STRETCHES, 190, 20, 0.05, 6),
        (2, Correction.NONE, 1, 2, 0.05, 3),
        (26, Correction.HOLM, 21, 7, 0.05, 2),
        (1000, Correction.NONE, 1, 2, 0.05, 2),
    ],
)
def test_the_fewest_seeds_that_could_decide(
    tasks: int, correction: Correction, pairs: int, labels: int, alpha: float, expected: int
) -> None:
    """By hand: 2 to 6 runs per side have 6, 20, 70, 252 and 924 relabellings."""
    assert expected == seeds_to_decide(tasks, pairs, alpha, correction, labels)


def test_the_fewest_seeds_reach_the_level_and_one_less_does_not() -> None:
    """The fewest seeds of stretches: 2 / 252 of a pair among 8 is 0.031, 2 / 70 is 0.11."""
    p = [1 - (1 - 2 / comb(2 * n, n)) ** 4 for n in (4, 5)]
    assert p[0] > 0.05 >= p[1]
    assert 5 == seeds_to_decide(1, 28, 0.05, Correction.STRETCHES, 8)


@pytest.mark.parametrize("statistic", [interquartile_mean, mean, Negative(interquartile_mean)])
def test_many_pairs_tested_together_have_their_own_p_values(
    statistic: Statistic, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The p-values of many pairs are to the bit those of each pair's permutation distribution."""
    generator = np.random.default_rng(4)
    labels = [TaskScores.from_tasks([generator.normal(size=12) + shift]) for shift in range(8)]
    numbers = list(combinations(range(8), 2))
    family = Family(
        pairs=[(labels[a], labels[b]) for a, b in numbers],
        members=numbers,
        statistic=statistic,
        resampling=Resampling(repetitions=999),
        intervals=False,
    )
    together = [member.comparison.permutation for member in decide(family)]
    monkeypatch.setattr(pairwise_family, "TOGETHER_FROM", 1_000)
    assert [member.comparison.permutation for member in decide(family)] == together
    assert len({test.p for test in together}) > 5
