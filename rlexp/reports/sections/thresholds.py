"""Time to threshold: when runs reach a task's threshold, and how many of them do."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import combinations

import numpy as np

from rlexp.records.run import State
from rlexp.reports.analysis.inquiry import Inquiry
from rlexp.reports.drawing.blocks import (
    REMARK,
    Axis,
    Block,
    Column,
    Line,
    Lines,
    Part,
    Table,
    Text,
    Value,
    remarked,
)
from rlexp.reports.evidence.runs import Evidence, Member, states
from rlexp.stats.family import holm
from rlexp.stats.interval import Interval, limited, too_few
from rlexp.stats.survival import Median, SurvivalCurve, kaplan_meier, median_time, restricted_mean
from rlexp.stats.threshold import LogRank, log_rank, time_to_threshold, wilson
from rlexp.text import counted, listed


@dataclass(frozen=True, slots=True, kw_only=True)
class FollowedRuns:
    """The runs of a label on a task, each followed up to the threshold or to its end.

    Attributes:
        times: Environment steps of the evaluated runs, of shape (n,), rising: of the first
            evaluation at the threshold, or of the last one.
        reached: Whether it is the former, of shape (n,).
        full: The last evaluation of a completed run; nothing where no evaluated run completed.
        successes: Ended runs that reached the threshold.
        decided: Ended runs: what the share of successes is of.
        planned: Runs that were asked for.
        remark: What is missing, in words.
    """

    label: str
    task: str
    times: tuple[float, ...]
    reached: tuple[bool, ...]
    full: float | None
    successes: int
    decided: int
    planned: int
    remark: str

    def curve(self, level: float) -> SurvivalCurve | None:
        """The share of runs still on their way; nothing where no run was evaluated."""
        return kaplan_meier(self.times, self.reached, level) if self.times else None


def follow(evidence: Evidence, label: str, task: str, threshold: float) -> FollowedRuns:
    """Follow the runs of a label on a task.

    A run that ended without reaching the threshold is no success, and is followed up to its last
    evaluation. One that has not ended is followed as far as it is, and stands in no share.
    """
    cell = evidence.cell(label, task)
    members = cell.members if cell else ()
    evaluated = [member for member in members if member.is_evaluated]
    outcomes = sorted(_reach(member, threshold) for member in evaluated)
    ended = [member for member in members if _has_ended(member)]
    # Of runs under way, those that were fast would stand for all: the share is of ended ones.
    successes = sum(m.is_evaluated and _reach(m, threshold)[1] for m in ended)
    completed = [m for m in evaluated if m.record.state is State.COMPLETED]
    return FollowedRuns(
        label=label,
        task=task,
        times=tuple(time for time, _ in outcomes),
        reached=tuple(reached for _, reached in outcomes),
        full=max((float(m.record.evaluations[-1].step) for m in completed), default=None),
        successes=successes,
        decided=len(ended),
        planned=len(members),
        remark="; ".join(_remarks(members, threshold)) if members else "not asked for",
    )


def _reach(member: Member, threshold: float) -> tuple[float, bool]:
    return time_to_threshold((member.steps, member.returns), threshold)


def _has_ended(member: Member) -> bool:
    """Whether more of the run could not change whether it reached the threshold."""
    record = member.record
    if record.state is State.FAILED:
        return True
    return record.state in {State.COMPLETED, State.PRUNED} and member.is_evaluated


def _remarks(members: Sequence[Member], threshold: float) -> Iterator[str]:
    unseen = [member for member in members if not member.is_evaluated]
    if unseen:
        yield f"{len(unseen)} without an evaluation ({states(unseen)})"
    short = [
        member
        for member in members
        if member.is_evaluated and member.record.state is not State.COMPLETED
        if not _reach(member, threshold)[1]
    ]
    if short:
        yield f"{len(short)} below it when last seen ({states(short)})"


ABOUT = (
    "A run reaches the threshold at its first evaluation whose mean return is at least as high. "
    "One that never does counts for as long as it was followed (it is censored there), and is "
    "never left out of a mean. Times are known to an evaluation period."
)
NOT_REACHED = "not reached by half of the runs"
SUMMARY = (
    "Reached: the share of ended runs that did. Median and restricted mean "
    "are environment steps, from the Kaplan–Meier curve; the mean counts a run that does not reach "
    "the threshold within the horizon as the horizon, which is as far as the completed runs of "
    "every label were evaluated."
)
PAIRS = (
    "Log-rank test of whether two labels take as long, by its asymptotic distribution, which is "
    "rough with few runs; Holm's adjustment is over all tests of the table."
)


@dataclass(frozen=True, slots=True)
class TimeToThresholdSection:
    """A figure for each task that has a threshold, a table of times, and a test of each pair."""

    def part(self, report: Inquiry) -> Part | None:
        """Compute the part; nothing where no run was asked for."""
        evidence = report.evidence
        if not evidence.tasks:
            return None
        declared = {task: evidence.reference(task).get("threshold") for task in evidence.tasks}
        thresholds = {task: float(value) for task, value in declared.items() if value is not None}
        runs = {
            task: [follow(evidence, label, task, threshold) for label in evidence.labels]
            for task, threshold in thresholds.items()
        }
        level, every = report.settings.level, list(runs.values())
        blocks: list[Block] = [Text(text=ABOUT)] if thresholds else []
        for number, (task, threshold) in enumerate(thresholds.items(), 1):
            if any(followed.times for followed in runs[task]):
                blocks.append(_figure(number, task, threshold, runs[task], level))
        blocks += [_table(every, level)] if every else []
        blocks += _tests(every)
        bare = [task for task in evidence.tasks if task not in thresholds]
        blocks += [Text(text=f"No threshold is declared for {listed(bare)}.")] if bare else []
        return Part(name="thresholds", title="Time to threshold", blocks=tuple(blocks))


def _figure(
    number: int, task: str, threshold: float, runs: Sequence[FollowedRuns], level: float
) -> Lines:
    curves = [(followed, followed.curve(level)) for followed in runs]
    return Lines(
        name=f"thresholds-{number}",
        title=f"{task}: runs that have reached {_signed(threshold)}",
        x=Axis(title="environment steps", low=0.0),
        y=Axis(title="share of runs", low=0.0, high=1.0),
        lines=tuple(_line(followed.label, curve) for followed, curve in curves if curve),
        note=" ".join(_note(followed) for followed in runs),
    )


def _signed(threshold: float) -> str:
    return f"{threshold:,g}".replace("-", "−")


def _note(followed: FollowedRuns) -> str:
    if not followed.times:
        return f"{followed.label}: — ({followed.remark})."
    missing = f"; {followed.remark}" if followed.remark else ""
    return (
        f"{followed.label}: {len(followed.times)} of {counted(followed.planned, 'run')}{missing}."
    )


def _line(label: str, curve: SurvivalCurve) -> Line:
    """One minus the survival curve, from the start to the end of the longest run."""
    shares = [1.0, *curve.survival.tolist()]
    low, high = [1.0, *curve.low.tolist()], [1.0, *curve.high.tolist()]
    x = [0.0, *curve.times.tolist()]
    if curve.follow_up > x[-1]:
        x.append(curve.follow_up)
        shares, low, high = [*shares, shares[-1]], [*low, low[-1]], [*high, high[-1]]
    some = too_few(curve.n) is None and any(np.isfinite(curve.low))
    return Line(
        label=label,
        x=tuple(x),
        y=tuple(1 - share for share in shares),
        low=_ends(high) if some else None,
        high=_ends(low) if some else None,
        steps=True,
    )


def _ends(shares: Sequence[float]) -> tuple[float | None, ...]:
    return tuple(1 - share if np.isfinite(share) else None for share in shares)


def _table(tasks: Sequence[Sequence[FollowedRuns]], level: float) -> Table:
    rows = [_row(followed, _horizon(runs), level) for runs in tasks for followed in runs]
    table = Table(
        name="thresholds",
        title="Time to threshold",
        columns=(
            Column(title="task"),
            Column(title="label", label=True),
            Column(title="runs"),
            Column(title="reached"),
            Column(title="median", digits=0),
            Column(title="restricted mean", digits=0),
            REMARK,
        ),
        rows=tuple(rows),
        note=" ".join([SUMMARY, *_horizons(tasks)]),
    )
    return remarked(table)


def _horizon(runs: Sequence[FollowedRuns]) -> float | None:
    """Up to where the completed runs of every label that has any were followed."""
    return min((followed.full for followed in runs if followed.full is not None), default=None)


def _horizons(tasks: Sequence[Sequence[FollowedRuns]]) -> Iterator[str]:
    horizons = {runs[0].task: horizon for runs in tasks if (horizon := _horizon(runs)) is not None}
    if horizons:
        yield f"Horizons: {', '.join(f'{task} {steps:,.0f}' for task, steps in horizons.items())}."


def _row(followed: FollowedRuns, horizon: float | None, level: float) -> tuple[Value, ...]:
    curve = followed.curve(level)
    share = (
        limited(wilson(followed.successes, followed.decided, level)) if followed.decided else None
    )
    return (
        followed.task,
        followed.label,
        f"{len(followed.times)} of {followed.planned}",
        share,
        _median(median_time(curve)) if curve else None,
        _mean(curve, horizon) if curve else None,
        followed.remark or None,
    )


def _median(median: Median) -> Interval | str:
    """An interval only where both of its ends are reached."""
    if median.estimate is None:
        return NOT_REACHED
    both = median.low is not None and median.high is not None
    lower_end = "" if median.low is None else f"from {median.low:,.0f}, "
    interval = Interval(
        estimate=median.estimate,
        low=median.low if both else None,
        high=median.high if both else None,
        level=median.level,
        method="Brookmeyer and Crowley, log(−log)",
        repetitions=0,
        n=median.n,
        reason=None if both else f"{lower_end}without an upper end",
    )
    return limited(interval)


def _mean(curve: SurvivalCurve, horizon: float | None) -> Interval | str:
    if horizon is None:
        return "no run completed"
    followed = curve.follow_up >= horizon or curve.at(curve.follow_up) == 0
    return limited(restricted_mean(curve, horizon)) if followed else "no run was followed that far"


def _tests(tasks: Sequence[Sequence[FollowedRuns]]) -> list[Table]:
    pairs = [(a, b) for runs in tasks for a, b in combinations(runs, 2)]
    if not pairs:
        return []
    tests = [_test(a, b) for a, b in pairs]
    p_values = [test.p_value for test in tests if test and test.p_value is not None]
    adjusted = iter(holm(p_values).tolist() if p_values else [])
    rows = [
        _pair(a, b, test, next(adjusted) if test and test.p_value is not None else None)
        for (a, b), test in zip(pairs, tests, strict=True)
    ]
    table = Table(
        name="thresholds-pairs",
        title="Do two labels take as long?",
        columns=(
            Column(title="task"),
            Column(title="label", label=True),
            Column(title="against", label=True),
            Column(title="runs"),
            Column(title="χ²"),
            Column(title="p", digits=4),
            Column(title="p after Holm", digits=4),
            REMARK,
        ),
        rows=tuple(rows),
        note=PAIRS,
    )
    return [remarked(table)]


def _test(a: FollowedRuns, b: FollowedRuns) -> LogRank | None:
    if not a.times or not b.times:
        return None
    return log_rank((a.times, b.times), (a.reached, b.reached))


def _pair(
    a: FollowedRuns, b: FollowedRuns, test: LogRank | None, adjusted: float | None
) -> tuple[Value, ...]:
    runs = f"{len(a.times)} and {len(b.times)}"
    if test is None:
        lacking = listed(followed.label for followed in (a, b) if not followed.times)
        return (a.task, a.label, b.label, runs, None, None, None, f"no evaluation of {lacking}")
    return (a.task, a.label, b.label, runs, test.statistic, test.p_value, adjusted, test.reason)
