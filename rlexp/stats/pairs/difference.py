"""The difference of two labels: mean over tasks of the difference of their task means."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from itertools import chain
from math import sqrt

import numpy as np
from numpy.typing import NDArray

from rlexp.stats.aggregate import Aggregate, Statistic, aggregate_of
from rlexp.stats.interval import Interval
from rlexp.stats.pairs.permutation import difference_of, squared_error
from rlexp.stats.replicates import replicates
from rlexp.stats.resampling import Resampling
from rlexp.stats.standard_error import unbiased
from rlexp.stats.task_scores import TaskScores, variance

Pair = tuple[NDArray[np.float64], NDArray[np.float64]]
"""Sorted scores of both labels on one task, of shapes (n,) and (k,)."""

LARGEST_SCORE = 1e100
"""Squares of larger scores could overflow."""

TOO_LITTLE_SPREAD = "the scores vary too little for a variance to be computed"
"""Reason where the squares of the deviations underflow to 0."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Difference:
    """The first label minus the second, with its standard error.

    Attributes:
        value: Mean over tasks of the difference of the task means, in units of the scores.
        standard_error: Standard error of `value`; None if it cannot be estimated.
        degrees_of_freedom: Of the standard error, by Welch and Satterthwaite.
        reason: Why there is no standard error.
    """

    value: float
    standard_error: float | None = None
    degrees_of_freedom: float | None = None
    reason: str | None = None


@dataclass(frozen=True, slots=True)
class Spread:
    """The variance of scores within tasks, as it enters the variance of a difference.

    Attributes:
        variance: n times the squared standard error of the difference, if each label has n seeds
            on each task.
        groups: Effective number of samples of equal variance: with n seeds per label and task,
            the standard error has `groups * (n - 1)` degrees of freedom.
        degrees_of_freedom: Degrees of freedom with which `variance` itself was estimated.
    """

    variance: float
    groups: float
    degrees_of_freedom: float


def tasks_of_both(x: TaskScores, y: TaskScores) -> list[Pair]:
    """The scores of both labels task by task, sorted so that the order of the runs is irrelevant.

    Raises:
        ValueError: The labels have different numbers of tasks, are batches, or have a score that
            is not finite or larger than 1e100.
    """
    if len(x.sizes) != len(y.sizes):
        raise ValueError(
            f"{len(x.sizes)} tasks cannot be compared with {len(y.sizes)}: "
            "compare on the tasks that both labels have"
        )
    if x.values.ndim != 1 or y.values.ndim != 1:
        raise ValueError(
            "a comparison needs two labels, not batches of labels: pass values of shape (N,)"
        )
    # Written in this way the test refuses NaN too: each comparison with NaN is False.
    if not (x.largest <= LARGEST_SCORE and y.largest <= LARGEST_SCORE):
        raise ValueError("a score must be a finite number up to 1e100: leave out failed runs")
    return list(zip(x.sorted_tasks, y.sorted_tasks, strict=True))


def difference_of_means(pair: Pair) -> float:
    """Mean of the first minus mean of the second; exactly 0 if all scores are equal."""
    a, b = pair
    # A common origin near the scores keeps digits that a large offset would cost.
    origin = min(a[0], b[0])
    return float((a - origin).mean() - (b - origin).mean())


def mean_difference(pairs: list[Pair]) -> float:
    """Mean over tasks of the difference of the task means."""
    return float(np.mean([difference_of_means(pair) for pair in pairs]))


def no_spread(samples: list[NDArray[np.float64]]) -> str | None:
    """The reason why these samples have no variance; None if the variance can be estimated."""
    if any(len(sample) < 2 for sample in samples):
        return "one run alone shows no spread: every task needs two runs or more"
    if all(sample[0] == sample[-1] for sample in samples):
        return "within each task all runs are equal: scores without spread have no standard error"
    return None


def satterthwaite(
    variances: NDArray[np.float64], degrees_of_freedom: NDArray[np.float64]
) -> float:
    """Degrees of freedom of a sum of independent variances (Satterthwaite 1946).

    Args:
        variances: Variances of the means that are summed, of shape (tasks, sides), not all 0.
        degrees_of_freedom: Degrees of freedom of each variance, of the same shape.
    """
    # Shares of the total cannot overflow when they are squared, unlike the variances.
    shares = variances / _total(variances)
    return 1 / _total(shares**2 / degrees_of_freedom)


def _total(values: NDArray[np.float64]) -> float:
    # Sum the two sides of each task first: swapping the labels then changes no bit.
    return float(values.sum(axis=1).sum())


def estimate_difference(x: TaskScores, y: TaskScores) -> Difference:
    """The mean over tasks of the difference of the task means, with its standard error.

    For one task this is Welch's standard error (1947, "The generalization of 'Student's'
    problem"). For several tasks the variances add up, and the degrees of freedom are
    Satterthwaite's of the sum.

    Raises:
        ValueError: The labels cannot be compared (`tasks_of_both`).
    """
    pairs = tasks_of_both(x, y)
    value = mean_difference(pairs)
    if reason := no_spread([*chain.from_iterable(pairs)]):
        return Difference(value=value, reason=reason)
    squares = np.array([x.variances, y.variances]).T / np.array([x.sizes, y.sizes]).T
    if not _total(squares) > 0:
        return Difference(value=value, reason=TOO_LITTLE_SPREAD)
    return Difference(
        value=value,
        standard_error=sqrt(_total(squares)) / len(pairs),
        degrees_of_freedom=satterthwaite(squares, _freedom(pairs)),
    )


