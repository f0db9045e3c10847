"""Hyperparameter sensitivity and effective dimensionality of an algorithm, from its settings."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike, NDArray

from rlexp.stats.sensitivity.partial_retuning import (
    ROUNDING,
    nest_settings,
    reaches_share,
    retuned_scores,
    task_mean,
)
from rlexp.stats.task_scores import LARGEST_SCORE

Array = NDArray[np.float64]
Levels = NDArray[np.float64]

SHARE = 0.95
"""Share of the tuned score that defines the effective dimensionality, as in the paper."""
MOST_PARAMETERS = 12
"""Largest number of parameters: all of their subsets are tried, which are 4,096."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Sensitivity:
    """Sensitivity of an algorithm to its hyperparameters (Adkins, Bowling and White 2024).

    Attributes:
        tuned: Per-task tuned score P: mean over tasks of the best setting's score on each task.
        cross_tuned: Cross-task tuned score C: the best mean over tasks of a single setting that
            ran on every task.
        best: Index of that setting; of equal settings the one with the lowest levels, compared
            from the first parameter on.
        best_by_task: Index of the best setting of each task, with the same rule for ties.
        best_scores: Score of the best setting of each task.
        retuned: Tuned score if k parameters are re-tuned on each task and the others stay as in
            `best`, for k = 0 … p; the k parameters are those that gain the most.
        subsets: These parameters, for each k.
        dimensionality: Effective dimensionality d: the smallest k whose score reaches the share
            of P.
        reason: Why there is no such k.
    """

    tuned: float
    cross_tuned: float
    best: int
    best_by_task: tuple[int, ...]
    best_scores: tuple[float, ...]
    retuned: tuple[float, ...]
    subsets: tuple[tuple[int, ...], ...]
    dimensionality: int | None
    reason: str | None = None

    @property
    def sensitivity(self) -> float:
        """Hyperparameter sensitivity Φ = P − C, 0 or more."""
        return self.tuned - self.cross_tuned


def sensitivity(scores: ArrayLike, levels: ArrayLike, share: float = SHARE) -> Sensitivity:
    """Hyperparameter sensitivity and effective dimensionality of an algorithm.

    Adkins, Bowling and White 2024, "A Method for Evaluating Hyperparameter Sensitivity in
    Reinforcement Learning", §§3-4: Φ = mean_e max_h Γ(e, h) − max_h mean_e Γ(e, h). As in the
    authors' code, P uses every setting that ran on a task, and all other numbers use only settings
    that ran on all tasks. Only the given settings are considered. The maxima are taken over noisy
    scores and reported with the same scores: P and C are biased upwards, P more than C.

    Args:
        scores: Normalised means over seeds, of shape (S, T); NaN where a setting did not run.
        levels: A number for each value of each parameter, of shape (S, p).
        share: Share of P that must be reached, in (0, 1].

    Raises:
        ValueError: There are fewer than two settings or tasks, no setting ran on every task, a
            setting occurs twice, there are too many parameters, or a number is out of range.
    """
    table, grid = check_scores(scores), check_levels(levels)
    _check_together(table, grid, share)
    complete = np.asarray(np.isfinite(table).all(axis=1))
    lead = order_of(grid)
    best = int(_first_largest(np.where(complete, task_mean(table), -np.inf), lead))
    curve = retuned_scores(table, nest_settings(grid, complete, best))
    dimensionality, reason = _dimensionality(curve.scores, share)
    tops = [_first_largest(np.nan_to_num(column, nan=-np.inf), lead) for column in table.T]
    return Sensitivity(
        tuned=float(curve.scores[-1]),
        cross_tuned=float(curve.scores[0]),
        best=best,
        best_by_task=tuple(tops),
        best_scores=tuple(np.nanmax(table, axis=0).tolist()),
        retuned=tuple(curve.scores.tolist()),
        subsets=tuple(_parameters(mask) for mask in curve.masks),
        dimensionality=dimensionality,
        reason=reason,
    )


