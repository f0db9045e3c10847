"""Warnings at comparisons whose runs look as those do where tests do not hold their level.

Permutation tests and Welch's test call two labels with equal means different more often than at
their level if the spreads of the labels differ and the scores are skewed, or fall into two groups
(solved and failed). The errors below are those of verdicts, for spreads of 3 : 1 at a level of 5 %,
where with unequal numbers of runs the label with fewer runs spreads more.
`benchmarks/level_warnings.py` simulates them.

The thresholds are such that of comparisons of five normal scores each with equal spreads fewer than
10 % have a warning. No threshold can tell all: the runs of a label that spreads more can by chance
lie close together, and just then the labels are told apart (`docs/concepts/statistics.md`). So where the
numbers of runs differ, the label that seems to spread more need not be the one that does.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum

import numpy as np
from numpy.typing import NDArray

from rlexp.stats.aggregate import Statistic, aggregate_of
from rlexp.stats.task_scores import TaskScores

Array = NDArray[np.float64]

SPREAD_RATIOS: Mapping[int, float] = {3: 4.0, 4: 4.0, 5: 3.2, 6: 3.0}
"""Ratio of the observed spreads at which a warning appears, from so many runs on.

Of four and of five runs of each label with equal spreads and normal scores, 5 % have it.
"""
GAPS: Mapping[int, float] = {4: 0.9, 5: 0.85}
"""Share of the range of a label's runs that the gap between two groups takes, from so many runs on.

Fewer runs show no groups. Two labels of four or five normal scores have it in 4 % and in 2 %.
"""


class Cause(StrEnum):
    """Why a test may not hold its level."""

    GROUPS = "groups"
    SPREADS = "spreads"


ErrorTable = Mapping[int, int | None]
"""Type I error at 5 %, in per cent, from so many runs of the label with fewer on; None: below 10."""

# Of groups: 70 % of the runs solve the task and 30 % fail. Of spreads: lognormal scores.
MEAN_ERRORS: Mapping[Cause, ErrorTable] = {
    Cause.GROUPS: {3: 38, 4: 25, 5: 18, 6: 12, 7: 11, 8: 8, 10: None},
    Cause.SPREADS: {3: 19, 4: 13, 5: 15, 10: 14, 20: 12, 30: None},
}
"""Errors of verdicts about the mean, and of any metric but the interquartile mean."""
IQM_ERRORS: Mapping[Cause, ErrorTable] = {
    Cause.GROUPS: {4: 17, 5: 19, 6: 14, 7: None},
    Cause.SPREADS: {4: None},
}
"""Errors of verdicts about the interquartile mean, with as many runs of both labels."""
UNEQUAL_IQM_ERRORS: Mapping[Cause, ErrorTable] = {
    Cause.GROUPS: {3: 12, 4: None},
    Cause.SPREADS: {3: None},
}
"""The same with unequal numbers of runs, where Welch's test must agree."""
SEQUENTIAL_ERRORS: Mapping[Cause, ErrorTable] = {
    Cause.GROUPS: {5: 20, 10: 8, 20: None},
    Cause.SPREADS: {5: 19, 10: 16, 20: 13},
}
"""Errors of the sequential test of means, from so many new seeds at each look on."""


@dataclass(frozen=True, slots=True)
class _Appearance:
    """What is unusual about the runs of two labels.

    Attributes:
        cause: Why a test may not hold its level.
        text: What the runs look like.
    """

    cause: Cause
    text: str


def level_warning(
    x: TaskScores, y: TaskScores, first: str, second: str, statistic: Statistic
) -> str | None:
    """A warning that the verdict on two labels may not hold its level.

    Args:
        x: Scores of the first label.
        y: Scores of the second, on the same tasks in the same order.
        first: Name of the first label.
        second: Name of the second.
        statistic: The metric of the verdict.

    Returns:
        Sentences with the type I error in simulations and what to do; None where the runs look
        usual, where there are enough of them, or where they are too few for any verdict.
    """
    fewest = min(x.n, y.n)
    equal = x.sizes == y.sizes
    errors = errors_of_verdicts(statistic, equal=equal)
    # Three runs against three have a smallest p of 0.1.
    if fewest < (4 if equal else 3) or not any(_at(table, fewest) for table in errors.values()):
        return None
    centre = "interquartile means" if _is_iqm(statistic) else "means"
    runs = "runs of each label" if equal else "runs of the label that spreads more"
    for appearance in _appearances(x, y, first, second):
        if text := _error_text(appearance, errors, fewest, runs, centre):
            return f"{text}. {_advice(x, y)}"
    return None


def errors_of_verdicts(statistic: Statistic, *, equal: bool) -> Mapping[Cause, ErrorTable]:
    """The errors of verdicts about a metric, with equal or unequal numbers of runs."""
    if not _is_iqm(statistic):
        return MEAN_ERRORS
    return IQM_ERRORS if equal else UNEQUAL_IQM_ERRORS


