"""The permutation distribution equals its definition, and keeps the level of its test."""

from collections.abc import Callable, Sequence
from fractions import Fraction
from itertools import combinations, permutations, product
from math import comb, inf
from random import Random
from typing import Any

import numpy as np
import pytest
from comparison_cases import (
    FEW,
    Label,
    case_labels,
    family_of,
    family_of_pairs,
    label,
    name,
    normal_labels,
    two_labels,
    two_sample,
    unsorted_label,
)
from hypothesis import assume, given, settings
from hypothesis import strategies as st
from in_full import IN_FULL
from numpy.typing import ArrayLike

from rlexp.stats.aggregate import Statistic, interquartile_mean, mean, median
from rlexp.stats.pairs import permutation
from rlexp.stats.pairs.pairwise_family import decide
from rlexp.stats.pairs.permutation import (
    EXACT_RELABELLINGS,
    MOST_RANDOM,
    PermutationDistribution,
    permutation_distribution,
    random_relabellings,
    relabellings,
    smallest_p,
)
from rlexp.stats.resampling import Resampling

SAMPLES = 1000 if IN_FULL else 500

Runs = list[list[Fraction]]
"""Exact scores of the runs of each task."""
Metric = Callable[[Runs], Fraction]


def exact_mean(tasks: Runs) -> Fraction:
    """Mean over tasks of the task means."""
    return sum((sum(task, Fraction(0)) / len(task) for task in tasks), Fraction(0)) / len(tasks)


def exact_middle_mean(tasks: Runs) -> Fraction:
    """Mean of the middle half of the runs of all tasks; their number is a multiple of four."""
    ordered = sorted(run for task in tasks for run in task)
    quarter, remainder = divmod(len(ordered), 4)
    assert remainder == 0
    return exact_mean([ordered[quarter:-quarter]])


def squared_error(tasks: Runs) -> Fraction:
    """Squared standard error of the mean over tasks; a task with one run adds nothing."""
    total = Fraction(0)
    for task in tasks:
        if len(task) > 1:
            squares = sum(((run - exact_mean([task])) ** 2 for run in task), Fraction(0))
            total += squares / (len(task) - 1) / len(task)
    return total / len(tasks) ** 2


def squared_statistic(x: Runs, y: Runs, metric: Metric) -> Fraction | float:
    """The square of |difference| / √(s_x²/n + s_y²/k), without rounding."""
    difference, square = metric(x) - metric(y), squared_error(x) + squared_error(y)
    if difference == 0:
        return 0.0
    return difference**2 / square if square else inf


def by_definition(x: Label, y: Label, metric: Metric = exact_mean) -> float:
    """The p-value, computed from every relabelling one by one in exact fractions."""
    a, b = ([[Fraction(run) for run in task] for task in side] for side in (x, y))
    pools = [[*first, *second] for first, second in zip(a, b, strict=True)]
    choices = [combinations(range(len(p)), len(f)) for p, f in zip(pools, a, strict=True)]
    observed = squared_statistic(a, b, metric)
    at_least = total = 0
    for chosen in product(*choices):
        first = [[pool[i] for i in places] for pool, places in zip(pools, chosen, strict=True)]
        second = [
            [run for i, run in enumerate(pool) if i not in places]
            for pool, places in zip(pools, chosen, strict=True)
        ]
        at_least += squared_statistic(first, second, metric) >= observed
        total += 1
    return at_least / total


def distribution(
    x: Sequence[ArrayLike], y: Sequence[ArrayLike], statistic: Statistic = mean
) -> PermutationDistribution:
    """The permutation distribution of two labels."""
    return permutation_distribution([label(*x), label(*y)], statistic, FEW, FEW.repetitions)


def labels_of(sizes: Sequence[tuple[int, int]]) -> st.SearchStrategy[tuple[Label, Label]]:
    """Two labels with these numbers of runs of each task; halves make many ties."""
    score = st.integers(-6, 6).map(lambda number: number / 2)

    def side(which: int) -> st.SearchStrategy[Label]:
        runs = [st.lists(score, min_size=both[which], max_size=both[which]) for both in sizes]
        return st.tuples(*runs).map(list)

    return st.tuples(side(0), side(1))


