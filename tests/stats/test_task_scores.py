"""Scores by task: accepted and refused values."""

import pytest

from rlexp.stats.task_scores import TaskScores


@pytest.mark.parametrize("score", [float("nan"), float("inf"), 1.7e308, -1.7e308, -1.1e150])
def test_invalid_scores_are_refused(score: float) -> None:
    """NaN, infinities and numbers whose differences would overflow are refused."""
    with pytest.raises(ValueError, match="a score must be a finite number up to 1e150") as caught:
        TaskScores.from_tasks([[1.0, score], [2.0]])
    assert 1 == len(str(caught.value).splitlines())


def test_the_largest_scores_are_kept() -> None:
    """Scores up to the limit are accepted, and sorted within their task."""
    assert [-1e150, 1e150, 0.0] == TaskScores.from_tasks([[1e150, -1e150], [0]]).values.tolist()


@pytest.mark.parametrize("tasks", [[], [[1.0], []]])
def test_a_task_needs_a_score(tasks: list[list[float]]) -> None:
    """A task without a score, and a label without a task, are refused."""
    with pytest.raises(ValueError, match="every task needs at least one score"):
        TaskScores.from_tasks(tasks)
