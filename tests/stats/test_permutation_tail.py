"""On which side of a permutation test the difference lies."""

import numpy as np
from comparison_cases import label

from rlexp.stats.permutation import permutation_test
from rlexp.stats.resampling import Resampling

FEW = Resampling(repetitions=500)


def test_the_tail_is_that_of_the_difference() -> None:
    """One bad run pulls the mean of 101 below that of two: nothing says that the two are better."""
    x, y = label([9.0, 9.1]), label([*np.linspace(10, 11, 100), -1e4])
    found = permutation_test(x, y, FEW)
    assert found.statistic is not None
    assert found.statistic > 0
    assert 1.0 == found.p


def test_no_difference_is_no_evidence() -> None:
    """Though the one run far above leaves 8 of 28 relabellings on one side of it."""
    x, y = label([-10.0, -10.0]), label([-13.0, -11.0, -11.0, -1.0, -11.0, -13.0])
    found = permutation_test(x, y, FEW)
    assert (1.0, 0.0) == (found.p, found.statistic)
