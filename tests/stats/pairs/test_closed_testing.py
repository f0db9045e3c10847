"""Closed testing takes the largest p-value of all partitions, and controls false differences."""

from collections.abc import Iterator, Mapping
from itertools import combinations, permutations, product
from math import ceil, comb, prod

import numpy as np
import pytest
from comparison_cases import FEW, every_pair, family_of, label, normal_labels
from hypothesis import given, settings
from hypothesis import strategies as st
from in_full import IN_FULL
from numpy.typing import NDArray

from rlexp.stats.aggregate import Aggregate, Negative, Statistic, interquartile_mean, mean
from rlexp.stats.pairs.closed_testing import (
    Pair,
    closed_p_values,
    group_distributions,
    groups_of,
    partitions,
    stretch_p_values,
)
from rlexp.stats.pairs.pairwise_family import Family, FamilyMember, Verdict, decide
from rlexp.stats.pairs.permutation import (
    PermutationDistribution,
    permutation_distribution,
    random_relabellings,
    smallest_p,
)
from rlexp.stats.pairs.reach import MOST_LABELS, Correction, regw, smallest_adjusted_p
from rlexp.stats.resampling import Resampling
from rlexp.stats.task_scores import TaskScores

FAMILIES = 1500 if IN_FULL else 250
BOUND = 0.05 + 3 * (0.05 * 0.95 / FAMILIES) ** 0.5
Distributions = Mapping[tuple[int, ...], PermutationDistribution]


def by_pair(members: list[FamilyMember], labels: int) -> dict[Pair, FamilyMember]:
    """The decisions of a family of all pairs, by the numbers of both labels."""
    return dict(zip(every_pair(labels), members, strict=True))


def rejected(labels: list[TaskScores], seed: int = 0, statistic: Statistic = mean) -> set[Pair]:
    """The pairs of labels with an adjusted p-value of at most 0.05, without their intervals."""
    # Each family has a seed: otherwise all families would share their random relabellings.
    resampling = Resampling(seed=seed, repetitions=199)
    pairs = every_pair(len(labels))
    if len(labels) <= MOST_LABELS:
        distributions, _ = group_distributions(labels, statistic, resampling)
        adjusted = closed_p_values(distributions, {pair: distributions[pair].p for pair in pairs})
    else:
        p = {
            (a, b): permutation_distribution([labels[a], labels[b]], statistic, resampling, 199).p
            for a, b in pairs
        }
        adjusted = stretch_p_values(labels, statistic, resampling, p)
    return {pair for pair, p in adjusted.items() if p <= 0.05}


@pytest.mark.parametrize(
    ("count", "expected"),
    [
        (2, {((0, 1),)}),
        (3, {((0, 1, 2),), ((0, 1),), ((0, 2),), ((1, 2),)}),
        (
            4,
            {
                ((0, 1, 2, 3),),
                *[((a, b, c),) for a, b, c in combinations(range(4), 3)],
                *[((a, b),) for a, b in combinations(range(4), 2)],
                ((0, 1), (2, 3)),
                ((0, 2), (1, 3)),
                ((0, 3), (1, 2)),
            },
        ),
    ],
)
def test_partitions_by_hand(count: int, expected: set[tuple[tuple[int, ...], ...]]) -> None:
    """Two, three and four labels have the partitions by hand, without groups of one."""
    assert len(expected) == len(partitions(count))
    assert expected == set(partitions(count))


def test_partitions_are_as_many_as_bell_numbers() -> None:
    """Bell numbers 2, 5, 15, 52, 203 and 877 count the partitions, with that into single labels."""
    counts = [len(set(partitions(count))) + 1 for count in range(2, MOST_LABELS + 1)]
    assert [2, 5, 15, 52, 203, 877] == counts


def test_groups_are_all_subsets_of_two_labels_or_more() -> None:
    """Three labels have three pairs and a group of three; seven have 2⁷ − 8 groups."""
    assert [(0, 1), (0, 2), (1, 2), (0, 1, 2)] == groups_of(3)
    assert 2**7 - 8 == len(set(groups_of(7)))


