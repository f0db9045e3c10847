"""Points of random streams and of a Sobol' sequence, by their numbers."""

import time

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.stats.qmc import Sobol

from rlexp.errors import ConfigError
from rlexp.tuners.unit_cube import (
    SCRAMBLING_STREAM,
    SobolPoints,
    random_point,
    sobol_point,
    trial_generator,
)


def test_random_points_are_uniform_and_independent() -> None:
    """Random points have uniform means and variances, and neighbours are not correlated."""
    points = np.array([random_point(3, 7, number) for number in range(1, 2001)])
    assert [0.5] * 3 == pytest.approx(points.mean(axis=0), abs=0.03)
    assert [1 / 12] * 3 == pytest.approx(points.var(axis=0), abs=0.01)
    neighbours = [np.corrcoef(points[1:, i], points[:-1, i])[0, 1] for i in range(3)]
    assert [0.0] * 3 == pytest.approx(neighbours, abs=0.07)


@pytest.mark.parametrize("dimensions", [1, 5, 40])
def test_the_first_sobol_points_fill_every_part_of_every_axis(dimensions: int) -> None:
    """Of 32 points, one lies in each of 32 equal parts of every axis."""
    points = np.array([sobol_point(dimensions, 3, number) for number in range(1, 33)])
    parts = np.sort(np.floor(points * 32).astype(int), axis=0)
    assert [list(range(32))] * dimensions == parts.T.tolist()


@given(st.integers(0, 2**32 - 1), st.integers(1, 256))
def test_sobol_point_depends_on_its_number(seed: int, number: int) -> None:
    """A Sobol' point equals the point of its number in the whole sequence."""
    sequence = Sobol(4, scramble=True, seed=trial_generator(seed, SCRAMBLING_STREAM)).random_base2(
        8
    )
    assert sequence[number - 1].tolist() == sobol_point(4, seed, number).tolist()


def test_late_sobol_point_is_computed_quickly() -> None:
    """The millionth Sobol' point takes less than a second."""
    start = time.perf_counter()
    sobol_point(10, 0, 1_000_000)
    assert time.perf_counter() - start < 1


def test_seed_scrambles_the_sequence() -> None:
    """The Sobol' sequences of two seeds have no common point."""
    first_points, second_points = (
        {tuple(sobol_point(2, seed, n)) for n in range(1, 65)} for seed in (0, 1)
    )
    assert set() == first_points & second_points


@pytest.mark.parametrize(("dimensions", "number"), [(21_202, 1), (2, 2**30 + 1)])
def test_limits_of_the_sequence_are_enforced(dimensions: int, number: int) -> None:
    """The error for too many parameters or points names another tuner."""
    with pytest.raises(ConfigError, match=r"21,201 parameters .* choose tuner=random$"):
        sobol_point(dimensions, 0, number)


def test_points_of_a_block_are_those_that_are_computed_alone() -> None:
    """A Sobol' point has the same bits whether it is computed alone or with its neighbours."""
    points = SobolPoints(3, 7, most=8)
    for number in (1, 7, 8, 9, 16, 17, 3):
        assert sobol_point(3, 7, number).tolist() == points.point(number).tolist()
