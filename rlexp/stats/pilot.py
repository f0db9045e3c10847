"""Number of seeds that a comparison needs, estimated from existing scores."""

from dataclasses import dataclass, replace
from functools import partial
from math import isfinite, sqrt

from rlexp.stats.difference import Spread, estimate_difference, spread
from rlexp.stats.equivalence import check_margin
from rlexp.stats.power import check_levels, fewest_seeds, t_test_power
from rlexp.stats.task_scores import TaskScores

MOST_PLANNED = 100_000
"""Largest number of seeds per label and task that a plan computes."""

MOST_FURTHER = 1_000
"""Largest number of further seeds per label and task that is suggested: more are unrealistic."""


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


@dataclass(frozen=True, slots=True, kw_only=True)
class FurtherSeeds:
    """Estimated number of further seeds that would decide an undecided comparison.

    Attributes:
        seeds: Further seeds of each label on each task, counted from the task with the fewest;
            None if the number is not known or too large.
        total: Seeds of each label on each task after adding them.
        reason: What the number is based on, or why there is none.
    """

    seeds: int | None
    total: int | None
    reason: str


def seeds_from_pilot(
    *labels: TaskScores,
    difference: float,
    alpha: float = 0.05,
    power: float = 0.8,
    level: float = 0.95,
) -> SeedsNeeded:
    """Number of seeds that detect a difference, given the variance of the scores of a pilot.

    The variance of the difference is the sum of the variances within tasks. Its uncertainty is
    given by a chi-square interval with Satterthwaite's degrees of freedom.

    Args:
        labels: Scores of both labels, or of one: the other is assumed to have the same variance.
        difference: The smallest difference worth detecting, in units of the scores.
        alpha: Level of the two-sided test.
        power: Probability with which the difference should be detected.
        level: Level of the interval of the standard deviation.

    Raises:
        ValueError: There is no label or more than two, the labels cannot be compared
            (`tasks_of_both`), the difference is 0 or not finite, or a level is out of range.
    """
    check_levels(alpha, power)
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
            alpha=alpha,
            power=power,
            reason=f"the pilot shows no spread: {within}",
        )
    return _plan(within, len(labels[0].sizes), difference, alpha, power, level)


def _plan(
    within: Spread, tasks: int, difference: float, alpha: float, power: float, level: float
) -> SeedsNeeded:
    from scipy.special import chdtri

    freedom, tail = within.degrees_of_freedom, (1 - level) / 2
    # `chdtri` takes the probability of the upper tail: the smaller factor comes first.
    factors = [1.0, freedom / chdtri(freedom, tail), freedom / chdtri(freedom, 1 - tail)]
    spreads = [replace(within, variance=within.variance * float(factor)) for factor in factors]
    seeds, low, high = (
        fewest_seeds(partial(_detects, difference, s, alpha, power), 2, MOST_PLANNED)
        for s in spreads
    )
    deviation, deviation_low, deviation_high = (sqrt(s.variance * tasks / 2) for s in spreads)
    return SeedsNeeded(
        seeds=seeds,
        low=low,
        high=high,
        standard_deviation=deviation,
        standard_deviation_low=deviation_low,
        standard_deviation_high=deviation_high,
        level=level,
        difference=difference,
        alpha=alpha,
        power=power,
        reason=None
        if seeds
        else f"more than {MOST_PLANNED:,} seeds per label and task are needed",
    )


def further_seeds(
    x: TaskScores,
    y: TaskScores,
    *,
    margin: float | None = None,
    alpha: float = 0.05,
    power: float = 0.8,
    at_least: int = 2,
    limit: int = MOST_FURTHER,
) -> FurtherSeeds:
    """Estimated number of further seeds that decide between x and y.

    The estimate assumes that the true difference is the observed one. The seeds either detect it
    or show that it is within the margin, whichever needs fewer. As the observed difference is
    uncertain, the number is a guide and not a guarantee.

    Args:
        x: Scores of the first label.
        y: Scores of the second label, on the same tasks in the same order.
        margin: The largest difference that does not matter, in units of the scores.
        alpha: Level of the two-sided test, and of each side of the test of equivalence.
        power: Probability with which the seeds should decide.
        at_least: Fewest seeds of each label on each task with which the test can decide at all.
        limit: Largest number of further seeds that is reported.

    Raises:
        ValueError: Labels cannot be compared (`tasks_of_both`), or a level or the margin is out
            of range.
    """
    check_levels(alpha, power)
    if margin is not None:
        check_margin(margin)
    n, value, within = min(x.sizes + y.sizes), estimate_difference(x, y).value, spread(x, y)
    if isinstance(within, str):
        return _unknown(within, n, at_least)
    low, high = max(n + 1, at_least), n + limit
    different = fewest_seeds(partial(_detects, value, within, alpha, power), low, high)
    equivalent = None
    if margin is not None:
        enough = partial(_shows_equivalence, margin, value, within, alpha, power)
        # More seeds than those that detect the difference are of no interest.
        equivalent = fewest_seeds(enough, low, different or high)
    return _further(n, different, equivalent, limit)


def _unknown(why: str, n: int, at_least: int) -> FurtherSeeds:
    more = f"; at least {at_least} per label and task are needed" if at_least > n else ""
    reason = f"the number of further seeds cannot be estimated: {why}{more}"
    return FurtherSeeds(seeds=None, total=None, reason=reason)


def _further(n: int, different: int | None, equivalent: int | None, limit: int) -> FurtherSeeds:
    total = equivalent or different
    if total is None:
        return FurtherSeeds(
            seeds=None,
            total=None,
            reason=f"more than {limit:,} further seeds per label and task would be needed: "
            "the observed difference is small compared with the spread",
        )
    more = f"{total - n:,} further seed{'' if total == n + 1 else 's'}"
    goal = "show that the difference is within the margin" if equivalent else "detect it"
    return FurtherSeeds(
        seeds=total - n,
        total=total,
        reason=f"about {more} per label and task ({total:,} in total) would {goal}, "
        "if the true difference is the observed one",
    )


def _detects(difference: float, within: Spread, alpha: float, power: float, n: int) -> bool:
    """Whether n seeds per label and task detect the difference with the given power."""
    return _power(difference, within, alpha, n) >= power


def _power(difference: float, within: Spread, alpha: float, n: int) -> float:
    standard_error = sqrt(within.variance / n)
    return t_test_power(difference / standard_error, within.groups * (n - 1), alpha=alpha)


def _shows_equivalence(
    margin: float, difference: float, within: Spread, alpha: float, power: float, n: int
) -> bool:
    """Whether n seeds per label and task show with the given power that the margin is kept.

    Both one-sided tests must reject. The probability that one does not is at most the sum of both
    (Bonferroni). A one-sided test of level alpha is computed as a two-sided test of level
    2 alpha: its rejections on the wrong side are negligible.
    """
    if abs(difference) >= margin or alpha >= 0.5:
        return False
    lower = _power(difference + margin, within, 2 * alpha, n)
    upper = _power(margin - difference, within, 2 * alpha, n)
    return lower + upper - 1 >= power
