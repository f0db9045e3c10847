"""The section of time to threshold: survival analysis of the steps to a task's threshold."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import combinations

import numpy as np

from rlexp.records.run import State
from rlexp.reports.analysis.estimates import best_labels_first
from rlexp.reports.analysis.report_context import ReportContext
from rlexp.reports.analysis.score_words import about_scores
from rlexp.reports.drawing.blocks import (
    REMARK_COLUMN,
    Axis,
    Block,
    FigureLine,
    LineFigure,
    SectionContent,
    Table,
    TableColumn,
    Text,
    Value,
    without_empty_remarks,
)
from rlexp.reports.evidence.runs import Evidence, PlannedRun, run_states_text
from rlexp.stats.interval import Interval, limited, too_few
from rlexp.stats.pairs.pairwise_family import holm
from rlexp.stats.survival import (
    MedianTime,
    SurvivalCurve,
    kaplan_meier,
    median_time,
    restricted_mean,
)
from rlexp.stats.threshold import LogRank, log_rank, time_to_threshold, wilson
from rlexp.text import format_count, join_names


@dataclass(frozen=True, slots=True, kw_only=True)
class FollowedRuns:
    """Times to the threshold of a label's runs on a task, censored at their last evaluation.

    Attributes:
        times: Environment steps of the evaluated runs, of shape (n,), rising: the first evaluation
            at or above the threshold, or the last evaluation.
        reached: Whether the run reached the threshold, of shape (n,).
        full: Largest last evaluation of the completed runs; `None` without a completed run.
        successes: Number of ended runs that reached the threshold.
        decided: Number of ended runs, the denominator of the share of successes.
        planned: Number of planned runs.
        remark: Missing data, as text.
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
        """Share of runs below the threshold over steps; `None` where no run was evaluated."""
        return kaplan_meier(self.times, self.reached, level) if self.times else None


def follow(evidence: Evidence, label: str, task: str, threshold: float) -> FollowedRuns:
    """Times to the threshold of the runs of a label on a task.

    A run without an evaluation at the threshold is censored at its last evaluation. Only ended
    runs count in the share of successes.
    """
    cell = evidence.cell(label, task)
    members = cell.members if cell else ()
    evaluated = [member for member in members if member.is_evaluated]
    outcomes = sorted(_reach(member, threshold) for member in evaluated)
    ended = [member for member in members if _has_ended(member)]
    # Among running runs only the fast ones have reached the threshold: counting them would bias
    # the share upwards.
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
        remark="; ".join(_remarks(members, threshold)) if members else "no run planned",
    )


def _reach(member: PlannedRun, threshold: float) -> tuple[float, bool]:
    if member.configuration.lower_is_better:
        return time_to_threshold((member.steps, -member.heights), -threshold)
    return time_to_threshold((member.steps, member.heights), threshold)


def _has_ended(member: PlannedRun) -> bool:
    """Whether it is final that the run did, or did not, reach the threshold."""
    record = member.record
    if record.state is State.FAILED:
        return True
    return record.state in {State.COMPLETED, State.PRUNED} and member.is_evaluated


def _remarks(members: Sequence[PlannedRun], threshold: float) -> Iterator[str]:
    unseen = [member for member in members if not member.is_evaluated]
    if unseen:
        yield f"{len(unseen)} without an evaluation ({run_states_text(unseen)})"
    short = [
        member
        for member in members
        if member.is_evaluated and member.record.state is not State.COMPLETED
        if not _reach(member, threshold)[1]
    ]
    if short:
        yield f"{len(short)} below the threshold at the last evaluation ({run_states_text(short)})"


ABOUT = (
    "A run reaches the threshold at its first evaluation with a mean return of at least the "
    "threshold. A run that never reaches it is censored at its last evaluation and stays in every "
    "estimate. Times are accurate to one evaluation period."
)
NOT_REACHED = "not reached by half of the runs"
SUMMARY = (
    "Reached: share of ended runs that reached the threshold. Median and restricted mean "
    "are environment steps, from the Kaplan–Meier curve. The restricted mean counts a run that "
    "does not reach the threshold within the horizon as the horizon, the last step to which the "
    "completed runs of every label were evaluated."
)
PAIRS = (
    "Log-rank test of equal times to the threshold. Its p-value is asymptotic, and rough with few "
    "runs. Holm's adjustment is over all tests of the table."
)


