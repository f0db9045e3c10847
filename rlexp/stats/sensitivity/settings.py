"""Hyperparameter sensitivity and effective dimensionality, of the settings of an algorithm."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike, NDArray

from rlexp.stats.sensitivity.partial_retuning import ROUNDING, nested, reached, retuned, task_mean
from rlexp.stats.task_scores import LARGEST_SCORE

Array = NDArray[np.float64]
Levels = NDArray[np.float64]

SHARE = 0.95
"""Share of the tuned score that the effective dimensionality asks for, as in the paper."""
MOST_PARAMETERS = 12
"""Parameters whose subsets are all tried, at most: 4,096 of them."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Sensitivity:
    """What the settings of an algorithm say of it (Adkins, Bowling and White 2024).

    Attributes:
        tuned: Per-task tuned score P: the best setting of each task, as a mean over tasks.
        cross_tuned: Cross-task tuned score C: the best mean over tasks of any one setting that
            ran on every task.
        best: The setting that has it; of equal ones that with the lowest levels, from the first
            parameter on.
        best_by_task: The best setting of each task, chosen likewise.
        best_scores: Its score there.
        retuned: Of shape (p + 1,): the tuned score where k parameters, those that gain the most,
            are re-tuned on each task, and the others stay as in `best`.
        subsets: Which parameters these are, for each k.
        dimensionality: Effective dimensionality d: the least k whose score reaches the share of P.
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
    """How much an algorithm gains by tuning per task, and how many parameters that takes.

    Adkins, Bowling and White 2024, "A Method for Evaluating Hyperparameter Sensitivity in
    Reinforcement Learning", §§3-4: Φ = mean_e max_h Γ(e, h) − max_h mean_e Γ(e, h). As in the
    authors' code, P takes every setting that ran on a task, and everything else only settings
    that ran on all of them. Only settings of the grid are looked at. The maxima are over the same
    noisy scores that they tell, so P and C overstate, P more.

    Args:
        scores: Of shape (S, T): normalised, a mean over seeds; NaN where a setting did not run.
        levels: Of shape (S, p): a number for each value of each parameter.
        share: Of P that is to be reached, in (0, 1].

    Raises:
        ValueError: There are fewer than two settings or tasks, no setting ran on every task, a
            setting stands there twice, there are too many parameters, or a number is none.
    """
    table, grid = check_scores(scores), check_levels(levels)
    _check_together(table, grid, share)
    complete = np.asarray(np.isfinite(table).all(axis=1))
    lead = order_of(grid)
    best = int(_first_largest(np.where(complete, task_mean(table), -np.inf), lead))
    curve = retuned(table, nested(grid, complete, best))
    known, reason = _dimensionality(curve.scores, share)
    tops = [_first_largest(np.nan_to_num(column, nan=-np.inf), lead) for column in table.T]
    return Sensitivity(
        tuned=float(curve.scores[-1]),
        cross_tuned=float(curve.scores[0]),
        best=best,
        best_by_task=tuple(tops),
        best_scores=tuple(np.nanmax(table, axis=0).tolist()),
        retuned=tuple(curve.scores.tolist()),
        subsets=tuple(_parameters(mask) for mask in curve.masks),
        dimensionality=known,
        reason=reason,
    )


def percentile_anchors(
    scores: Sequence[ArrayLike], low: float = 5, high: float = 95
) -> tuple[Array, Array]:
    """What counts as 0 and as 1 on each task: percentiles over all algorithms and settings.

    Adkins, Bowling and White 2024, equation 1, with linear interpolation.

    Args:
        scores: Of each algorithm, of shape (S_a, T), means over seeds; NaN where nothing ran.
        low: The percentile that is 0.
        high: The percentile that is 1.

    Returns:
        Both of shape (T,); see `rlexp.stats.task_scores.min_max`.

    Raises:
        ValueError: A task has no score, or its percentiles are equal.
    """
    pooled = np.concatenate([check_scores(one) for one in scores])
    if np.isnan(pooled).all(axis=0).any():
        raise ValueError("a task has no score: leave it out, or run something on it")
    bottom, top = np.nanpercentile(pooled, [low, high], axis=0)
    if not (bottom < top).all():
        raise ValueError(
            f"percentiles {low:g} and {high:g} of a task are equal: hardly any setting differs there, "
            "so there is no scale"
        )
    return bottom, top


def order_of(levels: Levels) -> NDArray[np.intp]:
    """Settings by their levels, from the first parameter on; of shape (S,)."""
    return np.lexsort(levels.T[::-1])


def check_scores(scores: ArrayLike) -> Array:
    """Scores of shape (S, T), or (S, T, n) of runs.

    Raises:
        ValueError: They are of another shape, or one is infinite or immense.
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
    """Levels of shape (S, p).

    Raises:
        ValueError: They are of another shape, no numbers, too many, or two settings are the same.
    """
    grid = np.asarray(levels, dtype=np.float64)
    if grid.ndim != 2 or not 1 <= grid.shape[1] <= MOST_PARAMETERS:
        raise ValueError(
            f"settings must have between 1 and {MOST_PARAMETERS} parameters that vary: vary fewer"
        )
    if not np.isfinite(grid).all():
        raise ValueError("a level must be a number: give each value of a parameter one")
    if len(np.unique(grid, axis=0)) < len(grid):
        raise ValueError("two settings have the same values: put their runs together")
    return grid


def _check_together(table: Array, grid: Levels, share: float) -> None:
    if table.ndim != 2 or len(table) != len(grid) or min(table.shape) < 2:
        raise ValueError(
            "two settings and two tasks or more are needed, and levels of each setting"
        )
    if not 0 < share <= 1:
        raise ValueError(f"a share of {share:g} cannot be asked for: give one above 0, up to 1")
    if not np.isfinite(table).all(axis=1).any():
        raise ValueError("no setting has a score on every task: run one on all of them")


def _first_largest(values: Array, order: NDArray[np.intp]) -> int:
    """Of the largest values, up to rounding, the one that comes first in the order."""
    top = values.max()
    tied = values[order] >= top - ROUNDING * abs(top)
    return int(order[np.argmax(tied)])


def _dimensionality(curve: Array, share: float) -> tuple[int | None, str | None]:
    if curve[-1] <= 0:
        return None, "the tuned score is not above 0, and a share of that says nothing"
    return int(np.argmax(reached(curve, share))), None


def _parameters(mask: int) -> tuple[int, ...]:
    return tuple(i for i in range(int(mask).bit_length()) if mask >> i & 1)
