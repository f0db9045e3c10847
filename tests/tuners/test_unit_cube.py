"""Points by number: of random streams, and of a Sobol' sequence."""

import time

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.stats.qmc import Sobol

from rlexp.errors import ConfigError
from rlexp.tuners.unit_cube import SCRAMBLING_STREAM, random_point, sobol_point, trial_generator


def test_random_points_are_uniform_and_unrelated() -> None:
    """Means of shares near a half, and neighbours in number do not resemble each other."""
    points = np.array([random_point(3, 7, number) for number in range(1, 2001)])
    assert [0.5] * 3 == pytest.approx(points.mean(axis=0), abs=0.03)
    assert [1 / 12] * 3 == pytest.approx(points.var(axis=0), abs=0.01)
    neighbours = [np.corrcoef(points[1:, i], points[:-1, i])[0, 1] for i in range(3)]
    assert [0.0] * 3 == pytest.approx(neighbours, abs=0.07)


@pytest.mark.parametrize("dimensions", [1, 5, 40])
def test_the_first_sobol_points_fill_every_part_of_every_axis(dimensions: int) -> None:
    """Of 2^k points, one is in each of the 2^k equal parts: a net, scrambled or not."""
    points = np.array([sobol_point(dimensions, 3, number) for number in range(1, 33)])
    parts = np.sort(np.floor(points * 32).astype(int), axis=0)
    assert [list(range(32))] * dimensions == parts.T.tolist()


@given(st.integers(0, 2**32 - 1), st.integers(1, 256))
def test_a_sobol_point_is_the_one_of_its_number(seed: int, number: int) -> None:
    """As if the whole sequence were drawn at once."""
    sequence = Sobol(4, scramble=True, seed=trial_generator(seed, SCRAMBLING_STREAM)).random_base2(
        8
    )
    assert sequence[number - 1].tolist() == sobol_point(4, seed, number).tolist()


def test_a_late_sobol_point_is_soon_there() -> None:
    """The millionth takes less than a second."""
    start = time.perf_counter()
    sobol_point(10, 0, 1_000_000)
    assert time.perf_counter() - start < 1


def test_the_seed_scrambles() -> None:
    """Two seeds share no point."""
    ones, others = ({tuple(sobol_point(2, seed, n)) for n in range(1, 65)} for seed in (0, 1))
    assert set() == ones & others


@pytest.mark.parametrize(("dimensions", "number"), [(21_202, 1), (2, 2**30 + 1)])
def test_a_sequence_has_an_end(dimensions: int, number: int) -> None:
    """Too many parameters or points are refused with what to take instead."""
    with pytest.raises(ConfigError, match=r"21,201 parameters .* take tuner=random$"):
        sobol_point(dimensions, 0, number)
