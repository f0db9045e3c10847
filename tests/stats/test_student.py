"""Quantiles of Student's t distribution equal SciPy's."""

import pytest
from scipy.special import stdtrit

from rlexp.stats.bootstrap import student_quantile, upper_tail


@pytest.mark.parametrize("freedom", [0.7, 1.0, 1.3, 2.0, 4.0, 7.7, 19.0, 99.0, 200.0, 1e5])
@pytest.mark.parametrize("probability", [1e-6, 0.025, 0.4, 0.5, 0.6, 0.9, 0.975, 0.9995, 0.999999])
def test_quantiles_are_those_of_scipy(freedom: float, probability: float) -> None:
    """Quantiles agree to 12 digits for all probabilities and degrees of freedom."""
    expected = float(stdtrit(freedom, probability))
    assert expected == pytest.approx(student_quantile(probability, freedom), rel=1e-12, abs=1e-15)


def test_the_tail_beyond_a_quantile_is_the_rest() -> None:
    """The upper tail beyond the quantile of 0.975 is 0.025."""
    assert 0.025 == pytest.approx(upper_tail(student_quantile(0.975, 3.0), 3.0), rel=1e-13)


@pytest.mark.parametrize(("probability", "freedom"), [(0.0, 3), (1.0, 3), (0.5, 0), (0.5, -1)])
def test_impossible_arguments_are_refused(probability: float, freedom: float) -> None:
    """A probability of 0 or 1, and degrees of freedom not above 0, are refused."""
    with pytest.raises(ValueError, match="between 0 and 1"):
        student_quantile(probability, freedom)
