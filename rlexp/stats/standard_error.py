"""What the spread of runs within each task says of a statistic's uncertainty."""

import numpy as np
from numpy.typing import NDArray

from rlexp.stats.aggregate import Aggregate, Statistic, middle_bounds
from rlexp.stats.task_scores import TaskScores

Array = NDArray[np.float64]


def no_spread(scores: TaskScores) -> str | None:
    """Why scores, of shape (N,), show no spread; nothing where every task does or may."""
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

    ν = (Σ v_j)² / Σ v_j²/(n_j − 1), where v_j is the variance of the mean of task j: of its scores
    winsorised at the pooled cut for an interquartile mean (Tukey and McLaughlin 1963), capped for
    an optimality gap, as they are for a mean. Never below n_j − 1 of the task with fewest runs;
    just that for a median over more than two tasks, whose error is that of the one or two in the
    middle, and for a statistic of which nothing is known.

    Args:
        scores: Of shape (N,), n_j ≥ 2.
        aggregate: What the statistic is, where that is known.
    """
    fewest = min(scores.sizes) - 1
    if aggregate is None or (aggregate.centre == "median" and len(scores.sizes) > 2):
        return fewest
    seen = aggregate.capped(scores)
    if aggregate.centre == "interquartile mean":
        seen = TaskScores(np.clip(seen.values, *middle_bounds(seen)), seen.sizes)
    width = float(np.ptp(seen.values))
    if width == 0:
        return fewest
    sizes = np.asarray(seen.sizes)
    variances = np.asarray([(task / width).var(ddof=1) for task in seen.by_task()]) / sizes
    if not variances.any():
        return fewest
    return float(variances.sum() ** 2 / (variances**2 / (sizes - 1)).sum())


def unbiased(scores: TaskScores) -> TaskScores:
    """Scores spread by √(n_j/(n_j−1)) about the mean of their task, of shape (N,), n_j ≥ 2.

    Resamples of n runs vary by a share of 1/n less than samples do; of these they vary as much.
    """
    tasks = [
        task.mean() + np.sqrt(len(task) / (len(task) - 1)) * (task - task.mean())
        for task in scores.by_task()
    ]
    return TaskScores(np.concatenate(tasks), scores.sizes)


def acceleration(scores: TaskScores, statistic: Statistic) -> float:
    """How fast the standard error changes with the statistic, by the jackknife.

    a = Σ_j Σ_i u_ij³/n_j³ / (6 (Σ_j Σ_i u_ij²/n_j²)^{3/2}), where u_ij is (n_j − 1) times how far
    the statistic without run i of task j lies below the mean of those without one run of the task
    (several samples: Davison and Hinkley 1997, "Bootstrap Methods and Their Application", ch. 5).

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
    pooled /= largest
    return float((pooled**3).sum() / (6 * (pooled**2).sum() ** 1.5))


def _without_one_run(scores: TaskScores, statistic: Statistic) -> list[Array]:
    """For each task, the statistic without each of its runs, of shape (n_j,)."""
    found, start = [], 0
    for number, size in enumerate(scores.sizes):
        sizes = (*scores.sizes[:number], size - 1, *scores.sizes[number + 1 :])
        left = np.stack([np.delete(scores.values, start + run, axis=-1) for run in range(size)])
        found.append(statistic(TaskScores(left, sizes)))
        start += size
    return found
