"""Scores on one scale: 0 and 1 at the anchors, nothing cut off, nothing guessed."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from rlexp.stats.task_scores import TaskScores, comparable, min_max

THREE = TaskScores.from_tasks([[0.0, 5.0, 12.0], [-200.0, -100.0]])


def test_anchors_become_zero_and_one() -> None:
    """Scores outside of the anchors stay outside of 0 and 1."""
    assert [0.0, 0.5, 1.0, -0.5, 2.0] == min_max([2, 4, 6, 0, 10], 2, 6).tolist()


def test_anchors_broadcast() -> None:
    """Each column has its own pair of anchors."""
    found = min_max([[1.0, 1.0], [3.0, 0.0]], [0.0, -1.0], [2.0, 1.0])
    assert [[0.5, 1.0], [1.5, 0.5]] == found.tolist()


@given(st.integers(-100, 100), st.integers(1, 100), st.integers(-1000, 1000))
def test_normalisation_is_linear(low: int, width: int, score: int) -> None:
    """Applying the inverse linear map restores the scores."""
    found = float(min_max(score, low, low + width))
    assert score == pytest.approx(low + found * width, abs=1e-9)


@pytest.mark.parametrize(
    ("low", "high"),
    [(1.0, 1.0), (2.0, 1.0), (float("nan"), 1.0), (0.0, float("inf")), ([0.0, 3.0], [1.0, 2.0])],
)
def test_anchors_must_be_numbers_in_order(low: float, high: float) -> None:
    """A message of one line names the invalid anchors."""
    with pytest.raises(ValueError, match=r"must be finite, and low below high$"):
        min_max([0.0, 1.0], low, high)


def test_each_task_has_its_own_scale() -> None:
    """As many pairs as tasks, each for all of its runs."""
    found = comparable(THREE, [(0.0, 10.0), (-200.0, 0.0)])
    assert (3, 2) == found.sizes
    assert [0.0, 0.5, 1.2, 0.0, 0.5] == pytest.approx(found.values.tolist())


def test_a_batch_is_normalised_alike() -> None:
    """A batch of shape (…, N) is normalised row by row."""
    batch = TaskScores(np.stack([THREE.values, THREE.values + 10]), THREE.sizes)
    found = comparable(batch, [(0.0, 10.0), (-200.0, 0.0)]).values
    assert [1.0, 1.5, 2.2, 0.05, 0.55] == pytest.approx(found[1].tolist())


@pytest.mark.parametrize("anchors", [[None], [(0.0, 10.0)], []])
def test_scores_of_one_task_stay_raw(anchors: list[tuple[float, float] | None]) -> None:
    """The scores of a single task are not normalised, with or without anchors."""
    scores = TaskScores.from_tasks([[1.0, 2.0]])
    assert scores is comparable(scores, anchors)


@pytest.mark.parametrize(
    ("anchors", "known"),
    [([None, (0.0, 1.0)], 1), ([], 0), ([(0.0, 1.0)] * 3, 3), ([(0.0, 1.0), None, (0.0, 1.0)], 2)],
)
def test_several_tasks_need_anchors(anchors: list[tuple[float, float] | None], known: int) -> None:
    """A scale that was guessed from the data would depend on who else is compared."""
    with pytest.raises(
        ValueError, match=rf"2 tasks need normalisation anchors, but {known} have them"
    ):
        comparable(THREE, anchors)
