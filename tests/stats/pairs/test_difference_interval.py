"""The interval of a difference inverts the test of the verdict, and never contradicts it."""

from dataclasses import replace
from itertools import combinations, product
from math import sqrt

import numpy as np
import pytest
from comparison_cases import (
    FEW,
    Label,
    family_of,
    family_of_pairs,
    label,
    normal_labels,
    two_labels,
)
from hypothesis import assume, given, settings
from hypothesis import strategies as st
from in_full import IN_FULL
from numpy.typing import NDArray

from rlexp.stats.aggregate import (
    Aggregate,
    Negative,
    Statistic,
    interquartile_mean,
    mean,
    median,
)
from rlexp.stats.interval import Interval
from rlexp.stats.pairs.difference import estimate_metric_difference
from rlexp.stats.pairs.pairwise_family import FamilyMember, decide
from rlexp.stats.pairs.permutation import permutation_distribution
from rlexp.stats.pairs.test_inversion import (
    DifferenceTest,
    IntervalQuestion,
    interval_alone,
    t_test,
)
from rlexp.stats.resampling import Resampling
from rlexp.stats.task_scores import TaskScores

SAMPLES = 600 if IN_FULL else 40


def interval_of(x: Label, y: Label, statistic: Statistic = mean, alpha: float = 0.05) -> Interval:
    """The interval of a single pair."""
    return member_of(x, y, statistic, alpha).comparison.difference


def member_of(
    x: Label, y: Label, statistic: Statistic = mean, alpha: float = 0.05
) -> FamilyMember:
    """The decision on a single pair."""
    return decide(family_of([label(*x), label(*y)], statistic, alpha=alpha))[0]


def ends(interval: Interval) -> tuple[float, float]:
    """Both ends of an interval that has ends."""
    assert interval.low is not None
    assert interval.high is not None
    return interval.low, interval.high


def studentised_p(x: Label, y: Label) -> float:
    """The exact p-value of the means, with every relabelling one by one."""
    choices, pools = [], []
    for a, b in zip(x, y, strict=True):
        pool = np.array([*a, *b])
        pools.append(pool)
        choices.append([list(places) for places in combinations(range(len(pool)), len(a))])

    def squared(task: NDArray[np.float64]) -> float:
        return float(task.var(ddof=1)) / len(task)

    values = []
    for chosen in product(*choices):
        difference = error = 0.0
        for pool, places in zip(pools, chosen, strict=True):
            first, second = pool[places], np.delete(pool, places)
            difference += first.mean() - second.mean()
            error += squared(first) + squared(second)
        values.append(abs(difference) / sqrt(error))
    # The first choice of `combinations` is the observed labelling.
    return float(np.mean(np.array(values) >= values[0] * (1 - 1e-9)))


def shifted(x: Label, difference: float) -> Label:
    """The scores minus a hypothetical difference."""
    return [[score - difference for score in task] for task in x]


DRAWN: list[tuple[Label, Label]] = [
    (
        [list(generator.normal(shift, 1, n)) for n in sizes[0]],
        [list(generator.normal(0, 1.5, n)) for n in sizes[1]],
    )
    for generator, shift, sizes in [
        (np.random.default_rng(0), 0.5, ((4,), (4,))),
        (np.random.default_rng(1), 3.0, ((5,), (5,))),
        (np.random.default_rng(2), 0.0, ((3, 3), (3, 3))),
        (np.random.default_rng(3), 2.0, ((5,), (5,))),
    ]
]


@pytest.mark.parametrize("both", DRAWN, ids=range(len(DRAWN)))
@pytest.mark.parametrize("alpha", [0.05, 0.1])
def test_the_ends_are_where_the_test_begins_to_reject(
    both: tuple[Label, Label], alpha: float
) -> None:
    """Just inside of the ends the exact p-value is above alpha, and just outside it is not."""
    x, y = both
    interval = interval_of(x, y, alpha=alpha)
    for end, outwards in zip(ends(interval), (-1, 1), strict=True):
        step = outwards * 1e-4 * abs(end - interval.estimate)
        assert studentised_p(shifted(x, end - step), y) > alpha
        assert studentised_p(shifted(x, end + step), y) <= alpha


