"""Power of a comparison of two labels with equal numbers of seeds (noncentral t distribution)."""

from bisect import bisect_left
from collections.abc import Callable

MOST_SEEDS = 10**9
"""Largest number of seeds that is searched."""


def t_test_power(noncentrality: float, degrees_of_freedom: float, *, alpha: float = 0.05) -> float:
    """Probability that a two-sided t test rejects at level alpha.

    Args:
        noncentrality: The true difference in units of its standard error.
        degrees_of_freedom: Of the standard error, above 0.
        alpha: Level of the test.
    """
    from scipy.special import stdtrit
    from scipy.stats import ncf

    critical = float(stdtrit(degrees_of_freedom, 1 - alpha / 2))
    # SciPy returns NaN for the noncentral t at large arguments. The square of t is noncentral F,
    # whose series converges up to the limit below. There the power is 1, except with one degree
    # of freedom and a tiny alpha.
    squared = min(abs(noncentrality), 1e5) ** 2
    return float(ncf.sf(critical**2, 1, degrees_of_freedom, squared))


def power(effect: float, n: int, *, alpha: float = 0.05) -> float:
    """Probability to detect a difference of two labels on one task with n seeds each.

    Cohen 1988, "Statistical Power Analysis for the Behavioral Sciences", 2.2: two-sided t test of
    two normal samples of equal variance.

    Args:
        effect: The true difference in standard deviations of a label's scores.
        n: Seeds of each label, at least 2.
        alpha: Level of the test.

    Raises:
        ValueError: There are fewer than two seeds, or alpha is not between 0 and 1.
    """
    check_levels(alpha)
    return _power(effect, n, alpha)


def seeds_for_power(effect: float, *, power: float = 0.8, alpha: float = 0.05) -> int:
    """Fewest seeds of each label that detect a difference with the given power.

    Args:
        effect: The true difference in standard deviations of a label's scores, not 0.
        power: Probability with which the difference should be detected.
        alpha: Level of the test.

    Raises:
        ValueError: A billion seeds are too few, or a level is out of range.
    """
    check_levels(alpha, power)
    seeds = fewest_seeds(lambda n: _power(effect, n, alpha) >= power, 2, MOST_SEEDS)
    if seeds is None:
        raise ValueError(
            f"no number of seeds detects an effect of {effect:g}: "
            "give the smallest difference that matters, in standard deviations"
        )
    return seeds


def detectable_effect(n: int, *, power: float = 0.8, alpha: float = 0.05) -> float:
    """Smallest true difference, in standard deviations, that n seeds per label can detect.

    Args:
        n: Seeds of each label, at least 2.
        power: Probability with which the difference should be detected.
        alpha: Level of the test; below `power`.

    Raises:
        ValueError: There are fewer than two seeds, or a level is out of range.
    """
    from scipy.optimize import brentq

    check_levels(alpha, power)
    high = 1.0
    # `brentq` needs an end at which the power is reached.
    while _power(high, n, alpha) < power:
        high *= 2
    return float(brentq(lambda effect: _power(effect, n, alpha) - power, 0, high, xtol=1e-13))


def fewest_seeds(enough: Callable[[int], bool], low: int, high: int) -> int | None:
    """The smallest number from low to high that is enough; None if there is none.

    Every number above one that is enough must be enough too: the search is a bisection.
    """
    numbers = range(low, high + 1)
    index = bisect_left(numbers, True, key=enough)
    return numbers[index] if index < len(numbers) else None


def check_levels(alpha: float, power: float | None = None) -> None:
    """Refuse a level or a power that is out of range.

    Raises:
        ValueError: Alpha is not between 0 and 1, or power not between alpha and 1.
    """
    if not 0 < alpha < 1:
        raise ValueError(
            f"alpha = {alpha:g} is out of range: give a level between 0 and 1, for example 0.05"
        )
    if power is not None and not alpha < power < 1:
        raise ValueError(
            f"power = {power:g} must lie between alpha = {alpha:g} and 1: give 0.8, for example"
        )


def _power(effect: float, n: int, alpha: float) -> float:
    if n < 2:
        raise ValueError("the power needs n = 2 seeds per label or more: one seed has no variance")
    return t_test_power(effect * (n / 2) ** 0.5, 2 * n - 2, alpha=alpha)
