"""Relabellings: every way equally often where they fit, a fair sample where they do not."""

import numpy as np
import pytest

from rlexp.stats.sequential.design import Relabellings


def test_all_ways_are_taken_where_they_fit() -> None:
    """C(4, 2)² = 36 different relabellings of two blocks of two, the true one first."""
    found = Relabellings(group=2, blocks=2, limit=36, seed=0)
    rows = np.hstack([found.signs(0), found.signs(1)])
    assert 36 == found.count == len({row.tobytes() for row in rows})
    assert [1, 1, -1, -1, 1, 1, -1, -1] == rows[0].tolist()
    assert {0} == set(rows.reshape(36, 2, 4).sum(axis=2).ravel())


def test_the_blocks_that_fit_are_taken_equally_often_and_the_rest_drawn() -> None:
    """With room for 100 of the 216 ways of three blocks, the 36 of two are taken twice."""
    found = Relabellings(group=2, blocks=3, limit=100, seed=0)
    assert (2, 72) == (found.enumerated, found.count)
    rows = np.hstack([found.signs(0), found.signs(1)])
    _, counts = np.unique(rows, axis=0, return_counts=True)
    assert [2] * 36 == counts.tolist()
    drawn = found.signs(2)
    assert {0} == set(drawn.sum(axis=1))
    assert [1, 1, -1, -1] == drawn[0].tolist()
    assert len(np.unique(drawn[1:], axis=0)) == 6


def test_drawn_ways_are_equally_likely() -> None:
    """Of 5999 draws of 6 ways, each comes up about 1000 times, and none with another's bias."""
    found = Relabellings(group=2, blocks=1, limit=5, seed=1)
    assert (0, 5) == (found.enumerated, found.count)
    large = Relabellings(group=2, blocks=6, limit=6000, seed=1)
    assert 4 == large.enumerated
    _, counts = np.unique(large.signs(5)[1:], axis=0, return_counts=True)
    expected = (large.count - 1) / 6
    chi_squared = ((counts - expected) ** 2 / expected).sum()
    assert chi_squared < 20.5  # exceeded once in a thousand seeds


def test_the_same_seed_draws_the_same_and_each_block_its_own() -> None:
    """A block's random relabellings depend on the seed and the block's number only."""
    found = Relabellings(group=10, blocks=3, limit=50, seed=4)
    first = found.signs(2)
    found.signs(1)
    assert np.array_equal(first, Relabellings(10, 3, 50, 4).signs(2))
    assert not np.array_equal(first, found.signs(1))
    assert not np.array_equal(first, Relabellings(10, 3, 50, 5).signs(2))


def test_differences_are_of_means() -> None:
    """The true one first; a mirror image has the opposite sign."""
    found = Relabellings(group=2, blocks=1, limit=10, seed=0)
    differences = found.differences(np.array([3.0, 1.0]), np.array([2.0, 0.0]), 0)
    assert 1 == differences[0]
    assert [-2, -1, 0, 0, 1, 2] == sorted(differences)


def test_scores_far_from_zero_keep_their_digits() -> None:
    """The origin cancels before anything is summed."""
    found = Relabellings(group=2, blocks=1, limit=10, seed=0)
    first, second = np.array([1e9 + 0.5, 1e9]), np.array([1e9, 1e9 - 0.5])
    assert 0.5 == found.differences(first, second, 0)[0]


@pytest.mark.parametrize(
    ("limit", "blocks", "expected"),
    [(10_000, 1, 2 / 252), (10_000, 2, 1 / 9828), (252, 1, 2 / 252)],
)
def test_the_least_p_is_that_of_the_truth_and_its_mirror_image(
    limit: int, blocks: int, expected: float
) -> None:
    """Or of the truth alone, where relabellings are drawn."""
    assert expected == Relabellings(group=5, blocks=3, limit=limit, seed=0).least_p(blocks)
