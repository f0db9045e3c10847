"""Power of the comparison that `rlexp compare` makes, by simulation.

Every label has the same number of seeds. One label differs from all others by the effect, and the
power is the probability that the verdict on it and one other label is decided. The simulation runs
the closed test of the verdict. Pairs with few relabellings are tested by enumeration, because their
p-values have few possible values. Larger groups are tested against the distribution of the
statistic for normal scores, which the permutation distribution resembles.
"""

from bisect import bisect_left
from collections.abc import Callable
from dataclasses import dataclass
from functools import lru_cache
from itertools import combinations
from math import comb, inf, sqrt
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from rlexp.stats.aggregate import Aggregate, Statistic, aggregate_of, interquartile_mean
from rlexp.stats.pairs.closed_testing import Group, partitions
from rlexp.stats.pairs.difference import FEWEST_FOR_GUARD, SPREAD_RATIO
from rlexp.stats.pairs.permutation import BLOCK, TIE, every_order, squared_error
from rlexp.stats.pairs.reach import (
    MOST_LABELS,
    correction_of,
    smallest_adjusted_p,
    smallest_p_of_seeds,
)
from rlexp.stats.resampling import Resampling
from rlexp.stats.task_scores import TaskScores

Array = NDArray[np.float64]
Shape = Literal["normal", "bimodal"]

QUICK = 500
"""Simulated comparisons for what could be found: the difference is right to about 3 %."""
MOST_SEEDS = 100_000
"""Largest number of seeds that is planned."""
SIMULATED_SEEDS = 40
"""Largest number of seeds that is simulated; beyond it an effect shrinks by the root of the seeds."""
ENUMERATED = 300
"""Largest number of relabellings of a pair that a simulation enumerates."""
NULL_SAMPLES = 10_000
"""Simulated families without an effect, for the critical values."""
BOOTSTRAPS = 200
"""Resamples of the standard error of a simulated metric."""
LARGEST_EFFECT = 1_000.0
"""An effect in standard deviations that counts as infinite."""
COLLAPSED = 0.3
"""Share of the runs in the lower cluster of bimodal scores."""


# A metric need not have a hash. A plan is its own key in the caches of simulations.
@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class ComparisonPlan:
    """The comparison whose power is computed.

    Attributes:
        labels: Number of labels that are compared with each other.
        tasks: Number of tasks, with the same number of seeds each.
        statistic: The metric that is compared, without a cap.
        alpha: Family-wise level.
        shape: Distribution of the scores: `normal`, or `bimodal` with `COLLAPSED` of the runs far
            below the others. Both have a standard deviation of 1.
        samples: Number of simulated comparisons.
        seed: Seed of the simulation.
    """

    labels: int = 2
    tasks: int = 1
    statistic: Statistic = interquartile_mean
    alpha: float = 0.05
    shape: Shape = "normal"
    samples: int = 2_000
    seed: int = 0

    def __post_init__(self) -> None:
        """Refuse fewer than two labels and levels out of range."""
        if self.labels < 2 or self.tasks < 1:
            raise ValueError("a comparison needs two labels or more, and a task")
        check_levels(self.alpha)


def power(plan: ComparisonPlan, effect: float, n: int) -> float:
    """Probability to decide between two labels that differ by an effect.

    Args:
        plan: The comparison.
        effect: The true difference in standard deviations of a label's scores.
        n: Seeds of each label on each task, at least 2.

    Raises:
        ValueError: There are fewer than two seeds.
    """
    if n < 2:
        raise ValueError("the power needs 2 seeds per label or more: one seed has no variance")
    if _smallest_p(plan, n) > plan.alpha:
        return 0.0
    if n > SIMULATED_SEEDS:
        # The standard error shrinks by the root of the number of seeds.
        effect, n = effect * sqrt(n / SIMULATED_SEEDS), SIMULATED_SEEDS
    simulated = _simulated(plan, n)
    decided = simulated.decided(effect)
    # The pair alone is tested last: its enumeration takes most of the time.
    return float((decided & simulated.pair_decided(effect)).mean())


def _smallest_p(plan: ComparisonPlan, n: int) -> float:
    """The smallest adjusted p-value that any scores of n seeds can have."""
    pairs = plan.labels * (plan.labels - 1) // 2
    p = smallest_p_of_seeds(n, plan.tasks)
    return smallest_adjusted_p(p, correction_of(plan.labels), pairs, plan.labels)


def seeds_for_power(plan: ComparisonPlan, effect: float, chance: float = 0.8) -> int:
    """Fewest seeds of each label that decide about an effect with the given power.

    Raises:
        ValueError: More than `MOST_SEEDS` seeds are needed, or a level is out of range.
    """
    check_levels(plan.alpha, chance)
    seeds = None
    if power(plan, effect, MOST_SEEDS) >= chance:
        seeds = fewest_seeds(lambda n: power(plan, effect, n) >= chance, 2, MOST_SEEDS)
    if seeds is None:
        raise ValueError(
            f"no number of seeds up to {MOST_SEEDS:,} detects an effect of {effect:g}: "
            "give the smallest difference that matters, in standard deviations"
        )
    return seeds


