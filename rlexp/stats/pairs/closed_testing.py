"""Closed testing of all pairs of several labels, with strong control of the family-wise error.

Marcus, Peritz and Gabriel 1976, "On closed testing procedures with special reference to ordered
analysis of variance": a pair is different only if every hypothesis under which the pair is equal
is rejected. Such a hypothesis is a partition of the labels into groups of equal labels. It is
tested at the full level by the largest studentised difference within a group. The groups have
different runs, so that their relabellings are independent and one p-value covers all of them. If
the labels of each group have the same distribution of scores, the probability of any false
difference is at most alpha, for every partition.

The number of partitions grows too fast for many labels. For more than `MOST_LABELS`, only
stretches of labels that are neighbours by their metric are tested, at the levels of Ryan, Einot,
Gabriel and Welsch (Einot and Gabriel 1975, "A Study of the Powers of Several Methods of Multiple
Comparisons"), against the distribution of normal scores. That is an approximation.
"""

from collections.abc import Iterator, Mapping, Sequence
from functools import lru_cache
from itertools import combinations
from math import prod

import numpy as np
from numpy.typing import NDArray

from rlexp.stats.aggregate import Statistic
from rlexp.stats.pairs.permutation import (
    PermutationDistribution,
    permutation_distribution,
    random_relabellings,
    squared_error,
)
from rlexp.stats.pairs.reach import MOST_LABELS, regw
from rlexp.stats.resampling import Resampling
from rlexp.stats.task_scores import TaskScores

Group = tuple[int, ...]
"""Numbers of the labels of a group, ascending."""
Pair = tuple[int, int]
Array = NDArray[np.float64]


def groups_of(count: int) -> list[Group]:
    """All groups of two labels or more."""
    return [group for size in range(2, count + 1) for group in combinations(range(count), size)]


def group_distributions(
    labels: Sequence[TaskScores], statistic: Statistic, resampling: Resampling
) -> tuple[dict[Group, PermutationDistribution], int]:
    """The permutation distribution of every group of labels, at most `MOST_LABELS` in all.

    Returns:
        The distributions, and the number of random relabellings where not all were enumerated.
    """
    groups = groups_of(len(labels))
    runs = sum(labels[i].n for group in groups for i in group)
    repetitions = random_relabellings(runs, resampling)
    distributions = {
        group: permutation_distribution(
            [labels[i] for i in group], statistic, resampling, repetitions
        )
        for group in groups
    }
    return distributions, repetitions


def closed_p_values(
    distributions: Mapping[Group, PermutationDistribution], pair_p: Mapping[Pair, float]
) -> dict[Pair, float]:
    """Adjusted p-values of all pairs.

    Args:
        distributions: The distribution of every group of two labels or more.
        pair_p: The p-value of each pair alone; it may be that of a stricter test.

    Returns:
        For each pair the largest p-value of all partitions with both labels in one group.
    """
    adjusted = dict(pair_p)
    for partition in partitions(max(map(max, distributions)) + 1):
        p = _partition_p([distributions[group] for group in partition])
        for group in partition:
            for pair in combinations(group, 2):
                if pair in adjusted:
                    adjusted[pair] = max(adjusted[pair], p)
    return adjusted


def _partition_p(groups: Sequence[PermutationDistribution]) -> float:
    """The p-value of the largest statistic among independent groups."""
    largest = max(group.observed for group in groups)
    if len(groups) == 1:
        return groups[0].tail(largest)
    return 1 - prod(1 - group.tail(largest) for group in groups)


@lru_cache(maxsize=MOST_LABELS)
def partitions(count: int) -> tuple[tuple[Group, ...], ...]:
    """All partitions of the labels with a group of two or more; groups of one are left out."""
    every = _partitions(tuple(range(count)))
    large = (tuple(group for group in partition if len(group) > 1) for partition in every)
    return tuple(partition for partition in large if partition)


def _partitions(labels: Group) -> Iterator[list[Group]]:
    if not labels:
        yield []
        return
    first, others = labels[0], labels[1:]
    for size in range(len(others) + 1):
        for beside in combinations(others, size):
            remaining = tuple(label for label in others if label not in beside)
            for partition in _partitions(remaining):
                yield [(first, *beside), *partition]


