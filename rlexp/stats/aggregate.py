"""Aggregates of scores over runs and tasks, balanced or not."""

import math
from dataclasses import dataclass
from typing import Literal, Protocol

import numpy as np
from numpy.typing import NDArray

from rlexp.stats.task_scores import TaskScores

Centre = Literal["interquartile mean", "mean", "median"]
Array = NDArray[np.float64]

WEIGHTS_BELOW = 2**52
"""What the whole-number weights of all runs sum to at most, so that floats hold them exactly."""


class Statistic(Protocol):
    """A number made of scores, or one for each of a batch of them.

    One that is an `Aggregate` may say so in an attribute `aggregate`: its bootstrap is then much
    faster, and its interval knows its degrees of freedom.
    """

    def __call__(self, scores: TaskScores, /) -> Array:
        """Return an array of shape (…) for scores of shape (…, N)."""
        ...


@dataclass(frozen=True, slots=True)
class Aggregate:
    """A centre of scores; with a cap, how far the centre of the capped scores lies below it.

    Attributes:
        centre: Interquartile mean over the runs of all tasks; mean, or median, over the means of
            the tasks.
        cap: Scores above count as this.
    """

    centre: Centre
    cap: float | None = None

    def __call__(self, scores: TaskScores, /) -> Array:
        """Return the aggregate, of shape (…), of scores of shape (…, N)."""
        centre = CENTRES[self.centre](self.capped(scores))
        return centre if self.cap is None else self.cap - centre

    def capped(self, scores: TaskScores) -> TaskScores:
        """The scores, none above the cap."""
        if self.cap is None:
            return scores
        return TaskScores(np.minimum(scores.values, self.cap), scores.sizes)


def aggregate_of(statistic: Statistic) -> Aggregate | None:
    """The aggregate that a statistic is, where it says so."""
    if isinstance(statistic, Aggregate):
        return statistic
    for name, centre in CENTRES.items():
        if statistic is centre:
            return Aggregate(name)
    found = getattr(statistic, "aggregate", None)
    return found if isinstance(found, Aggregate) else None


def interquartile_mean(scores: TaskScores, /) -> Array:
    """Mean of the middle half of the runs of all tasks, every task weighing the same.

    With as many runs in every task ⌊N/4⌋ of them are cut at each end, so that three or fewer are
    averaged whole, as by Agarwal et al. (2021, "Deep Reinforcement Learning at the Edge of the
    Statistical Precipice") and by `scipy.stats.trim_mean`. With different numbers of runs, of
    which one of task j weighs 1/(m n_j), a quarter of the weight is cut at each end: a run at the
    cut counts in part. Either way no score that rises lets the mean fall.

    Args:
        scores: Of shape (…, N).

    Returns:
        Of shape (…).
    """
    if scores.balanced:
        cut = scores.n // 4
        ordered = np.sort(scores.values, axis=-1)
        return np.asarray(ordered[..., cut : scores.n - cut].mean(axis=-1))
    ordered, weights = _ordered(scores)
    kept = middle_half(weights)
    return np.asarray((kept * ordered).sum(axis=-1) / kept.sum(axis=-1))


def mean(scores: TaskScores, /) -> Array:
    """Mean over tasks of the means over runs: of shape (…) for scores of shape (…, N)."""
    return np.asarray(task_means(scores).mean(axis=-1))


def median(scores: TaskScores, /) -> Array:
    """Median over tasks of the means over runs: of shape (…) for scores of shape (…, N).

    So do Agarwal et al. (2021): it is no median over runs.
    """
    return np.asarray(np.median(task_means(scores), axis=-1))


def optimality_gap(scores: TaskScores, gamma: float = 1.0) -> Array:
    """How far scores fall short of `gamma` in the mean; what lies above counts as `gamma`.

    Lower is better (Agarwal et al. 2021). Of shape (…) for scores of shape (…, N).
    """
    return Aggregate("mean", cap=gamma)(scores)


CENTRES: dict[Centre, Statistic] = {
    "interquartile mean": interquartile_mean,
    "mean": mean,
    "median": median,
}


def task_means(scores: TaskScores) -> Array:
    """Mean of each task's runs, of shape (…, m)."""
    return np.stack([task.mean(axis=-1) for task in scores.by_task()], axis=-1)


def run_weights(sizes: tuple[int, ...]) -> NDArray[np.int64]:
    """What each run weighs, in whole numbers: inversely to the runs of its task.

    Args:
        sizes: Runs of each task.

    Returns:
        Of shape (N,), task by task: 1 where all sizes are equal, and where they are not, such that
        a quarter of the sum is whole. Exact where four times the least common multiple of the sizes
        is below `WEIGHTS_BELOW` / m, and rounded to about as many digits where it is not.
    """
    parts = 1 if len(set(sizes)) == 1 else 4
    whole = min(parts * math.lcm(*sizes), WEIGHTS_BELOW // len(sizes))
    return np.repeat([max(1, round(whole / size)) for size in sizes], sizes).astype(np.int64)


def middle_bounds(scores: TaskScores) -> tuple[float, float]:
    """Lowest and highest of scores (N,) that the interquartile mean keeps, be it in part."""
    ordered, weights = _ordered(scores)
    kept = ordered[middle_half(weights) > 0]
    return float(kept[0]), float(kept[-1])


def pooled_order(values: Array, weights: NDArray[np.int64]) -> NDArray[np.intp]:
    """Order of the runs of all tasks along the last axis: by score, then by weight.

    The weight orders equal scores of different tasks, so that the tasks' order does not matter.
    """
    return np.lexsort((np.broadcast_to(weights, values.shape), values), axis=-1)


def _ordered(scores: TaskScores) -> tuple[Array, NDArray[np.int64]]:
    weights = run_weights(scores.sizes)
    order = pooled_order(scores.values, weights)
    return np.take_along_axis(scores.values, order, axis=-1), weights[order]


def middle_half(weights: NDArray[np.int64]) -> NDArray[np.int64]:
    """What the interquartile mean keeps of weights (…, N), which are in the order of the scores."""
    total = weights.sum(axis=-1, keepdims=True)
    quarter = total // 4
    reached = np.cumsum(weights, axis=-1)
    within = np.minimum(reached, total - quarter) - np.maximum(reached - weights, quarter)
    return np.asarray(np.maximum(within, 0))
