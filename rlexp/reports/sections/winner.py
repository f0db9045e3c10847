"""The winner of a sweep: what was found, what it is worth, and how it was chosen."""

from collections.abc import Iterator
from dataclasses import dataclass
from math import fsum

from rlexp.metrics.estimate_words import with_ends
from rlexp.records.selection import DEFAULT, Selection
from rlexp.reports.analysis.every_run import with_every_run
from rlexp.reports.analysis.inquiry import Inquiry
from rlexp.reports.analysis.sweep_tables import incumbents, objective, suffix, titled
from rlexp.reports.drawing.blocks import Block, Column, Notice, Part, Table, Text, Tone, Value
from rlexp.reports.evidence.runs import Evidence
from rlexp.reports.evidence.sweeps import SweepEvidence
from rlexp.reports.remarks import REMARK, remarked
from rlexp.reports.sentences import counted
from rlexp.reports.settings_table import settings_table
from rlexp.reports.worth import Measured, Worth, worth
from rlexp.stats.interval import Interval
from rlexp.stats.optimism import TuningModel
from rlexp.text import digits_for

FEWEST_APART = 4
"""Runs a side from which on runs that are all apart are no chance at 5 %."""


@dataclass(frozen=True, slots=True)
class Winner:
    """The verdict on each sweep, with every hyperparameter of what it found."""

    def part(self, inquiry: Inquiry) -> Part | None:
        """Compute the part; nothing where there is no sweep."""
        blocks = tuple(b for own in inquiry.evidence.sweeps for b in _blocks(own, inquiry))
        return Part(name="winner", title="Winner of the sweep", blocks=blocks) if blocks else None


def _blocks(own: SweepEvidence, inquiry: Inquiry) -> Iterator[Block]:
    selection, evidence = own.selection, inquiry.evidence
    if selection is None:
        yield _undecided(own)
        yield settings_table(own, evidence)
        return
    found = worth(own, selection, inquiry)
    yield _verdict(own, selection, found)
    yield _scores(own, found, evidence)
    yield _overstated(own, selection, found, evidence)
    yield Text(text=_choice(own, selection))
    yield _finalists(own, selection, evidence)
    yield settings_table(own, evidence)


def _undecided(own: SweepEvidence) -> Notice:
    """How far the search is."""
    best = incumbents(own)
    so_far = (
        f"best so far is trial {best[-1].number} with {_short(best[-1].value)} ({objective(own)}). "
        "That is a tuning score, which overstates; no result."
        if best
        else "none is complete on all tuning seeds."
    )
    text = (
        f"{own.experiment} has not chosen a winner yet: {counted(len(own.trials), 'trial')}, "
        f"{so_far}"
    )
    return Notice(tone=Tone.NOTE, text=text)


def _verdict(own: SweepEvidence, selection: Selection, found: Worth) -> Notice:
    test = found.of("test", selection.winner)
    head = f"Trial {selection.winner} of {len(own.trials)} won {own.experiment}"
    if selection.winner == DEFAULT:
        head = f"The default configuration won {own.experiment}: tuning found nothing better"
    if test is None or test.mean is None:
        text = f"{head}. It has no test score yet, and only that is a result."
        return Notice(tone=Tone.NOTE, text=text)
    reached = f"{with_ends(test.mean, test.mean.digits)} on {_seeds(test)}"
    gap = f" Tuning overstated by {_told(found.optimism)}." if found.optimism else ""
    text = f"{head}; it scores {reached}.{_against_default(found)}{gap}"
    return Notice(tone=_tone(selection, found), text=text)


def _against_default(found: Worth) -> str:
    default, chance = found.of("test", DEFAULT), found.improvement
    if chance is None or default is None or default.mean is None:
        return ""
    return (
        f" The default scores {with_ends(default.mean, default.mean.digits)} on "
        f"{_seeds(default)}; a run of the "
        f"winner beats one of the default with probability {_told(chance, 2)}."
    )


def _tone(selection: Selection, found: Worth) -> Tone:
    """Good where the winner surely beats the default, a problem where it surely loses."""
    chance = found.improvement
    if chance is None:
        return Tone.NOTE
    low, high = chance.low, chance.high
    if low is None or high is None:
        sides = [found.of("test", trial) for trial in (selection.winner, DEFAULT)]
        many = all(side and len(side.scores) >= FEWEST_APART for side in sides)
        low = high = chance.estimate if many else 0.5
    if low > 0.5:
        return Tone.GOOD
    return Tone.PROBLEM if high < 0.5 else Tone.NOTE


