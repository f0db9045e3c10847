"""Estimates of generalisation: measures, gap to held-out contexts, and worst test contexts."""

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from rlexp.metrics.estimate import (
    Ends,
    Estimate,
    Estimator,
    declared_ends,
    largest_difference,
    measure_ends,
)
from rlexp.records.run import LARGEST_SCORE
from rlexp.reports.analysis.held_out_episodes import (
    ContextTests,
    Final,
    FinalEpisodes,
    everything,
    final_episodes,
    measure_names,
    why_not_comparable,
)
from rlexp.reports.analysis.report_context import ReportSettings
from rlexp.reports.evidence.runs import LabelTaskRuns, run_states_text
from rlexp.stats.aggregate import mean
from rlexp.stats.none_seen import none_seen
from rlexp.stats.reliability.risk import tail_mean
from rlexp.stats.resampling import Resampling
from rlexp.stats.task_scores import TaskScores
from rlexp.text import format_count

FIRST = ("success", "catastrophe", "cost", "violations")
"""Measures that come first; others follow by name."""


@dataclass(frozen=True, slots=True)
class MeasureEstimates:
    """One measure of a label on a task.

    Attributes:
        n: Number of runs with this measure in their final evaluation.
        held_out: Estimate from the final evaluation, which is the test.
        in_distribution: Estimate from episodes in distribution, where these were played.
        runs: Mean of each run in the final evaluation, rising.
        ends: Smallest and largest possible value.
        remark: Missing data, as text.
    """

    name: str
    cell: LabelTaskRuns
    n: int
    held_out: Estimate | None = None
    in_distribution: Estimate | None = None
    runs: tuple[float, ...] = ()
    ends: Ends = (None, None)
    remark: str | None = None


def measures(
    cells: Sequence[LabelTaskRuns], settings: ReportSettings
) -> Iterator[MeasureEstimates]:
    """Every measure of the labels on one task, with labels in the inner loop."""
    runs = [(cell, final_episodes(cell)) for cell in cells]
    for name in ordered(
        measure_names(everything(run for _, cell_runs in runs for run in cell_runs))
    ):
        for cell, cell_runs in runs:
            yield _measured(name, cell, cell_runs, settings)


def ordered(names: Iterable[str]) -> list[str]:
    """Names of measures in their order in tables; `cost/speed` follows `cost`."""

    def place(name: str) -> int:
        kind = name.partition("/")[0]
        return FIRST.index(kind) if kind in FIRST else len(FIRST)

    return sorted(names, key=lambda name: (place(name), name))


def _measured(
    name: str,
    cell: LabelTaskRuns,
    runs: Sequence[FinalEpisodes],
    settings: ReportSettings,
) -> MeasureEstimates:
    if reason := why_not_comparable(runs):
        return MeasureEstimates(name, cell, 0, remark=reason)
    held_out = _means(name, [run.held_out for run in runs])
    in_distribution = _means(name, [run.in_distribution for run in runs])
    declared = cell.members[0].configuration.measures.get(name, {})
    ends = measure_ends(name, declared, held_out)
    remark = runs_left_out_text(cell, len(held_out), "without this measure")
    if in_distribution and len(in_distribution) < len(held_out):
        remark = "; ".join(
            filter(None, [remark, f"in distribution: {format_count(len(in_distribution), 'run')}"])
        )
    if unseen := none_seen(name, held_out, settings.level):
        remark = "; ".join(filter(None, [remark, unseen]))
    return MeasureEstimates(
        name,
        cell,
        len(held_out),
        mean_over_runs(held_out, settings, ends) if held_out else None,
        mean_over_runs(in_distribution, settings, ends) if in_distribution else None,
        tuple(sorted(held_out)),
        ends,
        remark,
    )


def _means(name: str, events: Sequence[Final | None]) -> list[float]:
    # Runs are the units of the interval: episodes of one run are not independent.
    means = [event.mean_of_reported(name) for event in events if event is not None]
    return [mean for mean in means if mean is not None and abs(mean) <= LARGEST_SCORE]


Array = NDArray[np.float64]
SHARE: Ends = (0.0, 1.0)


@dataclass(frozen=True, slots=True)
class GeneralisationGap:
    """Mean returns in distribution and held out, and their difference per run.

    Attributes:
        n: Number of runs behind the estimates.
        gaps: Gap of each run, rising.
        remark: Missing data, as text.
    """

    cell: LabelTaskRuns
    n: int
    in_distribution: Estimate | None = None
    held_out: Estimate | None = None
    gap: Estimate | None = None
    gaps: tuple[float, ...] = ()
    remark: str | None = None