def test_the_smallest_interval_by_hand() -> None:
    """With four runs, only complete separation excludes a difference at 2 / 70 ≤ 0.05 < 4 / 70.

    The scores 0, 1, 2, 3 of both labels, moved apart by d, have in the next relabelling one run
    of each label swapped: d = 3 makes the neighbours 3 and 3 equal, so that swapping them changes
    nothing, and the p-value is larger than 2 / 70. Any larger d has no tie.
    """
    x = y = [[0.0, 1.0, 2.0, 3.0]]
    interval = interval_of(x, y)
    assert (-3.0, 3.0) == pytest.approx(ends(interval), abs=1e-4)
    assert studentised_p(shifted(x, 3.0), y) > 0.05 >= studentised_p(shifted(x, 3.01), y)


STATISTICS = [mean, interquartile_mean, median]


@settings(max_examples=100 if IN_FULL else 12)
@given(
    two_labels(4), st.sampled_from(STATISTICS), st.sampled_from([0.05, 0.2]), st.floats(-60, 60)
)
def test_the_interval_never_contradicts_the_verdict(
    both: tuple[Label, Label], statistic: Statistic, alpha: float, shift: float
) -> None:
    """The interval contains 0 if and only if the pair is undecided, and always the estimate."""
    member = member_of(shifted(both[0], shift), both[1], statistic, alpha)
    interval = member.comparison.difference
    assume(interval.low is not None)
    low, high = ends(interval)
    assert low <= interval.estimate <= high
    assert (low <= 0 <= high) == (not member.different)


@pytest.mark.parametrize("runs", [(5, 5, 5), (4, 6, 5), (12, 15, 12)])
@pytest.mark.parametrize("statistic", STATISTICS)
def test_no_interval_of_a_family_contradicts_its_verdict(
    runs: tuple[int, ...], statistic: Statistic
) -> None:
    """Intervals at the adjusted level contain 0 if and only if their pair is undecided."""
    generator = np.random.default_rng(5)
    intervals = 0
    for seed in range(4):
        labels = [label(generator.normal(1.2 * k, 1, n)) for k, n in enumerate(runs)]
        for member in decide(family_of(labels, statistic, Resampling(seed=seed, repetitions=499))):
            interval = member.comparison.difference
            if interval.low is not None:
                intervals += 1
                low, high = ends(interval)
                assert low <= interval.estimate <= high
                assert (low <= 0 <= high) == (not member.different)
    assert intervals >= 6


def test_no_interval_of_many_labels_contradicts_its_verdict() -> None:
    """Beyond seven labels, intervals contain 0 if and only if their pair is undecided."""
    labels = normal_labels(np.random.default_rng(5), [0.0, 0, 0, 2, 2, 2, 9, 9], 6)
    members = decide(family_of(labels))
    assert {True, False} == {member.different for member in members}
    for member in members:
        interval = member.comparison.difference
        if interval.low is not None:
            low, high = ends(interval)
            assert (low <= 0 <= high) == (not member.different)
        else:
            assert not member.different


@pytest.mark.parametrize("different", [True, False])
def test_the_level_is_that_of_the_adjusted_test(different: bool) -> None:
    """The level of the interval is 1 − alpha · p / adjusted p, and 1 − alpha for a single pair."""
    generator = np.random.default_rng(2)
    labels = normal_labels(generator, [0, 4 * different, 8 * different], 6)
    for member in decide(family_of(labels)):
        p, adjusted = member.comparison.deciding.p, member.adjusted_p
        assert p is not None
        assert adjusted is not None
        assert member.different is different
        level = member.comparison.difference.level
        assert 1 - 0.05 * p / adjusted == pytest.approx(level, rel=1e-12)
    assert 0.95 == decide(family_of(labels[:2]))[0].comparison.difference.level


