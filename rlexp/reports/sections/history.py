"""The section of search history: the value of each trial and of the incumbent over time."""

from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from math import fsum

from rlexp.records.selection import DEFAULT, TUNED
from rlexp.reports.analysis.report_context import ReportContext
from rlexp.reports.analysis.sweep_tables import (
    clouds,
    incumbents,
    name_suffix,
    objective,
    sweep_title,
    test_scores,
    trial_kind,
    valued,
)
from rlexp.reports.drawing.blocks import (
    Axis,
    Block,
    Callout,
    FigureLine,
    ScatterFigure,
    SectionContent,
    Tone,
)
from rlexp.reports.evidence.runs import Evidence
from rlexp.reports.evidence.sweeps import SweepEvidence
from rlexp.text import format_count


@dataclass(frozen=True, slots=True)
class SearchHistorySection:
    """Figure of each sweep over cumulative environment steps."""

    def part(self, report: ReportContext) -> SectionContent | None:
        """Compute the part; `None` where there is no sweep."""
        evidence = report.evidence
        blocks = tuple(block for sweep in evidence.sweeps for block in _blocks(sweep, evidence))
        return (
            SectionContent(name="history", title="History of the search", blocks=blocks)
            if blocks
            else None
        )


def _blocks(sweep: SweepEvidence, evidence: Evidence) -> Iterator[Block]:
    trials = valued(sweep)
    if not trials:
        text = f"No trial of {sweep.experiment} has a value yet ({_states(sweep)})."
        yield Callout(tone=Tone.NOTE, text=text)
        return
    yield ScatterFigure(
        name=f"history{name_suffix(sweep, evidence)}",
        title=sweep_title("Optimisation history", sweep, evidence),
        x=Axis(title="environment steps of the search", low=0.0),
        y=Axis(title=objective(sweep)),
        clouds=clouds(trials, {t.number: t.ended_at for t in trials}, sweep),
        lines=tuple(_stairs(sweep)),
        marks=tuple(_marks(sweep, evidence)),
        note=_note(sweep),
    )


def _stairs(sweep: SweepEvidence) -> Iterator[FigureLine]:
    """Step line of the incumbent's value, from the end of its trial to the end of the search."""
    best = incumbents(sweep)
    if not best:
        return
    # A later incumbent that ended at the same step replaces the earlier one: x must rise.
    points = {t.ended_at: t.value for t in best}
    end = max(t.ended_at for t in sweep.trials)
    points.setdefault(end, best[-1].value)
    yield FigureLine(
        label="incumbent", x=tuple(map(float, points)), y=tuple(points.values()), steps=True
    )


def _marks(sweep: SweepEvidence, evidence: Evidence) -> Iterator[tuple[str, float]]:
    """Mean test scores of the winner and the default; none where the objective is no score."""
    # Test scores have no meaning on the axis of another objective.
    if sweep.selection is None or sweep.definition.plan.objectives[0] != "score":
        return
    winner = test_scores(sweep, evidence, tuned=True)
    default = test_scores(sweep, evidence, tuned=False)
    default_won = sweep.selection.winner == DEFAULT
    if winner is not None and winner.scores:
        name = "default" if default_won else TUNED
        yield f"{name} on test seeds", fsum(winner.scores) / len(winner.scores)
    if default is not None and default.scores and not default_won:
        yield "default on test seeds", fsum(default.scores) / len(default.scores)


def _note(sweep: SweepEvidence) -> str:
    drawn = {t.number for t in valued(sweep)}
    absent = [t for t in sweep.trials if t.number not in drawn]
    counts = Counter(trial_kind(t, sweep) for t in absent)
    counts_by_kind = ", ".join(f"{count} {name}" for name, count in sorted(counts.items()))
    silent = f" Not drawn, because they have no value: {counts_by_kind}." if absent else ""
    return (
        "Each point is drawn at the step at which its trial ended. Only a trial on all tuning "
        "seeds at the full budget can be the incumbent; a screened trial had fewer seeds or steps. "
        f"The incumbent's value is a tuning score, which overestimates its test score.{silent}"
    )


def _states(sweep: SweepEvidence) -> str:
    counts = Counter(t.state for t in sweep.trials)
    counts_by_state = ", ".join(f"{count} {state}" for state, count in sorted(counts.items()))
    return (
        f"{format_count(len(sweep.trials), 'trial')}: {counts_by_state}"
        if counts_by_state
        else "there is no trial"
    )
