"""The section of the winner of a sweep: scores by phase, optimism of tuning, and the choice."""

from collections.abc import Iterator
from dataclasses import dataclass
from math import fsum

from rlexp.metrics.estimate_text import with_ends
from rlexp.records.selection import DEFAULT, TUNED, Selection
from rlexp.reports.analysis.every_run import with_every_run
from rlexp.reports.analysis.report_context import ReportContext
from rlexp.reports.analysis.sweep_tables import (
    incumbents,
    name_suffix,
    objective,
    settings_table,
    sweep_title,
)
from rlexp.reports.analysis.winner_assessment import (
    PhaseScores,
    WinnerAssessment,
    assess_winner,
    blocks_by_task,
    merit_sign,
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
from rlexp.stats.interval import Interval
from rlexp.stats.selection_bias import TuningModel
from rlexp.text import decimals_for_span, format_count

FEWEST_APART = 4
"""Runs per side from which complete separation of the scores is significant at 5 %."""


@dataclass(frozen=True, slots=True)
class WinnerSection:
    """Verdict on the winner of each sweep, with all its hyperparameters."""

    def part(self, report: ReportContext) -> SectionContent | None:
        """Compute the part; `None` where there is no sweep."""
        blocks = tuple(b for sweep in report.evidence.sweeps for b in _blocks(sweep, report))
        return (
            SectionContent(name="winner", title="Tuned configuration", blocks=blocks)
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
    yield from blocks_by_task(sweep, selection, report)
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
    head = (
        f"{sweep.experiment} is the search of another tool, which has no winner"
        if sweep.imported
        else f"{sweep.experiment} has not chosen a winner yet"
    )
    text = f"{head}: {format_count(len(sweep.trials), 'trial')}, {so_far}"
    return Callout(tone=Tone.NOTE, text=text)


def _verdict(sweep: SweepEvidence, selection: Selection, assessment: WinnerAssessment) -> Callout:
    test = assessment.of("test", selection.winner)
    head = f"{TUNED} is trial {selection.winner} of {len(sweep.trials)} of {sweep.experiment}"
    if selection.winner == DEFAULT:
        reason = "it is on the front" if sweep.front else "tuning found nothing better"
        head = f"The default configuration won {sweep.experiment}: {reason}"
    if test is None and sweep.ranks:
        text = (
            f"{head}. It was chosen by ranks, which a test score does not have: the scores by task are "
            "the result."
        )
        return Callout(tone=Tone.NOTE, text=text)
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
    # A policy of a front may score less than the default by its rule, which is no problem.
    tone = _tone(selection, assessment) if sweep.front is None else Tone.NOTE
    return Callout(tone=tone, text=text)


def _flattered(sweep: SweepEvidence) -> str:
    """What tuning does to a score: it makes it look better."""
    return "underestimated" if sweep.score_minimised else "overestimated"


def _against_default(assessment: WinnerAssessment) -> str:
    default, chance = assessment.of("test", DEFAULT), assessment.improvement
    if chance is None or default is None or default.mean is None:
        return ""
    return (
        f" The default scores {with_ends(default.mean, default.mean.digits)} on "
        f"{_seeds(default)}; a run of {TUNED} beats one of the default with probability "
        f"{_told(chance, 2)}."
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
        f"scores, which therefore {'under' if sweep.score_minimised else 'over'}estimate it."
        f"{_over_tasks(sweep)}",
    )
    return with_every_run(without_empty_remarks(table))


def _over_tasks(sweep: SweepEvidence) -> str:
    """What the score of a seed is in a sweep on several tasks; empty on one."""
    if not sweep.tasks:
        return ""
    kind = "rank" if sweep.ranks else "normalised score"
    return f" The score of a seed is its mean {kind} over {len(sweep.tasks)} tasks."


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
    meaning = (
        f"{phases[0]} score of {_subject(selection)} minus its {phases[1]} score, Welch's interval"
    )
    if assessment.optimism is None:
        meaning = "needs its scores on tuning seeds and on test seeds"
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
            f"tuning score of {_subject(selection)} shrunk towards the mean; a diagnostic, "
            "not a test score"
        )
        merit = merit_sign(sweep) * tuning.mean.estimate
        yield "shrunken estimate", merit_sign(sweep) * model.shrunken(merit), meaning


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
                _role(f.number, selection),
                mean(f.tuning),
                len(f.tuning),
                mean(f.selection),
                len(f.selection),
            )
            for f in selection.finalists
        ),
        note=f"Means over seeds.{_over_tasks(sweep)}",
    )


def _subject(selection: Selection) -> str:
    return "the default" if selection.winner == DEFAULT else TUNED


def _role(trial: int, selection: Selection) -> str:
    """The role of a finalist: the winner has the label of its test runs."""
    if trial != selection.winner:
        return "finalist"
    return "default" if trial == DEFAULT else TUNED


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
