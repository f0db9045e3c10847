"""Intervals by the bootstrap: reproducible, within the scores, and near their level."""

from random import Random

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from rlexp.stats.aggregate import interquartile_mean
from rlexp.stats.bootstrap import Interval, iqm_interval

scores = st.lists(st.floats(-1e6, 1e6), min_size=2, max_size=20, unique=True)


def interval(values: list[float], seed: int = 0, level: float = 0.95) -> Interval:
    """An interval of few repetitions."""
    return iqm_interval(np.asarray(values), seed=seed, level=level, repetitions=200)


@given(scores, st.randoms(), st.integers(0, 2**32))
def test_the_order_of_the_runs_does_not_matter(
    values: list[float], random: Random, seed: int
) -> None:
    """The same scores give the same numbers, to the last bit."""
    shuffled = random.sample(values, len(values))
    assert interval(values, seed) == interval(shuffled, seed)


@given(scores, st.integers(0, 2**32))
def test_the_same_seed_gives_the_same_interval(values: list[float], seed: int) -> None:
    """Whatever anybody else draws from NumPy's global generator in between."""
    first = interval(values, seed)
    np.random.default_rng().random()
    np.random.seed(0)  # noqa: NPY002
    assert first == interval(values, seed)


@given(scores)
def test_the_interval_lies_within_the_scores(values: list[float]) -> None:
    """Low below high, and the estimate is the interquartile mean."""
    found = interval(values)
    assert found.low is not None
    assert found.high is not None
    slack = 1e-9 * max(map(abs, values))
    assert min(values) - slack <= found.low <= found.high <= max(values) + slack
    assert float(interquartile_mean(np.asarray(values))) == found.estimate


@pytest.mark.parametrize(
    ("values", "method"),
    [([3.0], "one run alone shows no spread"), ([3.0, 3.0, 3.0], "all runs are equal")],
)
def test_without_spread_there_is_no_interval(values: list[float], method: str) -> None:
    """An interval of no width would claim to know."""
    expected = Interval(3.0, None, None, 0.95, method, 0, len(values), 0)
    assert expected == interval(values)


def test_an_interval_says_how_it_was_made() -> None:
    """With its seed and repetitions, anybody can compute it again."""
    found = interval([1.0, 2.0, 3.0], seed=7, level=0.9)
    assert (2.0, 0.9, "percentile bootstrap", 200, 3, 7) == (
        found.estimate,
        found.level,
        found.method,
        found.repetitions,
        found.n,
        found.seed,
    )


@given(scores)
def test_more_certainty_needs_more_room(values: list[float]) -> None:
    """An interval of a higher level holds that of a lower one."""
    wide, narrow = interval(values, level=0.95), interval(values, level=0.5)
    assert wide.low is not None
    assert wide.high is not None
    assert narrow.low is not None
    assert narrow.high is not None
    assert wide.low <= narrow.low <= narrow.high <= wide.high


@given(scores, st.floats(-1e3, 1e3))
def test_the_interval_moves_with_the_scores(values: list[float], shift: float) -> None:
    """Scores in another unit give the same picture."""
    before, after = interval(values), interval([value + shift for value in values])
    assert before.low is not None
    expected = pytest.approx(before.low + shift, abs=1e-6, rel=1e-6)
    assert after.low == expected or len(set(values)) != len({v + shift for v in values})


def test_the_coverage_is_near_the_level() -> None:
    """Of 300 samples of 20 normal scores, the interval misses the centre in about a twentieth."""
    generator = np.random.default_rng(1)
    found = [iqm_interval(generator.normal(size=20), seed=k, repetitions=500) for k in range(300)]
    covered = sum(i.low is not None and i.high is not None and i.low <= 0 <= i.high for i in found)
    assert 0.88 <= covered / 300 <= 0.98