def _scores(own: SweepEvidence, found: Worth, evidence: Evidence) -> Table:
    table = Table(
        name=f"winner-scores{suffix(own, evidence)}",
        title=titled("Scores by phase", own, evidence),
        columns=(
            Column(title="label", label=True),
            Column(title="trial", digits=0),
            Column(title="phase"),
            Column(title="scores", digits=0),
            Column(title="of", digits=0),
            Column(title="mean"),
            REMARK,
        ),
        rows=tuple(_measured(m) for m in found.measured),
        note="Only test scores are results: the winner was chosen by the others, and looks better "
        "in them than it is.",
    )
    return with_every_run(remarked(table))


def _measured(one: Measured) -> tuple[Value, ...]:
    remark = "no score of use" if one.mean is None else None
    n = len(one.scores)
    return (one.label, one.trial, one.phase, n, one.planned, one.mean, remark)


def _overstated(
    own: SweepEvidence, selection: Selection, found: Worth, evidence: Evidence
) -> Table:
    rows = [*_observed(selection, found), *_expected(own, selection, found)]
    return Table(
        name=f"winner-optimism{suffix(own, evidence)}",
        title=titled("What tuning overstated", own, evidence),
        columns=(
            Column(title="quantity"),
            Column(title="value", digits=3),
            Column(title="meaning"),
        ),
        rows=tuple(rows),
    )


def _observed(selection: Selection, found: Worth) -> Iterator[tuple[Value, ...]]:
    meaning = "tuning score of the winner minus its test score, Welch's interval"
    if found.optimism is None:
        meaning = "the winner needs scores on tuning seeds and on test seeds"
    yield "optimism", found.optimism, meaning
    test = found.of("test", selection.winner)
    if found.optimism is not None and test is not None and test.mean is not None:
        scale = abs(test.mean.estimate)
        share = found.optimism.estimate / scale if scale else None
        yield "relative optimism", share, "as a share of the test score"


def _expected(
    own: SweepEvidence, selection: Selection, found: Worth
) -> Iterator[tuple[Value, ...]]:
    """What the Gaussian model lets expect; a diagnostic, whatever it says."""
    model = found.model
    if not isinstance(model, TuningModel):
        yield "expected optimism", None, f"not estimated: {model}"
        return
    screened = own.sweep.plan.allocation != "fixed"
    rest = "; that they were chosen by screening is not in it" if screened else ""
    about = f"of {model.configurations} trials on {model.seeds} tuning seeds each{rest}"
    yield "expected optimism", model.expected_optimism, f"mean excess of the best {about}"
    yield "noise σ", model.noise, "standard deviation of the runs of one configuration"
    yield "spread τ", model.spread, "standard deviation of the true means of configurations"
    tuning = found.of("tuning", selection.winner)
    if tuning is not None and tuning.mean is not None:
        meaning = "tuning score of the winner drawn to the mean; a diagnostic, not a test score"
        yield "shrunken estimate", model.shrunken(tuning.mean.estimate), meaning


def _choice(own: SweepEvidence, selection: Selection) -> str:
    seeds = counted(len(own.selection_seeds), "selection seed")
    again = f", scored again on {seeds}" if own.selection_seeds else ""
    return (
        f"How it was chosen: {selection.rule.rstrip('.')}. "
        f"There {'was' if len(selection.finalists) == 1 else 'were'} "
        f"{counted(len(selection.finalists), 'finalist')}{again}. The choice was "
        "frozen before the first test run existed: more test seeds may be added, more trials may "
        "not."
    )


def _finalists(own: SweepEvidence, selection: Selection, evidence: Evidence) -> Table:
    def mean(scores: tuple[float, ...]) -> float | None:
        return fsum(scores) / len(scores) if scores else None

    means = [mean(f.tuning) or 0.0 for f in selection.finalists]
    digits = digits_for(max(means) - min(means)) if means else 2
    return Table(
        name=f"winner-finalists{suffix(own, evidence)}",
        title=titled("Finalists", own, evidence),
        columns=(
            Column(title="trial", digits=0),
            Column(title="role"),
            Column(title="tuning score", digits=digits),
            Column(title="tuning seeds", digits=0),
            Column(title="selection score", digits=digits),
            Column(title="selection seeds", digits=0),
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
    """An estimate and its interval; or that there is none, and why, in parentheses."""
    return with_ends(interval, digits_for(abs(interval.estimate)) if digits is None else digits)


def _seeds(one: Measured) -> str:
    few = f"{len(one.scores)} of " if len(one.scores) < one.planned else ""
    return f"{few}{counted(one.planned, 'test seed')}"