@dataclass(frozen=True, slots=True)
class TrainingShift:
    """How far the contexts or levels of the training of a label are from their target.

    Attributes:
        shifts: The divergence of each run, rising.
        mean: Its mean over runs.
        remark: Missing data, as text.
    """

    cell: LabelTaskRuns
    shifts: tuple[float, ...]
    mean: Estimate
    remark: str | None


@dataclass(frozen=True, slots=True)
class Robustness:
    """Estimates of the worst contexts of a test; `mastered` is `None` without a threshold."""

    tests: ContextTests
    worst: Estimate
    tail: Estimate
    mastered: Estimate | None
    remark: str | None


def mean_over_runs(
    values: Sequence[float],
    settings: ReportSettings,
    ends: Ends,
    *,
    resampling: Resampling | None = None,
) -> Estimate:
    """The mean of one value per run, with its interval within the possible `ends`."""
    how = Estimator(method=settings.interval, resampling=resampling or settings.resampling)
    return how.estimate(TaskScores.from_tasks([values]), mean, ends)


def generalisation_gap(cell: LabelTaskRuns, settings: ReportSettings) -> GeneralisationGap:
    """Mean return in distribution minus held out, for the runs that have both.

    Without episodes in distribution, only the held-out return is estimated.
    """
    runs = final_episodes(cell)
    pairs = [(run.in_distribution.mean, run.held_out.mean) for run in runs if run.in_distribution]
    remark = runs_left_out_text(cell, len(pairs), "not played in distribution")
    if reason := why_not_comparable(runs):
        return GeneralisationGap(cell, 0, remark=reason)
    ends = _possible_returns(cell)
    if not pairs:
        alone = [run.held_out.mean for run in runs]
        held_out = mean_over_runs(alone, settings, ends) if alone else None
        return GeneralisationGap(cell, len(alone), held_out=held_out, remark=remark)
    # Differences within each run, so that effects which a run has in both places cancel.
    gaps = sorted(inside - outside for inside, outside in pairs)
    largest_gap = largest_difference([ends])
    return GeneralisationGap(
        cell,
        len(pairs),
        mean_over_runs([inside for inside, _ in pairs], settings, ends),
        mean_over_runs([outside for _, outside in pairs], settings, ends),
        mean_over_runs(
            gaps, settings, (None if largest_gap is None else -largest_gap, largest_gap)
        ),
        tuple(gaps),
        remark,
    )


def _possible_returns(cell: LabelTaskRuns) -> Ends:
    """Smallest and largest possible return, also where the score is a measure."""
    return declared_ends(cell.members[0].configuration.reference)


def training_shift(cell: LabelTaskRuns, settings: ReportSettings) -> TrainingShift | None:
    """The mean shift of training over runs; None where no run recorded one."""
    records = [run.member.record for run in final_episodes(cell)]
    shifts = sorted(r.training_shift for r in records if r.training_shift is not None)
    if not shifts:
        return None
    return TrainingShift(
        cell,
        tuple(shifts),
        mean_over_runs(shifts, settings, SHARE),
        runs_left_out_text(cell, len(shifts), "without a recorded shift"),
    )


def robustness(
    tests: ContextTests, settings: ReportSettings, tail: float, mastery: float | None
) -> Robustness:
    """Worst case, tail mean and share of mastered contexts, per run and then over runs."""
    ends = _possible_returns(tests.cell)

    def over_all_runs(statistic: Callable[[Array], float], ends: Ends) -> Estimate:
        return mean_over_runs([float(statistic(run.means)) for run in tests.runs], settings, ends)

    return Robustness(
        tests,
        worst=over_all_runs(lambda means: means.min(), ends),
        tail=over_all_runs(lambda means: tail_mean(means, tail), ends),
        mastered=None
        if mastery is None
        else over_all_runs(lambda m: (m >= mastery).mean(), SHARE),
        remark=runs_left_out_text(tests.cell, len(tests.runs), "without contexts"),
    )


def runs_left_out_text(cell: LabelTaskRuns, n: int, lacking: str) -> str | None:
    """Text about the runs that an estimate of n runs leaves out; `None` where it has all."""
    completed = [run.member for run in final_episodes(cell)]
    # Identity, not equality: comparing whole records of thousands of runs is slow.
    others = [m for m in cell.members if all(m is not used for used in completed)]
    immense = [m for m in others if m.score is not None]
    others = [m for m in others if m.score is None]
    reasons = [run_states_text(others)] if others else []
    if immense:
        reasons.append(
            f"{format_count(len(immense), 'run')} with returns too large to be averaged"
        )
    if len(completed) > n:
        reasons.append(f"{format_count(len(completed) - n, 'run')} {lacking}")
    return "; ".join(reasons) or None