MEAN_SIZES = [
    [(2, 2)],
    [(4, 4)],
    [(3, 5)],
    [(1, 4)],
    [(2, 2), (2, 2)],
    [(3, 2), (2, 4)],
    [(3, 3), (1, 1)],
    [(2, 1), (1, 3)],
]


@pytest.mark.parametrize("sizes", MEAN_SIZES, ids=str)
@settings(max_examples=15)
@given(data=st.data())
def test_every_relabelling_of_means_counts(
    sizes: list[tuple[int, int]], data: st.DataObject
) -> None:
    """The exact p-value of the mean equals its definition, with ties or without."""
    x, y = data.draw(labels_of(sizes))
    assert by_definition(x, y) == pytest.approx(distribution(x, y).p, rel=1e-12)


@pytest.mark.parametrize(
    "sizes", [[(4, 4)], [(4, 8)], [(2, 2), (2, 2)], [(2, 4), (2, 4)]], ids=str
)
@settings(max_examples=10)
@given(data=st.data())
def test_every_relabelling_of_interquartile_means_counts(
    sizes: list[tuple[int, int]], data: st.DataObject
) -> None:
    """The exact p-value of the interquartile mean equals its definition."""
    x, y = data.draw(labels_of(sizes))
    expected = by_definition(x, y, exact_middle_mean)
    assert expected == pytest.approx(distribution(x, y, interquartile_mean).p, rel=1e-12)


@pytest.mark.parametrize(
    "case",
    [
        case
        for case in two_sample()
        if "permutation_mean_exact_two_sided" in case and len(case["x"]) == len(case["y"])
    ],
    ids=name,
)
def test_permutation_is_the_golden_one(case: dict[str, Any]) -> None:
    """With equal numbers of runs, studentised means have the golden p-values of plain means."""
    (member,) = decide(family_of(case_labels(case)))
    result = member.comparison.permutation
    assert case["permutation_mean_exact_two_sided"] == pytest.approx(result.p, rel=1e-12)
    assert case["permutation_diff"] == pytest.approx(result.statistic, abs=1e-12)
    assert ("permutation test (exact)", 0, None) == (
        result.method,
        result.repetitions,
        result.seed,
    )


def test_the_statistic_by_hand() -> None:
    """Means 2 and 9 with squared errors 1/3 and 4/3; on a second task the mean is 0 and 4."""
    one = distribution([[1.0, 2.0, 3.0]], [[7.0, 9.0, 11.0]])
    assert 7 / (5 / 3) ** 0.5 == pytest.approx(one.observed, rel=1e-12)
    two = distribution([[1.0, 2.0, 3.0], [-1.0, 1.0]], [[7.0, 9.0, 11.0], [4.0]])
    # The second task adds a squared error of 1, and nothing for its single run.
    assert 5.5 / ((5 / 3 + 1) / 4) ** 0.5 == pytest.approx(two.observed, rel=1e-12)


def test_two_tasks_by_hand() -> None:
    """Complete separation on two tasks: two of 6 · 6 relabellings are as extreme."""
    x, y = [[3.0, 4.0], [7.0, 9.0]], [[1.0, 2.0], [5.0, 6.0]]
    assert 2 / 36 == pytest.approx(distribution(x, y).p)


@pytest.mark.parametrize("statistic", [mean, interquartile_mean, median])
def test_constant_scores(statistic: Statistic) -> None:
    """Equal scores have p = 1; two different constants are as clear as complete separation."""
    for value in (0.0, 0.1, -1e6 / 3):
        assert 1.0 == distribution([[value] * 4], [[value] * 4], statistic).p
        assert 1.0 == distribution([[value] * 4], [[value] * 7], statistic).p
        separate = distribution([[value] * 4], [[value + 0.1] * 4], statistic)
        assert (2 / 70, inf) == pytest.approx((separate.p, separate.observed))
        assert 1 / 330 == pytest.approx(distribution([[value] * 4], [[2.0] * 7], statistic).p)
    tasks = distribution([[0.1] * 3, [0.3] * 2], [[0.1] * 3, [0.3] * 2], statistic)
    assert (1.0, 0.0) == (tasks.p, tasks.observed)


