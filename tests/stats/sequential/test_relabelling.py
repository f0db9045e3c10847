"""Relabellings are enumerated if they fit the limit, and are sampled fairly if they do not."""

import numpy as np
import pytest

from rlexp.stats.sequential.design import Relabellings


def test_all_relabellings_are_enumerated_if_they_fit() -> None:
    """C(4, 2)² = 36 different relabellings of two blocks of two, the true one first."""
    relabellings = Relabellings(group=2, blocks=2, limit=36, seed=0)
    rows = np.hstack([relabellings.signs(0), relabellings.signs(1)])
    assert 36 == relabellings.count == len({row.tobytes() for row in rows})
    assert [1, 1, -1, -1, 1, 1, -1, -1] == rows[0].tolist()
    assert {0} == set(rows.reshape(36, 2, 4).sum(axis=2).ravel())


def test_the_blocks_that_fit_are_taken_equally_often_and_the_rest_drawn() -> None:
    """With room for 100 of the 216 ways of three blocks, the 36 of two are taken twice."""
    relabellings = Relabellings(group=2, blocks=3, limit=100, seed=0)
    assert (2, 72) == (relabellings.enumerated, relabellings.count)
    rows = np.hstack([relabellings.signs(0), relabellings.signs(1)])
    _, counts = np.unique(rows, axis=0, return_counts=True)
    assert [2] * 36 == counts.tolist()
    third_block = relabellings.signs(2)
    assert {0} == set(third_block.sum(axis=1))
    assert [1, 1, -1, -1] == third_block[0].tolist()
    assert len(np.unique(third_block[1:], axis=0)) == 6


def test_sampled_relabellings_are_equally_likely() -> None:
    """Each of 6 ways is drawn about equally often, by a χ² test of some 6,000 draws."""
    small = Relabellings(group=2, blocks=1, limit=5, seed=1)
    assert (0, 5) == (small.enumerated, small.count)
    large = Relabellings(group=2, blocks=6, limit=6000, seed=1)
    assert 4 == large.enumerated
    _, counts = np.unique(large.signs(5)[1:], axis=0, return_counts=True)
    expected = (large.count - 1) / 6
    chi_squared = ((counts - expected) ** 2 / expected).sum()
    assert chi_squared < 20.5  # exceeded once in a thousand seeds


def test_the_same_seed_draws_the_same_and_each_block_its_own() -> None:
    """A block's random relabellings depend on the seed and the block's number only."""
    relabellings = Relabellings(group=10, blocks=3, limit=50, seed=4)
    first = relabellings.signs(2)
    relabellings.signs(1)
    assert np.array_equal(first, Relabellings(10, 3, 50, 4).signs(2))
    assert not np.array_equal(first, relabellings.signs(1))
    assert not np.array_equal(first, Relabellings(10, 3, 50, 5).signs(2))


def test_differences_are_of_means() -> None:
    """Differences of means begin with the true labelling, and mirror images differ in sign."""
    relabellings = Relabellings(group=2, blocks=1, limit=10, seed=0)
    differences = relabellings.differences(np.array([3.0, 1.0]), np.array([2.0, 0.0]), 0)
    assert 1 == differences[0]
    assert [-2, -1, 0, 0, 1, 2] == sorted(differences)


def test_scores_far_from_zero_keep_their_digits() -> None:
    """Scores far from zero keep their digits, because the origin is subtracted first."""
    relabellings = Relabellings(group=2, blocks=1, limit=10, seed=0)
    first, second = np.array([1e9 + 0.5, 1e9]), np.array([1e9, 1e9 - 0.5])
    assert 0.5 == relabellings.differences(first, second, 0)[0]


@pytest.mark.parametrize(
    ("limit", "blocks", "expected"),
    [(10_000, 1, 2 / 252), (10_000, 2, 1 / 9828), (252, 1, 2 / 252)],
)
def test_the_least_p_is_that_of_the_truth_and_its_mirror_image(
    limit: int, blocks: int, expected: float
) -> None:
    """The least p is that of the truth and its mirror image, or of the truth alone if sampled."""
    assert expected == Relabellings(group=5, blocks=3, limit=limit, seed=0).least_p(blocks)
