"""Quantiles of Student's t, beside SciPy's."""

import pytest
from scipy.special import stdtrit

from rlexp.stats.bootstrap import student_quantile, upper_tail


@pytest.mark.parametrize("freedom", [0.7, 1.0, 1.3, 2.0, 4.0, 7.7, 19.0, 99.0, 200.0, 1e5])
@pytest.mark.parametrize("probability", [1e-6, 0.025, 0.4, 0.5, 0.6, 0.9, 0.975, 0.9995, 0.999999])
def test_quantiles_are_those_of_scipy(freedom: float, probability: float) -> None:
    """They agree to 12 digits for every probability and every number of degrees of freedom."""
    expected = float(stdtrit(freedom, probability))
    assert expected == pytest.approx(student_quantile(probability, freedom), rel=1e-12, abs=1e-15)


def test_the_tail_beyond_a_quantile_is_the_rest() -> None:
    """The distribution function is the inverse of the quantile."""
    assert 0.025 == pytest.approx(upper_tail(student_quantile(0.975, 3.0), 3.0), rel=1e-13)


@pytest.mark.parametrize(("probability", "freedom"), [(0.0, 3), (1.0, 3), (0.5, 0), (0.5, -1)])
def test_impossible_arguments_are_refused(probability: float, freedom: float) -> None:
    """A probability of 0 or 1 has no quantile, and there is no distribution without freedom."""
    with pytest.raises(ValueError, match="between 0 and 1"):
        student_quantile(probability, freedom)
