"""The section of the winner of a sweep: scores by phase, optimism of tuning, and the choice."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from math import fsum

from rlexp.metrics.estimate import Estimate, declared_ends, largest_difference
from rlexp.metrics.estimate_text import with_ends
from rlexp.records.selection import DEFAULT, Selection
from rlexp.reports.analysis.every_run import with_every_run
from rlexp.reports.analysis.report_context import ReportContext
from rlexp.reports.analysis.sweep_tables import (
    by_number,
    incumbents,
    name_suffix,
    objective,
    settings_table,
    sweep_title,
    test_cell,
)
from rlexp.reports.drawing.blocks import (
    REMARK_COLUMN,
    Block,
    Callout,
    SectionContent,
    Table,
    TableColumn,
    Text,
    Tone,
    Value,
    without_empty_remarks,
)
from rlexp.reports.evidence.runs import Evidence
from rlexp.reports.evidence.sweeps import SweepEvidence
from rlexp.stats.aggregate import Aggregate
from rlexp.stats.difference import LARGEST_SCORE
from rlexp.stats.improvement import probability_of_improvement
from rlexp.stats.interval import Interval, limited
from rlexp.stats.selection_bias import TuningModel, fit_tuning_model, optimism
from rlexp.stats.task_scores import TaskScores
from rlexp.text import decimals_for_span, format_count

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
    trials = dict.fromkeys((selection.winner, DEFAULT))
    measured = [m for trial in trials for m in _measured(sweep, selection, report, trial)]
    scores = {(m.phase, m.trial): m.scores for m in measured if m.mean is not None}
    tuning = scores.get(("tuning", selection.winner))
    test, default = scores.get(("test", selection.winner)), scores.get(("test", DEFAULT))
    level = report.settings.level
    gap = None if tuning is None or test is None else _optimism(tuning, test, level, sweep)
    return WinnerAssessment(
        measured=tuple(measured),
        optimism=gap,
        # If the default won, both sides would be the same runs.
        improvement=None if len(trials) == 1 else _improvement(test, default, sweep, report),
        model=_model(sweep),
    )


def _measured(
    sweep: SweepEvidence, selection: Selection, report: ReportContext, trial: int
) -> Iterator[PhaseScores]:
    """Scores of a configuration in each phase in which it was run."""
    finalist = next((f for f in selection.finalists if f.number == trial), None)
    tried = by_number(sweep, trial)
    tuning = finalist.tuning if finalist else tuple(tried.scores.values()) if tried else ()
    cell = test_cell(sweep, report.evidence, tuned=trial == selection.winner)
    runs = {"tuning": (len(sweep.tuning_seeds), tuning)}
    if finalist is not None and finalist.selection:
        runs["selection"] = (len(sweep.selection_seeds), finalist.selection)
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


def _as_merits(scores: Sequence[float], sweep: SweepEvidence) -> list[float]:
    """Scores with the sign that makes greater ones better."""
    return [_sign(sweep) * score for score in scores]


def _sign(sweep: SweepEvidence) -> int:
    return -1 if sweep.score_minimised else 1


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


FEWEST_APART = 4
"""Runs per side from which complete separation of the scores is significant at 5 %."""


@dataclass(frozen=True, slots=True)
class WinnerSection:
    """Verdict on the winner of each sweep, with all its hyperparameters."""

    def part(self, report: ReportContext) -> SectionContent | None:
        """Compute the part; `None` where there is no sweep."""
        blocks = tuple(b for sweep in report.evidence.sweeps for b in _blocks(sweep, report))
        return (
            SectionContent(name="winner", title="Winner of the sweep", blocks=blocks)
            if blocks
            else None
        )


def _blocks(sweep: SweepEvidence, report: ReportContext) -> Iterator[Block]:
    selection, evidence = sweep.selection, report.evidence
    if selection is None:
        yield _undecided(sweep)
        yield settings_table(sweep, evidence)
        return
    assessment = assess_winner(sweep, selection, report)
    yield _verdict(sweep, selection, assessment)
    yield _scores(sweep, assessment, evidence)
    yield _overstated(sweep, selection, assessment, evidence)
    yield Text(text=_choice(sweep, selection))
    yield _finalists(sweep, selection, evidence)
    yield settings_table(sweep, evidence)


def _undecided(sweep: SweepEvidence) -> Callout:
    """Notice about the best trial of an unfinished search."""
    best = incumbents(sweep)
    so_far = (
        f"best so far is trial {best[-1].number} with {_short(best[-1].value)} "
        f"({objective(sweep)}). That is a tuning score, which overestimates, and no result."
        if best
        else "none is complete on all tuning seeds."
    )
    text = (
        f"{sweep.experiment} has not chosen a winner yet: {format_count(len(sweep.trials), 'trial')}, "
        f"{so_far}"
    )
    return Callout(tone=Tone.NOTE, text=text)


def _verdict(sweep: SweepEvidence, selection: Selection, assessment: WinnerAssessment) -> Callout:
    test = assessment.of("test", selection.winner)
    head = f"Trial {selection.winner} of {len(sweep.trials)} won {sweep.experiment}"
    if selection.winner == DEFAULT:
        head = f"The default configuration won {sweep.experiment}: tuning found nothing better"
    if test is None or test.mean is None:
        text = f"{head}. It has no test score yet, and only test scores are results."
        return Callout(tone=Tone.NOTE, text=text)
    reached = f"{with_ends(test.mean, test.mean.digits)} on {_seeds(test)}"
    gap = (
        f" Tuning {_flattered(sweep)} the score by {_told(assessment.optimism)}."
        if assessment.optimism
        else ""
    )
    text = f"{head}; it scores {reached}.{_against_default(assessment)}{gap}"
    return Callout(tone=_tone(selection, assessment), text=text)


def _flattered(sweep: SweepEvidence) -> str:
    """What tuning does to a score: it makes it look better."""
    return "underestimated" if sweep.score_minimised else "overestimated"


def _against_default(assessment: WinnerAssessment) -> str:
    default, chance = assessment.of("test", DEFAULT), assessment.improvement
    if chance is None or default is None or default.mean is None:
        return ""
    return (
        f" The default scores {with_ends(default.mean, default.mean.digits)} on "
        f"{_seeds(default)}; a run of the "
        f"winner beats one of the default with probability {_told(chance, 2)}."
    )


def _tone(selection: Selection, assessment: WinnerAssessment) -> Tone:
    """Good where the winner is significantly better than the default, a problem where worse."""
    chance = assessment.improvement
    if chance is None:
        return Tone.NOTE
    low, high = chance.low, chance.high
    if low is None or high is None:
        # Complete separation leaves a bootstrap without variance, so there is no interval. With
        # four runs per side its permutation p is 2/70 < 0.05; with three it is 2/20.
        sides = [assessment.of("test", trial) for trial in (selection.winner, DEFAULT)]
        many = all(side and len(side.scores) >= FEWEST_APART for side in sides)
        low = high = chance.estimate if many else 0.5
    if low > 0.5:
        return Tone.GOOD
    return Tone.PROBLEM if high < 0.5 else Tone.NOTE


def _scores(sweep: SweepEvidence, assessment: WinnerAssessment, evidence: Evidence) -> Table:
    table = Table(
        name=f"winner-scores{name_suffix(sweep, evidence)}",
        title=sweep_title("Scores by phase", sweep, evidence),
        columns=(
            TableColumn(title="label", label=True),
            TableColumn(title="trial", digits=0),
            TableColumn(title="phase"),
            TableColumn(title="scores", digits=0),
            TableColumn(title="planned", digits=0),
            TableColumn(title="mean"),
            REMARK_COLUMN,
        ),
        rows=tuple(_measured_row(m) for m in assessment.measured),
        note="Only test scores are results: the winner was chosen by its tuning and selection "
        f"scores, which therefore {'under' if sweep.score_minimised else 'over'}estimate it.",
    )
    return with_every_run(without_empty_remarks(table))


def _measured_row(measured: PhaseScores) -> tuple[Value, ...]:
    remark = "no usable score" if measured.mean is None else None
    n = len(measured.scores)
    return (
        measured.label,
        measured.trial,
        measured.phase,
        n,
        measured.planned,
        measured.mean,
        remark,
    )


def _overstated(
    sweep: SweepEvidence, selection: Selection, assessment: WinnerAssessment, evidence: Evidence
) -> Table:
    rows = [*_observed(sweep, selection, assessment), *_expected(sweep, selection, assessment)]
    return Table(
        name=f"winner-optimism{name_suffix(sweep, evidence)}",
        title=sweep_title("Optimism of tuning (selection bias)", sweep, evidence),
        columns=(
            TableColumn(title="quantity"),
            TableColumn(title="value", digits=3),
            TableColumn(title="meaning"),
        ),
        rows=tuple(rows),
    )


def _observed(
    sweep: SweepEvidence, selection: Selection, assessment: WinnerAssessment
) -> Iterator[tuple[Value, ...]]:
    phases = ("test", "tuning") if sweep.score_minimised else ("tuning", "test")
    meaning = f"{phases[0]} score of the winner minus its {phases[1]} score, Welch's interval"
    if assessment.optimism is None:
        meaning = "needs scores of the winner on tuning seeds and on test seeds"
    yield "optimism", assessment.optimism, meaning
    test = assessment.of("test", selection.winner)
    if assessment.optimism is not None and test is not None and test.mean is not None:
        scale = abs(test.mean.estimate)
        share = assessment.optimism.estimate / scale if scale else None
        yield "relative optimism", share, "as a share of the test score"


def _expected(
    sweep: SweepEvidence, selection: Selection, assessment: WinnerAssessment
) -> Iterator[tuple[Value, ...]]:
    """Rows of the Gaussian model, which are diagnostics and not results."""
    model = assessment.model
    if not isinstance(model, TuningModel):
        yield "expected optimism", None, f"not estimated: {model}"
        return
    screened = sweep.definition.plan.allocation != "fixed"
    rest = "; the model ignores their selection by screening" if screened else ""
    about = f"of {model.configurations} trials on {model.seeds} tuning seeds each{rest}"
    yield "expected optimism", model.expected_optimism, f"mean excess of the best {about}"
    yield "noise σ", model.noise, "standard deviation of the runs of one configuration"
    yield "spread τ", model.spread, "standard deviation of the true means of configurations"
    tuning = assessment.of("tuning", selection.winner)
    if tuning is not None and tuning.mean is not None:
        meaning = (
            "tuning score of the winner shrunk towards the mean; a diagnostic, not a test score"
        )
        merit = _sign(sweep) * tuning.mean.estimate
        yield "shrunken estimate", _sign(sweep) * model.shrunken(merit), meaning


def _choice(sweep: SweepEvidence, selection: Selection) -> str:
    seeds = format_count(len(sweep.selection_seeds), "selection seed")
    again = f", scored again on {seeds}" if sweep.selection_seeds else ""
    return (
        f"Selection rule: {selection.rule.rstrip('.')}. "
        f"There {'was' if len(selection.finalists) == 1 else 'were'} "
        f"{format_count(len(selection.finalists), 'finalist')}{again}. The choice was "
        "fixed before the first test run existed: test seeds can still be added, trials cannot."
    )


def _finalists(sweep: SweepEvidence, selection: Selection, evidence: Evidence) -> Table:
    def mean(scores: tuple[float, ...]) -> float | None:
        return fsum(scores) / len(scores) if scores else None

    means = [mean(f.tuning) or 0.0 for f in selection.finalists]
    digits = decimals_for_span(max(means) - min(means)) if means else 2
    return Table(
        name=f"winner-finalists{name_suffix(sweep, evidence)}",
        title=sweep_title("Finalists", sweep, evidence),
        columns=(
            TableColumn(title="trial", digits=0),
            TableColumn(title="role"),
            TableColumn(title="tuning score", digits=digits),
            TableColumn(title="tuning seeds", digits=0),
            TableColumn(title="selection score", digits=digits),
            TableColumn(title="selection seeds", digits=0),
        ),
        rows=tuple(
            (
                f.number,
                "winner" if f.number == selection.winner else "finalist",
                mean(f.tuning),
                len(f.tuning),
                mean(f.selection),
                len(f.selection),
            )
            for f in selection.finalists
        ),
        note="Means over seeds.",
    )


def _short(value: float | None) -> str:
    return "no value" if value is None else f"{value:.4g}".replace("-", "−")


def _told(interval: Interval, digits: int | None = None) -> str:
    """An estimate with its interval, or with the reason why it has none."""
    return with_ends(
        interval, decimals_for_span(abs(interval.estimate)) if digits is None else digits
    )


def _seeds(measured: PhaseScores) -> str:
    few = f"{len(measured.scores)} of " if len(measured.scores) < measured.planned else ""
    return f"{few}{format_count(measured.planned, 'test seed')}"
