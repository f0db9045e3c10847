"""Standard error of a statistic: its degrees of freedom, bias correction and acceleration."""

import numpy as np
from numpy.typing import NDArray

from rlexp.stats.aggregate import Aggregate, Statistic, middle_bounds
from rlexp.stats.task_scores import TaskScores

Array = NDArray[np.float64]


def no_spread(scores: TaskScores) -> str | None:
    """The reason why scores of shape (N,) show no spread; None if their spread can be estimated."""
    alone = scores.sizes.count(1)
    if alone == len(scores.sizes):
        return f"one run {'of each task' if alone > 1 else 'alone'} shows no spread"
    if alone:
        return (
            f"{alone} of {len(scores.sizes)} tasks {'has' if alone == 1 else 'have'} one run, "
            "which shows no spread: add seeds there, or leave those tasks out of the aggregate"
        )
    if all(np.ptp(task) == 0 for task in scores.by_task()):
        return f"all runs{' of each task' if len(scores.sizes) > 1 else ''} are equal"
    return None


def degrees_of_freedom(scores: TaskScores, aggregate: Aggregate | None) -> float:
    """Degrees of freedom of the standard error of an aggregate (Satterthwaite 1946).

    ν = (Σ v_j)² / Σ v_j²/(n_j − 1), where v_j is the variance of the mean of task j. The scores
    are winsorised at the pooled cut for an interquartile mean (Tukey and McLaughlin 1963), capped
    for an optimality gap, and unchanged for a mean. ν is never below n_j − 1 of the task with
    fewest runs. It equals this minimum for an unknown statistic, and for a median, whose error comes
    from the one or two tasks (or runs) in the middle. The median of two tasks is their mean.

    Args:
        scores: Of shape (N,), n_j ≥ 2.
        aggregate: The aggregate that the statistic computes, if known.
    """
    fewest = min(scores.sizes) - 1
    if aggregate is None or (aggregate.centre == "median" and len(scores.sizes) != 2):
        return fewest
    used = aggregate.capped(scores)
    if aggregate.cut is not None:
        bounds = middle_bounds(used, aggregate.cut)
        used = TaskScores(np.clip(used.values, *bounds), used.sizes)
    width = float(np.ptp(used.values))
    if width == 0:
        return fewest
    sizes = np.asarray(used.sizes)
    # Division by the range keeps fourth powers of the scores from overflow and underflow.
    variances = np.asarray([(task / width).var(ddof=1) for task in used.by_task()]) / sizes
    if not variances.any():
        return fewest
    return float(variances.sum() ** 2 / (variances**2 / (sizes - 1)).sum())


def unbiased(scores: TaskScores) -> TaskScores:
    """Scores spread by √(n_j/(n_j−1)) about the mean of their task, of shape (N,), n_j ≥ 2.

    A resample of n runs has (n−1)/n of the variance of a sample; resamples of the widened scores
    have the full variance.
    """
    tasks = [
        task.mean() + np.sqrt(len(task) / (len(task) - 1)) * (task - task.mean())
        for task in scores.by_task()
    ]
    return TaskScores(np.concatenate(tasks), scores.sizes)


def acceleration(scores: TaskScores, statistic: Statistic) -> float:
    """The acceleration of the BCa interval, by the jackknife.

    a = Σ_j Σ_i u_ij³/n_j³ / (6 (Σ_j Σ_i u_ij²/n_j²)^{3/2}). u_ij is n_j − 1 times the mean over i
    of the statistic without run i of task j, less the statistic without run i (several samples:
    Davison and Hinkley 1997, "Bootstrap Methods and Their Application", ch. 5).

    Args:
        scores: Of shape (N,), n_j ≥ 2.
        statistic: Of scores of shape (…, N).
    """
    influences = [
        (size - 1) * (left.mean() - left) / size
        for size, left in zip(scores.sizes, _without_one_run(scores, statistic), strict=True)
    ]
    pooled = np.concatenate(influences)
    largest = np.abs(pooled).max()
    if largest == 0:
        return 0.0
    # The ratio is scale-free: division by the largest keeps cubes from overflow and underflow.
    pooled /= largest
    return float((pooled**3).sum() / (6 * (pooled**2).sum() ** 1.5))


def _without_one_run(scores: TaskScores, statistic: Statistic) -> list[Array]:
    """For each task, the statistic without each of its runs, of shape (n_j,)."""
    jackknife: list[Array] = []
    start = 0
    for number, size in enumerate(scores.sizes):
        sizes = (*scores.sizes[:number], size - 1, *scores.sizes[number + 1 :])
        left = np.stack([np.delete(scores.values, start + run, axis=-1) for run in range(size)])
        jackknife.append(statistic(TaskScores(left, sizes)))
        start += size
    return jackknife