def _is_iqm(statistic: Statistic) -> bool:
    aggregate = aggregate_of(statistic)
    return aggregate is not None and aggregate.cut is not None


def sequential_level_warning(
    x: TaskScores, y: TaskScores, first: str, second: str, *, group: int
) -> str | None:
    """A warning that a sequential decision on two labels may not hold its level.

    Args:
        x: Scores of the first label at all looks.
        y: Scores of the second.
        first: Name of the first label.
        second: Name of the second.
        group: New seeds of each label at each look.

    Returns:
        As in `level_warning`.
    """
    for appearance in _appearances(x, y, first, second):
        seeds = max(group, 5)
        unit = "new seeds at each look"
        if text := _error_text(appearance, SEQUENTIAL_ERRORS, seeds, unit, "means"):
            return f"{text}. Plan the next comparison with a larger --group, 10 or more."
    return None


def _error_text(
    appearance: _Appearance,
    errors: Mapping[Cause, ErrorTable],
    number: int,
    unit: str,
    centre: str,
) -> str | None:
    """What simulations say about runs of this appearance; None where they say below 10 %."""
    table = errors[appearance.cause]
    simulated = _start(table, number)
    if table[simulated] is None:
        return None
    shape = "such groups" if appearance.cause is Cause.GROUPS else "skewed scores"
    return (
        f"{appearance.text}: in simulations with {simulated} {unit}, spreads of 3 : 1 and {shape}, "
        f"labels with equal {centre} were told apart in about {table[simulated]} % of cases, not in 5 %"
    )


def _advice(x: TaskScores, y: TaskScores) -> str:
    if x.sizes == y.sizes and x.n >= 10:
        return "More seeds lower this slowly, so look at the runs as well."
    return "Give both labels the same number of seeds, 10 or more."


def _appearances(x: TaskScores, y: TaskScores, first: str, second: str) -> list[_Appearance]:
    """What is unusual about the runs; the cause with the larger error first."""
    names = [name for scores, name in ((x, first), (y, second)) if _has_groups(scores)]
    groups = (
        f"The runs of {' and of '.join(names)} fall into two groups, such as solved and failed"
    )
    spreads = _spread_text(x, y, first, second)
    return [
        *([_Appearance(Cause.GROUPS, groups)] if names else []),
        *([_Appearance(Cause.SPREADS, spreads)] if spreads else []),
    ]


def _has_groups(scores: TaskScores) -> bool:
    """Whether on any task a gap takes most of the range of the runs."""
    tasks = [task for task in scores.by_task() if len(task) >= min(GAPS)]
    return any(_largest_gap(task) >= GAPS[_start(GAPS, len(task))] for task in tasks)


def _largest_gap(scores: Array) -> float:
    """Largest share of the range of the scores between two neighbours; 0 if all are equal."""
    ordered = np.sort(scores)
    span = float(ordered[-1] - ordered[0])
    return float((ordered[1:] - ordered[:-1]).max()) / span if span > 0 else 0.0


def _spread_text(x: TaskScores, y: TaskScores, first: str, second: str) -> str | None:
    """A sentence on spreads that differ; None if they hardly do."""
    (small, narrow), (large, wide) = sorted([(_spread(x), first), (_spread(y), second)])
    ratio = SPREAD_RATIOS[_start(SPREAD_RATIOS, max(min(x.n, y.n), min(SPREAD_RATIOS)))]
    if not large > 0 or large < ratio * small:
        return None
    if small == 0:
        return f"The runs of {narrow} are all equal, and those of {wide} are not"
    times = f"{large / small:.1f}" if large < 100 * small else "more than 100"
    return f"The runs of {wide} spread {times} times as much as those of {narrow}"


def _spread(scores: TaskScores) -> float:
    """Mean absolute deviation of the runs from the median of their task, over all tasks.

    It is less noisy than a standard deviation where single runs lie far off. Tasks with one run
    show no spread.
    """
    tasks = [task for task in scores.by_task() if len(task) > 1]
    # n − 1 makes labels with few runs comparable with labels that have many.
    each = [_total_deviation(task) / (len(task) - 1) for task in tasks]
    return sum(each) / len(each) if each else 0.0


def _total_deviation(scores: Array) -> float:
    """Sum of the distances of scores from their median: their upper half less their lower half."""
    ordered = np.sort(scores)
    half = len(ordered) // 2
    # Pairs of scores first, so that equal scores give exactly 0.
    return float((ordered[len(ordered) - half :] - ordered[:half][::-1]).sum())


def _at(table: ErrorTable, fewest: int) -> int | None:
    """The type I error with so many runs of the label with fewer, in per cent; None if below 10."""
    return table[_start(table, fewest)]


def _start(table: Mapping[int, object], runs: int) -> int:
    """The last number in a table that is not above a number of runs."""
    return max(start for start in table if start <= runs)
