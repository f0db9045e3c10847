"""Interval of a difference of two labels: the differences that the verdict's test does not reject.

An interval that inverts the test of the verdict cannot contradict the verdict: it contains 0 if and
only if the pair is undecided.
"""

from collections.abc import Generator, Hashable, Sequence
from dataclasses import dataclass
from functools import cached_property, lru_cache
from math import inf, isfinite, sqrt
from typing import TypeVar

import numpy as np

from rlexp.stats.aggregate import Statistic
from rlexp.stats.block_threads import run_blocks
from rlexp.stats.pairs.difference import Difference
from rlexp.stats.pairs.permutation import (
    EXACT_RELABELLINGS,
    Pair,
    PermutationDistribution,
    difference_of,
    moved,
    permutation_distribution,
    relabellings,
    smallest_p,
    squared_error,
)
from rlexp.stats.pairs.ranked_relabellings import PairQuestion, answers, is_linear
from rlexp.stats.resampling import Resampling
from rlexp.stats.task_scores import TaskScores

START = 4.0
"""Distance from the estimate, in standard errors, at which the search for an end begins."""
ITERATIONS = 6
"""Steps of the iteration for an end; each takes the error down to about a tenth."""
BISECTIONS = 20
TOGETHER_FROM = 20
"""Pairs from which on computing their intervals together saves more than its preparation takes."""
CELLS = 400_000
"""Runs that the random relabellings for one hypothetical difference assign together, at most."""


Ends = tuple[float, float] | str
"""Both ends of an interval, or the reason why there are none."""
Result = TypeVar("Result")


@dataclass(frozen=True, slots=True)
class _DistributionRequest:
    """A request for the distribution of a hypothetical difference.

    Attributes:
        difference: The difference.
        alpha: The level whose critical value is needed; None where the p-value is needed.
    """

    difference: float
    alpha: float | None