BOOTSTRAPS = 2_000
"""Resamples of a standard error: more would change it by less than 2 %."""


def estimate_metric_difference(
    x: TaskScores, y: TaskScores, statistic: Statistic, resampling: Resampling
) -> Difference:
    """The metric of x minus that of y, with the bootstrap standard error of both.

    For the mean this is `estimate_difference`, whose standard error needs no bootstrap. The
    degrees of freedom are Welch's and Satterthwaite's for the mean.

    Raises:
        ValueError: The labels cannot be compared (`tasks_of_both`).
    """
    # Resamples of equal runs in another order must give the same bits.
    x, y = (TaskScores.from_tasks(label.by_task()) for label in (x, y))
    means = estimate_difference(x, y)
    value = difference_of(x, y, statistic)
    if aggregate_of(statistic) == Aggregate("mean") or means.standard_error is None:
        return replace(means, value=value)
    squares = [_bootstrap_variance(label, statistic, resampling) for label in (x, y)]
    if not sum(squares) > 0:
        return Difference(value=value, reason=TOO_LITTLE_SPREAD)
    return replace(means, value=value, standard_error=sqrt(sum(squares)))


SPREAD_RATIO = 2.0
"""Ratio of standard deviations from which on the spreads of two labels count as different.

Of two labels with equal spreads, 5 % have such a ratio with ten runs each, and 20 % with five. Of two
with spreads of 3 to 1, 88 % and 78 % have it.
"""


FEWEST_FOR_GUARD = 7
"""Runs of a label from which on a permutation test of the IQM errs more often than one of the mean."""


def spreads_differ(x: TaskScores, y: TaskScores, statistic: Statistic) -> bool:
    """Whether a permutation test of this metric needs Welch's test for the spreads of the labels.

    The mean needs none if the numbers of runs are equal: the relabelled difference of means then has
    the right variance (Romano 1990, "On the behavior of randomization tests without a group
    invariance assumption").
    """
    if aggregate_of(statistic) == Aggregate("mean"):
        return False
    if min(x.n, y.n) < FEWEST_FOR_GUARD:
        return False
    low, high = sorted((float(squared_error(x)), float(squared_error(y))))
    return high > 0 and high >= SPREAD_RATIO**2 * low


def _bootstrap_variance(scores: TaskScores, statistic: Statistic, resampling: Resampling) -> float:
    # A resample of n runs has (n − 1)/n of the variance of a sample: the scores are widened.
    widened = unbiased(scores)
    fewer = replace(resampling, repetitions=BOOTSTRAPS)
    return variance(replicates(widened, {"": statistic}, fewer, threads=1)[""])


def _freedom(tasks: Sequence[tuple[NDArray[np.float64], ...]]) -> NDArray[np.float64]:
    return np.array([[len(side) - 1.0 for side in task] for task in tasks])


def spread(*labels: TaskScores) -> Spread | str:
    """The variance of scores within tasks, or the reason why it cannot be estimated.

    Args:
        labels: Both labels, or one: the other is then assumed to have the same variance.

    Raises:
        ValueError: The labels cannot be compared (`tasks_of_both`).
    """
    tasks = [pair[: len(labels)] for pair in tasks_of_both(labels[0], labels[-1])]
    if reason := no_spread([*chain.from_iterable(tasks)]):
        return reason
    variances = np.array([label.variances for label in labels]).T
    if not _total(variances) > 0:
        return TOO_LITTLE_SPREAD
    # One label stands for both sides: its variance counts twice.
    copies = 2 / len(labels)
    return Spread(
        copies * _total(variances) / len(tasks) ** 2,
        copies * satterthwaite(variances, np.ones_like(variances)),
        satterthwaite(variances, _freedom(tasks)),
    )


def difference_interval(x: TaskScores, y: TaskScores, *, level: float = 0.95) -> Interval:
    """The t interval of the difference: Welch's for one task, stratified for several.

    Args:
        x: Scores of the first label.
        y: Of the second, on the same tasks in the same order.
        level: Nominal coverage.

    Raises:
        ValueError: The labels cannot be compared (`tasks_of_both`).
    """
    return t_interval(estimate_difference(x, y), x, y, level)


def t_interval(difference: Difference, x: TaskScores, y: TaskScores, level: float) -> Interval:
    """The t interval of a difference of the means of two labels."""
    from scipy.special import stdtrit

    error, half = difference.standard_error, None
    if error is not None:
        half = error * float(stdtrit(difference.degrees_of_freedom, (1 + level) / 2))
    return Interval(
        estimate=difference.value,
        low=None if half is None else difference.value - half,
        high=None if half is None else difference.value + half,
        level=level,
        method="Welch t" if len(x.sizes) == 1 else "stratified Welch t",
        repetitions=0,
        n=x.n + y.n,
        tasks=len(x.sizes),
        reason=difference.reason,
    )
