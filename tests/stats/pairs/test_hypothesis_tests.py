"""Welch's test and the rank test equal golden numbers and SciPy."""

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
from hypothesis import given
from hypothesis import strategies as st

from rlexp.stats.pairs.comparison import mann_whitney_test, welch_test


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
    """Constant scores have p = 1 in the rank test, and a reason in Welch's test."""
    one_task, two_tasks = label([1.0] * 4), label([1.0] * 4, [2.0, 2.0])
    for constant in (one_task, two_tasks):
        assert 1.0 == mann_whitney_test(constant, constant).p
        assert "all runs are equal" in (welch_test(constant, constant).reason or "")


@given(two_labels(), st.randoms())
def test_the_order_of_the_runs_does_not_matter(both: tuple[Label, Label], random: Random) -> None:
    """Runs in another order give the same tests to the last bit."""
    x, y = map(unsorted_label, both)
    v, w = (unsorted_label([random.sample(task, len(task)) for task in side]) for side in both)
    assert mann_whitney_test(x, y) == mann_whitney_test(v, w)
    assert welch_test(x, y) == welch_test(v, w)


@given(two_labels())
def test_swapping_sides_leaves_the_p_values(both: tuple[Label, Label]) -> None:
    """Swapping the labels changes no p-value: all tests are two-sided."""
    x, y = (label(*side) for side in both)
    assert welch_test(x, y).p == welch_test(y, x).p
    assert mann_whitney_test(x, y).p == mann_whitney_test(y, x).p
