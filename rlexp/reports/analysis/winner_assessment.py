"""Scores of the winner of a sweep by phase and by task, the optimism of tuning, and sensitivity."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from math import fsum

import numpy as np
from numpy.typing import NDArray

from rlexp.metrics.estimate import Estimate, declared_ends, largest_difference
from rlexp.protocol.sweep import SweepTask
from rlexp.records.selection import DEFAULT, Selection, configuration_name
from rlexp.reports.analysis.report_context import ReportContext
from rlexp.reports.analysis.sweep_tables import (
    by_number,
    further_scores,
    name_suffix,
    sweep_title,
    test_cells,
    test_scores,
)
from rlexp.reports.drawing.blocks import Block, Callout, Table, TableColumn, Tone, Value
from rlexp.reports.evidence.runs import LabelTaskRuns
from rlexp.reports.evidence.sweeps import SweepEvidence, TrialEvidence
from rlexp.stats.aggregate import Aggregate
from rlexp.stats.improvement import probability_of_improvement
from rlexp.stats.interval import TOO_FEW, Interval, limited, too_few
from rlexp.stats.pairs.difference import LARGEST_SCORE
from rlexp.stats.selection_bias import TuningModel, fit_tuning_model, optimism
from rlexp.stats.sensitivity.intervals import SensitivityIntervals, sensitivity_intervals
from rlexp.stats.sensitivity.settings import percentile_anchors
from rlexp.stats.task_scores import TaskScores, min_max
from rlexp.text import format_count

MEAN = Aggregate("mean")
FEWEST_TRIALS = 2
"""Trials on all tasks and seeds from which a best one of each task can differ from that of all."""


@dataclass(frozen=True, slots=True, kw_only=True)
class PhaseScores:
    """Scores of a configuration in one phase.

    Attributes:
        phase: Phase of the runs.
        label: Label under which the runs are compared; `None` without test runs.
        trial: Number of the trial with this configuration.
        planned: Number of planned runs.
        scores: Scores of the runs that have one, rising.
        mean: With its interval; `None` where no run has a score, or one is out of range.
    """

    phase: str
    label: str | None
    trial: int
    planned: int
    scores: tuple[float, ...]
    mean: Estimate | None


@dataclass(frozen=True, slots=True, kw_only=True)
class WinnerAssessment:
    """Scores of the winner of a sweep, and how much tuning overestimated them.

    Attributes:
        measured: Scores of the winner, then of the default if that is another configuration.
        optimism: Mean tuning score of the winner minus its mean test score.
        improvement: Probability that a test run of the winner beats one of the default.
        model: Gaussian model fitted to the trials on all tuning seeds, or why there is none.
    """

    measured: tuple[PhaseScores, ...]
    optimism: Interval | None
    improvement: Interval | None
    model: TuningModel | str

    def of(self, phase: str, trial: int) -> PhaseScores | None:
        """The scores of a configuration in a phase."""
        matches = (m for m in self.measured if (m.phase, m.trial) == (phase, trial))
        return next(matches, None)


def assess_winner(
    sweep: SweepEvidence, selection: Selection, report: ReportContext
) -> WinnerAssessment:
    """Scores and optimism of the winner, from the records."""
    # The policies of a front have a section of their own, with all objectives.
    rivals = () if selection.rival is None else (selection.rival.number,)
    trials = dict.fromkeys((selection.winner, DEFAULT, *rivals))
    measured = [m for trial in trials for m in measured_scores(sweep, report, trial)]
    scores = {(m.phase, m.trial): m.scores for m in measured if m.mean is not None}
    tuning = scores.get(("tuning", selection.winner))
    test, default = scores.get(("test", selection.winner)), scores.get(("test", DEFAULT))
    level = report.settings.level
    gap = None if tuning is None or test is None else _optimism(tuning, test, level, sweep)
    return WinnerAssessment(
        measured=tuple(measured),
        optimism=gap,
        # If the default won, both sides would be the same runs.
        improvement=None
        if selection.winner == DEFAULT
        else _improvement(test, default, sweep, report),
        model=_model(sweep),
    )


def measured_scores(
    sweep: SweepEvidence, report: ReportContext, trial: int
) -> Iterator[PhaseScores]:
    """Scores of a trial in each phase in which it was run; before the selection, of tuning only."""
    selection = sweep.selection
    finalists = () if selection is None else selection.finalists
    finalist = next((f for f in finalists if f.number == trial), None)
    tried = by_number(sweep, trial)
    tuning = finalist.tuning if finalist else _tuning_scores(tried, sweep)
    runs = {"tuning": (len(sweep.tuning_seeds), tuning)}
    if finalist is not None and finalist.selection:
        runs["selection"] = (len(sweep.selection_seeds), finalist.selection)
    tested = None
    if selection is not None and trial in {selection.winner, DEFAULT}:
        tested = test_scores(sweep, report.evidence, tuned=trial == selection.winner)
    elif selection is not None and trial in selection.tested:
        tested = further_scores(sweep, report.evidence, trial)
    if tested is not None:
        runs["test"] = (tested.planned, tested.scores)
    for phase, (planned, scores) in runs.items():
        yield PhaseScores(
            phase=phase,
            label=tested.label if tested else None,
            trial=trial,
            planned=planned,
            scores=tuple(sorted(scores)),
            mean=_mean(scores, sweep, report),
        )


def _tuning_scores(trial: TrialEvidence | None, sweep: SweepEvidence) -> tuple[float, ...]:
    """The tuning scores of a trial that is no finalist.

    On several tasks, a seed that lacks tasks has no score that others could be compared with.
    """
    if trial is None or (sweep.tasks and not trial.eligible):
        return ()
    return tuple(trial.scores.values())


def _optimism(
    tuning: Sequence[float], test: Sequence[float], level: float, sweep: SweepEvidence
) -> Interval:
    """Optimism of tuning, clipped to the largest possible difference of two scores."""
    far = largest_difference([declared_ends(sweep.reference)])
    gap = optimism(_as_merits(tuning, sweep), _as_merits(test, sweep), level)
    shown = limited(gap, None if far is None else -far, far)
    if shown.reason is None or shown.reason != too_few(gap.n):
        return shown
    # The runs of both sides together would look like enough for one of them.
    counts = f"{format_count(len(tuning), 'tuning run')}, {format_count(len(test), 'test run')}"
    return replace(shown, reason=f"{TOO_FEW} ({counts})")


def merit_sign(sweep: SweepEvidence) -> int:
    """The factor of a score that makes greater numbers better: -1 for a minimised measure."""
    return -1 if sweep.score_minimised else 1


def _as_merits(scores: Sequence[float], sweep: SweepEvidence) -> list[float]:
    """Scores with the sign that makes greater ones better."""
    return [merit_sign(sweep) * score for score in scores]


def _mean(scores: Sequence[float], sweep: SweepEvidence, report: ReportContext) -> Estimate | None:
    """The mean with its interval; `None` without a score, or with one that is out of range."""
    if not scores or not all(abs(score) <= LARGEST_SCORE for score in scores):
        return None
    runs, ends = TaskScores.from_tasks([scores]), declared_ends(sweep.reference)
    return report.settings.estimator.estimate(runs, MEAN, ends)


def _improvement(
    test: Sequence[float] | None,
    default: Sequence[float] | None,
    sweep: SweepEvidence,
    report: ReportContext,
) -> Interval | None:
    if test is None or default is None:
        return None
    sides = (_as_merits(side, sweep) for side in (test, default))
    first, second = (TaskScores.from_tasks([side]) for side in sides)
    return limited(probability_of_improvement(first, second, report.settings.resampling))


def _model(sweep: SweepEvidence) -> TuningModel | str:
    """The Gaussian model, fitted to the trials with a usable score on every tuning seed."""
    complete = [
        _as_merits(list(t.scores.values()), sweep)
        for t in sweep.trials
        if t.eligible and set(t.scores) >= set(sweep.tuning_seeds)
    ]
    # Variances of diverged scores would overflow, and hide the noise of all others.
    usable = [s for s in complete if all(abs(score) <= LARGEST_SCORE for score in s)]
    if len(usable) < len(complete):
        return f"{len(complete) - len(usable)} trials have a non-finite or out-of-range score"
    try:
        return fit_tuning_model(usable)
    except ValueError as error:
        return str(error)


def blocks_by_task(
    sweep: SweepEvidence, selection: Selection, report: ReportContext
) -> Iterator[Block]:
    """The scores of winner and default on each task, and the sensitivity over tasks."""
    if not sweep.tasks:
        return
    yield _scores_table(sweep, selection, report)
    whole = [t for t in sweep.trials if t.eligible and _is_whole(t, sweep)]
    if len(whole) < FEWEST_TRIALS:
        text = (
            f"No sensitivity over tasks: {len(whole)} trial has scores on all tasks and tuning seeds, "
            f"and {FEWEST_TRIALS} are needed."
        )
        yield Callout(tone=Tone.NOTE, text=text)
        return
    runs = _normalised_runs(whole, sweep)
    if isinstance(runs, str):
        yield Callout(tone=Tone.NOTE, text=f"No sensitivity over tasks: {runs}.")
        return
    # A trial is one level of one parameter: which of its parameters matter is not asked here.
    levels = np.arange(len(whole), dtype=np.float64)[:, np.newaxis]
    estimated = sensitivity_intervals(runs, levels, report.settings.curve_resampling)
    yield _best_by_task(whole, runs, selection, sweep, report)
    yield _sensitivity_table(estimated, len(whole), sweep, report)


def _scores_table(sweep: SweepEvidence, selection: Selection, report: ReportContext) -> Table:
    rows = [
        _scores_row(task, number, sweep, selection, report)
        for task in sweep.tasks
        for number in dict.fromkeys((selection.winner, DEFAULT))
    ]
    # Where ranks compare, nothing says which scores are 0 and 1.
    shares = () if sweep.ranks else (TableColumn(title="normalised test score", digits=2),)
    return Table(
        name=f"winner-tasks{name_suffix(sweep, report.evidence)}",
        title=sweep_title("Scores by task", sweep, report.evidence),
        columns=(
            TableColumn(title="task", label=True),
            TableColumn(title="configuration"),
            TableColumn(title="tuning score"),
            TableColumn(title="tuning seeds", digits=0),
            TableColumn(title="test score"),
            TableColumn(title="test seeds", digits=0),
            TableColumn(title="planned", digits=0),
            *shares,
        ),
        rows=tuple(rows),
        note="Means over seeds, in the units of each task. Only test scores are results. A failed or "
        "missing run has no score: it is planned, and not among the seeds.",
    )


def _scores_row(
    task: SweepTask,
    number: int,
    sweep: SweepEvidence,
    selection: Selection,
    report: ReportContext,
) -> tuple[Value, ...]:
    tried = by_number(sweep, number)
    tuning: Mapping[int, float] = {} if tried is None else tried.by_task.get(task.task, {})
    cells = test_cells(sweep, report.evidence, tuned=number == selection.winner)
    cell = next((c for c in cells if c.task == task.task), None)
    mean = None if cell is None else _cell_mean(cell, report)
    share = None if mean is None else task.normalised(mean.estimate)
    return (
        task.task,
        configuration_name(number, selection.winner),
        fsum(tuning.values()) / len(tuning) if tuning else None,
        len(tuning),
        mean,
        0 if cell is None else cell.n,
        0 if cell is None else cell.planned,
        *(() if sweep.ranks else (share,)),
    )


def _cell_mean(cell: LabelTaskRuns, report: ReportContext) -> Estimate | None:
    """The mean test score with its interval; `None` without a usable score."""
    if not cell.n or not bool((np.abs(cell.scores) <= LARGEST_SCORE).all()):
        return None
    ends = declared_ends(cell.members[0].configuration.score_reference)
    return report.settings.estimator.estimate(TaskScores.from_tasks([cell.scores]), MEAN, ends)


def _is_whole(trial: TrialEvidence, sweep: SweepEvidence) -> bool:
    """Whether a trial has a usable score on every task and tuning seed."""
    scores = [trial.by_task.get(task.task, {}) for task in sweep.tasks]
    return all(
        set(each) >= set(sweep.tuning_seeds)
        and all(abs(score) <= LARGEST_SCORE for score in each.values())
        for each in scores
    )


def _normalised_runs(
    trials: Sequence[TrialEvidence], sweep: SweepEvidence
) -> NDArray[np.float64] | str:
    """Normalised scores of shape (trials, tasks, seeds), or why there are none.

    Without anchors, the 5 % and 95 % quantiles over these trials become 0 and 1.
    """
    runs = np.asarray(
        [
            [
                [task.normalised(t.by_task[task.task][s]) for s in sweep.tuning_seeds]
                for task in sweep.tasks
            ]
            for t in trials
        ],
        dtype=np.float64,
    )
    if not sweep.ranks:
        return runs
    try:
        low, high = percentile_anchors([runs.mean(axis=2)])
        return min_max(runs, low[:, np.newaxis], high[:, np.newaxis])
    except ValueError as error:
        return str(error)


def _best_by_task(
    trials: Sequence[TrialEvidence],
    runs: NDArray[np.float64],
    selection: Selection,
    sweep: SweepEvidence,
    report: ReportContext,
) -> Table:
    means = runs.mean(axis=2)
    numbers = [trial.number for trial in trials]
    winner = numbers.index(selection.winner) if selection.winner in numbers else None
    rows = []
    for position, task in enumerate(sweep.tasks):
        best = int(np.argmax(means[:, position]))
        best_mean = float(means[best, position])
        chosen = None if winner is None else float(means[winner, position])
        lost = None if chosen is None else best_mean - chosen
        rows.append((task.task, f"trial {numbers[best]}", best_mean, chosen, lost))
    return Table(
        name=f"winner-best-by-task{name_suffix(sweep, report.evidence)}",
        title=sweep_title("The best trial of each task", sweep, report.evidence),
        columns=(
            TableColumn(title="task", label=True),
            TableColumn(title="best on it"),
            TableColumn(title="its score", digits=2),
            TableColumn(title="score of the chosen trial", digits=2),
            TableColumn(title="difference", digits=2),
        ),
        rows=tuple(rows),
        note="Mean normalised tuning scores. The best of several scores promises more than it keeps, so "
        "the differences are too large.",
    )


def _sensitivity_table(
    estimated: SensitivityIntervals, count: int, sweep: SweepEvidence, report: ReportContext
) -> Table:
    about = (
        f"of {count} trials on {len(sweep.tasks)} tasks × {len(sweep.tuning_seeds)} tuning seeds"
    )
    return Table(
        name=f"winner-sensitivity{name_suffix(sweep, report.evidence)}",
        title=sweep_title("Sensitivity over tasks", sweep, report.evidence),
        columns=(
            TableColumn(title="quantity"),
            TableColumn(title="value", digits=2),
            TableColumn(title="meaning"),
        ),
        rows=(
            (
                "tuned for each task P",
                estimated.tuned,
                f"mean over tasks of the best score on each, {about}",
            ),
            (
                "tuned for all tasks C",
                estimated.cross_tuned,
                "best mean over tasks of a single configuration",
            ),
            (
                "sensitivity P − C",
                estimated.sensitivity,
                "what one configuration for all tasks loses (Adkins et al. 2024)",
            ),
        ),
        note="Normalised tuning scores, with bootstrap over seeds. Intervals are corrected for the selection bias "
        "of P and C, and may therefore not contain them.",
    )
