"""Decisions on pairs of labels: the verdict, its reason as text, and how many seeds are missing."""

from collections.abc import Sequence
from dataclasses import dataclass
from math import ceil

from rlexp.stats.comparison import WELCH_TOO, PrimaryTest, comparisons
from rlexp.stats.interval import Interval
from rlexp.stats.pairwise_family import FamilyMember, Verdict, family, seeds_to_decide
from rlexp.stats.pilot import FurtherSeeds, further_seeds
from rlexp.stats.power import check_levels
from rlexp.stats.resampling import Resampling
from rlexp.stats.task_scores import TaskScores


@dataclass(frozen=True, slots=True, kw_only=True)
class Decision:
    """The verdict on one of several pairs.

    Attributes:
        verdict: Verdict on the first label against the second.
        reason: The reason for the verdict, as text that names neither label.
        member: The pair with its statistics and adjusted p-values.
        further: Estimated number of further seeds that would decide an undecided pair.
    """

    verdict: Verdict
    reason: str
    member: FamilyMember
    further: FurtherSeeds | None = None


def verdicts(
    pairs: Sequence[tuple[TaskScores, TaskScores]],
    resampling: Resampling,
    *,
    alpha: float = 0.05,
    margin: float | None = None,
    primary: PrimaryTest = PrimaryTest.PERMUTATION,
    power: float = 0.8,
    furthest: Sequence[float | None] | None = None,
) -> tuple[Decision, ...]:
    """Decide every pair, with p-values of the primary test adjusted over all pairs by Holm.

    If all labels have the same distribution of scores, the probability of any verdict `better` or
    `worse` is at most alpha. If the means are equal and the variances are not, it is about alpha:
    for normal scores at 5 %, 5 runs against 5 with a fifth of the standard deviation give 8 %;
    with unequal numbers of runs Welch's test must agree (`PairwiseComparison.deciding`), which
    gives 5 to 6 %. For skewed scores, 4 runs against 10 with a third of the standard deviation give 13 %.
    The test of equivalence is Welch's. A pair that cannot be tested, because it has too few runs
    or no variance, still counts in the adjustment.

    Args:
        pairs: Scores of the first and the second label of each pair.
        resampling: Seed and repetitions of the permutation tests, and level of the intervals.
        alpha: Family-wise level.
        margin: The largest difference that does not matter, in units of the scores.
        primary: The test that decides, declared before the scores are seen.
        power: Probability with which the further seeds of an undecided pair should decide it.
        furthest: The largest possible difference of each pair; see `comparisons`.

    Returns:
        A decision for each pair, in the given order.

    Raises:
        ValueError: Labels of a pair cannot be compared (`tasks_of_both`), or alpha, the power or
            the margin is out of range.
    """
    check_levels(alpha, power)
    compared = comparisons(pairs, resampling, alpha=alpha, margin=margin, furthest=furthest)
    members = family(compared, primary=primary, alpha=alpha)
    return tuple(
        _decide(member, x, y, margin, power) for member, (x, y) in zip(members, pairs, strict=True)
    )


def _decide(
    member: FamilyMember, x: TaskScores, y: TaskScores, margin: float | None, power: float
) -> Decision:
    if member.verdict is not Verdict.UNDECIDED:
        return Decision(verdict=member.verdict, reason=_why_decided(member), member=member)
    return Decision(
        verdict=member.verdict,
        reason=_why_undecided(member),
        member=member,
        further=_further(member, x, y, margin, power),
    )


def _further(
    member: FamilyMember, x: TaskScores, y: TaskScores, margin: float | None, power: float
) -> FurtherSeeds:
    if member.out_of_reach and member.comparison.test(member.primary).repetitions:
        reason = (
            "more random relabellings are needed before the number of further seeds can be "
            "estimated: increase the number of resamples"
        )
        return FurtherSeeds(seeds=None, total=None, reason=reason)
    return further_seeds(
        x,
        y,
        margin=margin,
        # The first step of Holm's procedure has the strictest level: the number of seeds is then
        # rather too large than too small.
        alpha=member.alpha / member.pairs,
        power=power,
        at_least=_floor(member),
    )


def _floor(member: FamilyMember) -> int:
    if member.primary is PrimaryTest.WELCH:
        return 2
    return seeds_to_decide(member.comparison.difference.tasks, member.pairs, member.alpha)


def _why_decided(member: FamilyMember) -> str:
    difference = member.comparison.difference
    if member.verdict is Verdict.EQUIVALENT and member.comparison.equivalence:
        margin, p = member.comparison.equivalence.margin, _p(member.adjusted_equivalence_p, member)
        within = f"the difference of {_measured(difference)} is within ±{margin:.4g}, {p}"
        real = f"; it is real ({_primary_p(member)}), but too small to matter"
        return within + real * member.different
    side = "higher" if member.verdict is Verdict.BETTER else "lower"
    return f"{side}: a difference of {_measured(difference)}, {_primary_p(member)}"


def _why_undecided(member: FamilyMember) -> str:
    comparison, difference = member.comparison, member.comparison.difference
    test = comparison.deciding(member.primary)
    if not comparison.replicated:
        return (
            "one run of a label on each task shows no spread: no test is possible; "
            f"at least {_floor(member)} runs per label and task are needed"
        )
    if member.adjusted_p is None:
        return f"no {test.method} is possible: {test.reason}"
    if member.out_of_reach:
        return _out_of_reach(member)
    if difference.reason and difference.estimate == 0:
        return (
            "all runs of a task are equal: there is no difference, "
            "and no spread to compare it with"
        )
    return (
        f"a difference of {_measured(difference)} may be chance: "
        f"{_primary_p(member)}, above {member.alpha:g}"
    )


def _out_of_reach(member: FamilyMember) -> str:
    test = member.comparison.test(member.primary)
    least = f"{_p(member.adjusted_smallest_p, member)}, above {member.alpha:g}"
    if test.repetitions:
        # With B random relabellings, the smallest two-sided p-value is 2 / (B + 1).
        needed = ceil(2 * member.pairs / member.alpha) - 1
        return (
            f"with {test.repetitions} random relabellings the smallest possible p-value is "
            f"{least}: at least {needed} resamples are needed"
        )
    return (
        f"with {_runs(member)} per label and task the smallest possible p-value is {least}: "
        f"at least {_floor(member)} runs per label and task are needed"
    )


def _runs(member: FamilyMember) -> str:
    sizes = {size for side in member.comparison.sizes for size in side}
    few, many = min(sizes), max(sizes)
    return f"{few} runs" if few == many else f"{few} to {many} runs"


def _measured(difference: Interval) -> str:
    if difference.low is None or difference.high is None:
        return f"{difference.estimate:.4g} (no interval: {difference.reason})"
    level = f"{100 * difference.level:g}% interval"
    return f"{difference.estimate:.4g} ({level} {difference.low:.4g} to {difference.high:.4g})"


def _primary_p(member: FamilyMember) -> str:
    """The p-value that decided, with a remark if Welch's test contributed to it."""
    comparison, p = member.comparison, _p(member.adjusted_p, member)
    alone = comparison.deciding(member.primary) == comparison.test(member.primary)
    return p if alone else f"{p} ({WELCH_TOO})"


def _p(p: float | None, member: FamilyMember) -> str:
    if p is None:
        return "no p-value"
    value = "p < 0.0001" if p < 1e-4 else f"p = {p:.3g}"
    return value if member.pairs == 1 else f"{value} after Holm over {member.pairs} pairs"
