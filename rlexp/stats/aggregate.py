"""Aggregates of scores over runs and tasks, with equal or different numbers of runs per task."""

import math
from dataclasses import dataclass
from functools import lru_cache
from typing import Literal, Protocol

import numpy as np
from numpy.typing import NDArray

from rlexp.stats.task_scores import TaskScores

Centre = Literal["interquartile mean", "interquartile mean of whole runs", "mean", "median"]
Cut = Literal["exact", "rliable"]
"""How an interquartile mean cuts a quarter at each end: exactly, or the whole runs within it."""
Array = NDArray[np.float64]

WEIGHTS_BELOW = 2**52
"""Upper limit of the sum of all integer weights: a float holds integers below 2⁵³ exactly."""


class Statistic(Protocol):
    """A function from scores to a number, or from a batch of scores to an array of numbers.

    A statistic that equals an `Aggregate` can declare it in an attribute `aggregate`. Its
    bootstrap is then much faster, and its interval has Satterthwaite's degrees of freedom.
    """

    def __call__(self, scores: TaskScores, /) -> Array:
        """Return an array of shape (…) for scores of shape (…, N)."""
        ...


@dataclass(frozen=True, slots=True)
class Aggregate:
    """A centre of the scores; with a cap, the cap minus the centre of the capped scores.

    Attributes:
        centre: Interquartile means are taken over the runs of all tasks; `mean` and `median` are
            taken over the task means. The median of a single task is taken over its runs.
        cap: Scores above the cap are replaced by the cap.
    """

    centre: Centre
    cap: float | None = None

    def __call__(self, scores: TaskScores, /) -> Array:
        """Return the aggregate, of shape (…), of scores of shape (…, N)."""
        centre = CENTRES[self.centre](self.capped(scores))
        return centre if self.cap is None else self.cap - centre

    def capped(self, scores: TaskScores) -> TaskScores:
        """The scores, with those above the cap replaced by the cap."""
        return scores if self.cap is None else capped(scores, self.cap)

    @property
    def cut(self) -> Cut | None:
        """The cut of an interquartile mean; None for any other centre."""
        return CUT_BY_CENTRE.get(self.centre)


def capped(scores: TaskScores, cap: float) -> TaskScores:
    """The scores, with those above the cap replaced by the cap."""
    return TaskScores(np.minimum(scores.values, cap), scores.sizes)


@dataclass(frozen=True, slots=True)
class Negative:
    """Minus a statistic, for one of which lower values are better."""

    statistic: Statistic

    def __call__(self, scores: TaskScores, /) -> Array:
        """Return minus the statistic, of shape (…), of scores of shape (…, N)."""
        return -np.asarray(self.statistic(scores))


@dataclass(frozen=True, slots=True)
class Reflected:
    """A statistic of scores with reversed signs, in the direction in which greater is better.

    Mean, median and interquartile mean are their own reflections. Another statistic, such as a
    quantile, is computed on the scores as they are, and its sign is reversed.
    """

    statistic: Statistic

    def __call__(self, scores: TaskScores, /) -> Array:
        """Return the value, of shape (…), of scores with reversed signs, of shape (…, N)."""
        as_they_are = TaskScores(-scores.values, scores.sizes)
        return -np.asarray(self.statistic(as_they_are))


def aggregate_of(statistic: Statistic) -> Aggregate | None:
    """The aggregate that a statistic declares or equals; None for any other statistic."""
    if isinstance(statistic, Aggregate):
        return statistic
    for name, centre in CENTRES.items():
        if statistic is centre:
            return Aggregate(name)
    declared = getattr(statistic, "aggregate", None)
    return declared if isinstance(declared, Aggregate) else None


def without_cap(statistic: Statistic) -> tuple[Statistic, float | None]:
    """A statistic that moves with the scores, and the cap that the scores need for it.

    Of capped scores, differences of the two statistics are equal.
    """
    negative = isinstance(statistic, Negative)
    inner = statistic.statistic if isinstance(statistic, Negative) else statistic
    aggregate = aggregate_of(inner)
    if aggregate is None or aggregate.cap is None:
        return statistic, None
    # A capped aggregate is the cap minus the centre: its negative rises with the centre.
    centre = Aggregate(aggregate.centre)
    return (centre if negative else Negative(centre)), aggregate.cap


def interquartile_mean(scores: TaskScores, /) -> Array:
    """Mean of the middle half of the runs of all tasks; every task has the same weight.

    A run of task j weighs 1/(m n_j). Exactly a quarter of the total weight is cut at each end: a
    run at the cut counts in part. This is the interquartile mean of the distribution that puts
    those weights on the runs, so that its limit for many runs does not depend on the remainder of
    N/4. It is monotone in every score.

    Args:
        scores: Of shape (…, N).

    Returns:
        Of shape (…).
    """
    return _mean_of_middle(scores, "exact")


def interquartile_mean_of_whole_runs(scores: TaskScores, /) -> Array:
    """Mean of the runs that remain after ⌊N/4⌋ whole runs are cut at each end.

    This is the interquartile mean of Agarwal et al. (2021, "Deep Reinforcement Learning at the
    Edge of the Statistical Precipice"), of rliable and of `scipy.stats.trim_mean`: with three runs
    or fewer nothing is cut. They define it for equal numbers of runs only; if the numbers of runs
    differ, it is `interquartile_mean`. Of shape (…) for scores of shape (…, N).
    """
    return _mean_of_middle(scores, "rliable")