# Many pairs of a family ask for the same plan and number of seeds.
@lru_cache(maxsize=256)
def detectable_effect(plan: ComparisonPlan, n: int, chance: float = 0.8) -> float | None:
    """Smallest true difference, in standard deviations, that n seeds per label detect.

    Returns:
        None if n seeds can decide nothing, however large the difference.

    Raises:
        ValueError: There are fewer than two seeds, or a level is out of range.
    """
    check_levels(plan.alpha, chance)
    if power(plan, LARGEST_EFFECT, n) < chance:
        return None
    low, high = 0.0, 1.0
    while power(plan, high, n) < chance:
        low, high = high, 2 * high
    while high - low > 0.005 * high:
        middle = (low + high) / 2
        low, high = (low, middle) if power(plan, middle, n) >= chance else (middle, high)
    return high


def fewest_seeds(enough: Callable[[int], bool], low: int, high: int) -> int | None:
    """The smallest number from low to high that is enough; None if there is none.

    Every number above one that is enough must be enough too: the search is a bisection.
    """
    # Small numbers are tried first, because large ones take longer.
    limit = low
    while limit < high and not enough(limit):
        low, limit = limit + 1, min(2 * limit, high)
    numbers = range(low, limit + 1)
    index = bisect_left(numbers, True, key=enough)
    return numbers[index] if index < len(numbers) else None


def check_levels(alpha: float, chance: float | None = None) -> None:
    """Refuse a level or a power that is out of range.

    Raises:
        ValueError: Alpha is not between 0 and 1, or power not between alpha and 1.
    """
    if not 0 < alpha < 1:
        raise ValueError(
            f"alpha = {alpha:g} is out of range: give a level between 0 and 1, for example 0.05"
        )
    if chance is not None and not alpha < chance < 1:
        raise ValueError(
            f"power = {chance:g} must lie between alpha = {alpha:g} and 1: give 0.8, for example"
        )


