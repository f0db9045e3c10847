"""Scores of different tasks on one scale."""

from collections.abc import Sequence

import numpy as np
from numpy.typing import ArrayLike, NDArray

from rlexp.stats.task_scores import TaskScores

Anchors = tuple[float, float]
"""The scores of a task that count as 0 and as 1: of a random policy, say, and of a good one."""


def min_max(scores: ArrayLike, low: ArrayLike, high: ArrayLike) -> NDArray[np.float64]:
    """Put scores where `low` is 0 and `high` is 1; what lies beyond them stays beyond.

    Args:
        scores: Of any shape; `low` and `high` broadcast with it.
        low: What counts as 0.
        high: What counts as 1.

    Raises:
        ValueError: An anchor is not finite, or a low one is not below the high one.
    """
    floor, ceiling = np.asarray(low, np.float64), np.asarray(high, np.float64)
    if not (np.isfinite(floor).all() and np.isfinite(ceiling).all() and (floor < ceiling).all()):
        raise ValueError(
            f"low = {floor} and high = {ceiling} are no anchors: give finite numbers, low below high"
        )
    return (np.asarray(scores, np.float64) - floor) / (ceiling - floor)


def comparable(scores: TaskScores, anchors: Sequence[Anchors | None]) -> TaskScores:
    """Scores that may be aggregated over tasks: those of one task raw, of several normalised.

    Args:
        scores: Of shape (…, N), of m tasks.
        anchors: Of each task, m of them; nothing where none are known.

    Raises:
        ValueError: There are several tasks and one has no anchors, or wrong ones.
    """
    if len(scores.sizes) == 1:
        return scores
    known = [pair for pair in anchors if pair is not None]
    if len(known) != len(scores.sizes) or len(anchors) != len(scores.sizes):
        raise ValueError(
            f"{len(scores.sizes)} tasks need as many pairs of anchors, and {len(known)} are known: "
            "give each task the scores that count as 0 and as 1, or look at each task by itself"
        )
    low, high = np.repeat(np.asarray(known, np.float64), scores.sizes, axis=0).T
    return TaskScores(min_max(scores.values, low, high), scores.sizes)
