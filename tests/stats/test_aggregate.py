"""The interquartile mean, by hand and against SciPy."""

from random import Random

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.stats import trim_mean

from rlexp.stats.aggregate import interquartile_mean

scores = st.lists(st.floats(-1e6, 1e6), min_size=1, max_size=40)


@pytest.mark.parametrize(
    ("values", "expected"),
    [
        ([5.0], 5.0),
        ([1.0, 2.0], 1.5),
        ([1.0, 2.0, 9.0], 4.0),
        ([100.0, 1.0, 2.0, -50.0], 1.5),
        ([0.0, 1.0, 2.0, 3.0, 100.0], 2.0),
        ([7.0, 1.0, 2.0, 3.0, 4.0, 5.0, 6.0], 4.0),
        ([-9.0, -9.0, 1.0, 2.0, 3.0, 4.0, 99.0, 99.0], 2.5),
    ],
)
def test_the_middle_half_is_averaged(values: list[float], expected: float) -> None:
    """A quarter, rounded down, is dropped at each end."""
    assert expected == interquartile_mean(np.asarray(values))


@given(scores)
def test_it_is_the_trimmed_mean_of_scipy(values: list[float]) -> None:
    """With a quarter cut at each end."""
    expected = trim_mean(values, 0.25)
    assert expected == pytest.approx(float(interquartile_mean(np.asarray(values))), abs=1e-6)


@given(scores, st.randoms())
def test_the_order_does_not_matter(values: list[float], random: Random) -> None:
    """To the last bit."""
    shuffled = random.sample(values, len(values))
    assert interquartile_mean(np.asarray(values)) == interquartile_mean(np.asarray(shuffled))


def test_the_last_axis_is_averaged() -> None:
    """Of shape (2, 3, 4), each of six rows by itself."""
    values = np.arange(24, dtype=np.float64).reshape(2, 3, 4)
    expected = [[float(interquartile_mean(row)) for row in block] for block in values]
    assert expected == interquartile_mean(values).tolist()


def test_the_scores_stay_as_they_were() -> None:
    """Sorting is of a copy."""
    values = np.asarray([3.0, 1.0, 2.0])
    interquartile_mean(values)
    assert [3.0, 1.0, 2.0] == values.tolist()