def test_no_difference_is_no_evidence() -> None:
    """A difference of 0 has p = 1, even if only 8 of 28 relabellings are on one side of it."""
    x, y = [[-10.0, -10.0]], [[-13.0, -11.0, -11.0, -1.0, -11.0, -13.0]]
    assert (1.0, 0.0) == (distribution(x, y).p, distribution(x, y).observed)


def test_one_bad_run_is_no_evidence_for_the_other_label() -> None:
    """One bad run that lowers the mean of a label is no evidence for the other label."""
    assert 1.0 == distribution([[9.0, 9.1]], [[*np.linspace(10, 11, 100), -1e4]]).p


def test_rounding_breaks_no_tie() -> None:
    """Sums of decimals that differ only by rounding are ties."""
    x, y = [0.1, 0.2, 0.7], [0.3, 0.4, 0.9]
    exact = distribution([[1.0, 2.0, 7.0]], [[3.0, 4.0, 9.0]]).p
    assert exact == by_definition([[1.0, 2.0, 7.0]], [[3.0, 4.0, 9.0]])
    assert exact == distribution([x], [y]).p
    assert exact == distribution([[v + 1e6 for v in x]], [[v + 1e6 for v in y]]).p


@pytest.mark.parametrize("scale", [1e-90, 1e-6, 1.0, 1e6, 1e90])
def test_units_do_not_matter(scale: float) -> None:
    """Scores in other units have the same p-value, up to the largest scores."""
    x, y = np.array([1.0, 2.0, 7.0, 5.0]), np.array([3.0, 4.0, 9.0])
    assert distribution([x], [y]).p == distribution([x * scale], [y * scale]).p


def test_some_of_many_relabellings_are_drawn() -> None:
    """Many relabellings are sampled by the seed, and the observed one counts as one more."""
    x, y = label(np.arange(20.0) + 100), label(np.arange(20.0))
    resampling = Resampling(seed=3, repetitions=99)
    (member,) = decide(family_of([x, y], resampling=resampling))
    result = member.comparison.permutation
    assert 0.01 == pytest.approx(result.p)
    assert ("permutation test (Monte Carlo)", 0.01, 99, 3) == (
        result.method,
        result.smallest_p,
        result.repetitions,
        result.seed,
    )
    drawn = permutation_distribution([x, y], mean, resampling, 99)
    assert (100, 99) == (len(drawn.values), drawn.random)
    assert drawn.observed in drawn.values