@dataclass(frozen=True, slots=True)
class _SimulatedFamilies:
    """Simulated scores of a family of labels without an effect.

    Attributes:
        plan: The comparison.
        pair: Scores of the first two labels, of shape (samples, N) each.
        differences: Differences of the metric between labels, of shape (samples, labels, labels).
        errors: Their standard errors, of the same shape.
        critical: Critical value of each partition with the first two labels in one group.
        guard: Smallest difference of the pair that its Welch test rejects, where the spreads of
            the pair differ, and 0 elsewhere; of shape (samples,).
    """

    plan: ComparisonPlan
    pair: tuple[TaskScores, TaskScores]
    differences: Array
    errors: Array
    critical: dict[tuple[Group, ...], float]
    guard: Array

    def decided(self, effect: float) -> NDArray[np.bool_]:
        """Samples in which every partition but that of the pair alone is rejected."""
        shift = np.zeros(self.differences.shape[1:])
        shift[0], shift[:, 0] = effect, -effect
        ratios = np.abs(self.differences + shift) / self.errors
        rejected = np.abs(self.differences[:, 0, 1] + effect) >= self.guard
        for partition, critical in self.critical.items():
            largest = _largest(ratios, partition)
            rejected &= largest >= critical
        return rejected

    def pair_decided(self, effect: float) -> NDArray[np.bool_]:
        """Samples in which the permutation test of the pair alone rejects."""
        x, y = self.pair
        if not _is_enumerated(self.plan, len(x.sizes), x.sizes[0]):
            return np.ones(len(x.values), bool)
        pool = np.concatenate([x.values + effect, y.values], axis=-1)
        orders = every_order(x.sizes[0], y.sizes[0])
        # The mirror image of a relabelling has the same statistic: the first half is enough.
        orders = orders[: len(orders) // 2]
        rows = max(1, BLOCK // orders.size)
        p = [
            _pair_p(pool[first : first + rows], orders, self.plan.statistic)
            for first in range(0, len(pool), rows)
        ]
        return np.concatenate(p) <= self.plan.alpha


def _pair_p(pools: Array, orders: NDArray[np.intp], statistic: Statistic) -> Array:
    """Exact p-values of pairs, of shape (samples,).

    Args:
        pools: Scores of both labels, those of the first label first, of shape (samples, 2n).
        orders: Relabellings, of shape (relabellings, 2n); the first one is the observed one.
        statistic: The metric that is compared.
    """
    n = pools.shape[1] // 2
    values = pools[:, orders]
    first, second = (TaskScores(part, (n,)) for part in (values[..., :n], values[..., n:]))
    ratios = np.abs(statistic(first) - statistic(second)) / np.sqrt(
        squared_error(first) + squared_error(second)
    )
    return np.asarray((ratios >= ratios[:, :1] * (1 - TIE)).mean(axis=-1))


def _is_enumerated(plan: ComparisonPlan, tasks: int, n: int) -> bool:
    return plan.labels <= MOST_LABELS and tasks == 1 and comb(2 * n, n) <= ENUMERATED


@lru_cache(maxsize=64)
def _simulated(plan: ComparisonPlan, n: int) -> _SimulatedFamilies:
    resampling = Resampling(seed=plan.seed)
    # More labels than closed testing covers are planned by the level of a pair among them.
    labels = plan.labels if plan.labels <= MOST_LABELS else 2
    sizes = (n,) * plan.tasks
    null = _draw(labels, sizes, NULL_SAMPLES, resampling.generator(0, n), "normal")
    null_ratios = np.abs(_differences(null, plan.statistic)) / _errors(null)
    alpha = plan.alpha if labels == plan.labels else 1 - (1 - plan.alpha) ** (2 / plan.labels)
    enumerated = _is_enumerated(plan, plan.tasks, n)
    critical = {
        partition: float(np.quantile(_largest(null_ratios, partition), 1 - alpha))
        for partition in partitions(labels)
        if any({0, 1} <= set(group) for group in partition)
        and not (enumerated and partition == ((0, 1),))
    }
    scores = _draw(labels, sizes, plan.samples, resampling.generator(1, n), plan.shape)
    return _SimulatedFamilies(
        plan,
        (scores[0], scores[1]),
        _differences(scores, plan.statistic),
        _errors(scores),
        critical,
        _guard(scores[0], scores[1], plan, resampling.generator(2, n)),
    )


def _guard(
    x: TaskScores, y: TaskScores, plan: ComparisonPlan, generator: np.random.Generator
) -> Array:
    """Smallest differences that Welch's test rejects, 0 where the verdict does without it."""
    from scipy.special import stdtrit

    distances = np.zeros(len(x.values))
    if aggregate_of(plan.statistic) == Aggregate("mean") or sum(x.sizes) < FEWEST_FOR_GUARD:
        return distances
    squares = np.stack([squared_error(x), squared_error(y)])
    differ = squares.max(axis=0) >= SPREAD_RATIO**2 * squares.min(axis=0)
    errors = sum(_bootstrap_variance(label, differ, plan.statistic, generator) for label in (x, y))
    spread = squares[:, differ]
    freedom = spread.sum(axis=0) ** 2 / (spread**2).sum(axis=0) * (x.n - len(x.sizes))
    distances[differ] = stdtrit(freedom, 1 - plan.alpha / 2) * np.sqrt(errors)
    return distances


def _bootstrap_variance(
    label: TaskScores,
    chosen: NDArray[np.bool_],
    statistic: Statistic,
    generator: np.random.Generator,
) -> Array:
    """Squared bootstrap standard errors of a metric of the chosen samples."""
    n = label.sizes[0]
    drawn = np.concatenate(
        [generator.integers(0, n, (BOOTSTRAPS, n)) + task * n for task in range(len(label.sizes))],
        axis=1,
    )
    values = [statistic(TaskScores(row[drawn], label.sizes)).var() for row in label.values[chosen]]
    # A resample of n runs has (n − 1)/n of the variance of a sample.
    return np.asarray(values) * n / (n - 1)


def _draw(
    labels: int,
    sizes: tuple[int, ...],
    samples: int,
    generator: np.random.Generator,
    shape: Shape,
) -> list[TaskScores]:
    """Scores of each label with mean 0 and standard deviation 1, of shape (samples, N)."""
    every = []
    for _ in range(labels):
        values = generator.standard_normal((samples, sum(sizes)))
        if shape == "bimodal":
            # The clusters are ten times as far apart as the runs inside a cluster.
            collapsed = generator.random(values.shape) < COLLAPSED
            values = values / 10 - (collapsed - COLLAPSED)
            values /= sqrt(0.01 + COLLAPSED * (1 - COLLAPSED))
        every.append(TaskScores(values, sizes))
    return every


def _differences(labels: list[TaskScores], statistic: Statistic) -> Array:
    centres = np.stack([statistic(label) for label in labels], axis=-1)
    return np.asarray(centres[:, :, None] - centres[:, None, :])


def _errors(labels: list[TaskScores]) -> Array:
    squares = np.stack([squared_error(label) for label in labels], axis=-1)
    return np.sqrt(squares[:, :, None] + squares[:, None, :])


def _largest(ratios: Array, partition: tuple[Group, ...]) -> Array:
    """The largest statistic within the groups of a partition, of shape (samples,)."""
    pairs = [pair for group in partition for pair in combinations(group, 2)]
    return np.asarray(np.max([ratios[:, a, b] for a, b in pairs], axis=0, initial=-inf))