def percentile_anchors(
    scores: Sequence[ArrayLike], low: float = 5, high: float = 95
) -> tuple[Array, Array]:
    """Normalisation anchors of each task: percentiles over all algorithms and settings.

    Adkins, Bowling and White 2024, equation 1, with linear interpolation.

    Args:
        scores: Means over seeds of each algorithm, of shape (S_a, T); NaN where nothing ran.
        low: Percentile that becomes 0.
        high: Percentile that becomes 1.

    Returns:
        Low and high anchors, both of shape (T,); see `rlexp.stats.task_scores.min_max`.

    Raises:
        ValueError: A task has no score, or its percentiles are equal.
    """
    pooled = np.concatenate([check_scores(table) for table in scores])
    if np.isnan(pooled).all(axis=0).any():
        raise ValueError("a task has no score: leave the task out, or run a setting on it")
    bottom, top = np.nanpercentile(pooled, [low, high], axis=0)
    if not (bottom < top).all():
        raise ValueError(
            f"percentiles {low:g} and {high:g} of a task are equal: its scores cannot be "
            "normalised; leave the task out"
        )
    return bottom, top


def order_of(levels: Levels) -> NDArray[np.intp]:
    """Order of the settings by their levels, from the first parameter on, of shape (S,)."""
    return np.lexsort(levels.T[::-1])


def check_scores(scores: ArrayLike) -> Array:
    """Checked scores of shape (S, T), or (S, T, n) with runs.

    Raises:
        ValueError: The shape is different, or a score is infinite or above 1e150.
    """
    table = np.asarray(scores, dtype=np.float64)
    if table.ndim not in {2, 3}:
        raise ValueError("scores must be settings × tasks, or settings × tasks × runs")
    if (np.abs(table[~np.isnan(table)]) > LARGEST_SCORE).any():
        raise ValueError(
            "a score must be a number up to 1e150, or NaN where a setting did not run"
        )
    return table


def check_levels(levels: ArrayLike) -> Levels:
    """Checked levels of shape (S, p).

    Raises:
        ValueError: The shape is different, a level is not finite, there are too many parameters,
            or two settings are equal.
    """
    grid = np.asarray(levels, dtype=np.float64)
    if grid.ndim != 2 or not 1 <= grid.shape[1] <= MOST_PARAMETERS:
        raise ValueError(
            f"the settings must vary between 1 and {MOST_PARAMETERS} parameters: vary fewer"
        )
    if not np.isfinite(grid).all():
        raise ValueError("a level must be a finite number: give one to each value of a parameter")
    if len(np.unique(grid, axis=0)) < len(grid):
        raise ValueError("two settings have the same values: combine their runs")
    return grid


def _check_together(table: Array, grid: Levels, share: float) -> None:
    if table.ndim != 2 or len(table) != len(grid) or min(table.shape) < 2:
        raise ValueError(
            "at least two settings and two tasks are needed, and levels of each setting"
        )
    if not 0 < share <= 1:
        raise ValueError(f"the share must be above 0 and at most 1, not {share:g}")
    if not np.isfinite(table).all(axis=1).any():
        raise ValueError("no setting has a score on every task: run one setting on all tasks")


def _first_largest(values: Array, order: NDArray[np.intp]) -> int:
    """Index of the largest value; of values equal up to rounding, the first one in the order."""
    top = values.max()
    tied = values[order] >= top - ROUNDING * abs(top)
    return int(order[np.argmax(tied)])


def _dimensionality(curve: Array, share: float) -> tuple[int | None, str | None]:
    if curve[-1] <= 0:
        return None, "the tuned score is not above 0, so a share of it has no meaning"
    return int(np.argmax(reaches_share(curve, share))), None


def _parameters(mask: int) -> tuple[int, ...]:
    return tuple(i for i in range(int(mask).bit_length()) if mask >> i & 1)