def stretch_p_values(
    labels: Sequence[TaskScores],
    statistic: Statistic,
    resampling: Resampling,
    pair_p: Mapping[Pair, float],
) -> dict[Pair, float]:
    """Adjusted p-values of all pairs of many labels, by stretches of neighbouring labels.

    Args:
        labels: Scores of each label on the same tasks.
        statistic: The metric that is compared.
        resampling: Its seed draws the normal scores.
        pair_p: The p-value of each pair alone.
    """
    count = len(labels)
    centres = np.array([float(statistic(label)) for label in labels])
    squares = np.array([float(squared_error(label)) for label in labels])
    order = np.lexsort((squares, centres))
    levels = _stretch_p(
        _statistics_of_stretches(centres[order], squares[order]),
        _null(min(label.sizes for label in labels), count, statistic, resampling),
    )
    # Labels with the same numbers have no order: each of their positions counts for all of them.
    positions: dict[tuple[float, float], list[int]] = {}
    for position, label in enumerate(order):
        positions.setdefault((centres[label], squares[label]), []).append(position)
    adjusted = {}
    for (a, b), p in pair_p.items():
        first, second = (positions[centres[label], squares[label]] for label in (a, b))
        largest = max(levels[min(i, j), max(i, j)] for i in first for j in second if i != j)
        adjusted[a, b] = max(regw(p, 2, count), float(largest))
    return adjusted


def _statistics_of_stretches(centres: Array, squares: Array) -> Array:
    """Largest studentised difference between the labels i … j, of shape (labels, labels)."""
    error = np.sqrt(squares[:, None] + squares)
    with np.errstate(divide="ignore", invalid="ignore"):
        largest = np.nan_to_num(np.abs(centres[:, None] - centres) / error, posinf=np.inf)
    for length in range(2, len(centres)):
        low = np.arange(len(centres) - length)
        high = low + length
        inside = np.maximum(largest[low + 1, high], largest[low, high - 1])
        largest[low, high] = np.maximum(largest[low, high], inside)
    return largest


def _null(
    sizes: tuple[int, ...], count: int, statistic: Statistic, resampling: Resampling
) -> Array:
    """The statistic of 1 … `count` labels with normal scores, ascending: (labels, repetitions)."""
    # A stretch of r labels is rejected at about alpha r / count, which must be within reach.
    repetitions = max(1_999, 20 * count)
    generator = resampling.generator()
    centres, squares = np.empty((count, repetitions)), np.empty((count, repetitions))
    largest, values = np.zeros(repetitions), np.zeros((count, repetitions))
    for label in range(count):
        scores = TaskScores(generator.standard_normal((repetitions, sum(sizes))), sizes)
        centres[label], squares[label] = statistic(scores), squared_error(scores)
        for other in range(label):
            error = np.sqrt(squares[label] + squares[other])
            largest = np.maximum(largest, np.abs(centres[label] - centres[other]) / error)
        values[label] = np.sort(largest)
    return values


def _stretch_p(statistics: Array, null: Array) -> Array:
    """Adjusted p-values of the pairs (i, j), i < j: the largest of all stretches around them."""
    count, repetitions = null.shape
    adjusted = np.zeros((count, count))
    for length in range(count - 1, 1, -1):
        low = np.arange(count - length)
        high = low + length
        below = np.searchsorted(null[length], statistics[low, high])
        p = (repetitions - below + 1) / (repetitions + 1)
        local = p if length + 1 >= count - 1 else 1 - (1 - p) ** (count / (length + 1))
        adjusted[low, high] = np.maximum(local, _around(adjusted, low, high))
    low = np.arange(count - 1)
    adjusted[low, low + 1] = _around(adjusted, low, low + 1)
    return adjusted


def _around(adjusted: Array, low: NDArray[np.intp], high: NDArray[np.intp]) -> Array:
    """The adjusted p-values of the two stretches that are one label longer than each stretch."""
    count = len(adjusted)
    left = np.where(low > 0, adjusted[np.maximum(low - 1, 0), high], 0.0)
    right = np.where(high < count - 1, adjusted[low, np.minimum(high + 1, count - 1)], 0.0)
    return np.maximum(left, right)
