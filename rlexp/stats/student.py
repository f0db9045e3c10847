"""Quantiles of Student's t distribution.

SciPy has them too, and takes a seventh of a second to import its special functions: as long as
everything else that `rlexp ls` does.
"""

import math

TINY = 1e-300
"""What a denominator of the continued fraction is replaced by where it would be 0."""
PRECISION = 3e-16
"""Relative change at which the continued fraction and Newton's method have converged."""
MOST_STEPS = 1_000
MOST_FREEDOM = 200
"""Degrees of freedom beyond which rounding costs digits here, and SciPy computes."""


def student_quantile(probability: float, freedom: float) -> float:
    """The quantile of Student's t distribution.

    Newton's method on the distribution function, from a start that it cannot overshoot: to the
    right of the median the function is concave.

    Args:
        probability: Between 0 and 1.
        freedom: Degrees of freedom, above 0; any real number.

    Raises:
        ValueError: The probability or the degrees of freedom are out of range.
    """
    if not 0 < probability < 1 or not freedom > 0:
        raise ValueError("a probability between 0 and 1 and degrees of freedom above 0 are needed")
    if freedom > MOST_FREEDOM:
        from scipy.special import stdtrit

        return float(stdtrit(freedom, probability))
    if probability == 0.5:
        return 0.0
    tail, t = min(probability, 1 - probability), 0.0
    for _ in range(MOST_STEPS):
        step = (upper_tail(t, freedom) - tail) / _density(t, freedom)
        t += step
        if abs(step) <= 4 * PRECISION * abs(t):
            break
    return -t if probability < 0.5 else t


def upper_tail(t: float, freedom: float) -> float:
    """The probability that Student's t is above `t`, for t ≥ 0.

    Half the regularised incomplete beta function at ν / (ν + t²) with parameters ν/2 and 1/2
    (Abramowitz and Stegun 1964, 26.5.27).
    """
    if t == 0:
        return 0.5
    share, rest = freedom / (freedom + t * t), t * t / (freedom + t * t)
    return 0.5 * _incomplete_beta(share, rest, freedom / 2, 0.5)


def _density(t: float, freedom: float) -> float:
    scale = math.lgamma((freedom + 1) / 2) - math.lgamma(freedom / 2)
    log = scale - 0.5 * math.log(freedom * math.pi)
    return math.exp(log - (freedom + 1) / 2 * math.log1p(t * t / freedom))


def _incomplete_beta(x: float, rest: float, a: float, b: float) -> float:
    """The regularised incomplete beta function at `x`, where `rest` is 1 − x to full precision."""
    front = math.exp(
        math.lgamma(a + b) - math.lgamma(a) - math.lgamma(b) + a * math.log(x) + b * math.log(rest)
    )
    if x < (a + 1) / (a + b + 2):
        return front * _continued_fraction(x, a, b) / a
    return 1 - front * _continued_fraction(rest, b, a) / b


def _continued_fraction(x: float, a: float, b: float) -> float:
    """The continued fraction of the incomplete beta function, by Lentz's method (DLMF 8.17.22)."""
    c, d = 1.0, 1 / _away_from_zero(1 - (a + b) * x / (a + 1))
    total = d
    for m in range(1, MOST_STEPS):
        even = m * (b - m) * x / ((a + 2 * m - 1) * (a + 2 * m))
        odd = -(a + m) * (a + b + m) * x / ((a + 2 * m) * (a + 2 * m + 1))
        for term in (even, odd):
            d = 1 / _away_from_zero(1 + term * d)
            c = _away_from_zero(1 + term / c)
            total *= c * d
        if abs(c * d - 1) <= PRECISION:
            break
    return total


def _away_from_zero(value: float) -> float:
    return value if abs(value) > TINY else TINY