Steps = Generator[_DistributionRequest, PermutationDistribution, Result]
"""A computation that asks for distributions."""


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
        return intervals_of([IntervalQuestion(self, alpha, rejected)])[0]

    def steps(self, alpha: float, *, rejected: bool) -> Steps[Ends]:
        """The computation of the interval, which asks for distributions one after the other.

        The computations of several pairs can thus go on side by side.
        """
        if self.smallest_p > alpha:
            return (
                f"the smallest possible p-value, {self.smallest_p:.3g}, is above {alpha:.3g}: "
                "no difference can be excluded"
            )
        error = sqrt(float(squared_error(self.x) + squared_error(self.y)))
        if not error > 0:
            return "within each task all runs are equal"
        estimate = self.estimate
        low = yield from self._end(estimate, -error, alpha)
        high = yield from self._end(estimate, error, alpha)
        if not (isfinite(low) and isfinite(high)):
            return "the test rejects no difference, however large"
        if rejected == (low <= 0 <= high):
            # The p-value is not quite monotone in the difference, and random relabellings are
            # fewer here: the verdict decides on which side of the end 0 lies.
            return (yield from self._agreeing(low, high, estimate, alpha, rejected=rejected))
        return low, high

    def _end(self, estimate: float, error: float, alpha: float) -> Steps[float]:
        """The end of the interval on the side of `error`, which has a sign.

        The observed statistic of a hypothetical difference d is (estimate − d) / error. It equals
        the critical value at the end. The critical value hardly depends on d, so that iterating
        converges.
        """
        end, least = estimate + START * error, self._guard_distance(alpha)
        for _ in range(ITERATIONS):
            distribution = yield _DistributionRequest(end, alpha)
            distance = max(distribution.critical(alpha) * abs(error), least)
            if not isfinite(distance):
                # The moved scores of both labels tie here; further away they do not.
                distance = 2 * abs(end - estimate)
            end = estimate + (distance if error > 0 else -distance)
        if (yield from self._p(end + (end - estimate))) > alpha:
            return inf if error > 0 else -inf
        is_random = relabellings(self.x, self.y) > EXACT_RELABELLINGS
        return end if is_random else (yield from self._refined(estimate, end, alpha))

    def _refined(self, estimate: float, end: float, alpha: float) -> Steps[float]:
        """The end by bisection: few relabellings have few critical values, far from each other."""
        rejected = end
        while (yield from self._p(rejected)) > alpha:
            rejected += rejected - estimate
        return (yield from self._bisected(estimate, rejected, alpha))

    def _bisected(self, accepted: float, rejected: float, alpha: float) -> Steps[float]:
        """The accepted difference next to the first rejected one, between two differences."""
        for _ in range(BISECTIONS):
            middle = (accepted + rejected) / 2
            if (yield from self._p(middle)) > alpha:
                accepted = middle
            else:
                rejected = middle
        return accepted

    def _p(self, difference: float) -> Steps[float]:
        guarded = 0.0 if self.guard is None else t_test(self.guard, difference)
        distribution = yield _DistributionRequest(difference, None)
        return max(distribution.p, guarded)

    def _guard_distance(self, alpha: float) -> float:
        """Distance from the estimate to which the t test of the guard accepts differences."""
        from scipy.special import stdtrit

        if self.guard is None or self.guard.standard_error is None:
            return 0.0
        quantile = float(stdtrit(self.guard.degrees_of_freedom, 1 - alpha / 2))
        return quantile * self.guard.standard_error

    def distribution(self, difference: float) -> PermutationDistribution:
        """The distribution where the first label is larger by `difference`."""
        return permutation_distribution(
            self.moved(difference), self.statistic, self.resampling, self.fewer
        )

    def moved(self, difference: float) -> Pair:
        """Both labels, the first moved by a hypothetical difference."""
        return moved(self.x, -difference), self.y

    @property
    def fewer(self) -> int:
        """Number of random relabellings for one hypothetical difference."""
        return min(self.repetitions, max(999, CELLS // (self.x.n + self.y.n)))

    def _agreeing(
        self, low: float, high: float, estimate: float, alpha: float, *, rejected: bool
    ) -> Steps[tuple[float, float]]:
        """The interval with the end beside 0 moved to the side on which the verdict puts it."""
        end = (yield from self._bisected(estimate, 0.0, alpha)) if rejected else 0.0
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


def _as_bytes(scores: TaskScores) -> bytes:
    return np.asarray(scores.values, dtype=np.float64).tobytes()


@lru_cache(maxsize=1024)
def _remembered(
    key: tuple[_HashableTest, float, bool],  # noqa: ARG001 - the cache is the use
) -> list[Ends]:
    """The interval of a test once it was computed; until then an empty list, to be filled."""
    return []


@dataclass(frozen=True, slots=True)
class IntervalQuestion:
    """A question for the interval of a test; see `DifferenceTest.interval`."""

    test: DifferenceTest
    alpha: float
    rejected: bool

    def steps(self) -> Steps[Ends]:
        """The computation of the interval."""
        return self.test.steps(self.alpha, rejected=self.rejected)

    def remembered(self) -> list[Ends]:
        """The interval if it was computed before; a list to which it is added otherwise."""
        if not isinstance(self.test.statistic, Hashable):
            return []
        return _remembered((_HashableTest.of(self.test), self.alpha, self.rejected))


def intervals_of(questions: Sequence[IntervalQuestion], threads: int = 1) -> list[Ends]:
    """The intervals of several tests.

    Intervals are remembered: when a report of many labels is computed again after one run has
    ended, those of most pairs are the same.

    Args:
        questions: The tests, with their levels.
        threads: Number of threads; the result does not depend on it.
    """
    answers = [question.remembered() for question in questions]
    open_questions = [(q, a) for q, a in zip(questions, answers, strict=True) if not a]
    together: dict[tuple[object, ...], list[tuple[IntervalQuestion, list[Ends]]]] = {}
    alone: list[tuple[IntervalQuestion, list[Ends]]] = []
    for question, answer in open_questions:
        test = question.test
        if is_linear((test.x, test.y), test.statistic):
            alike = test.x.sizes, test.y.sizes, id(test.statistic), test.resampling, test.fewer
            together.setdefault(alike, []).append((question, answer))
        else:
            alone.append((question, answer))

    large = [group for group in together.values() if len(group) >= TOGETHER_FROM]
    alone += (each for group in together.values() if len(group) < TOGETHER_FROM for each in group)

    def compute(position: int) -> None:
        question, answer = alone[position]
        answer.append(interval_alone(question))

    run_blocks(compute, range(len(alone)), threads)
    for alike_questions in large:
        _side_by_side(alike_questions, threads)
    return [answer[0] for answer in answers]


def interval_alone(question: IntervalQuestion) -> Ends:
    """The interval of one test, computed anew."""
    steps, distribution = question.steps(), None
    while True:
        try:
            request = next(steps) if distribution is None else steps.send(distribution)
        except StopIteration as end:
            ends: Ends = end.value
            return ends
        distribution = question.test.distribution(request.difference)


def _side_by_side(questions: Sequence[tuple[IntervalQuestion, list[Ends]]], threads: int) -> None:
    """Compute intervals of pairs with the same numbers of runs: one request of each at a time."""
    first = questions[0][0].test
    waiting = [(question, question.steps(), answer) for question, answer in questions]
    distributions: list[PermutationDistribution] | None = None
    while waiting:
        requests, remaining = [], []
        for position, (question, steps, answer) in enumerate(waiting):
            try:
                request = (
                    next(steps) if distributions is None else steps.send(distributions[position])
                )
            except StopIteration as end:
                answer.append(end.value)
                continue
            pair = question.test.moved(request.difference)
            requests.append(PairQuestion(pair, request.alpha))
            remaining.append((question, steps, answer))
        waiting = remaining
        distributions = (
            answers(requests, first.statistic, first.resampling, first.fewer, threads)
            if requests
            else []
        )


def t_test(difference: Difference, shift: float) -> float:
    """The two-sided p-value of Student's t test of a hypothetical difference."""
    from scipy.special import stdtr

    if difference.standard_error is None:
        return 1.0
    t = abs(difference.value - shift) / difference.standard_error
    return min(1.0, 2 * float(stdtr(difference.degrees_of_freedom, -t)))
