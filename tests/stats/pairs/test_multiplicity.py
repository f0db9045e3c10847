"""Holm's adjusted p-values equal golden numbers and values by hand, and follow their laws."""

from random import Random

import pytest
from comparison_cases import golden
from hypothesis import given
from hypothesis import strategies as st

from rlexp.stats.pairs.pairwise_family import holm

p_values = st.lists(st.floats(0, 1), max_size=12)


def test_adjusted_p_values_are_the_golden_ones() -> None:
    """Adjusted p-values equal those of statsmodels."""
    case = golden()["multiple"]["holm"]
    adjusted = holm(case["p"])
    assert case["adjusted"] == pytest.approx(adjusted.tolist(), abs=1e-12)
    assert case["reject"] == (adjusted <= 0.05).tolist()


def test_the_order_given_is_kept() -> None:
    """Adjusted p-values are returned in the order of the given, unsorted p-values."""
    expected = [0.0675, 0.03, 0.0675, 0.5]
    assert expected == pytest.approx(holm([0.0225, 0.0075, 0.03, 0.5]).tolist(), abs=1e-12)


def test_no_tests_need_no_adjustment() -> None:
    """An empty list of p-values gives an empty result."""
    assert [] == holm([]).tolist()


def test_one_test_stays_as_it_is() -> None:
    """A family of one needs no adjustment."""
    assert [0.03] == holm([0.03]).tolist()


@pytest.mark.parametrize("values", [[0.1, float("nan")], [-0.1], [1.1], [[0.1]]])
def test_what_is_no_probability_is_refused(values: list[float]) -> None:
    """Values that are no probability are refused: dropping them would ease the other tests."""
    with pytest.raises(ValueError, match="numbers from 0 to 1: leave out a test"):
        holm(values)


@given(values=p_values, random=st.randoms())
def test_the_order_of_the_tests_does_not_matter(values: list[float], random: Random) -> None:
    """Each test keeps its adjusted p-value if the tests are reordered."""
    order = random.sample(range(len(values)), len(values))
    expected = holm(values)[order].tolist()
    assert expected == holm([values[i] for i in order]).tolist()


@given(p_values)
def test_holm_is_between_bonferroni_and_no_adjustment(values: list[float]) -> None:
    """Holm is at most as strict as a multiplication by the number of tests; none exceeds 1."""
    for p, adjusted in zip(values, holm(values), strict=True):
        assert p <= adjusted <= min(1.0, len(values) * p) + 1e-15


@given(st.lists(st.floats(0, 1), min_size=1, max_size=8), st.data())
def test_a_smaller_p_value_makes_no_adjusted_one_larger(
    values: list[float], data: st.DataObject
) -> None:
    """Holm's method is monotone: a smaller p-value makes no adjusted p-value larger."""
    place = data.draw(st.integers(0, len(values) - 1))
    smaller = [*values]
    smaller[place] *= data.draw(st.floats(0, 1))
    assert all(a >= b for a, b in zip(holm(values), holm(smaller), strict=True))