@dataclass(frozen=True, slots=True)
class TimeToThresholdSection:
    """Figure for each task with a threshold, a table of times, and a test of each pair."""

    def part(self, report: ReportContext) -> SectionContent | None:
        """Compute the part; `None` where no run is planned."""
        evidence = report.evidence
        if not evidence.tasks:
            return None
        declared = {task: evidence.reference(task).get("threshold") for task in evidence.tasks}
        thresholds = {task: float(value) for task, value in declared.items() if value is not None}
        runs = {
            task: [follow(evidence, label, task, threshold) for label in best_labels_first(report)]
            for task, threshold in thresholds.items()
        }
        level, every = report.settings.level, list(runs.values())
        blocks: list[Block] = [Text(text=_about(evidence, list(thresholds)))] if thresholds else []
        for number, (task, threshold) in enumerate(thresholds.items(), 1):
            if any(followed.times for followed in runs[task]):
                blocks.append(_figure(number, task, threshold, runs[task], level))
        blocks += [_table(every, level)] if every else []
        blocks += _tests(every)
        bare = [task for task in evidence.tasks if task not in thresholds]
        blocks += [Text(text=f"No threshold is declared for {join_names(bare)}.")] if bare else []
        return SectionContent(name="thresholds", title="Time to threshold", blocks=tuple(blocks))


def _about(evidence: Evidence, tasks: Sequence[str]) -> str:
    """What reaching a threshold means; of measures, at which tasks lower is better."""
    about = about_scores(ABOUT, evidence)
    lower = [task for task in tasks if evidence.lower_is_better(task)]
    return f"{about} Lower is better on {join_names(lower)}: at most." if lower else about


def _figure(
    number: int, task: str, threshold: float, runs: Sequence[FollowedRuns], level: float
) -> LineFigure:
    curves = [(followed, followed.curve(level)) for followed in runs]
    return LineFigure(
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
    return f"{followed.label}: {len(followed.times)} of {format_count(followed.planned, 'run')}{missing}."


def _line(label: str, curve: SurvivalCurve) -> FigureLine:
    """One minus the survival curve, from step 0 to the end of the longest run."""
    shares = [1.0, *curve.survival.tolist()]
    low, high = [1.0, *curve.low.tolist()], [1.0, *curve.high.tolist()]
    x = [0.0, *curve.times.tolist()]
    if curve.follow_up > x[-1]:
        # The curve ends with the longest run, not with the last run that reached the threshold.
        x.append(curve.follow_up)
        shares, low, high = [*shares, shares[-1]], [*low, low[-1]], [*high, high[-1]]
    # The share is one minus survival, so lower and upper ends change places below.
    some = too_few(curve.n) is None and any(np.isfinite(curve.low))
    return FigureLine(
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
            TableColumn(title="task"),
            TableColumn(title="label", label=True),
            TableColumn(title="runs"),
            TableColumn(title="reached"),
            TableColumn(title="median", digits=0),
            TableColumn(title="restricted mean", digits=0),
            REMARK_COLUMN,
        ),
        rows=tuple(rows),
        note=" ".join([SUMMARY, *_horizons(tasks)]),
    )
    return without_empty_remarks(table)


def _horizon(runs: Sequence[FollowedRuns]) -> float | None:
    """Last step to which the completed runs of every label with any were evaluated."""
    # Restricted means are comparable only up to a step that every label was followed to.
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


def _median(median: MedianTime) -> Interval | str:
    """The median time; with an interval only where both ends are finite."""
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
    # Where every run has reached the threshold, the curve is 0 from there on and known.
    followed = curve.follow_up >= horizon or curve.at(curve.follow_up) == 0
    return (
        limited(restricted_mean(curve, horizon))
        if followed
        else "no run was evaluated up to the horizon"
    )


def _tests(tasks: Sequence[Sequence[FollowedRuns]]) -> list[Table]:
    pairs = [(a, b) for runs in tasks for a, b in combinations(runs, 2)]
    if not pairs:
        return []
    tests = [_test(a, b) for a, b in pairs]
    p_values = [test.p_value for test in tests if test and test.p_value is not None]
    # Holm counts only tests that could be made: an impossible test cannot be a false positive.
    adjusted = iter(holm(p_values).tolist() if p_values else [])
    rows = [
        _pair(a, b, test, next(adjusted) if test and test.p_value is not None else None)
        for (a, b), test in zip(pairs, tests, strict=True)
    ]
    table = Table(
        name="thresholds-pairs",
        title="Log-rank tests of pairs of labels",
        columns=(
            TableColumn(title="task"),
            TableColumn(title="label", label=True),
            TableColumn(title="against", label=True),
            TableColumn(title="runs"),
            TableColumn(title="χ²"),
            TableColumn(title="p", digits=4),
            TableColumn(title="p after Holm", digits=4),
            REMARK_COLUMN,
        ),
        rows=tuple(rows),
        note=PAIRS,
    )
    return [without_empty_remarks(table)]


def _test(a: FollowedRuns, b: FollowedRuns) -> LogRank | None:
    if not a.times or not b.times:
        return None
    return log_rank((a.times, b.times), (a.reached, b.reached))


def _pair(
    a: FollowedRuns, b: FollowedRuns, test: LogRank | None, adjusted: float | None
) -> tuple[Value, ...]:
    runs = f"{len(a.times)} and {len(b.times)}"
    if test is None:
        lacking = join_names(followed.label for followed in (a, b) if not followed.times)
        return (a.task, a.label, b.label, runs, None, None, None, f"no evaluation of {lacking}")
    return (a.task, a.label, b.label, runs, test.statistic, test.p_value, adjusted, test.reason)
