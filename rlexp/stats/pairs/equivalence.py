"""Test of equivalence: whether two labels differ by less than a margin declared beforehand."""

from dataclasses import dataclass
from math import isfinite

from rlexp.stats.pairs.difference import Difference


@dataclass(frozen=True, slots=True, kw_only=True)
class EquivalenceTest:
    """Result of the two one-sided tests.

    Attributes:
        margin: Largest difference that does not matter, in units of the scores.
        p: p-value of the null hypothesis that the true difference is not within the margin: the
            larger of both sides; None if no test was possible.
        p_lower: p-value of a true difference of minus the margin or less.
        p_upper: p-value of a true difference of the margin or more.
        reason: Why no test was possible.
    """

    margin: float
    p: float | None
    p_lower: float | None = None
    p_upper: float | None = None
    reason: str | None = None


def equivalence_test(difference: Difference, margin: float) -> EquivalenceTest:
    """Two one-sided Welch tests that a difference is within the margin (TOST).

    Schuirmann 1987, "A comparison of the two one-sided tests procedure and the power approach".

    Args:
        difference: Of two labels, on one task or several, with its standard error.
        margin: The largest difference that does not matter, in units of the scores, above 0.

    Raises:
        ValueError: The margin is not a number above 0.
    """
    check_margin(margin)
    if difference.standard_error is None:
        return EquivalenceTest(margin=margin, p=None, reason=difference.reason)
    lower = _upper_tail(difference, difference.value + margin)
    upper = _upper_tail(difference, margin - difference.value)
    return EquivalenceTest(margin=margin, p=max(lower, upper), p_lower=lower, p_upper=upper)


def check_margin(margin: float) -> None:
    """Refuse a margin that is not above 0.

    Raises:
        ValueError: The margin is not a finite number above 0.
    """
    if not (isfinite(margin) and margin > 0):
        raise ValueError(
            f"the margin must be above 0, not {margin:g}: give the largest difference that does "
            "not matter, in units of the scores"
        )


def _upper_tail(difference: Difference, distance: float) -> float:
    from scipy.special import stdtr

    error = difference.standard_error or 1
    return float(stdtr(difference.degrees_of_freedom, -distance / error))
