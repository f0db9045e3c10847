"""The tail of a permutation test is on the side of the observed difference."""

import numpy as np
from comparison_cases import label

from rlexp.stats.permutation import permutation_test
from rlexp.stats.resampling import Resampling

FEW = Resampling(repetitions=500)


def test_the_tail_is_that_of_the_difference() -> None:
    """One bad run that lowers the mean of a label is no evidence for the other label."""
    x, y = label([9.0, 9.1]), label([*np.linspace(10, 11, 100), -1e4])
    result = permutation_test(x, y, FEW)
    assert result.statistic is not None
    assert result.statistic > 0
    assert 1.0 == result.p


def test_no_difference_is_no_evidence() -> None:
    """A difference of 0 has p = 1, even if only 8 of 28 relabellings are on one side of it."""
    x, y = label([-10.0, -10.0]), label([-13.0, -11.0, -11.0, -1.0, -11.0, -13.0])
    result = permutation_test(x, y, FEW)
    assert (1.0, 0.0) == (result.p, result.statistic)