def every_partition(count: int) -> Iterator[list[list[int]]]:
    """All partitions, from all assignments of labels to groups; some come repeatedly."""
    for assignment in product(range(count), repeat=count):
        yield [
            [label for label in range(count) if assignment[label] == group]
            for group in range(count)
        ]


def by_definition(distributions: Distributions, pair_p: Mapping[Pair, float]) -> dict[Pair, float]:
    """The largest p-value of all partitions that put a pair in one group, one by one."""
    count = max(max(group) for group in distributions) + 1
    adjusted = dict(pair_p)
    for partition in every_partition(count):
        groups = [distributions[tuple(group)] for group in partition if len(group) > 1]
        if not groups:
            continue
        largest = max(group.observed for group in groups) * (1 - 1e-9)
        p = 1 - prod(np.mean(group.values < largest) for group in groups)
        for a, b in pair_p:
            if any(a in group and b in group for group in partition):
                adjusted[a, b] = max(adjusted[a, b], float(p))
    return adjusted


@settings(max_examples=30)
@given(st.integers(2, 5), st.integers(0, 2**32))
def test_adjusted_p_values_are_the_largest_of_all_partitions(count: int, seed: int) -> None:
    """Adjusted p-values equal their definition, for invented distributions of every group."""
    generator = np.random.default_rng(seed)
    distributions = {}
    for group in groups_of(count):
        values = np.sort(generator.integers(0, 12, 40) / 4.0)
        distributions[group] = PermutationDistribution(float(values[-2]), values, 0)
    pair_p = {
        pair: max(distributions[pair].p, float(generator.choice([0.0, 0.6])))
        for pair in every_pair(count)
    }
    adjusted = closed_p_values(distributions, pair_p)
    assert by_definition(distributions, pair_p) == pytest.approx(adjusted, abs=1e-12)


@pytest.mark.parametrize("statistic", [mean, interquartile_mean])
def test_the_p_values_of_scores_are_the_largest_of_all_partitions(statistic: Statistic) -> None:
    """Adjusted p-values of four labels equal their definition, and are at least the pair's p."""
    generator = np.random.default_rng(3)
    labels = normal_labels(generator, [0, 0.5, 1.5, 1.7], 6, tasks=2)
    distributions, repetitions = group_distributions(labels, statistic, FEW)
    assert FEW.repetitions == repetitions
    expected = by_definition(distributions, {p: distributions[p].p for p in every_pair(4)})
    members = by_pair(decide(family_of(labels, statistic)), 4)
    for pair, member in members.items():
        assert Correction.CLOSED is member.correction
        assert expected[pair] == pytest.approx(member.adjusted_p, abs=1e-12)
        assert member.adjusted_p is not None
        assert member.adjusted_p >= (member.comparison.permutation.p or 0.0)


def test_two_pairs_of_equal_differences_by_hand() -> None:
    """Two pairs that are equally clear have two chances: 1 − (1 − 2/70)²."""
    labels = [label(np.arange(4.0) + shift) for shift in (0, 100, 1000, 1100)]
    members = by_pair(decide(family_of(labels)), 4)
    expected = 1 - (1 - 2 / comb(8, 4)) ** 2
    assert expected == pytest.approx(members[0, 1].adjusted_p)
    assert expected == pytest.approx(members[2, 3].adjusted_p)


@pytest.mark.parametrize("statistic", [mean, interquartile_mean])
@pytest.mark.parametrize("runs", [4, 5])
def test_five_labels_far_apart_are_all_decided(runs: int, statistic: Statistic) -> None:
    """Five labels a hundred standard deviations apart are told apart by four runs each."""
    generator = np.random.default_rng(runs)
    labels = normal_labels(generator, [0, 100, 200, 300, 400], runs)
    for member in decide(family_of(labels, statistic)):
        assert Verdict.WORSE is member.verdict
        # The smallest p-value of a pair decides, as if it were the only pair.
        assert 2 / comb(2 * runs, runs) == pytest.approx(member.adjusted_p, rel=1e-9)


