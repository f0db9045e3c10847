"""Two-sample tests equal golden numbers and values by hand, and keep their level."""

from itertools import combinations, product
from random import Random
from typing import Any

import numpy as np
import pytest
from comparison_cases import (
    Label,
    case_labels,
    label,
    name,
    two_labels,
    two_sample,
    unsorted_label,
)
from hypothesis import assume, given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray

from rlexp.stats import permutation
from rlexp.stats.hypothesis_tests import mann_whitney_test, welch_test
from rlexp.stats.permutation import (
    EXACT_RELABELLINGS,
    permutation_test,
    permutation_tests,
    relabellings,
    smallest_permutation_p,
)
from rlexp.stats.resampling import Resampling

FEW = Resampling(repetitions=500)


def by_definition(x: Label, y: Label) -> float:
    """Permutation p-value, computed from every relabelling one by one."""
    by_task = []
    for a, b in zip(x, y, strict=True):
        pool, places = [*a, *b], range(len(a) + len(b))
        chosen = [set(first) for first in combinations(places, len(a))]
        by_task.append(
            [
                np.mean([pool[i] for i in first])
                - np.mean([pool[i] for i in places if i not in first])
                for first in chosen
            ]
        )
    differences = np.array([sum(parts) for parts in product(*by_task)])
    # The first of `combinations` is the observed labelling.
    if abs(observed := differences[0]) <= 1e-9:
        return 1.0
    towards = np.sign(observed) * differences
    return min(1.0, 2 * float(np.mean(towards >= abs(observed) - 1e-9)))


@pytest.mark.parametrize("case", two_sample(), ids=name)
def test_welch_is_the_golden_one(case: dict[str, Any]) -> None:
    """Welch's test has the golden numbers, or a reason where the golden p-value is missing."""
    result = welch_test(*case_labels(case))
    if case["welch"]["p"] == "nan":
        assert (None, None) == (result.p, result.statistic)
        assert result.reason is not None
    else:
        assert case["welch"]["t"] == pytest.approx(result.statistic, rel=1e-12)
        assert case["welch"]["df"] == pytest.approx(result.degrees_of_freedom, rel=1e-12)
        assert case["welch"]["p"] == pytest.approx(result.p, rel=1e-12)


@pytest.mark.parametrize("case", two_sample(), ids=name)
def test_mann_whitney_is_the_golden_one(case: dict[str, Any]) -> None:
    """The test equals the golden numbers: exact without ties, asymptotic with ties."""
    result = mann_whitney_test(*case_labels(case))
    tied = len({*case["x"], *case["y"]}) < len(case["x"]) + len(case["y"])
    expected = case["mwu_asymptotic" if tied else "mwu_exact"]
    assert expected["U"] == result.statistic
    assert expected["p"] == pytest.approx(result.p, rel=1e-12)
    assert f"Mann–Whitney U test ({'asymptotic' if tied else 'exact'})" == result.method


@pytest.mark.parametrize(
    "case", [c for c in two_sample() if "permutation_mean_exact_two_sided" in c], ids=name
)
def test_permutation_is_the_golden_one(case: dict[str, Any]) -> None:
    """The exact permutation test equals golden p-values."""
    result = permutation_test(*case_labels(case), FEW)
    assert case["permutation_mean_exact_two_sided"] == pytest.approx(result.p, rel=1e-12)
    assert case["permutation_diff"] == pytest.approx(result.statistic, abs=1e-12)
    assert ("permutation test (exact)", 0, None) == (
        result.method,
        result.repetitions,
        result.seed,
    )


@given(two_labels())
def test_every_relabelling_counts(both: tuple[Label, Label]) -> None:
    """The exact p-value equals its definition, on one task or more, with ties or without."""
    x, y = both
    assume(relabellings(label(*x), label(*y)) <= 3000)
    result = permutation_test(label(*x), label(*y), FEW)
    assert by_definition(x, y) == pytest.approx(result.p, rel=1e-12)


def test_rounding_breaks_no_tie() -> None:
    """Sums of decimals that differ only by rounding are ties."""
    x, y = [0.1, 0.2, 0.7], [0.3, 0.4, 0.9]
    exact = permutation_test(label([1.0, 2.0, 7.0]), label([3.0, 4.0, 9.0]), FEW).p
    assert exact == permutation_test(label(x), label(y), FEW).p
    shifted = permutation_test(label([v + 1e6 for v in x]), label([v + 1e6 for v in y]), FEW).p
    assert exact == shifted


def test_two_tasks_by_hand() -> None:
    """Complete separation on two tasks: two of 6 · 6 relabellings are as extreme."""
    x, y = label([3.0, 4.0], [7.0, 9.0]), label([1.0, 2.0], [5.0, 6.0])
    result = permutation_test(x, y, FEW)
    assert (2 / 36, 2.25, 2 / 36) == pytest.approx((result.p, result.statistic, result.smallest_p))