@pytest.mark.parametrize("sizes", [(5, 5), (4, 7), (14, 12)])
@pytest.mark.parametrize("statistic", STATISTICS)
def test_swapped_labels_have_the_mirrored_interval(
    sizes: tuple[int, int], statistic: Statistic
) -> None:
    """Swapping the labels mirrors the interval."""
    generator = np.random.default_rng(3)
    x, y = ([list(generator.exponential(size=n))] for n in sizes)
    low, high = ends(interval_of(x, y, statistic))
    assert (-high, -low) == pytest.approx(ends(interval_of(y, x, statistic)), rel=1e-4)


@pytest.mark.parametrize("sizes", [(5, 5), (4, 7)])
@pytest.mark.parametrize("statistic", STATISTICS)
def test_moved_and_stretched_scores_have_a_moved_and_stretched_interval(
    sizes: tuple[int, int], statistic: Statistic
) -> None:
    """The interval of 10 x + 20 and 10 y + 15 is ten times that of x and y, plus 5."""
    generator = np.random.default_rng(6)
    x, y = (generator.exponential(size=n) for n in sizes)
    low, high = ends(interval_of([list(x)], [list(y)], statistic))
    other = interval_of([list(10 * x + 20)], [list(10 * y + 15)], statistic)
    assert (10 * low + 5, 10 * high + 5) == pytest.approx(ends(other), rel=1e-3)


@pytest.mark.parametrize(
    ("x", "y", "reason"),
    [
        ([[1.0, 2, 3]], [[101.0, 102, 103]], "the smallest possible p-value, 0.1, is above 0.05"),
        ([[1.0] * 5], [[1.0] * 5], "within each task all runs are equal"),
        ([[1.0] * 5], [[2.0] * 5], "within each task all runs are equal"),
        ([[1.0] * 5], [[2.0] * 6], "Welch's test must agree: within each task all runs are equal"),
        ([[1.0]], [[2.0, 3.0]], "one run alone shows no spread"),
        ([[1.0]], [[2.0]], "too few runs for an interval (n = 2)"),
    ],
)
def test_without_an_interval_there_is_a_reason(x: Label, y: Label, reason: str) -> None:
    """Below the reach of the test, and without spread, there is a reason instead of ends."""
    interval = interval_of(x, y)
    assert (None, None) == (interval.low, interval.high)
    assert reason in (interval.reason or "")


def test_three_runs_have_an_interval_at_a_level_within_reach() -> None:
    """Three runs have a smallest p-value of 0.1, and an interval at the level 0.9.

    By hand: both labels are completely separate if x − d is more than 2.5 above y, or more than 2
    below. At the end the runs that are neighbours are equal.
    """
    interval = interval_of([[1.0, 2.0, 3.5]], [[101.0, 102.0, 103.0]], alpha=0.1)
    assert (-102.0, -97.5) == pytest.approx(ends(interval), abs=1e-3)


def p_of_difference(
    x: TaskScores, y: TaskScores, difference: float, statistic: Statistic = mean
) -> float:
    """The Monte Carlo p-value of a hypothetical difference."""
    labels = [TaskScores(x.values - difference, x.sizes), y]
    return permutation_distribution(labels, statistic, Resampling(seed=77), 9_999).p


@pytest.mark.parametrize("statistic", STATISTICS)
def test_ends_of_random_relabellings_have_p_values_near_alpha(statistic: Statistic) -> None:
    """With other random relabellings, the p-values at the ends are near 0.05."""
    generator = np.random.default_rng(8)
    x, y = label(generator.normal(1, 1, 20)), label(generator.normal(0, 1, 20))
    resampling = Resampling(repetitions=9_999)
    (member,) = decide(family_of([x, y], statistic, resampling))
    for end in ends(member.comparison.difference):
        # Both the ends and these p-values are random, with standard errors of 0.0022.
        error = 0.0022 * sqrt(2)
        assert 0.05 == pytest.approx(p_of_difference(x, y, end, statistic), abs=4 * error)