def test_seven_labels_far_apart_are_all_decided() -> None:
    """The largest number of labels with closed testing, five runs each, is decided."""
    labels = normal_labels(np.random.default_rng(0), [100.0 * k for k in range(7)], 5)
    assert set(every_pair(7)) == rejected(labels)


def test_a_noisy_label_does_not_hide_a_difference() -> None:
    """A label with a spread of 1,000 hides no difference of five standard deviations."""
    generator = np.random.default_rng(4)
    for seed in range(10):
        labels = normal_labels(generator, [0, 5, 0], 6, spreads=[1, 1, 1000])
        assert (0, 1) in rejected(labels, seed)


@pytest.mark.parametrize("statistic", [mean, interquartile_mean])
@pytest.mark.parametrize(("labels", "runs", "tasks"), [(3, 5, 1), (4, 3, 2)])
def test_the_family_wise_error_holds_under_the_full_null(
    labels: int, runs: int, tasks: int, statistic: Statistic
) -> None:
    """Of families without any difference, about a twentieth or fewer have a false verdict."""
    generator = np.random.default_rng(2)
    false_families = sum(
        bool(
            rejected(
                [label(*generator.exponential(size=(tasks, runs))) for _ in range(labels)],
                seed,
                statistic,
            )
        )
        for seed in range(FAMILIES)
    )
    assert false_families / FAMILIES <= BOUND


@pytest.mark.parametrize(
    ("means", "equal"),
    [
        ([0, 0, 100], {(0, 1)}),
        ([0, 0, 2], {(0, 1)}),
        ([0, 0, 100, 100], {(0, 1), (2, 3)}),
    ],
    ids=str,
)
def test_the_family_wise_error_holds_under_partial_nulls(
    means: list[float], equal: set[Pair]
) -> None:
    """Labels that are equal are rarely told apart, wherever the other labels are."""
    generator = np.random.default_rng(6)
    false_families = 0
    for seed in range(FAMILIES):
        pairs = rejected(normal_labels(generator, means, 5), seed)
        false_families += bool(pairs & equal)
        if max(means) == 100:
            assert set(every_pair(len(means))) - equal <= pairs
    assert false_families / FAMILIES <= BOUND


