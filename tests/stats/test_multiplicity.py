"""Adjusted p-values equal golden numbers and values by hand, and follow their laws."""

import json
from collections.abc import Callable
from itertools import pairwise
from random import Random

import numpy as np
import pytest
from comparison_cases import golden
from hypothesis import given
from hypothesis import strategies as st
from numpy.typing import ArrayLike, NDArray

from rlexp.stats.pairwise_family import bonferroni, holm

Adjust = Callable[[ArrayLike], NDArray[np.float64]]
METHODS: dict[str, Adjust] = {
    "bonferroni": bonferroni,
    "holm": holm,
}
every_method = pytest.mark.parametrize("adjust", METHODS.values(), ids=METHODS)
p_values = st.lists(st.floats(0, 1), max_size=12)


@pytest.mark.parametrize("name", METHODS)
def test_adjusted_p_values_are_the_golden_ones(name: str) -> None:
    """Adjusted p-values equal those of statsmodels."""
    case = golden()["multiple"][name]
    adjusted = METHODS[name](case["p"])
    assert case["adjusted"] == pytest.approx(adjusted.tolist(), abs=1e-12)
    assert case["reject"] == (adjusted <= 0.05).tolist()


@pytest.mark.parametrize(
    ("adjust", "expected"),
    [
        (bonferroni, [0.09, 0.03, 0.12, 1.0]),
        (holm, [0.0675, 0.03, 0.0675, 0.5]),
    ],
)
def test_the_order_given_is_kept(adjust: Adjust, expected: list[float]) -> None:
    """Adjusted p-values are returned in the order of the given, unsorted p-values."""
    assert expected == pytest.approx(adjust([0.0225, 0.0075, 0.03, 0.5]).tolist(), abs=1e-12)


@every_method
def test_no_tests_need_no_adjustment(adjust: Adjust) -> None:
    """An empty list of p-values gives an empty result."""
    assert [] == adjust([]).tolist()


@every_method
def test_one_test_stays_as_it_is(adjust: Adjust) -> None:
    """A family of one needs no adjustment."""
    assert [0.03] == adjust([0.03]).tolist()


@every_method
@pytest.mark.parametrize("values", [[0.1, float("nan")], [-0.1], [1.1], [[0.1]]])
def test_what_is_no_probability_is_refused(adjust: Adjust, values: list[float]) -> None:
    """Values that are no probability are refused: dropping them would ease the other tests."""
    with pytest.raises(ValueError, match="numbers from 0 to 1: leave out a test"):
        adjust(values)


@every_method
@given(values=p_values, random=st.randoms())
def test_the_order_of_the_tests_does_not_matter(
    adjust: Adjust, values: list[float], random: Random
) -> None:
    """Each test keeps its adjusted p-value if the tests are reordered."""
    order = random.sample(range(len(values)), len(values))
    expected = adjust(values)[order].tolist()
    assert expected == adjust([values[i] for i in order]).tolist()


@given(p_values)
def test_one_method_is_stricter_than_the_next(values: list[float]) -> None:
    """Bonferroni is at least as strict as Holm, Holm as no adjustment; none exceeds 1."""
    rows = [[1.0] * len(values), *(adjust(values).tolist() for adjust in METHODS.values()), values]
    for strict, mild in pairwise(rows):
        assert all(a >= b - 1e-15 for a, b in zip(strict, mild, strict=True)), json.dumps(rows)


@given(st.lists(st.floats(0, 1), min_size=1, max_size=8), st.data())
def test_a_smaller_p_value_makes_no_adjusted_one_larger(
    values: list[float], data: st.DataObject
) -> None:
    """Holm's method is monotone: a smaller p-value makes no adjusted p-value larger."""
    place = data.draw(st.integers(0, len(values) - 1))
    smaller = [*values]
    smaller[place] *= data.draw(st.floats(0, 1))
    assert all(a >= b for a, b in zip(holm(values), holm(smaller), strict=True))