def test_relabellings_that_fill_no_block_are_drawn_all_the_same(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """With blocks of 30 relabellings, 99 are drawn in four blocks, the last one of 9."""
    x, y = label(np.arange(20.0) + 100), label(np.arange(20.0))
    monkeypatch.setattr(permutation, "BLOCK", 30 * 40)
    assert 100 == len(permutation_distribution([x, y], mean, Resampling(), 99).values)


@pytest.mark.parametrize("statistic", [mean, interquartile_mean])
@pytest.mark.parametrize("sizes", [((5, 5), (5, 5)), ((8, 3), (4, 5)), ((2, 6), (7, 5))])
def test_sampled_relabellings_agree_with_all_relabellings(
    sizes: tuple[tuple[int, int], tuple[int, int]],
    statistic: Statistic,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """The Monte Carlo p-value is within four standard errors of the exact p-value."""
    generator = np.random.default_rng(5)
    labels = [
        label(*(generator.normal(shift, 1, n) for n in side))
        for shift, side in zip((0.5, 0), zip(*sizes, strict=True), strict=True)
    ]
    monkeypatch.setattr(permutation, "EXACT_RELABELLINGS", 10**6)
    exact = permutation_distribution(labels, statistic, FEW).p
    monkeypatch.setattr(permutation, "EXACT_RELABELLINGS", 0)
    sampled = permutation_distribution(labels, statistic, FEW).p
    error = (exact * (1 - exact) / MOST_RANDOM) ** 0.5
    assert exact == pytest.approx(sampled, abs=4 * error + 1 / MOST_RANDOM)


def test_three_labels_agree_with_every_relabelling() -> None:
    """The largest difference of three labels has the p-value of all 90 relabellings."""
    scores: Label = [[1.0, 2.0], [2.5, 4.0], [6.0, 7.5]]
    exact = [[Fraction(run) for run in runs] for runs in scores]

    def largest(runs: Sequence[Fraction]) -> float:
        parts = [[list(runs[i : i + 2])] for i in (0, 2, 4)]
        return max(float(squared_statistic(a, b, exact_mean)) for a, b in combinations(parts, 2))

    pool = [run for runs in exact for run in runs]
    values = [largest(order) for order in permutations(pool)]
    expected = float(np.mean(np.array(values) >= largest(pool) * (1 - 1e-9)))
    labels = [label(runs) for runs in scores]
    error = (expected * (1 - expected) / MOST_RANDOM) ** 0.5
    sampled = permutation_distribution(labels, mean, FEW).p
    assert expected == pytest.approx(sampled, abs=4 * error + 1 / MOST_RANDOM)


def test_random_relabellings_are_uniform(monkeypatch: pytest.MonkeyPatch) -> None:
    """Each of the 10 choices of 2 of 5 runs is drawn about equally often."""
    labels = [label([1.0, 2.0]), label([4.0, 8.0, 17.0])]
    every = permutation_distribution(labels, mean, FEW)
    assert 10 == len(np.unique(every.values.round(9)))
    monkeypatch.setattr(permutation, "EXACT_RELABELLINGS", 0)
    drawn = permutation_distribution(labels, mean, FEW, 20_000)
    values, counts = np.unique(drawn.values.round(9), return_counts=True)
    assert np.unique(every.values.round(9)).tolist() == values.tolist()
    assert np.abs(counts - 2000).max() < 4 * (20_000 * 0.1 * 0.9) ** 0.5


def test_blocks_do_not_change_an_exact_distribution(monkeypatch: pytest.MonkeyPatch) -> None:
    """An enumeration in small blocks has the same values as in one block."""
    x, y = [[1.0, 4.0, 2.5], [3.0, 1.5]], [[7.0, 1.0, 2.0], [3.5, 9.0, 2.0]]
    whole = distribution(x, y)
    assert comb(6, 3) * comb(5, 2) == len(whole.values)
    monkeypatch.setattr(permutation, "BLOCK", 64)
    assert whole.values.tolist() == distribution(x, y).values.tolist()


def test_a_pair_in_a_family_is_tested_as_alone() -> None:
    """The permutation test of a pair is the same in a family as alone, to the last bit."""
    generator = np.random.default_rng(3)
    shapes = [((12,), (12,)), ((3,), (4,)), ((12,), (12,)), ((9, 5), (8, 6)), ((15,), (7,))]
    pairs = [
        (
            label(*(generator.normal(1, 1, n) for n in x)),
            label(*(generator.normal(0, 1, n) for n in y)),
        )
        for x, y in shapes
    ]
    together = [m.comparison.permutation for m in decide(family_of_pairs(pairs))]
    alone = [decide(family_of(pair))[0].comparison.permutation for pair in pairs]
    assert alone == together


def test_one_run_against_many_has_few_relabellings() -> None:
    """One run against 39 has 40 relabellings, of which the two ends are equally far."""
    x, y = [np.arange(39.0) + 1], [[0.0]]
    assert 40 == len(distribution(x, y).values)
    assert 2 / 40 == pytest.approx(distribution(x, y).p)
    assert distribution(x, y).p == distribution(y, x).p


@pytest.mark.parametrize(
    ("x", "y", "smallest"),
    [
        ([3], [3], 2 / 20),
        ([4], [4], 2 / 70),
        ([3], [4], 1 / 35),
        ([2, 2], [2, 2], 2 / 36),
        ([3, 2], [2, 3], 1 / 100),
        ([1], [1], 2 / 2),
        ([20], [20], 1 / 500),
        ([9], [10], 1 / 500),
    ],
)
@pytest.mark.parametrize("statistic", [mean, interquartile_mean])
def test_the_smallest_p_value_follows_from_the_numbers_of_runs(
    x: list[int], y: list[int], smallest: float, statistic: Statistic
) -> None:
    """The smallest p-value follows from the numbers of runs; complete separation reaches it."""
    high = label(*(2.0 ** np.arange(n) + 1e7 for n in x))
    low = label(*(-(1.5 ** np.arange(n)) for n in y))
    assert smallest == smallest_p(high, low, FEW.repetitions) == smallest_p(low, high, 499)
    for labels in ([high, low], [low, high]):
        separate = permutation_distribution(labels, statistic, FEW, FEW.repetitions)
        assert smallest == pytest.approx(separate.p, rel=1e-9)


@settings(max_examples=30)
@given(two_labels())
def test_no_p_value_is_below_the_smallest(both: tuple[Label, Label]) -> None:
    """No scores have a p-value below the smallest possible one."""
    x, y = (label(*side) for side in both)
    assert distribution(*both).p >= smallest_p(x, y, FEW.repetitions) * (1 - 1e-9)


@settings(max_examples=30)
@given(two_labels(), st.sampled_from([0.01, 0.05, 0.1, 0.5]))
def test_the_critical_value_is_the_smallest_that_is_significant(
    both: tuple[Label, Label], alpha: float
) -> None:
    """The critical value has a p-value of at most alpha, and each smaller value a larger one."""
    result = distribution(*both)
    critical = result.critical(alpha)
    assert critical == inf or result.tail(critical) <= alpha
    smaller = result.values[result.values < critical * (1 - 2 * permutation.TIE)]
    assert not len(smaller) or result.tail(float(smaller[-1])) > alpha


def test_without_a_significant_value_the_critical_value_is_infinite() -> None:
    """With three runs per label no statistic has a p-value of 0.05."""
    result = distribution([[1.0, 2.0, 3.0]], [[4.0, 5.0, 7.0]])
    assert inf == result.critical(0.05)
    assert result.observed == result.critical(0.1)


@pytest.mark.parametrize("repetitions", [19, 9_999])
def test_a_p_value_is_the_nearest_number_to_its_fraction(repetitions: int) -> None:
    """A p-value of one in twenty is exactly 0.05, so that it rejects at the level 0.05."""
    count = repetitions + 1
    values = np.sort(np.arange(float(count)))
    result = PermutationDistribution(values[-count // 20], values, repetitions)
    assert 0.05 == result.p


@given(two_labels(), st.randoms())
def test_the_order_of_the_runs_does_not_matter(both: tuple[Label, Label], random: Random) -> None:
    """Runs in another order give the same distribution to the last bit."""
    shuffled = [[random.sample(task, len(task)) for task in side] for side in both]
    for statistic in (mean, interquartile_mean):
        expected, result = (
            permutation_distribution([*map(unsorted_label, sides)], statistic, FEW, 99)
            for sides in (both, shuffled)
        )
        assert (expected.observed, expected.p) == (result.observed, result.p)
        assert expected.values.tolist() == result.values.tolist()


@settings(max_examples=20)
@pytest.mark.parametrize("most_enumerated", [0, EXACT_RELABELLINGS])
@given(both=two_labels())
def test_the_order_of_two_labels_does_not_matter(
    both: tuple[Label, Label], most_enumerated: int
) -> None:
    """Swapped labels have the same distribution to the last bit, random or not."""
    x, y = both
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(permutation, "EXACT_RELABELLINGS", most_enumerated)
        forward, swapped = distribution(x, y), distribution(y, x)
    assert (forward.observed, forward.p) == (swapped.observed, swapped.p)
    assert forward.values.tolist() == swapped.values.tolist()


@pytest.mark.parametrize("statistic", [mean, interquartile_mean])
@pytest.mark.parametrize("sizes", [(4, 4, 4), (3, 5, 4)])
def test_the_order_of_three_labels_does_not_matter(
    sizes: tuple[int, ...], statistic: Statistic
) -> None:
    """Three labels in any order have the same distribution to the last bit."""
    generator = np.random.default_rng(1)
    labels = [label(generator.normal(size=n), generator.normal(size=n)) for n in sizes]
    first, *others = (
        permutation_distribution(order, statistic, FEW, 99) for order in permutations(labels)
    )
    for other in others:
        assert (first.observed, first.p) == (other.observed, other.p)
        assert first.values.tolist() == other.values.tolist()


@pytest.mark.parametrize("runs", [(4, 4), (3, 8), (12, 12), (4, 5, 6)])
@pytest.mark.parametrize("statistic", [mean, interquartile_mean])
def test_the_level_holds(runs: tuple[int, ...], statistic: Statistic) -> None:
    """Of equal labels, about a twentieth or fewer have a p-value up to 0.05."""
    generator = np.random.default_rng(11)
    p_values = [
        permutation_distribution(
            [label(generator.exponential(size=n)) for n in runs],
            statistic,
            # The same relabellings for all samples would make their p-values dependent.
            Resampling(seed=seed),
            199,
        ).p
        for seed in range(SAMPLES)
    ]
    assert np.mean(np.array(p_values) <= 0.05) <= 0.05 + 3 * (0.05 * 0.95 / SAMPLES) ** 0.5


def test_studentising_keeps_the_level_of_unequal_spreads() -> None:
    """Of labels with spreads 5 : 1 and equal means, few have a p-value up to 0.05."""
    generator = np.random.default_rng(12)
    p_values = [
        permutation_distribution(
            normal_labels(generator, [0, 0], 12, spreads=[5.0, 1.0]), mean, Resampling(seed=s), 199
        ).p
        for s in range(SAMPLES)
    ]
    # With unequal spreads the level holds approximately: 6 % are allowed.
    assert np.mean(np.array(p_values) <= 0.05) <= 0.06 + 3 * (0.06 * 0.94 / SAMPLES) ** 0.5


def test_few_relabellings_are_enumerated_and_many_sampled() -> None:
    """9 runs against 9 have 48,620 relabellings and are enumerated; 9 against 10 are sampled."""
    nine, ten = label(np.arange(9.0)), label(np.arange(10.0))
    assert 48_620 == relabellings(nine, nine) <= EXACT_RELABELLINGS < relabellings(nine, ten)
    assert 0 == permutation_distribution([nine, nine], mean, FEW, 99).random
    assert 99 == permutation_distribution([nine, ten], mean, FEW, 99).random
    assert comb(4, 2) * comb(5, 2) == relabellings(label([1, 2], [1, 2]), label([1, 2], [1, 2, 3]))


@pytest.mark.parametrize(
    ("runs", "repetitions", "expected"),
    [
        (40, 50_000, 9_999),
        (40, 499, 499),
        (10_000, 50_000, 2_000),
        (10**6, 50_000, 999),
        (10**6, 100, 100),
        (0, 50_000, 9_999),
    ],
)
def test_the_number_of_random_relabellings(runs: int, repetitions: int, expected: int) -> None:
    """20 million runs may be assigned, in 999 to 9,999 relabellings, or fewer if declared."""
    assert expected == random_relabellings(runs, Resampling(repetitions=repetitions))


@given(two_labels(2))
def test_no_number_is_nan(both: tuple[Label, Label]) -> None:
    """No value of a distribution is NaN, also without any spread."""
    assume(relabellings(*(label(*side) for side in both)) < 5_000)
    for statistic in (mean, interquartile_mean):
        result = distribution(*both, statistic)
        assert not np.isnan([*result.values, result.observed, result.p]).any()