def test_with_many_relabellings_some_are_drawn() -> None:
    """Many relabellings are sampled by the seed, and the observed one counts as one more."""
    x, y = label(np.arange(20.0) + 100), label(np.arange(20.0))
    result = permutation_test(x, y, Resampling(seed=3, repetitions=99))
    assert ("permutation test (Monte Carlo)", 0.02, 0.02, 99, 3) == (
        result.method,
        result.p,
        result.smallest_p,
        result.repetitions,
        result.seed,
    )
    assert result == permutation_test(x, y, Resampling(seed=3, repetitions=99))


@pytest.mark.parametrize("sizes", [((5, 5), (5, 5)), ((8, 3), (4, 5)), ((2, 6), (7, 5))])
def test_sampled_relabellings_agree_with_all_relabellings(
    sizes: tuple[tuple[int, int], tuple[int, int]], monkeypatch: pytest.MonkeyPatch
) -> None:
    """The Monte Carlo p-value is within three standard errors of the exact p-value."""
    generator = np.random.default_rng(5)
    x, y = (
        label(*(generator.normal(shift, 1, n) for n in side))
        for shift, side in zip((0.5, 0), zip(*sizes, strict=True), strict=True)
    )
    resampling = Resampling(repetitions=20_000)
    monkeypatch.setattr(permutation, "EXACT_RELABELLINGS", 10**6)
    exact = permutation_test(x, y, resampling).p
    monkeypatch.setattr(permutation, "EXACT_RELABELLINGS", 0)
    sampled = permutation_test(x, y, resampling).p
    assert exact is not None
    assert exact == pytest.approx(sampled, abs=6 * (exact / 2 * (1 - exact / 2) / 20_000) ** 0.5)


def sums_score_by_score(
    scores: NDArray[np.float64], n: int, generator: np.random.Generator
) -> NDArray[np.float64]:
    """Sums of n scores drawn without replacement, score by score."""
    sums, still_to_draw = np.zeros(FEW.repetitions), np.full(FEW.repetitions, n)
    for remaining, score in zip(range(len(scores), 0, -1), scores, strict=True):
        chosen = generator.random(FEW.repetitions) * remaining < still_to_draw
        sums += np.where(chosen, score, 0.0)
        still_to_draw -= chosen
    return sums


