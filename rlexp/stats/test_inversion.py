"""Interval of a difference of two labels: the differences that the verdict's test does not reject.

An interval that inverts the test of the verdict cannot contradict the verdict: it contains 0 if and
only if the pair is undecided.
"""

from collections.abc import Hashable
from dataclasses import dataclass
from functools import cached_property, lru_cache
from math import inf, isfinite, sqrt

import numpy as np

from rlexp.stats.aggregate import Statistic
from rlexp.stats.difference import Difference
from rlexp.stats.permutation import (
    EXACT_RELABELLINGS,
    PermutationDistribution,
    difference_of,
    moved,
    permutation_distribution,
    relabellings,
    smallest_p,
    squared_error,
)
from rlexp.stats.resampling import Resampling
from rlexp.stats.task_scores import TaskScores

START = 4.0
"""Distance from the estimate, in standard errors, at which the search for an end begins."""
ITERATIONS = 6
"""Steps of the iteration for an end; each takes the error down to about a tenth."""
BISECTIONS = 20
CELLS = 400_000
"""Runs that the random relabellings for one hypothetical difference assign together, at most."""


# Without slots: the estimate is computed once.
@dataclass(frozen=True, kw_only=True)
class DifferenceTest:
    """The test of a pair of labels, for any hypothetical difference.

    Attributes:
        x: Scores of the first label.
        y: Scores of the second label.
        statistic: The metric that is compared; it moves with the scores.
        resampling: Its seed draws random relabellings.
        repetitions: Number of random relabellings of the verdict.
        guard: Difference with a standard error, whose t test must agree; None without a guard.
    """

    x: TaskScores
    y: TaskScores
    statistic: Statistic
    resampling: Resampling
    repetitions: int
    guard: Difference | None = None

    @cached_property
    def estimate(self) -> float:
        """The metric of the first label minus that of the second."""
        return difference_of(self.x, self.y, self.statistic)

    @cached_property
    def smallest_p(self) -> float:
        """Smallest p-value that the test can have with these numbers of runs."""
        return smallest_p(self.x, self.y, self.repetitions)

    def interval(self, alpha: float, *, rejected: bool) -> tuple[float, float] | str:
        """Ends of the interval of all differences with a p-value above alpha.

        The interval is remembered: when a report of many labels is computed again after one run
        has ended, the intervals of most pairs are the same.

        Args:
            alpha: Level of the test.
            rejected: Whether the verdict rejects the difference 0.

        Returns:
            The ends, or the reason why there are none.
        """
        if not isinstance(self.statistic, Hashable):
            return self._interval(alpha, rejected=rejected)
        return _remembered_interval(_HashableTest.of(self), alpha, rejected)

    def _interval(self, alpha: float, *, rejected: bool) -> tuple[float, float] | str:
        if self.smallest_p > alpha:
            return (
                f"the smallest possible p-value, {self.smallest_p:.3g}, is above {alpha:.3g}: "
                "no difference can be excluded"
            )
        error = sqrt(float(squared_error(self.x) + squared_error(self.y)))
        if not error > 0:
            return "within each task all runs are equal"
        estimate = self.estimate
        low, high = (self._end(estimate, sign * error, alpha) for sign in (-1, 1))
        if not (isfinite(low) and isfinite(high)):
            return "the test rejects no difference, however large"
        if rejected == (low <= 0 <= high):
            # The p-value is not quite monotone in the difference, and random relabellings are
            # fewer here: the verdict decides on which side of the end 0 lies.
            return self._agreeing(low, high, estimate, alpha, rejected=rejected)
        return low, high

    def _end(self, estimate: float, error: float, alpha: float) -> float:
        """The end of the interval on the side of `error`, which has a sign.

        The observed statistic of a hypothetical difference d is (estimate − d) / error. It equals
        the critical value at the end. The critical value hardly depends on d, so that iterating
        converges.
        """
        end, least = estimate + START * error, self._guard_distance(alpha)
        for _ in range(ITERATIONS):
            distance = max(self._distribution(end).critical(alpha) * abs(error), least)
            if not isfinite(distance):
                # The moved scores of both labels tie here; further away they do not.
                distance = 2 * abs(end - estimate)
            end = estimate + (distance if error > 0 else -distance)
        if self._p(end + (end - estimate)) > alpha:
            return inf if error > 0 else -inf
        is_random = relabellings(self.x, self.y) > EXACT_RELABELLINGS
        return end if is_random else self._refined(estimate, end, alpha)

    def _refined(self, estimate: float, end: float, alpha: float) -> float:
        """The end by bisection: few relabellings have few critical values, far from each other."""
        rejected = end
        while self._p(rejected) > alpha:
            rejected += rejected - estimate
        return self._bisected(estimate, rejected, alpha)

    def _bisected(self, accepted: float, rejected: float, alpha: float) -> float:
        """The accepted difference next to the first rejected one, between two differences."""
        for _ in range(BISECTIONS):
            middle = (accepted + rejected) / 2
            if self._p(middle) > alpha:
                accepted = middle
            else:
                rejected = middle
        return accepted

    def _p(self, difference: float) -> float:
        guarded = 0.0 if self.guard is None else t_test(self.guard, difference)
        return max(self._distribution(difference).p, guarded)

    def _guard_distance(self, alpha: float) -> float:
        """Distance from the estimate to which the t test of the guard accepts differences."""
        from scipy.special import stdtrit

        if self.guard is None or self.guard.standard_error is None:
            return 0.0
        quantile = float(stdtrit(self.guard.degrees_of_freedom, 1 - alpha / 2))
        return quantile * self.guard.standard_error

    def _distribution(self, difference: float) -> PermutationDistribution:
        labels = [moved(self.x, -difference), self.y]
        repetitions = min(self.repetitions, max(999, CELLS // (self.x.n + self.y.n)))
        return permutation_distribution(labels, self.statistic, self.resampling, repetitions)

    def _agreeing(
        self, low: float, high: float, estimate: float, alpha: float, *, rejected: bool
    ) -> tuple[float, float]:
        """The interval with the end beside 0 moved to the side on which the verdict puts it."""
        end = self._bisected(estimate, 0.0, alpha) if rejected else 0.0
        return (end, high) if estimate > 0 else (low, end)


@dataclass(frozen=True, slots=True)
class _HashableTest:
    """A `DifferenceTest` whose scores are bytes, so that equal tests have one hash."""

    scores: tuple[bytes, bytes]
    sizes: tuple[tuple[int, ...], tuple[int, ...]]
    statistic: Statistic
    resampling: Resampling
    repetitions: int
    guard: Difference | None

    @classmethod
    def of(cls, test: DifferenceTest) -> "_HashableTest":
        return cls(
            scores=(_as_bytes(test.x), _as_bytes(test.y)),
            sizes=(test.x.sizes, test.y.sizes),
            statistic=test.statistic,
            resampling=test.resampling,
            repetitions=test.repetitions,
            guard=test.guard,
        )

    def test(self) -> DifferenceTest:
        """The test."""
        x, y = (
            TaskScores(np.frombuffer(scores, dtype=np.float64), sizes)
            for scores, sizes in zip(self.scores, self.sizes, strict=True)
        )
        return DifferenceTest(
            x=x,
            y=y,
            statistic=self.statistic,
            resampling=self.resampling,
            repetitions=self.repetitions,
            guard=self.guard,
        )


def _as_bytes(scores: TaskScores) -> bytes:
    return np.asarray(scores.values, dtype=np.float64).tobytes()


@lru_cache(maxsize=1024)
def _remembered_interval(
    test: _HashableTest, alpha: float, rejected: bool
) -> tuple[float, float] | str:
    return test.test()._interval(alpha, rejected=rejected)  # noqa: SLF001


def t_test(difference: Difference, shift: float) -> float:
    """The two-sided p-value of Student's t test of a hypothetical difference."""
    from scipy.special import stdtr

    if difference.standard_error is None:
        return 1.0
    t = abs(difference.value - shift) / difference.standard_error
    return min(1.0, 2 * float(stdtr(difference.degrees_of_freedom, -t)))