def _mean_of_middle(scores: TaskScores, cut: Cut) -> Array:
    if scores.balanced:
        # Equal weights need no order among equal scores, and a plain sort is much faster.
        ordered = np.sort(scores.values, axis=-1)
        kept = _middle_of_equal_weights(scores.sizes, cut)
    else:
        ordered, weights = _ordered(scores, cut)
        kept = np.asarray(middle_half(weights), np.float64)
    return np.asarray((kept * ordered).sum(axis=-1) / kept.sum(axis=-1))


# A comparison of many labels asks for the same weights thousands of times.
@lru_cache(maxsize=64)
def _middle_of_equal_weights(sizes: tuple[int, ...], cut: Cut) -> Array:
    # Their sum is below `WEIGHTS_BELOW`, so that floats hold the weights exactly.
    return np.asarray(middle_half(run_weights(sizes, cut)), np.float64)


def sorted_run_weights(aggregate: Aggregate, n: int) -> Array:
    """The weight of each of n sorted runs of one task in an aggregate without a cap, of shape (n,)."""
    if aggregate.cut is not None:
        kept = _middle_of_equal_weights((n,), aggregate.cut)
        return np.asarray(kept / kept.sum())
    if aggregate.centre == "mean":
        return np.full(n, 1 / n)
    weights = np.zeros(n)
    weights[(n - 1) // 2] += 0.5
    weights[n // 2] += 0.5
    return weights


def mean(scores: TaskScores, /) -> Array:
    """Mean over tasks of the means over runs: of shape (…) for scores of shape (…, N)."""
    return np.asarray(task_means(scores).mean(axis=-1))


def median(scores: TaskScores, /) -> Array:
    """Median of task means, or of the runs of a single task: (…) for scores of shape (…, N).

    Over several tasks this is the median of Agarwal et al. (2021), which is not a median over runs.
    Of a single task, that median would be the mean of the runs; the median of the runs is taken.
    """
    if len(scores.sizes) == 1:
        return np.asarray(np.median(scores.values, axis=-1))
    return np.asarray(np.median(task_means(scores), axis=-1))


def optimality_gap(scores: TaskScores, gamma: float = 1.0) -> Array:
    """`gamma` minus the mean of the scores, each capped at `gamma` (Agarwal et al. 2021).

    Lower is better. Of shape (…) for scores of shape (…, N).
    """
    return Aggregate("mean", cap=gamma)(scores)


CENTRES: dict[Centre, Statistic] = {
    "interquartile mean": interquartile_mean,
    "interquartile mean of whole runs": interquartile_mean_of_whole_runs,
    "mean": mean,
    "median": median,
}

CUT_BY_CENTRE: dict[Centre, Cut] = {
    "interquartile mean": "exact",
    "interquartile mean of whole runs": "rliable",
}

CENTRE_BY_CUT: dict[Cut, Centre] = {cut: centre for centre, cut in CUT_BY_CENTRE.items()}


def task_means(scores: TaskScores) -> Array:
    """Mean of each task's runs, of shape (…, m)."""
    return np.stack([task.mean(axis=-1) for task in scores.by_task()], axis=-1)


def run_weights(sizes: tuple[int, ...], cut: Cut = "exact") -> NDArray[np.int64]:
    """Integer weight of each run, inversely proportional to the number of runs of its task.

    Args:
        sizes: Runs of each task.
        cut: With `rliable` all weights are 1 if all sizes are equal, so that the integer part
            of a quarter of their sum is a number of runs.

    Returns:
        Of shape (N,), task by task, as small as possible. A quarter of their sum is an integer,
        except where whole runs are cut. The weights are exact if four times the least common
        multiple of the sizes is below `WEIGHTS_BELOW` / m, and are rounded to about 52 bits
        otherwise.
    """
    # Integer weights make every cumulative weight exact, so that the quarter to be cut does not
    # depend on the order of summation. The factor makes the quarter itself an integer.
    multiple = math.lcm(*sizes)
    parts = 4 // math.gcd(4, len(sizes) * multiple)
    if cut == "rliable" and len(set(sizes)) == 1:
        parts = 1
    whole = min(parts * multiple, WEIGHTS_BELOW // len(sizes))
    return np.repeat([max(1, round(whole / size)) for size in sizes], sizes).astype(np.int64)


def middle_bounds(scores: TaskScores, cut: Cut = "exact") -> tuple[float, float]:
    """Lowest and highest score that the interquartile mean keeps at least in part; scores (N,)."""
    ordered, weights = _ordered(scores, cut)
    kept = ordered[middle_half(weights) > 0]
    return float(kept[0]), float(kept[-1])


def pooled_order(values: Array, weights: NDArray[np.int64]) -> NDArray[np.intp]:
    """Order of the runs of all tasks along the last axis: by score, then by weight.

    Equal scores of different tasks are ordered by weight: the result is then independent of the
    order of the tasks.
    """
    return np.lexsort((np.broadcast_to(weights, values.shape), values), axis=-1)


def _ordered(scores: TaskScores, cut: Cut) -> tuple[Array, NDArray[np.int64]]:
    weights = run_weights(scores.sizes, cut)
    order = pooled_order(scores.values, weights)
    return np.take_along_axis(scores.values, order, axis=-1), weights[order]


def middle_half(weights: NDArray[np.int64]) -> NDArray[np.int64]:
    """The part of each weight that the interquartile mean keeps; weights (…, N) sorted by score."""
    total = weights.sum(axis=-1, keepdims=True)
    quarter = total // 4
    # Each run covers an interval of cumulative weight; the part inside the middle half is kept.
    reached = np.cumsum(weights, axis=-1)
    within = np.minimum(reached, total - quarter) - np.maximum(reached - weights, quarter)
    return np.asarray(np.maximum(within, 0))
