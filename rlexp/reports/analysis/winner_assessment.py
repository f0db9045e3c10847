"""Scores of the winner of a sweep by phase, and the optimism of tuning."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from rlexp.metrics.estimate import Estimate, declared_ends, largest_difference
from rlexp.records.selection import DEFAULT, Selection
from rlexp.reports.analysis.report_context import ReportContext
from rlexp.reports.analysis.sweep_tables import by_number, rival_cell, test_cell
from rlexp.reports.evidence.sweeps import SweepEvidence
from rlexp.stats.aggregate import Aggregate
from rlexp.stats.difference import LARGEST_SCORE
from rlexp.stats.improvement import probability_of_improvement
from rlexp.stats.interval import Interval, limited
from rlexp.stats.selection_bias import TuningModel, fit_tuning_model, optimism
from rlexp.stats.task_scores import TaskScores

MEAN = Aggregate("mean")


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
    trials = dict.fromkeys((selection.winner, DEFAULT, *selection.tested))
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
    tuning = finalist.tuning if finalist else tuple(tried.scores.values()) if tried else ()
    runs = {"tuning": (len(sweep.tuning_seeds), tuning)}
    if finalist is not None and finalist.selection:
        runs["selection"] = (len(sweep.selection_seeds), finalist.selection)
    cell = None
    if selection is not None and trial in {selection.winner, DEFAULT}:
        cell = test_cell(sweep, report.evidence, tuned=trial == selection.winner)
    elif selection is not None and trial in selection.tested:
        cell = rival_cell(sweep, report.evidence)
    if cell is not None:
        runs["test"] = (cell.planned, tuple(map(float, cell.scores)))
    for phase, (planned, scores) in runs.items():
        yield PhaseScores(
            phase=phase,
            label=cell.label if cell else None,
            trial=trial,
            planned=planned,
            scores=tuple(sorted(scores)),
            mean=_mean(scores, sweep, report),
        )


def _optimism(
    tuning: Sequence[float], test: Sequence[float], level: float, sweep: SweepEvidence
) -> Interval:
    """Optimism of tuning, clipped to the largest possible difference of two scores."""
    far = largest_difference([declared_ends(sweep.reference)])
    gap = optimism(_as_merits(tuning, sweep), _as_merits(test, sweep), level)
    return limited(gap, None if far is None else -far, far)


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