@pytest.mark.parametrize("block", [1, 2**22])
def test_random_sums_of_samples_equal_those_of_each_alone(
    block: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Random sums of several samples equal those of each sample alone, in any block size."""
    monkeypatch.setattr(permutation, "BLOCK", block)
    generator = np.random.default_rng(4)
    sizes = [(9, 4, 1.0), (9, 4, 1e100), (12, 5, 1e-300), (5, 5, 1.0), (9, 3, 0.0)]
    samples = [(generator.normal(size=size) * scale, n) for size, n, scale in sizes]
    sums_by_sample = permutation.random_sums(samples, FEW.repetitions, FEW.generator(0))
    for sums, (scores, n) in zip(sums_by_sample, samples, strict=True):
        expected = sums_score_by_score(scores, n, FEW.generator(0))
        assert expected == pytest.approx(sums, rel=0, abs=1e-14 * np.abs(scores).max())


def test_pairs_together_are_as_each_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    """Tests of several pairs at once equal the test of each pair alone, to the last bit."""
    generator = np.random.default_rng(3)
    shapes = [((12,), (12,)), ((3,), (4,)), ((12,), (12,)), ((9, 5), (8, 6)), ((15,), (7,))]
    pairs = [
        (
            label(*map(generator.normal, range(len(x)), (1,) * len(x), x)),
            label(*(generator.normal(0, 1, n) for n in y)),
        )
        for x, y in shapes
    ]
    single_tests = tuple(permutation_test(x, y, FEW) for x, y in pairs)
    assert single_tests == permutation_tests(pairs, FEW)
    monkeypatch.setattr(permutation, "AT_ONCE", 1)
    assert single_tests == permutation_tests(pairs, FEW)


def test_one_run_against_many_takes_no_memory() -> None:
    """One run against 39 has 40 relabellings, so the exact test needs only 40 sums."""
    x, y = label(np.arange(39.0) + 1), label([0.0])
    assert 2 / 40 == permutation_test(x, y, FEW).p == permutation_test(y, x, FEW).p


def test_a_random_choice_of_runs_is_uniform() -> None:
    """Each of the 10 pairs of 5 runs is drawn about equally often."""
    powers = np.array([1.0, 2.0, 4.0, 8.0, 16.0])
    (sums,) = permutation.random_sums([(powers, 2)], 20_000, np.random.default_rng(0))
    values, counts = np.unique(sums, return_counts=True)
    assert sorted(a + b for a, b in combinations(powers, 2)) == values.tolist()
    assert np.abs(counts - 2000).max() < 4 * (20_000 * 0.1 * 0.9) ** 0.5


@pytest.mark.parametrize(
    ("x", "y", "smallest"),
    [
        ([3], [3], 2 / 20),
        ([4], [4], 2 / 70),
        ([3], [4], 2 / 35),
        ([2, 2], [2, 2], 2 / 36),
        ([1], [1], 2 / 2),
        ([20], [20], 2 / 501),
    ],
)
def test_the_smallest_p_value_is_known_beforehand(
    x: list[int], y: list[int], smallest: float
) -> None:
    """The smallest p-value follows from the numbers of runs; complete separation reaches it."""
    high = label(*(2.0 ** np.arange(n) + 1e3 for n in x))
    low = label(*(-(3.0 ** np.arange(n)) for n in y))
    assert smallest == smallest_permutation_p(high, low, FEW)
    assert smallest == pytest.approx(permutation_test(high, low, FEW).p)


def test_on_one_task_repeated_ranks_agree_with_scipy() -> None:
    """Two equal tasks have the mean rank sum of one task, and half its variance."""
    generator = np.random.default_rng(2)
    a, b = generator.integers(0, 9, 30).astype(float), generator.integers(2, 9, 25).astype(float)
    from scipy.stats import mannwhitneyu, norm

    single_task = mannwhitneyu(a, b, method="asymptotic", use_continuity=False)
    z = norm.isf(single_task.pvalue / 2) * np.sqrt(2)
    result = mann_whitney_test(label(a, a), label(b, b))
    assert -z == pytest.approx(result.statistic, rel=1e-9)
    assert 2 * norm.sf(z) == pytest.approx(result.p, rel=1e-9)
    assert "stratified Mann–Whitney test (asymptotic)" == result.method


def test_constant_scores_speak_for_no_difference() -> None:
    """Constant scores have p = 1 in rank and permutation tests, and a reason in Welch's test."""
    one_task, two_tasks = label([1.0] * 4), label([1.0] * 4, [2.0, 2.0])
    for constant in (one_task, two_tasks):
        assert (1.0, 1.0) == (
            mann_whitney_test(constant, constant).p,
            permutation_test(constant, constant, FEW).p,
        )
        assert "all runs are equal" in (welch_test(constant, constant).reason or "")


@given(two_labels(), st.randoms())
def test_the_order_of_the_runs_does_not_matter(both: tuple[Label, Label], random: Random) -> None:
    """Runs in another order give the same tests to the last bit."""
    x, y = map(unsorted_label, both)
    v, w = (unsorted_label([random.sample(task, len(task)) for task in side]) for side in both)
    assert permutation_test(x, y, FEW) == permutation_test(v, w, FEW)
    assert mann_whitney_test(x, y) == mann_whitney_test(v, w)
    assert welch_test(x, y) == welch_test(v, w)


@given(two_labels())
def test_swapping_sides_leaves_the_p_values(both: tuple[Label, Label]) -> None:
    """Swapping the labels changes no p-value: all tests are two-sided."""
    x, y = (label(*side) for side in both)
    assert permutation_test(x, y, FEW).p == permutation_test(y, x, FEW).p
    assert welch_test(x, y).p == welch_test(y, x).p
    assert mann_whitney_test(x, y).p == mann_whitney_test(y, x).p


@settings(max_examples=20)
@given(two_labels())
def test_swapping_sides_draws_the_same(both: tuple[Label, Label]) -> None:
    """Swapping the labels gives the same random relabellings, for equal and unequal sizes."""
    x, y = (label(*side) for side in both)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(permutation, "EXACT_RELABELLINGS", 0)
        forward, swapped = permutation_test(x, y, FEW), permutation_test(y, x, FEW)
    assert (forward.p, forward.statistic) == (swapped.p, -(swapped.statistic or 0.0))


@pytest.mark.parametrize("runs", [(4, 4), (3, 8), (12, 12)])
def test_the_level_holds(runs: tuple[int, int]) -> None:
    """Of 1,000 equal pairs of labels, about a twentieth or fewer have a p-value up to 0.05."""
    generator = np.random.default_rng(11)
    resampling = Resampling(repetitions=199)
    samples = [[label(generator.exponential(size=n)) for n in runs] for _ in range(1000)]
    p_values = [permutation_test(x, y, resampling).p or 0.0 for x, y in samples]
    assert sum(p <= 0.05 for p in p_values) <= 50 + 3 * (1000 * 0.05 * 0.95) ** 0.5


def test_few_relabellings_are_enumerated_and_many_sampled() -> None:
    """9 runs against 9 have 48,620 relabellings and are enumerated; 9 against 10 are sampled."""
    nine, ten = label(np.arange(9.0)), label(np.arange(10.0))
    assert 48_620 == relabellings(nine, nine) <= EXACT_RELABELLINGS
    assert permutation_test(nine, nine, FEW).seed is None
    assert 0 == permutation_test(nine, ten, FEW).seed
