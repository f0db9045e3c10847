"""How many seeds a comparison needs, from the scores that there are so far."""

from dataclasses import dataclass, replace
from functools import partial
from math import isfinite, sqrt

from rlexp.stats.difference import Spread, estimate_difference, spread
from rlexp.stats.equivalence import check_margin
from rlexp.stats.power import check_levels, fewest_seeds, t_test_power
from rlexp.stats.task_scores import TaskScores

MOST_PLANNED = 100_000
"""Seeds a side and task beyond which a plan only says: more than that."""

MOST_FURTHER = 1_000
"""Further seeds a side and task beyond which nobody would wait."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SeedsNeeded:
    """How many seeds find a difference, and how well a pilot tells that.

    Attributes:
        seeds: Of each label on each task; nothing where `reason` says why not.
        low: As many would do were the spread as small as the pilot allows.
        high: As many are needed were it as large as the pilot allows; nothing if over 100,000.
        standard_deviation: Of scores within a task, from the pilot; over tasks and labels it is
            the root of the mean variance.
        standard_deviation_low: Lower end of its interval.
        standard_deviation_high: Upper end.
        level: Of that interval.
        difference: The true difference to be found, in units of the scores.
        alpha: Level of the two-sided test.
        power: How often it is to be found.
        reason: Why there is no number, in words.
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
    """About how many more seeds would decide a comparison that is undecided.

    Attributes:
        seeds: More of each label on each task, counted from the task with the fewest; nothing
            where that is not known, or too many.
        total: Seeds of each label on each task that there would be then.
        reason: What the number rests on, or why there is none, in words.
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
    """How many seeds find a difference worth finding, by the spread that a pilot showed.

    The variance of the difference is the sum of those within tasks; how well the pilot tells it
    is said by its chi-square interval with Satterthwaite's degrees of freedom.

    Args:
        labels: Scores of one label, whose spread then stands for both, or of both.
        difference: The smallest difference worth finding, in units of the scores.
        alpha: Level of the two-sided test.
        power: How often it is to be found.
        level: Of the interval of the spread.

    Raises:
        ValueError: There is no label or more than two, the labels cannot be compared
            (`tasks_of_both`), the difference is 0 or no number, or a level is none.
    """
    check_levels(alpha, power)
    if len(labels) not in {1, 2}:
        raise ValueError(f"a pilot has one label or two, not {len(labels)}: pass those to compare")
    if not (isfinite(difference) and difference != 0):
        raise ValueError("name a difference worth finding, in units of the scores and not 0")
    found = spread(*labels)
    if isinstance(found, str):
        return SeedsNeeded(
            seeds=None,
            level=level,
            difference=difference,
            alpha=alpha,
            power=power,
            reason=f"the pilot tells no spread: {found}",
        )
    return _plan(found, len(labels[0].sizes), difference, alpha, power, level)


def _plan(
    found: Spread, tasks: int, difference: float, alpha: float, power: float, level: float
) -> SeedsNeeded:
    from scipy.special import chdtri

    freedom, tail = found.degrees_of_freedom, (1 - level) / 2
    # chdtri takes the upper tail: the smallest factor stands first.
    factors = [1.0, freedom / chdtri(freedom, tail), freedom / chdtri(freedom, 1 - tail)]
    spreads = [replace(found, variance=found.variance * float(factor)) for factor in factors]
    seeds, low, high = (
        fewest_seeds(partial(_finds, difference, s, alpha, power), 2, MOST_PLANNED)
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
        reason=None if seeds else f"more than {MOST_PLANNED:,} seeds a side and task are needed",
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
    """About how many more seeds would decide between x and y, were the truth what was observed.

    They find the observed difference, or show it to be within the margin, whichever takes fewer:
    a guide to the next step and no promise, as the observed difference is uncertain.

    Args:
        x: Scores of the first label.
        y: Of the second, on the same tasks in the same order.
        margin: The largest difference that does not matter, in units of the scores.
        alpha: Level of the two-sided test, and of each side of the test of equivalence.
        power: How often the seeds are to decide.
        at_least: With fewer seeds of each label on each task nothing can be decided.
        limit: The most further seeds to speak of.

    Raises:
        ValueError: Labels cannot be compared (`tasks_of_both`), or a level or margin is none.
    """
    check_levels(alpha, power)
    if margin is not None:
        check_margin(margin)
    n, value, found = min(x.sizes + y.sizes), estimate_difference(x, y).value, spread(x, y)
    if isinstance(found, str):
        return _unknown(found, n, at_least)
    low, high = max(n + 1, at_least), n + limit
    apart = fewest_seeds(partial(_finds, value, found, alpha, power), low, high)
    within = None
    if margin is not None:
        enough = partial(_shows_within, margin, value, found, alpha, power)
        within = fewest_seeds(enough, low, apart or high)
    return _in_words(n, apart, within, limit)


def _unknown(why: str, n: int, at_least: int) -> FurtherSeeds:
    more = f"; at least {at_least} a side and task are needed" if at_least > n else ""
    reason = f"how many more seeds would decide is not known: {why}{more}"
    return FurtherSeeds(seeds=None, total=None, reason=reason)


def _in_words(n: int, apart: int | None, within: int | None, limit: int) -> FurtherSeeds:
    total = within or apart
    if total is None:
        return FurtherSeeds(
            seeds=None,
            total=None,
            reason=f"more than {limit:,} more seeds a side and task would be needed: "
            "the observed difference is small beside the spread",
        )
    more = f"{total - n:,} more seed{'' if total == n + 1 else 's'}"
    goal = "show it to be within the margin" if within else "decide it"
    return FurtherSeeds(
        seeds=total - n,
        total=total,
        reason=f"about {more} a side and task ({total:,} in all) would {goal}, "
        "if the true difference is the observed one",
    )


def _finds(difference: float, found: Spread, alpha: float, power: float, n: int) -> bool:
    """Whether n seeds a side and task find this difference often enough."""
    return _power_to_find(difference, found, alpha, n) >= power


def _power_to_find(difference: float, found: Spread, alpha: float, n: int) -> float:
    standard_error = sqrt(found.variance / n)
    return t_test_power(difference / standard_error, found.groups * (n - 1), alpha=alpha)


def _shows_within(
    margin: float, difference: float, found: Spread, alpha: float, power: float, n: int
) -> bool:
    """Whether n seeds a side and task show often enough that this difference is within.

    Both one-sided tests must reject; the chance that one does not is at most the sum of both. A
    one-sided test of level alpha is half a two-sided one of twice that, where the other half,
    rejecting on the wrong side, is negligible.
    """
    if abs(difference) >= margin or alpha >= 0.5:
        return False
    lower = _power_to_find(difference + margin, found, 2 * alpha, n)
    upper = _power_to_find(margin - difference, found, 2 * alpha, n)
    return lower + upper - 1 >= power
