"""The race over seeds uses Wilcoxon's exact signed-rank test."""

from collections.abc import Sequence
from itertools import product
from math import nan
from random import Random

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from rlexp.stats.sequential.racing import signed_rank_p, worse_than_best

differences = st.lists(st.integers(-9, 9), min_size=1, max_size=9)


def enumerated_p(values: Sequence[float]) -> float:
    """The p-value, computed from every sign pattern."""
    from scipy.stats import rankdata

    nonzero = np.array([value for value in values if value])
    if not len(nonzero):
        return 1.0
    ranks = rankdata(np.abs(nonzero))
    observed = ranks[nonzero > 0].sum()
    sums = [np.dot(ranks, signs) for signs in product((0, 1), repeat=len(nonzero))]
    return float(np.mean([total <= observed for total in sums]))


@pytest.mark.parametrize("count", range(1, 12))
def test_the_least_p_value_is_half_to_the_power_of_the_seeds(count: int) -> None:
    """If all n differences are negative, the p-value is 2⁻ⁿ."""
    assert 0.5**count == signed_rank_p(-np.arange(1.0, count + 1))


def test_a_known_case() -> None:
    """By hand: with ranks 1 and 2 of five positive, 5 of 32 patterns have a sum up to 3."""
    assert 5 / 32 == signed_rank_p(np.array([1.0, 2.0, -3.0, -4.0, -5.0]))


@given(differences)
def test_the_p_value_is_the_fraction_of_sign_patterns(values: list[int]) -> None:
    """Enumerating all sign patterns gives the same p-value, with ties and zeros."""
    assert enumerated_p(values) == signed_rank_p(np.array(values, dtype=float))


@pytest.mark.parametrize("seed", range(5))
def test_the_p_value_is_that_of_scipy(seed: int) -> None:
    """Without ties and zeros the p-value equals SciPy's."""
    from scipy.stats import wilcoxon

    values = np.random.default_rng(seed).normal(-0.3, 1.0, size=20)
    expected = float(wilcoxon(values, alternative="less", method="exact").pvalue)
    assert expected == pytest.approx(signed_rank_p(values), rel=1e-12)


def test_many_seeds_are_exact_too() -> None:
    """The p-value of 100 seeds is exact, out of 2¹⁰⁰ patterns."""
    assert 0.5**100 == signed_rank_p(-np.arange(1.0, 101.0))


def test_four_seeds_are_needed_at_a_threshold_of_a_tenth() -> None:
    """With three seeds the smallest p-value is an eighth, which is above a tenth."""
    best = (1.0, 2.0, 3.0, 4.0)
    scores = (0.0, 0.0, 0.0, 0.0)
    assert worse_than_best(scores[:3], best, 0.1) is None
    assert 1 / 16 == worse_than_best(scores, best, 0.1)


def test_a_mean_that_is_as_good_is_never_worse() -> None:
    """A trial of the same mean is not worse, even if one seed makes up for all others."""
    best = (1.0,) * 6
    assert worse_than_best((0.9,) * 5 + (1.5,), best, 0.5) is None
    assert worse_than_best((0.9,) * 5 + (1.4,), best, 0.5) is not None


@pytest.mark.parametrize(("scores", "best"), [((), ()), ((1.0,), ()), ((), (1.0,))])
def test_nothing_in_common_says_nothing(scores: tuple[float], best: tuple[float]) -> None:
    """Two trials without a common seed have no p-value."""
    assert worse_than_best(scores, best, 0.9) is None


def test_equal_scores_are_not_worse() -> None:
    """A configuration whose differences are all 0 is not worse."""
    assert worse_than_best((1.0,) * 5, (1.0,) * 5, 0.9) is None


def test_a_failure_is_refused() -> None:
    """NaN, which stands for a failed run, is refused in both trials."""
    with pytest.raises(ValueError, match="leave out failed runs"):
        worse_than_best((nan, 1.0), (1.0, 1.0), 0.1)
    with pytest.raises(ValueError, match="leave out failed runs"):
        worse_than_best((1.0, 1.0), (1.0, nan), 0.1)


@given(
    st.lists(st.tuples(st.integers(-50, 50), st.integers(-50, 50)), min_size=1, max_size=8),
    st.randoms(),
)
def test_the_order_of_the_seeds_does_not_matter(
    pairs: list[tuple[int, int]], random: Random
) -> None:
    """Seeds in another order give the same p-value to the last bit."""
    shuffled = list(pairs)
    random.shuffle(shuffled)
    (scores, best), (shuffled_scores, shuffled_best) = (
        tuple(zip(*table, strict=True)) for table in (pairs, shuffled)
    )
    assert worse_than_best(scores, best, 0.9) == worse_than_best(
        shuffled_scores, shuffled_best, 0.9
    )