def test_many_normal_runs_have_nearly_the_interval_of_welch() -> None:
    """For 40 normal runs each, the interval of the means is Welch's up to 5 % of its width."""
    generator = np.random.default_rng(9)
    x, y = label(generator.normal(0, 1, 40)), label(generator.normal(0.4, 2, 40))
    (member,) = decide(family_of([x, y], resampling=Resampling(repetitions=9_999)))
    (low, high), welch = ends(member.comparison.difference), member.comparison.mean_difference
    assert (low, high) == pytest.approx(ends(welch), abs=0.05 * (high - low))


@pytest.mark.parametrize("sizes", [(4, 9), (3, 7), (15, 12)])
def test_with_unequal_numbers_of_runs_the_interval_contains_that_of_welch(
    sizes: tuple[int, int],
) -> None:
    """With unequal numbers of runs, no difference that Welch's test accepts is excluded."""
    generator = np.random.default_rng(4)
    for spread in (0.2, 1.0, 5.0):
        x, y = generator.normal(1, spread, sizes[0]), generator.normal(0, 1, sizes[1])
        (member,) = decide(family_of([label(x), label(y)]))
        low, high = ends(member.comparison.difference)
        welch_low, welch_high = ends(member.comparison.mean_difference)
        slack = 1e-4 * (welch_high - welch_low)
        assert low <= welch_low + slack
        assert high >= welch_high - slack


def test_the_guard_is_part_of_the_ends() -> None:
    """Just outside of the ends both tests reject, and just inside one of them accepts."""
    from scipy.stats import ttest_ind

    generator = np.random.default_rng(10)
    for spread in (0.2, 5.0):
        x, y = [list(generator.normal(1, spread, 4))], [list(generator.normal(0, 1, 7))]

        def larger_p(difference: float, x: Label = x, y: Label = y) -> float:
            moved = shifted(x, difference)
            welch = float(ttest_ind(*moved, *y, equal_var=False).pvalue)
            return max(welch, studentised_p(moved, y))

        interval = interval_of(x, y)
        for end, outwards in zip(ends(interval), (-1, 1), strict=True):
            step = outwards * 1e-3 * abs(end - interval.estimate)
            assert larger_p(end - step) > 0.05 >= larger_p(end + step)


def test_the_t_test_of_a_shift_is_that_of_scipy() -> None:
    """The t test of a hypothetical difference is Welch's test of moved scores."""
    from scipy.stats import ttest_ind

    x, y = np.array([1.0, 2.0, 2.5, 4.0]), np.array([0.5, 2.2, 3.1])
    difference = estimate_metric_difference(label(x), label(y), mean, FEW)
    for shift in (0.0, -3.0, 2.0):
        expected = ttest_ind(x - shift, y, equal_var=False).pvalue
        assert expected == pytest.approx(t_test(difference, shift), rel=1e-10)
    assert 1.0 == t_test(replace(difference, standard_error=None), 0.0)


def test_intervals_are_cut_at_the_largest_possible_difference() -> None:
    """No interval goes beyond the largest possible difference of two scores."""
    x, y = label([0.0, 3.0, 6.0, 9.0]), label([1.0, 4.0, 8.0, 10.0])
    (free,), (cut,) = (
        decide(family_of_pairs([(x, y)], furthest=furthest)) for furthest in (None, [5.0])
    )
    low, high = ends(free.comparison.difference)
    assert low < -5
    assert high > 5
    assert (-5.0, 5.0) == ends(cut.comparison.difference)


