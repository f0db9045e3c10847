"""The equivalence test agrees with SciPy and with values by hand, and keeps its level."""

import numpy as np
import pytest
from comparison_cases import FEW, Label, family_of, label, two_labels
from hypothesis import given
from hypothesis import strategies as st

from rlexp.stats.aggregate import Statistic, interquartile_mean, mean
from rlexp.stats.pairs.difference import (
    Difference,
    difference_interval,
    estimate_difference,
    estimate_metric_difference,
)
from rlexp.stats.pairs.equivalence import EquivalenceTest, equivalence_test
from rlexp.stats.pairs.pairwise_family import Verdict, decide


def equivalence_of(x: Label, y: Label, margin: float) -> EquivalenceTest:
    """The test of equivalence of the means of two labels."""
    return equivalence_test(estimate_difference(label(*x), label(*y)), margin)


def test_equivalence_is_two_welch_tests_of_scipy() -> None:
    """The p-values equal SciPy's one-sided Welch tests of scores shifted by the margin."""
    from scipy.stats import ttest_ind

    x, y = np.array([1.0, 2.0, 2.5, 4.0]), np.array([0.5, 2.2, 3.1])
    lower = ttest_ind(x + 3, y, equal_var=False, alternative="greater").pvalue
    upper = ttest_ind(x - 3, y, equal_var=False, alternative="less").pvalue
    result = equivalence_of([list(x)], [list(y)], 3.0)
    assert (lower, upper, max(lower, upper)) == pytest.approx(
        (result.p_lower, result.p_upper, result.p), rel=1e-10
    )


def test_by_hand_on_two_tasks() -> None:
    """A difference of 0 with standard error 1 on 4 degrees of freedom, and t₀.₉₅ = 2.1318."""
    x = [[0.0, 2.0], [0.0, 2.0]]
    result = equivalence_of(x, x, 2.13184678632665)
    assert (0.05, 0.05, 0.05) == pytest.approx(
        (result.p, result.p_lower, result.p_upper), rel=1e-9
    )


@pytest.mark.parametrize(
    ("x", "y", "reason"),
    [([1.0], [1.0, 2.0], "one run alone"), ([1.0, 1.0], [1.0, 1.0], "all runs are equal")],
)
def test_without_spread_there_is_a_reason(x: list[float], y: list[float], reason: str) -> None:
    """Runs without spread have a reason instead of a p-value, even if they are equal."""
    result = equivalence_of([x], [y], 1.0)
    assert EquivalenceTest(margin=1.0, p=None, reason=result.reason) == result
    assert reason in (result.reason or "")


@pytest.mark.parametrize("margin", [0.0, -1.0, float("nan"), float("inf")])
def test_a_margin_must_be_finite_and_above_0(margin: float) -> None:
    """A margin that is 0, negative, NaN or infinite is refused."""
    with pytest.raises(ValueError, match="the margin must be above 0"):
        equivalence_test(Difference(value=0.0), margin)


@given(two_labels(2), st.floats(0.1, 50))
def test_equivalence_agrees_with_the_90_percent_interval(
    both: tuple[Label, Label], margin: float
) -> None:
    """At level 0.05 the test rejects if and only if the 90 % interval is within the margin."""
    x, y = both
    interval = difference_interval(label(*x), label(*y), level=0.9)
    result = equivalence_of(x, y, margin)
    if result.p is not None and interval.low is not None and interval.high is not None:
        within = -margin < interval.low and interval.high < margin
        assert within == (result.p < 0.05) or result.p == pytest.approx(0.05)


@given(two_labels(2), st.floats(0.1, 50))
def test_swapping_sides_swaps_the_tests(both: tuple[Label, Label], margin: float) -> None:
    """Swapping the labels swaps the two one-sided p-values."""
    x, y = both
    forward, swapped = equivalence_of(x, y, margin), equivalence_of(y, x, margin)
    assert (forward.p, forward.p_lower, forward.p_upper) == (
        swapped.p,
        swapped.p_upper,
        swapped.p_lower,
    )


def test_the_standard_error_of_the_difference_is_used() -> None:
    """By hand: 3 and 1 standard errors inside of the margin, on 2 degrees of freedom."""
    difference = Difference(value=1.0, standard_error=1.0, degrees_of_freedom=2.0)
    result = equivalence_test(difference, 2.0)
    # The tail of t on 2 degrees of freedom is (1 − t / √(2 + t²)) / 2.
    lower, upper = ((1 - t / (2 + t**2) ** 0.5) / 2 for t in (3.0, 1.0))
    assert (lower, upper, upper) == pytest.approx((result.p_lower, result.p_upper, result.p))


@pytest.mark.parametrize("runs", [(6, 6), (6, 7)])
def test_equivalence_is_about_the_metric_of_the_verdict(runs: tuple[int, int]) -> None:
    """Labels whose middle runs agree are equivalent by that metric, and not by their means."""
    x = [float(k % 3) for k in range(5 * runs[0])]
    y = [*x[: 5 * runs[1] - 3], *[-40.0] * 3]
    labels = (label(x), label(y))

    def verdict(statistic: Statistic) -> Verdict:
        return decide(family_of(labels, statistic, margin=2.0))[0].verdict

    assert (Verdict.EQUIVALENT, Verdict.UNDECIDED) == (verdict(interquartile_mean), verdict(mean))
    member = decide(family_of(labels, interquartile_mean, margin=2.0))[0]
    difference = estimate_metric_difference(*labels, interquartile_mean, FEW)
    assert equivalence_test(difference, 2.0) == member.comparison.equivalence


def test_the_level_holds_at_the_margin() -> None:
    """Of 1,000 pairs that differ by the margin, about a twentieth are called equivalent."""
    generator = np.random.default_rng(4)
    pairs = [
        ([list(generator.normal(1, 1, 6))], [list(generator.normal(0, 0.5, 9))])
        for _ in range(1000)
    ]
    wrong = sum((equivalence_of(x, y, 1.0).p or 1.0) <= 0.05 for x, y in pairs)
    assert 20 <= wrong <= 50 + 3 * (1000 * 0.05 * 0.95) ** 0.5
