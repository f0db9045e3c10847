"""Number of seeds that a comparison needs, estimated from existing scores."""

from collections.abc import Callable
from dataclasses import dataclass
from math import inf, isfinite, sqrt

from rlexp.stats.pairs.difference import Spread, spread
from rlexp.stats.pairs.power import (
    MOST_SEEDS,
    ComparisonPlan,
    check_levels,
    detectable_effect,
    fewest_seeds,
    power,
)
from rlexp.stats.pairs.reach import DetectableDifferences
from rlexp.stats.task_scores import TaskScores
from rlexp.text import format_percentage, format_roughly


@dataclass(frozen=True, slots=True, kw_only=True)
class SeedsNeeded:
    """Number of seeds that detect a difference, with its uncertainty from the pilot.

    Attributes:
        seeds: Seeds of each label on each task; None if there is no number.
        low: Seeds needed at the lower end of the interval of the standard deviation.
        high: Seeds needed at the upper end of that interval; None if more than 100,000.
        standard_deviation: Standard deviation of scores within a task, from the pilot: the root
            of the mean variance over tasks and labels.
        standard_deviation_low: Lower end of the interval of the standard deviation.
        standard_deviation_high: Upper end of that interval.
        level: Level of that interval.
        difference: The true difference to be detected, in units of the scores.
        alpha: Level of the two-sided test.
        power: Probability with which the difference is detected.
        reason: Why there is no number.
    """

    seeds: int | None
    low: int | None = None
    high: int | None = None
    standard_deviation: float | None = None
    standard_deviation_low: float | None = None
    standard_deviation_high: float | None = None
    level: float
    difference: float
    alpha: float
    power: float
    reason: str | None = None


def seeds_from_pilot(
    *labels: TaskScores,
    difference: float,
    plan: ComparisonPlan,
    chance: float = 0.8,
    level: float = 0.95,
) -> SeedsNeeded:
    """Number of seeds that detect a difference, given the variance of the scores of a pilot.

    The variance of the difference is the sum of the variances within tasks. Its uncertainty is
    given by a chi-square interval with Satterthwaite's degrees of freedom.

    Args:
        labels: Scores of both labels, or of one: the other is assumed to have the same variance.
        difference: The smallest difference worth detecting, in units of the scores.
        plan: The comparison.
        chance: Probability with which the difference should be detected.
        level: Level of the interval of the standard deviation.

    Raises:
        ValueError: There is no label or more than two, the labels cannot be compared
            (`tasks_of_both`), the difference is 0 or not finite, or a level is out of range.
    """
    check_levels(plan.alpha, chance)
    if len(labels) not in {1, 2}:
        raise ValueError(
            f"a pilot has one or two labels, not {len(labels)}: pass those to compare"
        )
    if not (isfinite(difference) and difference != 0):
        raise ValueError(
            f"the difference must be a finite number other than 0, not {difference:g}: give the "
            "smallest difference worth detecting, in units of the scores"
        )
    within = spread(*labels)
    if isinstance(within, str):
        return SeedsNeeded(
            seeds=None,
            level=level,
            difference=difference,
            alpha=plan.alpha,
            power=chance,
            reason=f"the pilot shows no spread: {within}",
        )
    return _needed(within, plan, difference, chance, level)


def _needed(
    within: Spread, plan: ComparisonPlan, difference: float, chance: float, level: float
) -> SeedsNeeded:
    from scipy.special import chdtri

    freedom, tail = within.degrees_of_freedom, (1 - level) / 2
    # `chdtri` takes the probability of the upper tail: the smaller factor comes first.
    factors = [1.0, freedom / chdtri(freedom, tail), freedom / chdtri(freedom, 1 - tail)]
    deviations = [deviation(within, plan.tasks) * sqrt(factor) for factor in factors]
    seeds, low, high = (_seeds(plan, abs(difference) / d, chance) for d in deviations)
    return SeedsNeeded(
        seeds=seeds,
        low=low,
        high=high,
        standard_deviation=deviations[0],
        standard_deviation_low=deviations[1],
        standard_deviation_high=deviations[2],
        level=level,
        difference=difference,
        alpha=plan.alpha,
        power=chance,
        reason=None if seeds else f"more than {MOST_SEEDS:,} seeds per label and task are needed",
    )


def _seeds(plan: ComparisonPlan, effect: float, chance: float) -> int | None:
    return fewest_seeds(lambda n: power(plan, effect, n) >= chance, 2, MOST_SEEDS)


def deviation(within: Spread, tasks: int) -> float:
    """Standard deviation of scores within a task: the root of the mean variance."""
    return sqrt(within.variance * tasks / 2)


def detectable_differences(
    *labels: TaskScores,
    plan: ComparisonPlan,
    floor: int,
    chance: float = 0.8,
    furthest: float | None = None,
    effect_of: Callable[[ComparisonPlan, int, float], float | None] = detectable_effect,
) -> DetectableDifferences:
    """The differences that the comparison finds with its seeds, and with twice as many.

    Args:
        labels: Scores of both labels, on the same tasks in the same order, or of one: the other is
            assumed to have the same variance and as many seeds.
        plan: The comparison.
        floor: Fewest seeds with which the comparison can decide anything.
        chance: Probability with which the difference should be found.
        furthest: Largest possible difference; None where it is not known.
        effect_of: Returns what `detectable_effect` does; a caller may have kept it.

    Raises:
        ValueError: The labels cannot be compared (`tasks_of_both`), or a level is out of range.
    """
    within, n = spread(*labels), min(min(label.sizes) for label in labels)
    if isinstance(within, str):
        more = f"; at least {floor} seeds per label and task are needed" if floor > n else ""
        return DetectableDifferences(text=f"what could be found is not known: {within}{more}")
    # One seed per label has no variance of its own.
    seeds = (n, 2 * n) if n >= floor else (max(n, 2), floor, 2 * floor)
    scale = deviation(within, plan.tasks)
    effects = [effect_of(plan, number, chance) for number in seeds]
    largest = inf if furthest is None else furthest
    differences = tuple(
        None if effect is None or effect * scale > largest else effect * scale
        for effect in effects
    )
    return DetectableDifferences(
        seeds=seeds, differences=differences, text=_sentence(seeds, differences, chance)
    )


def _sentence(seeds: tuple[int, ...], differences: tuple[float | None, ...], chance: float) -> str:
    parts = []
    for number, difference in zip(seeds, differences, strict=True):
        size = "no difference" if difference is None else f"about {format_roughly(difference)}"
        parts.append((number, size))
    (first, size), *others = parts
    start = size if size == "no difference" else f"a difference of {size}"
    more = "".join(f"; with {number:,} seeds: {size}" for number, size in others)
    return f"with {first:,} seeds {start} is found with {format_percentage(chance)} power{more}"
