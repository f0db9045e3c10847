"""Normalised scores are 0 and 1 at the anchors, are not clipped, and need given anchors."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from rlexp.stats.task_scores import TaskScores, comparable, min_max

TWO_TASKS = TaskScores.from_tasks([[0.0, 5.0, 12.0], [-200.0, -100.0]])


def test_anchors_become_zero_and_one() -> None:
    """Scores outside of the anchors stay outside of 0 and 1."""
    assert [0.0, 0.5, 1.0, -0.5, 2.0] == min_max([2, 4, 6, 0, 10], 2, 6).tolist()


def test_anchors_broadcast() -> None:
    """Each column has its own pair of anchors."""
    normalised = min_max([[1.0, 1.0], [3.0, 0.0]], [0.0, -1.0], [2.0, 1.0])
    assert [[0.5, 1.0], [1.5, 0.5]] == normalised.tolist()


@given(st.integers(-100, 100), st.integers(1, 100), st.integers(-1000, 1000))
def test_normalisation_is_linear(low: int, width: int, score: int) -> None:
    """Applying the inverse linear map restores the scores."""
    normalised = float(min_max(score, low, low + width))
    assert score == pytest.approx(low + normalised * width, abs=1e-9)


@pytest.mark.parametrize(
    ("low", "high"),
    [(1.0, 1.0), (2.0, 1.0), (float("nan"), 1.0), (0.0, float("inf")), ([0.0, 3.0], [1.0, 2.0])],
)
def test_anchors_must_be_numbers_in_order(low: float, high: float) -> None:
    """Anchors that are not finite, or not in ascending order, are refused."""
    with pytest.raises(ValueError, match=r"must be finite, and low below high$"):
        min_max([0.0, 1.0], low, high)


def test_each_task_has_its_own_scale() -> None:
    """All runs of a task are normalised by the anchors of that task."""
    normalised = comparable(TWO_TASKS, [(0.0, 10.0), (-200.0, 0.0)])
    assert (3, 2) == normalised.sizes
    assert [0.0, 0.5, 1.2, 0.0, 0.5] == pytest.approx(normalised.values.tolist())


def test_a_batch_is_normalised_alike() -> None:
    """A batch of shape (…, N) is normalised row by row."""
    batch = TaskScores(np.stack([TWO_TASKS.values, TWO_TASKS.values + 10]), TWO_TASKS.sizes)
    normalised = comparable(batch, [(0.0, 10.0), (-200.0, 0.0)]).values
    assert [1.0, 1.5, 2.2, 0.05, 0.55] == pytest.approx(normalised[1].tolist())


@pytest.mark.parametrize("anchors", [[None], [(0.0, 10.0)], []])
def test_scores_of_one_task_stay_raw(anchors: list[tuple[float, float] | None]) -> None:
    """The scores of a single task are not normalised, with or without anchors."""
    scores = TaskScores.from_tasks([[1.0, 2.0]])
    assert scores is comparable(scores, anchors)


@pytest.mark.parametrize(
    ("anchors", "count"),
    [([None, (0.0, 1.0)], 1), ([], 0), ([(0.0, 1.0)] * 3, 3), ([(0.0, 1.0), None, (0.0, 1.0)], 2)],
)
def test_several_tasks_need_anchors(anchors: list[tuple[float, float] | None], count: int) -> None:
    """Several tasks need anchors each; a scale from the data would depend on other labels."""
    with pytest.raises(
        ValueError, match=rf"2 tasks need normalisation anchors, but {count} have them"
    ):
        comparable(TWO_TASKS, anchors)