@pytest.mark.parametrize("sizes", [(5, 5), (4, 8)])
@pytest.mark.parametrize("statistic", [mean, interquartile_mean])
def test_intervals_contain_the_true_difference(
    sizes: tuple[int, int], statistic: Statistic
) -> None:
    """Of labels that differ by 3 and are skewed, about 95 % of the intervals contain 3."""
    generator = np.random.default_rng(12)
    contain = 0
    for _ in range(SAMPLES):
        x, y = (
            label(generator.exponential(size=n) + shift)
            for n, shift in zip(sizes, (3, 0), strict=True)
        )
        low, high = ends(decide(family_of([x, y], statistic))[0].comparison.difference)
        contain += low <= 3 <= high
    assert contain / SAMPLES >= 0.95 - 3 * (0.05 * 0.95 / SAMPLES) ** 0.5


def test_a_declared_level_decides_about_0() -> None:
    """`interval` puts 0 on the side on which the verdict puts it, whatever its own p-value is."""
    generator = np.random.default_rng(1)
    test = DifferenceTest(
        x=label(generator.normal(0.5, 1, 5)),
        y=label(generator.normal(0, 1, 5)),
        statistic=mean,
        resampling=FEW,
        repetitions=499,
    )
    accepted, rejected = test.interval(0.05, rejected=False), test.interval(0.05, rejected=True)
    assert not isinstance(accepted, str)
    assert not isinstance(rejected, str)
    assert accepted[0] <= 0 <= accepted[1]
    assert not rejected[0] <= 0 <= rejected[1]


@pytest.mark.parametrize(
    ("x", "y", "expected"),
    [
        ([0.1, 0.2, 0.3, 0.4], [1.2, 1.4, 1.6, 1.8], -0.75),
        ([1.1, 1.2, 1.3, 1.4], [1.5, 1.7, 1.9, 2.0], 0.0),
        ([0.1, 0.2, 0.3, 0.4], [0.5, 0.7, 0.9, 1.0], -0.525),
    ],
)
def test_the_difference_of_a_capped_metric_is_that_of_the_metric(
    x: list[float], y: list[float], expected: float
) -> None:
    """By hand: scores above 1 count as 1 in the optimality gap, wherever the others are."""
    interval = interval_of([x], [y], Negative(Aggregate("mean", cap=1.0)))
    assert expected == pytest.approx(interval.estimate, abs=1e-12)


@pytest.mark.parametrize(
    ("x", "y"),
    [
        ([500.0] * 5, [100.0, 200.0, 300.0, 400.0, 450.0]),
        ([500.0] * 4, [100.0, 200.0, 300.0, 400.0]),
        ([11.0, 12.0, 12.0, 12.0, 13.0], [1.0, 2.0, 2.0, 2.0, 3.0]),
    ],
    ids=["five equal runs", "four equal runs", "the same pattern"],
)
@pytest.mark.parametrize("statistic", [mean, interquartile_mean])
def test_a_pair_with_spread_and_within_reach_has_an_interval(
    x: list[float], y: list[float], statistic: Statistic
) -> None:
    """A pair that can be decided has an interval, also if a label's runs are all equal."""
    member = member_of([x], [y], statistic)
    assert not member.out_of_reach
    low, high = ends(member.comparison.difference)
    assert low <= member.comparison.difference.estimate <= high
    assert (low <= 0 <= high) == (not member.different)


@pytest.mark.parametrize("runs", [4, 30])
def test_a_remembered_interval_is_that_of_a_new_computation(runs: int) -> None:
    """Tests that differ in one score, level, statistic or seed do not share an interval."""
    draw = np.random.default_rng(runs)
    x, other, y = (TaskScores.from_tasks([draw.normal(size=runs)]) for _ in range(3))
    base = DifferenceTest(
        x=x, y=y, statistic=mean, resampling=Resampling(repetitions=999), repetitions=999
    )
    changed = (
        replace(base, x=other),
        replace(base, y=other),
        replace(base, statistic=median),
        replace(base, resampling=Resampling(seed=1, repetitions=999)),
    )
    for test in (base, *changed, base):
        for alpha in (0.1, 0.2):
            expected = interval_alone(IntervalQuestion(test, alpha, rejected=False))
            assert expected == test.interval(alpha, rejected=False)
