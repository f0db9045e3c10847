"""Decisions on pairs of labels: the verdict, its reason as text, and what could be found."""

from dataclasses import dataclass, field
from functools import cached_property
from math import ceil

from rlexp.stats.interval import Interval
from rlexp.stats.pairs.pairwise_family import (
    Family,
    FamilyMember,
    Verdict,
    decide,
)
from rlexp.stats.pairs.pilot import detectable_differences
from rlexp.stats.pairs.power import QUICK, ComparisonPlan, check_levels
from rlexp.stats.pairs.reach import Correction, DetectableDifferences, seeds_to_decide
from rlexp.stats.task_scores import TaskScores
from rlexp.text import format_p_value, format_percentage


# Without slots: what could be found is computed once, and only if it is asked for.
@dataclass(frozen=True, kw_only=True)
class Decision:
    """The verdict on one of several pairs.

    Attributes:
        verdict: Verdict on the first label against the second.
        reason: The reason for the verdict, as text that names neither label.
        member: The pair with its statistics and adjusted p-values.
        pair: Scores of both labels.
        plan: The comparison as it is planned.
        power: Probability with which an undecided pair should find a difference.
        furthest: Largest possible difference; None where it is not known.
    """

    verdict: Verdict
    reason: str
    member: FamilyMember
    pair: tuple[TaskScores, TaskScores] = field(repr=False, compare=False)
    plan: ComparisonPlan = field(repr=False, compare=False)
    power: float
    furthest: float | None = None

    @cached_property
    def detectable(self) -> DetectableDifferences | None:
        """What an undecided comparison could find, with its seeds and with more.

        None for other verdicts, and where more relabellings are needed and not more seeds.
        """
        relabellings = self.member.comparison.permutation.repetitions
        if self.verdict is not Verdict.UNDECIDED or (self.member.out_of_reach and relabellings):
            return None
        return detectable_differences(
            *self.pair,
            plan=self.plan,
            floor=_floor(self.member),
            chance=self.power,
            furthest=self.furthest,
        )


def verdicts(family: Family, *, power: float = 0.8) -> tuple[Decision, ...]:
    """Decide every pair of a family about the difference of its metric.

    If all labels have the same distribution of scores, or all labels of each of several groups,
    the probability of any verdict `better` or `worse` inside a group is at most alpha, for up to
    `MOST_LABELS` labels. If only the metrics are equal and the spreads are not, it is about alpha
    for normal scores and can be far larger for others: see `docs/concepts/statistics.md`. The test of
    equivalence is Welch's. A pair that cannot be tested, because it has too few runs or no
    variance, still counts in the adjustment.

    Args:
        family: The pairs, the metric and the levels.
        power: Probability with which an undecided pair should find a difference.

    Returns:
        A decision for each pair, in the given order.

    Raises:
        ValueError: Labels of a pair cannot be compared (`tasks_of_both`), or alpha, the power or
            the margin is out of range.
    """
    check_levels(family.alpha, power)
    family = family.without_cap()
    plans = {tasks: _plan(family, tasks) for tasks in {len(x.sizes) for x, _ in family.pairs}}
    return tuple(
        Decision(
            verdict=member.verdict,
            reason=_reason(member),
            member=member,
            pair=pair,
            plan=plans[len(pair[0].sizes)],
            power=power,
            furthest=furthest,
        )
        for member, pair, furthest in zip(
            decide(family), family.pairs, family.largest_differences(), strict=True
        )
    )


def _plan(family: Family, tasks: int) -> ComparisonPlan:
    by_holm = family.correction is Correction.HOLM
    return ComparisonPlan(
        labels=2 if by_holm else family.labels,
        tasks=tasks,
        statistic=family.statistic,
        alpha=family.alpha / len(family.pairs) if by_holm else family.alpha,
        samples=QUICK,
    )


def _reason(member: FamilyMember) -> str:
    undecided = member.verdict is Verdict.UNDECIDED
    return _why_undecided(member) if undecided else _why_decided(member)


def _floor(member: FamilyMember) -> int:
    tasks = member.comparison.difference.tasks
    return seeds_to_decide(tasks, member.pairs, member.alpha, member.correction, member.labels)


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
    test = comparison.deciding
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
    test = member.comparison.permutation
    least = f"{_p(member.adjusted_smallest_p, member)}, above {member.alpha:g}"
    if test.repetitions:
        # With B random relabellings, the smallest p-value is 1 / (B + 1).
        needed = ceil(member.adjusted_smallest_p / test.smallest_p / member.alpha) - 1
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
    level = f"{format_percentage(difference.level)} interval"
    return f"{difference.estimate:.4g} ({level} {difference.low:.4g} to {difference.high:.4g})"


def _primary_p(member: FamilyMember) -> str:
    """The p-value that decided, with a remark if Welch's test contributed to it."""
    comparison, p = member.comparison, _p(member.adjusted_p, member)
    return f"{p} ({comparison.guard})" if comparison.guard else p


def _p(p: float | None, member: FamilyMember) -> str:
    if p is None:
        return "no p-value"
    return f"{format_p_value(p)}{_adjustment(member)}"


def _adjustment(member: FamilyMember) -> str:
    if member.correction is Correction.NONE:
        return ""
    over = (
        f"{member.pairs} pairs"
        if member.correction is Correction.HOLM
        else f"{member.labels} labels"
    )
    return f" after {member.correction} over {over}"
