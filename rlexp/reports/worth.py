"""What the winner of a sweep is worth: its scores by phase, and what tuning overstated."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from rlexp.metrics.estimate import Estimate, declared_ends, largest_difference
from rlexp.records.selection import DEFAULT, Selection
from rlexp.reports.analysis.inquiry import Inquiry
from rlexp.reports.analysis.sweep_tables import by_number, test_cell
from rlexp.reports.evidence.sweeps import SweepEvidence
from rlexp.stats.aggregate import Aggregate
from rlexp.stats.difference import LARGEST_SCORE
from rlexp.stats.improvement import probability_of_improvement
from rlexp.stats.interval import Interval, limited
from rlexp.stats.optimism import TuningModel, fit_tuning_model, optimism
from rlexp.stats.task_scores import TaskScores

MEAN = Aggregate("mean")


@dataclass(frozen=True, slots=True, kw_only=True)
class Measured:
    """The mean score of some runs of a configuration.

    Attributes:
        phase: Of the runs.
        label: Under which they are compared, where they are.
        trial: Number of the trial whose configuration it is.
        planned: Runs that were asked for.
        scores: Of those that have one, rising.
        mean: With its interval; nothing where no run has a score, or one diverged beyond use.
    """

    phase: str
    label: str | None
    trial: int
    planned: int
    scores: tuple[float, ...]
    mean: Estimate | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Worth:
    """What is known about the winner of a sweep.

    Attributes:
        measured: Scores of the winner, then of the default where that is another configuration.
        optimism: Mean tuning score of the winner minus its mean test score.
        improvement: Probability that a test run of the winner beats one of the default.
        model: Tuning as a draw, fitted to the trials on all tuning seeds; or why it is not.
    """

    measured: tuple[Measured, ...]
    optimism: Interval | None
    improvement: Interval | None
    model: TuningModel | str

    def of(self, phase: str, trial: int) -> Measured | None:
        """The scores of a configuration in a phase."""
        found = (m for m in self.measured if (m.phase, m.trial) == (phase, trial))
        return next(found, None)


def worth(own: SweepEvidence, selection: Selection, inquiry: Inquiry) -> Worth:
    """Everything that the records say about the winner."""
    trials = dict.fromkeys((selection.winner, DEFAULT))
    measured = [m for trial in trials for m in _measured(own, selection, inquiry, trial)]
    known = {(m.phase, m.trial): m.scores for m in measured if m.mean is not None}
    tuning = known.get(("tuning", selection.winner))
    test, default = known.get(("test", selection.winner)), known.get(("test", DEFAULT))
    level = inquiry.settings.level
    gap = None if tuning is None or test is None else _optimism(tuning, test, level, own)
    return Worth(
        measured=tuple(measured),
        optimism=gap,
        improvement=None if len(trials) == 1 else _improvement(test, default, inquiry),
        model=_model(own),
    )


def _measured(
    own: SweepEvidence, selection: Selection, inquiry: Inquiry, trial: int
) -> Iterator[Measured]:
    """A configuration in each phase in which it was run."""
    finalist = next((f for f in selection.finalists if f.number == trial), None)
    tried = by_number(own, trial)
    tuning = finalist.tuning if finalist else tuple(tried.scores.values()) if tried else ()
    cell = test_cell(own, inquiry.evidence, tuned=trial == selection.winner)
    runs = {"tuning": (len(own.tuning_seeds), tuning)}
    if finalist is not None and finalist.selection:
        runs["selection"] = (len(own.selection_seeds), finalist.selection)
    if cell is not None:
        runs["test"] = (cell.planned, tuple(map(float, cell.scores)))
    for phase, (planned, scores) in runs.items():
        yield Measured(
            phase=phase,
            label=cell.label if cell else None,
            trial=trial,
            planned=planned,
            scores=tuple(sorted(scores)),
            mean=_mean(scores, own, inquiry),
        )


def _optimism(
    tuning: Sequence[float], test: Sequence[float], level: float, own: SweepEvidence
) -> Interval:
    """What tuning overstated, no further than two scores of the task can be apart."""
    far = largest_difference([declared_ends(own.reference)])
    return limited(optimism(tuning, test, level), None if far is None else -far, far)


def _mean(scores: Sequence[float], own: SweepEvidence, inquiry: Inquiry) -> Estimate | None:
    """The mean with its interval; nothing where there is no score, or one is beyond all use."""
    if not scores or not all(abs(score) <= LARGEST_SCORE for score in scores):
        return None
    runs, ends = TaskScores.from_tasks([scores]), declared_ends(own.reference)
    return inquiry.settings.estimator.estimate(runs, MEAN, ends)


def _improvement(
    test: Sequence[float] | None, default: Sequence[float] | None, inquiry: Inquiry
) -> Interval | None:
    if test is None or default is None:
        return None
    first, second = (TaskScores.from_tasks([side]) for side in (test, default))
    return limited(probability_of_improvement(first, second, inquiry.settings.resampling))


def _model(own: SweepEvidence) -> TuningModel | str:
    """Fitted to the trials that have a usable score on every tuning seed."""
    complete = [
        list(t.scores.values())
        for t in own.trials
        if t.eligible and set(t.scores) >= set(own.tuning_seeds)
    ]
    usable = [s for s in complete if all(abs(score) <= LARGEST_SCORE for score in s)]
    if len(usable) < len(complete):
        return f"{len(complete) - len(usable)} trials have a score that is no number of use"
    try:
        return fit_tuning_model(usable)
    except ValueError as error:
        return str(error)