@pytest.mark.parametrize("sizes", [[4, 4, 4, 4], [3, 5, 4, 3], [4] * 6])
def test_the_order_of_the_labels_does_not_matter(sizes: list[int]) -> None:
    """Labels in another order have the same adjusted p-values."""
    generator = np.random.default_rng(9)
    labels = [label(generator.normal(k, 1, n)) for k, n in enumerate(sizes)]
    expected = by_pair(decide(family_of(labels)), len(labels))
    orders = list(permutations(range(len(labels))))
    for order in [orders[-1], orders[len(orders) // 3]]:
        shuffled = by_pair(decide(family_of([labels[i] for i in order])), len(labels))
        for (a, b), member in shuffled.items():
            pair = (min(order[a], order[b]), max(order[a], order[b]))
            assert expected[pair].adjusted_p == pytest.approx(member.adjusted_p, rel=1e-12)
            assert expected[pair].comparison.permutation.p == member.comparison.permutation.p


@pytest.mark.parametrize(
    ("size", "count", "expected"),
    [(2, 8, 1 - 0.99**4), (4, 8, 1 - 0.99**2), (6, 8, 1 - 0.99 ** (8 / 6)), (7, 8, 0.01)],
)
def test_levels_of_stretches_by_hand(size: int, count: int, expected: float) -> None:
    """A stretch of r among k labels has the level 1 − (1 − α)^(r / k), from k − 1 labels on α."""
    assert expected == pytest.approx(regw(0.01, size, count), rel=1e-12)
    assert 0.01 == regw(0.01, count, count)


STRETCHES = MOST_LABELS + 2


def test_beyond_seven_labels_clear_differences_are_rejected() -> None:
    """Nine labels a hundred standard deviations apart are all told apart by five runs each."""
    labels = normal_labels(np.random.default_rng(0), [100.0 * k for k in range(STRETCHES)], 5)
    members = decide(family_of(labels))
    assert {Correction.STRETCHES} == {member.correction for member in members}
    assert {Verdict.WORSE} == {member.verdict for member in members}
    # The pair has the adjusted p-value of the smallest stretch, the pair itself.
    for member in members:
        assert 1 - (1 - 2 / 252) ** (STRETCHES / 2) == pytest.approx(member.adjusted_p)


@pytest.mark.parametrize("seed", range(3))
def test_adjusted_p_values_of_stretches_follow_their_laws(seed: int) -> None:
    """Adjusted p-values are at least those of the pair, and of all longer stretches around it."""
    generator = np.random.default_rng(seed)
    labels = normal_labels(generator, list(generator.normal(size=STRETCHES)), 5)
    # Sorted labels: the labels between a and b are those with numbers between.
    labels.sort(key=lambda scores: float(mean(scores)))
    members = by_pair(decide(family_of(labels)), STRETCHES)
    for (a, b), member in members.items():
        p, adjusted = member.comparison.permutation.p, member.adjusted_p
        assert p is not None
        assert adjusted is not None
        assert p <= regw(p, 2, STRETCHES) <= adjusted <= 1
        wider = {(max(a - 1, 0), b), (a, min(b + 1, STRETCHES - 1))} - {(a, b)}
        for pair in wider:
            # The adjusted p-value of a wider pair may come from its pair test alone.
            outer, alone = members[pair].adjusted_p, members[pair].comparison.permutation.p
            assert outer is not None
            assert alone is not None
            assert outer <= max(adjusted, regw(alone, 2, STRETCHES))


@pytest.mark.parametrize(("runs", "tasks"), [(5, 1), (3, 2)])
def test_the_level_of_stretches_holds_under_the_full_null(runs: int, tasks: int) -> None:
    """Of families of nine equal labels, about a twentieth or fewer have a false verdict."""
    generator = np.random.default_rng(7)
    families = FAMILIES // 3
    false_families = sum(
        bool(rejected(normal_labels(generator, [0] * STRETCHES, runs, tasks), seed))
        for seed in range(families)
    )
    assert false_families / families <= 0.05 + 3 * (0.05 * 0.95 / families) ** 0.5


def test_the_level_of_stretches_holds_under_a_partial_null() -> None:
    """Four labels that equal each other are rarely told apart beside five that are far away."""
    generator = np.random.default_rng(8)
    families = FAMILIES // 3
    false_families = 0
    for seed in range(families):
        pairs = rejected(normal_labels(generator, [0, 0, 0, 0, *range(100, 600, 100)], 5), seed)
        false_families += bool(pairs & set(every_pair(4)))
    assert false_families / families <= 0.05 + 3 * (0.05 * 0.95 / families) ** 0.5


def stretch_p(labels: list[TaskScores], statistic: Statistic = mean) -> dict[Pair, float]:
    """Adjusted p-values by stretches, for pairs that are certain to differ alone."""
    return stretch_p_values(labels, statistic, FEW, dict.fromkeys(every_pair(len(labels)), 0.0))


def largest_differences(scores: NDArray[np.float64]) -> NDArray[np.float64]:
    """Largest |difference| of two labels in standard errors, for scores (…, labels, runs)."""
    centres, squares = scores.mean(axis=-1), scores.var(axis=-1, ddof=1) / scores.shape[-1]
    ratios = [
        np.abs(centres[..., a] - centres[..., b]) / np.sqrt(squares[..., a] + squares[..., b])
        for a, b in combinations(range(scores.shape[-2]), 2)
    ]
    return np.asarray(np.max(ratios, axis=0))


def test_adjusted_p_values_of_stretches_agree_with_their_definition() -> None:
    """Each pair has the largest p-value of all stretches around it, at the level of its length."""
    generator, runs = np.random.default_rng(20), 5
    scores = generator.normal(np.linspace(0, 6, STRETCHES)[:, None], 1, (STRETCHES, runs))
    scores = scores[np.argsort(scores.mean(axis=1))]
    null = {
        length: largest_differences(generator.normal(size=(10_000, length, runs)))
        for length in range(3, STRETCHES + 1)
    }

    def p_of_stretch(low: int, high: int) -> float:
        length = high - low + 1
        p = float(np.mean(null[length] >= largest_differences(scores[low : high + 1])))
        return p if length >= STRETCHES - 1 else 1 - (1 - p) ** (STRETCHES / length)

    result = stretch_p([label(runs_of_label) for runs_of_label in scores])
    for a, b in every_pair(STRETCHES):
        expected = max(
            p_of_stretch(low, high)
            for low in range(a + 1)
            for high in range(b, STRETCHES)
            if high - low >= 2
        )
        # A p-value of 1,999 samples; the level of three of nine labels triples its error.
        error = 3 * (max(expected * (1 - expected), 0.001) / 1_999) ** 0.5
        assert expected == pytest.approx(result[a, b], abs=4 * error), (a, b)
    assert min(result.values()) < 0.05 < max(result.values())


def test_the_order_of_many_labels_does_not_matter() -> None:
    """Many labels in another order have the same adjusted p-values."""
    generator = np.random.default_rng(9)
    labels = normal_labels(generator, list(generator.normal(size=STRETCHES)), 5)
    expected, reverse = stretch_p(labels), stretch_p(labels[::-1])
    for (a, b), p in expected.items():
        assert p == reverse[STRETCHES - 1 - b, STRETCHES - 1 - a]


def test_the_order_of_many_labels_with_equal_metrics_does_not_matter() -> None:
    """Eight labels in pairs of the same mean and of different spreads, in two orders."""
    noisy, steady = np.array([-6.0, -3.0, 0.0, 3.0, 6.0]), np.array([-1.0, -1.0, 0.0, 1.0, 1.0])
    labels = [label(spread + 2.0 * k) for k in range(4) for spread in (noisy, steady)]
    order = [1, 0, 3, 2, 5, 4, 7, 6]
    expected, swapped = stretch_p(labels), stretch_p([labels[i] for i in order])
    for (a, b), p in swapped.items():
        pair = (min(order[a], order[b]), max(order[a], order[b]))
        assert expected[pair] == pytest.approx(p), pair


def test_a_cap_above_all_scores_changes_no_p_value() -> None:
    """Far below its cap, the optimality gap of many labels has the p-values of the mean."""
    generator = np.random.default_rng(1)
    labels = normal_labels(generator, [-100.0 + 0.3 * k for k in range(STRETCHES)], 5)
    members = list(combinations(range(STRETCHES), 2))
    by_statistic = [
        [
            member.adjusted_p
            for member in decide(
                Family(
                    pairs=[(labels[a], labels[b]) for a, b in members],
                    members=members,
                    statistic=statistic,
                    resampling=Resampling(repetitions=199),
                )
            )
        ]
        for statistic in (mean, Negative(Aggregate("mean", cap=1.0)))
    ]
    assert by_statistic[0] == pytest.approx(by_statistic[1], abs=1e-9)


def test_a_hundred_and_ten_labels_are_within_reach() -> None:
    """The smallest adjusted p-value of 110 labels with 10 runs each is at most 0.05."""
    labels, runs = 110, 10
    cells, least = comb(labels, 2) * 2 * runs, ceil(labels / 0.05)
    repetitions = random_relabellings(cells, Resampling(), least)
    scores = label(np.arange(float(runs)))
    p = smallest_p(scores, scores, repetitions)
    assert smallest_adjusted_p(p, Correction.STRETCHES, comb(labels, 2), labels) <= 0.05
