"""Whether two labels are the same for all that matters: within a margin declared beforehand."""

from dataclasses import dataclass
from math import isfinite

from rlexp.stats.difference import Difference, estimate_difference
from rlexp.stats.task_scores import TaskScores


@dataclass(frozen=True, slots=True, kw_only=True)
class EquivalenceTest:
    """Two one-sided tests, and what came of them.

    Attributes:
        margin: Differences up to this, in units of the scores, do not matter.
        p: The p-value that the true difference is not within the margin: the larger of both
            sides; nothing where `reason` says why not.
        p_lower: That it is at or below minus the margin.
        p_upper: That it is at or above the margin.
        reason: Why no test was possible, in words.
    """

    margin: float
    p: float | None
    p_lower: float | None = None
    p_upper: float | None = None
    reason: str | None = None


def equivalence_test(x: TaskScores, y: TaskScores, margin: float) -> EquivalenceTest:
    """Two one-sided Welch tests that the difference lies within the margin (TOST).

    Schuirmann 1987, "A comparison of the two one-sided tests procedure and the power approach";
    with the standard error of `estimate_difference`, on one task or several.

    Args:
        x: Scores of the first label.
        y: Of the second, on the same tasks in the same order.
        margin: The largest difference that does not matter, in units of the scores, above 0.

    Raises:
        ValueError: The margin is not a number above 0, or the labels cannot be compared
            (`tasks_of_both`).
    """
    check_margin(margin)
    found = estimate_difference(x, y)
    if found.standard_error is None:
        return EquivalenceTest(margin=margin, p=None, reason=found.reason)
    lower = _upper_tail(found, found.value + margin)
    upper = _upper_tail(found, margin - found.value)
    return EquivalenceTest(margin=margin, p=max(lower, upper), p_lower=lower, p_upper=upper)


def check_margin(margin: float) -> None:
    """Refuse a margin within which nothing lies.

    Raises:
        ValueError: It is not a number above 0.
    """
    if not (isfinite(margin) and margin > 0):
        raise ValueError(
            f"a margin of {margin:g} is none: name the largest difference that does not matter, "
            "in units of the scores and above 0"
        )


def _upper_tail(found: Difference, distance: float) -> float:
    from scipy.special import stdtr

    return float(stdtr(found.degrees_of_freedom, -distance / (found.standard_error or 1)))
