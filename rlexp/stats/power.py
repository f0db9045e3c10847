"""Power of a comparison of two labels with as many seeds each, by the noncentral t distribution."""

from bisect import bisect_left
from collections.abc import Callable

MOST_SEEDS = 10**9
"""No plan goes further."""


def t_test_power(noncentrality: float, degrees_of_freedom: float, *, alpha: float = 0.05) -> float:
    """The chance that a two-sided t test rejects at level alpha.

    Args:
        noncentrality: The true difference in units of its standard error.
        degrees_of_freedom: Of that standard error, above 0.
        alpha: Level of the test.
    """
    from scipy.special import stdtrit
    from scipy.stats import ncf

    critical = float(stdtrit(degrees_of_freedom, 1 - alpha / 2))
    # t² is noncentral F, whose survival function is a number where that of t is NaN.
    # Its series converges up to here, where power is 1 but for one degree of freedom and tiny alpha.
    squared = min(abs(noncentrality), 1e5) ** 2
    return float(ncf.sf(critical**2, 1, degrees_of_freedom, squared))


def power(effect: float, n: int, *, alpha: float = 0.05) -> float:
    """The chance to find a difference of two labels on one task with n seeds each.

    Cohen 1988, "Statistical Power Analysis for the Behavioral Sciences", 2.2: two-sided t test of
    two normal samples of equal variance.

    Args:
        effect: The true difference in standard deviations of a label's scores.
        n: Seeds of each label, at least 2.
        alpha: Level of the test.

    Raises:
        ValueError: There are fewer than two seeds, or alpha is no level.
    """
    check_levels(alpha)
    return _power(effect, n, alpha)


def seeds_for_power(effect: float, *, power: float = 0.8, alpha: float = 0.05) -> int:
    """The fewest seeds of each label with which a difference is found often enough.

    Args:
        effect: The true difference in standard deviations of a label's scores, not 0.
        power: How often it is to be found.
        alpha: Level of the test.

    Raises:
        ValueError: A billion seeds would not do, or a level is none.
    """
    check_levels(alpha, power)
    found = fewest_seeds(lambda n: _power(effect, n, alpha) >= power, 2, MOST_SEEDS)
    if found is None:
        raise ValueError(
            f"no number of seeds finds an effect of {effect:g}: "
            "name the smallest difference that matters, in standard deviations"
        )
    return found


def detectable_effect(n: int, *, power: float = 0.8, alpha: float = 0.05) -> float:
    """The smallest true difference, in standard deviations, that n seeds a side find often enough.

    Args:
        n: Seeds of each label, at least 2.
        power: How often the difference is to be found.
        alpha: Level of the test; below `power`.

    Raises:
        ValueError: There are fewer than two seeds, or a level is none.
    """
    from scipy.optimize import brentq

    check_levels(alpha, power)
    high = 1.0
    while _power(high, n, alpha) < power:
        high *= 2
    return float(brentq(lambda effect: _power(effect, n, alpha) - power, 0, high, xtol=1e-13))


def fewest_seeds(enough: Callable[[int], bool], low: int, high: int) -> int | None:
    """The smallest number from low to high that is enough, or nothing; enough stays enough."""
    numbers = range(low, high + 1)
    found = bisect_left(numbers, True, key=enough)
    return numbers[found] if found < len(numbers) else None


def check_levels(alpha: float, power: float | None = None) -> None:
    """Refuse a level, or a power, with which there is nothing to plan.

    Raises:
        ValueError: Alpha is not between 0 and 1, or power not between alpha and 1.
    """
    if not 0 < alpha < 1:
        raise ValueError(f"alpha = {alpha:g} is no level: name one between 0 and 1, as 0.05")
    if power is not None and not alpha < power < 1:
        raise ValueError(f"power = {power:g} must lie between alpha = {alpha:g} and 1, as 0.8")


def _power(effect: float, n: int, alpha: float) -> float:
    if n < 2:
        raise ValueError("one seed a side shows no spread: ask for the power of n = 2 or more")
    return t_test_power(effect * (n / 2) ** 0.5, 2 * n - 2, alpha=alpha)
